"""Numbers agree with their nouns and verbs, in every event, status and plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.units import agreed, counted, counted_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "operator" / "plimsoll"

NOUNS = (
    "replicas|pods|GPUs|CPUs|nodes|requests|restarts|placements|changes|moves|days|times|namespaces|removals|engines"
)
NUMBER_AND_NOUN = re.compile(rf"\}} (?:other |new |more )?({NOUNS})\b")
WRONG = re.compile(
    rf"(?<![\w.,$-])1 (?:other |new |more |ready )?({NOUNS})\b|(?<![\w.,$-])1 of \d+ \w+ (have|serve|exist|are)\b"
)

WRITERS = [
    PACKAGE / "app" / "write" / "notes.py",
    PACKAGE / "app" / "watch" / "contests.py",
    PACKAGE / "domain" / "engines" / "failures.py",
    PACKAGE / "placement" / "explain.py",
    PACKAGE / "rebalance" / "why.py",
    *sorted((PACKAGE / "render").glob("*.py")),
    *sorted((PACKAGE / "status").glob("*.py")),
]
"""The modules that write the sentences of events and statuses."""

NEVER_ONE = {
    "{figures['nodes']} nodes": "of one node something else is said",
    "{times} times": "a first failure is not counted",
    "{MAX_REHOMINGS_PER_HOUR} placements": "a constant",
    "{split.data_parallel} engines": "one engine is not counted",
    "{f['engines']} engines": "engines that share one server",
    "{len(awaited)} new nodes": "of one node something else is said",
    "{str(f['image_vendor']).upper()} GPUs": "a name",
    "{whose} GPUs": "a pronoun",
    "a replica of {gpus} GPUs": "more than any node has",
}

KEPT = [
    *(ROOT / "tests" / "placement" / "data").glob("*.jsonl"),
    *(ROOT / "tests" / "rebalance" / "data").glob("*.jsonl"),
    *(ROOT / "tests" / "stories").rglob("expected.yaml"),
    *(ROOT / "examples").rglob("expected/*.yaml"),
]
"""Plans, proposals and decisions as they are printed."""


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_no_sentence_of_an_event_or_a_status_has_a_number_next_to_a_plural(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = [text[max(0, each.start() - 40) : each.end()] for each in NUMBER_AND_NOUN.finditer(text)]
    assert [each for each in found if not any(each.endswith(known) for known in NEVER_ONE)] == []


def test_no_kept_plan_or_decision_says_one_of_several() -> None:
    assert len(KEPT) > 20
    texts = [(path, path.read_text(encoding="utf-8")) for path in KEPT]
    assert [(path.name, each.group(0)) for path, text in texts for each in WRONG.finditer(text)] == []


@given(st.integers(0, 3), st.integers(0, 3))
def test_noun_and_verb_follow_their_numbers(part: int, whole: int) -> None:
    for number in (part, str(part)):
        assert counted(number, "pod") == {1: "1 pod"}.get(part, f"{part} pods")
        assert agreed(number, "waits", "wait") == {1: "waits"}.get(part, "wait")
    noun = {1: "pod"}.get(whole, "pods")
    verb = "exists" if 1 in (part, whole) else "exist"
    assert counted_of(part, whole, "pod", "exists", "exist") == f"{part} of {whole} {noun} {verb}"
