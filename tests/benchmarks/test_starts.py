"""Reports of starts that went wrong, or did not: never sure of what failed, never no to what serves."""

from __future__ import annotations

from functools import lru_cache

from benchmarks.accuracy.starts import DIES, REFUSED, SERVES, Report, counts, reports, table
from plimsoll.domain.decisions.outcomes import Fit


@lru_cache(maxsize=1)
def carried() -> tuple[Report, ...]:
    return reports()


def test_nothing_that_failed_is_called_sure_and_nothing_that_serves_is_turned_down() -> None:
    found = carried()
    assert {each.happened for each in found} == {SERVES, REFUSED, DIES}
    assert [each.id for each in found if each.is_false_sure] == []
    assert [each.id for each in found if each.is_needless_no] == []
    assert {each.figures.fit for each in found} == set(Fit), "a verdict that is always the same says nothing"


def test_the_figures_that_a_report_states_are_ours() -> None:
    inside = [each.is_inside for each in carried() if each.kv_gib is not None]
    assert len(inside) >= 8
    assert sum(map(bool, inside)) >= 0.95 * len(inside)
    needs = [each for each in carried() if each.needed_gib is not None]
    assert len(needs) == 2
    for each in needs:
        assert round(each.figures.kv_cache_bytes / 2**30, 2) == each.needed_gib, each.id


def test_what_worked_for_the_author_is_among_the_remedies() -> None:
    offered = {each.id: each.offers_what_worked for each in carried() if each.offers_what_worked is not None}
    assert len(offered) >= 14
    assert [name for name, was in offered.items() if not was] == []


def test_a_remedy_changes_something() -> None:
    """A step or a number of sequences that the engine would not get is none."""
    for each in carried():
        for remedy in each.remedies:
            settings, words = remedy.answer.settings, remedy.document()["options"].split()
            if "--batched-tokens" in words:
                assert settings.max_num_batched_tokens == int(words[words.index("--batched-tokens") + 1]), each.id
            if "maxSequences" in remedy.sentence:
                assert settings.max_num_seqs < each.question.settings.max_num_seqs, each.id


def test_the_table_has_a_line_for_each_start_and_says_what_it_comes_to() -> None:
    lines = list(table(carried()))
    assert sum(line.startswith("| ") for line in lines) == 1 + len(carried())
    assert lines[-len(list(counts(carried()))) :] == list(counts(carried()))
    assert "- Sure, and did not serve: none." in lines
