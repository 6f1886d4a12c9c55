"""How the places of a decision were found, in words, and how much a better plan could save."""

from __future__ import annotations

_WAYS = {
    "in turn": "each deployment in turn got the cheapest place that was free",
    "search": "found by comparing plans of all deployments together",
    "programme": "found by an integer programme over all deployments together",
}
"""By :attr:`plimsoll.placement.costs.Appraisal.solver`."""


def found_words(solver: str | None, gap_permille: int | None) -> str:
    """Return how places were found.

    Args:
        solver: what found them; None or empty if nothing had to be placed, which gives an empty text.
        gap_permille: thousandths of the bill that a better plan might save at most; None if nothing was proven.
    """
    if not solver:
        return ""
    way = _WAYS.get(solver, f"found by {solver}")
    if gap_permille is None:
        return way
    saving = f"a better plan could save {gap_permille / 10:.1f} % at most" if gap_permille else "no plan costs less"
    return f"{way}; {saving}"
