"""Tables in Markdown, for a comment on a merge request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plimsoll.api.v1alpha1.status import PlacementStatus
from plimsoll.app.review.values import DeploymentChange, Review
from plimsoll.cli.planning import PlannedStatus
from plimsoll.cli.plans.review import bill_text, cells, others_text
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.explain import place_words

_MARK = "<!-- plimsoll plan -->"
"""The first line. A pipeline finds its own earlier comment by it, and replaces it."""


def review_markdown(review: Review) -> str:
    """A review: the difference as a table, the bill, and the messages of objects without a place."""
    head = ("Deployment", "Change", "Now", "After", "$/h now", "$/h after", "Why")
    rows = [_review_row(each) for each in review.changes]
    messages = [(str(each.key), each.message) for each in review.changes if not each.is_served]
    lines = [line for line in (bill_text(review.bill), others_text(review)) if line]
    return _page(_table(head, rows), lines, messages, [*review.problems, *review.notes])


def plan_markdown(outcomes: Sequence[PlannedStatus]) -> str:
    """A plan without a cluster."""
    head = ("Deployment", "Placed", "GPU", "Replicas", "GiB/GPU", "$/h")
    rows = [_row(each) for each in outcomes]
    messages = [(f"{each.namespace}/{each.name}", each.message) for each in outcomes if each.message]
    return _page(_table(head, rows), [], messages, [])


def _review_row(change: DeploymentChange) -> tuple[str, ...]:
    verdict, *others = cells(change)
    return str(change.key), f"**{verdict}**", *others


def _row(outcome: PlannedStatus) -> tuple[str, ...]:
    placement, estimate = outcome.status.placement, outcome.status.estimate
    return (
        f"{outcome.namespace}/{outcome.name}",
        f"**no: {outcome.reason}**" if outcome.reason else "yes",
        "-" if placement is None else place_words(placement.gpu_type, _split(placement)),
        str(sum(pool.replicas for pool in outcome.status.pools or ())),
        "-" if estimate is None else estimate.gib_per_gpu,
        "-" if placement is None else placement.hourly_price or "-",
    )


def _split(placement: PlacementStatus) -> Split:
    return Split(placement.tensor_parallel, placement.pipeline_parallel, placement.data_parallel or 1)


def _page(
    table: Sequence[str], lines: Sequence[str], messages: Sequence[tuple[str, str]], problems: Sequence[str]
) -> str:
    parts = [_MARK, "### Plimsoll: GPU placement", "", *table]
    parts += [text for line in lines for text in ("", _plain(line))]
    parts += [text for name, message in messages for text in ("", f"**{_plain(name)}**: {_plain(message)}")]
    parts += ["", *(f"- {_plain(each)}" for each in problems)] if problems else []
    return "\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *(_line([_plain(cell) for cell in row]) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """The text on one line, without marks that would end a cell or become HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("$", "&#36;")
