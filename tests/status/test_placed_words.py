"""How a place was found is a sentence, whichever solver found it."""

from __future__ import annotations

import pytest

from plimsoll.status.words.placed import found_words


@pytest.mark.parametrize(
    ("solver", "gap", "words"),
    [
        (None, None, ""),
        ("", 3, ""),
        ("in turn", 0, "each deployment in turn got the cheapest place that was free; no plan costs less"),
        ("search", None, "found by comparing plans of all deployments together"),
        (
            "programme",
            12,
            "found by an integer programme over all deployments together; a better plan could save 1.2 % at most",
        ),
        ("another", 0, "found by another; no plan costs less"),
    ],
)
def test_it_is_said_in_words(solver: str | None, gap: int | None, words: str) -> None:
    assert found_words(solver, gap) == words
