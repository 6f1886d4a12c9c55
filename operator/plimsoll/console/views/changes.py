"""The changes of a time, the newest first: decisions, the live loop's, new deployments, proposals and conditions.

It is read from what the statuses keep of the past: the last decisions and changes of each deployment, and since when a
condition holds. What was deleted has left nothing to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from plimsoll.console.views.paging import Query, address_of, has_words
from plimsoll.console.views.rows import DecidedRow, DeploymentRow, MadeRow
from plimsoll.console.views.states import mark_of
from plimsoll.console.views.words import DAY, HOUR, separated
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.status.severity import LoadLine

SPANS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {"1h": (HOUR, "the last hour"), "24h": (DAY, "the last 24 hours"), "7d": (7 * DAY, "the last 7 days")}
)
"""The times that can be asked for, by the word in the URL: seconds and words."""

USUAL_SPAN = "24h"

SAME_SECONDS = 60.0
"""A change of the live loop and a decision within this time are one: the decision says what, the change says why."""


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change. ``reason`` is a code of docs/reasons.md; empty if none is known."""

    at: float
    key: ObjectKey
    symbol: str
    kind: str
    word: str
    words: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A time that can be shown, and its address."""

    words: str
    address: str
    is_chosen: bool


def span_of(word: str) -> str:
    """Return the time that a URL asks for; an unknown one is a day."""
    return word if word in SPANS else USUAL_SPAN


def span_links(chosen: str, query: Query, path: str) -> tuple[SpanLink, ...]:
    """Return the times that can be shown."""
    return tuple(
        SpanLink(words, address_of(path, query, {"since": word}), word == chosen) for word, (_, words) in SPANS.items()
    )


def changes_of(world: ClusterView, now: float, seconds: float, search: str = "") -> list[ChangeLine]:
    """Return the changes of a time, the newest first.

    Args:
        world: what the person sees.
        now: POSIX seconds.
        seconds: how far to look back.
        search: words that the deployment's name or model must have.
    """
    rows = [row for row in world.rows.values() if has_words(search, str(row.key), row.model)]
    found = [*(each for row in rows for each in _of_row(row)), *_of_proposals(world, {row.key for row in rows})]
    return sorted((each for each in found if now - seconds <= each.at <= now), key=lambda each: (-each.at, each.key))


def _of_row(row: DeploymentRow) -> Iterator[ChangeLine]:
    if row.created is not None:
        yield ChangeLine(row.created, row.key, "+", "note", "created", row.model)
    yield from _decided(row)
    mark = mark_of(replace(row, signs=replace(row.signs, line=LoadLine.WITHIN)))  # an estimate has no time
    since = mark.judged.since or (None if mark.judged.why is None else mark.judged.why.since)
    if mark.judged.why is not None and since is not None:
        why = mark.judged.why
        yield ChangeLine(since, row.key, mark.symbol, mark.kind, mark.word, why.message, why.reason)


def _decided(row: DeploymentRow) -> Iterator[ChangeLine]:
    left = list(row.made)
    for each in row.decided:
        cause = _nearest(left, each)
        if cause is not None:
            left.remove(cause)
        before = f" instead of {each.replaced}" if each.replaced else ""
        words = separated(f"{each.placed or 'no replicas'}{before}")
        yield ChangeLine(each.at, row.key, "\u2192", "note", "placed", words, "" if cause is None else cause.reason)
    for other in left:
        yield ChangeLine(other.at, row.key, "\u2192", "note", _MADE.get(other.kind, other.kind), "", other.reason)


_MADE: Mapping[str, str] = {
    ChangeKind.ADD: "replicas added",
    ChangeKind.REMOVE: "replicas removed",
    ChangeKind.RETUNE: "engines restarted with other settings",
    ChangeKind.MOVE: "moved",
    ChangeKind.REPLACE: "a replica replaced",
    ChangeKind.ROLL_BACK: "taken back",
}


def _nearest(made: Sequence[MadeRow], decided: DecidedRow) -> MadeRow | None:
    near = (each for each in made if abs(each.at - decided.at) <= SAME_SECONDS)
    return min(near, key=lambda each: abs(each.at - decided.at), default=None)


def _of_proposals(world: ClusterView, keys: Iterable[ObjectKey]) -> Iterator[ChangeLine]:
    shown = frozenset(keys)
    for body in world.proposals:
        key = ObjectKey(str(body["metadata"].get("namespace") or ""), str(body.get("deployment") or ""))
        at = from_rfc3339(str(body.get("createdAt") or ""))
        if at is not None and key in shown:
            words = separated(str(body.get("summary") or ""))
            yield ChangeLine(at, key, "\u25c6", "note", "proposed", words, str(body.get("reason") or ""))
