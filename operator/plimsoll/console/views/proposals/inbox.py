"""The inbox: no place, over the line, proposals, problems, ignored nodes. Worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any

from plimsoll.api.crd.inbox_schema import STATE_LABEL
from plimsoll.api.v1alpha1.inbox import ProposalState
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.states import Severity, state_of
from plimsoll.console.views.words import gib
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339

Body = Mapping[str, Any]


class Trouble(IntEnum):
    """The kinds of items, worst first."""

    NO_PLACE = 0
    OVER = 1
    NOT_SERVING = 2
    PROPOSAL = 3
    WARNING = 4
    STATUS = 5
    NODE = 6


_TITLES = {
    Trouble.NO_PLACE: "Without a place",
    Trouble.OVER: "Over the load line",
    Trouble.NOT_SERVING: "Not serving as asked",
    Trouble.PROPOSAL: "Proposals to decide",
    Trouble.WARNING: "Placed with a warning",
    Trouble.STATUS: "Statuses that cannot be read",
    Trouble.NODE: "Nodes that take no part",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that needs a person.

    ``order`` sorts, smallest first, and groups. ``word`` is a reason code of docs/reasons.md or a short word.
    ``details`` go on from the message. ``actions`` are changes that help, as text. ``proposal`` is the name of the
    PlacementProposal that the item is about.
    """

    order: Trouble
    kind: str
    symbol: str
    word: str
    message: str
    key: ObjectKey | None = None
    subject: str = ""
    details: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    proposal: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class ProposalGroup:
    """Items of one kind of trouble. ``total`` counts those of all pages."""

    title: str
    total: int
    items: tuple[Item, ...]


def groups_of(shown: Sequence[Item], items: Sequence[Item]) -> tuple[ProposalGroup, ...]:
    """Return the shown part of all items in groups, in their order."""
    totals = Counter(item.order for item in items)
    return tuple(
        ProposalGroup(_TITLES[order], totals[order], tuple(group))
        for order, group in groupby(shown, lambda item: item.order)
    )


def inbox_of(world: ClusterView, now: float) -> tuple[Item, ...]:
    """Return what needs a person at this time (POSIX seconds), worst first."""
    rows = (item for row in world.rows.values() for item in _of_row(row))
    found = [*rows, *_of_proposals(world, now), *_of_nodes(world)]
    return tuple(sorted(found, key=_place))


def _place(item: Item) -> tuple[Trouble, str, str, float]:
    """Return the place in the order: by trouble and name, and of one deployment the newest proposal first."""
    newest_first = -(item.since or 0.0) if item.proposal else 0.0
    return item.order, str(item.key), item.subject, newest_first


_TROUBLES = {Severity.NO_PLACE: Trouble.NO_PLACE, Severity.NOT_SERVING: Trouble.NOT_SERVING}


def _new(message: str, actions: Iterable[str]) -> Iterator[str]:
    """Yield the changes that a message does not name already."""
    return (each for each in actions if each not in message)


def _of_row(row: DeploymentRow) -> Iterator[Item]:
    state = state_of(row)
    reason = row.stalled if row.stalled is not None and row.stalled.status == "True" else row.ready
    if state.severity in _TROUBLES and reason is not None:
        yield Item(
            _TROUBLES[state.severity], state.kind, state.symbol, reason.reason, reason.message, row.key,
            actions=tuple(_new(reason.message, (*row.remedies, *row.proposals))), since=reason.since,
        )  # fmt: skip
    if state.severity is Severity.OVER and row.figures is not None:
        need, line, over = (gib(each) for each in (row.figures.upper, row.figures.budget, -row.figures.spare))
        words = f"One GPU needs {need} GiB, and the engine may use {line} GiB: {over} GiB over."
        yield Item(Trouble.OVER, state.kind, state.symbol, state.word, words, row.key, details=row.warnings)
    elif row.warnings:
        first, *others = row.warnings
        yield Item(Trouble.WARNING, "warn", "\u25b2", "warning", first, row.key, details=tuple(others))
    for complaint in row.complaints:
        yield Item(Trouble.STATUS, "warn", "\u25b2", "status", complaint, row.key)


def _of_proposals(world: ClusterView, now: float) -> Iterator[Item]:
    for body in world.proposals:
        if is_open(body, now):
            yield _proposal(body, world)


def is_open(body: Body, now: float) -> bool:
    """Whether a PlacementProposal can still be answered."""
    labels = body["metadata"].get("labels") or {}
    expires = from_rfc3339(str(body.get("expiresAt") or ""))
    return labels.get(STATE_LABEL) == ProposalState.OPEN and (expires is None or expires > now)


def open_proposals_of(world: ClusterView, deployment: ObjectKey, now: float) -> tuple[Item, ...]:
    """Return the proposals for one deployment that can still be answered, the newest first."""
    return tuple(sorted((item for item in _of_proposals(world, now) if item.key == deployment), key=_place))


def _proposal(body: Body, world: ClusterView) -> Item:
    head = body["metadata"]
    key = ObjectKey(str(head.get("namespace") or ""), str(body.get("deployment") or ""))
    return Item(
        Trouble.PROPOSAL,
        "note",
        "\u25c6",
        str(body.get("reason") or "proposal"),
        str(body.get("summary") or body.get("message") or ""),
        key,
        details=(OUTDATED,) if is_outdated(body, world.rows.get(key)) else (),
        proposal=str(head["name"]),
        since=from_rfc3339(str(body.get("createdAt") or "")),
    )


OUTDATED = "The live loop proposes something else now. This one can still be answered until it is withdrawn."


def is_outdated(body: Body, row: DeploymentRow | None) -> bool:
    """Whether the live loop makes another proposal for the deployment now."""
    now = None if row is None or row.live is None else row.live.proposal_id
    return now is not None and now != body.get("id")


def _of_nodes(world: ClusterView) -> Iterator[Item]:
    for node in () if world.fleet is None else world.fleet.ignored:
        yield Item(Trouble.NODE, "warn", "\u25b2", node.reason.value, node.detail, subject=f"node {node.name}")


def counts_of(world: ClusterView, now: float) -> Mapping[str, int]:
    """Return the count of an entry of the navigation, by its path."""
    return {"/": len(inbox_of(world, now)), "/deployments": len(world.rows)}
