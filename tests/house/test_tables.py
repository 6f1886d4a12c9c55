"""Tables of cases: each case is tried, each failure is named, and a sample is the same wherever it is drawn."""

from __future__ import annotations

import inspect

import pytest

from tests.support.tables import ALL, SEED, TABLE_SECONDS, every_case, header

LETTERS = [f"case {number}" for number in range(40)]
Seen = list[object]


def collect(seen: Seen, most: int | None = None, always: tuple[str, ...] = ()) -> None:
    @every_case("letter", LETTERS, most=most, always=always)
    def rule(letter: str) -> None:
        seen.append(letter)

    rule()


@pytest.fixture(autouse=True)
def _a_usual_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALL, raising=False)
    monkeypatch.setenv(SEED, "one")


def test_every_case_is_tried_with_every_other() -> None:
    seen: Seen = []

    @every_case(("left", "right"), [(1, 2), pytest.param(3, 4, id="named")], ids=lambda value: f"<{value}>")
    @every_case("word", ["a", "b"])
    def rule(word: str, left: int, right: int, own: str) -> None:
        seen.append((word, left, right, own))

    assert list(inspect.signature(rule).parameters) == ["own"], "pytest gives what no case gives"
    rule(own="fixture")
    assert seen == [(word, *sides, "fixture") for sides in ((1, 2), (3, 4)) for word in "ab"]
    assert [mark.args for mark in vars(rule)["pytestmark"]] == [(TABLE_SECONDS,)]
    assert [row.id for row in vars(rule)["rows"]] == ["a-<1>-<2>", "b-<1>-<2>", "a-named", "b-named"]


def test_every_case_that_fails_is_named_and_no_other() -> None:
    @every_case("number", range(6))
    def rule(number: int) -> None:
        if number == 4:
            with pytest.raises(ValueError, match="nothing raises this"):
                pass
        assert number != 2, "two is wrong"

    with pytest.raises(BaseExceptionGroup, match=r"^2 of 6 cases fail: 2; 4$") as failed:
        rule()
    assert str(failed.value.exceptions[0]).startswith("two is wrong")


def test_a_single_failure_is_shown_as_it_is_with_its_case() -> None:
    @every_case("number", range(6))
    def rule(number: int) -> None:
        assert number != 2, "two is wrong"

    with pytest.raises(AssertionError, match="two is wrong") as failed:
        rule()
    assert failed.value.__notes__ == ["Case 2, of 6."]


def test_a_test_that_timed_out_tries_no_further_case() -> None:
    seen: Seen = []

    @every_case("number", range(6))
    def rule(number: int) -> None:
        seen.append(number)
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        rule()
    assert seen == [0]


def test_a_sample_is_the_same_for_the_same_seed_and_has_what_every_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[Seen] = [[], [], []]
    for index, seed in enumerate(("one", "one", "another")):
        monkeypatch.setenv(SEED, seed)
        collect(samples[index], most=8, always=("case 39", "case 0"))
    first, again, other = samples
    assert first == again != other
    assert all(8 <= len(each) <= 10 and {"case 0", "case 39"} <= set(each) for each in samples)
    assert first == [each for each in LETTERS if each in first]
    assert f"{SEED}=another" in header()


def test_a_run_of_everything_takes_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALL, "1")
    seen: Seen = []
    collect(seen, most=0)
    assert seen == LETTERS
    assert "every case runs" in header()


def test_what_is_always_taken_must_be_a_case() -> None:
    with pytest.raises(ValueError, match="case 41"):
        collect([], most=1, always=("case 41",))
