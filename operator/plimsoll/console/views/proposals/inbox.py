"""The inbox: deployments whose alert fires, decisions that wait for a person, and nodes left out. Worst first."""

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
from plimsoll.console.views.states import NOT_KNOWN, Pressures, mark_of
from plimsoll.console.views.words import gib, percent
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import LEFT_OUT_ON_PURPOSE, LiveTrouble
from plimsoll.domain.units import agreed, counted, from_rfc3339
from plimsoll.status.severity import Judged, Severity, needs_a_person
from plimsoll.status.words.what_helps import help_sentence

Body = Mapping[str, Any]


class Concern(IntEnum):
    """The kinds of items, worst first: outages above what is slow, and both above estimates."""

    DOWN = 0
    IN_TROUBLE = 1
    WAITING = 2
    PROPOSAL = 3
    STARTS_LONG = 4
    OVER = 5
    NODE = 6
    ACKNOWLEDGED = 7


_TITLES = {
    Concern.DOWN: "Down",
    Concern.IN_TROUBLE: "In trouble",
    Concern.WAITING: "Waiting for long",
    Concern.PROPOSAL: "Proposals to decide",
    Concern.STARTS_LONG: "Starting for long",
    Concern.OVER: "Over the load line",
    Concern.NODE: "Nodes that take no part",
    Concern.ACKNOWLEDGED: "Acknowledged for a while",
}

_CONCERNS = {
    Severity.OUTAGE: Concern.DOWN,
    Severity.TROUBLE: Concern.IN_TROUBLE,
    Severity.WAITING: Concern.WAITING,
    Severity.PASSING: Concern.STARTS_LONG,
    Severity.OVER: Concern.OVER,
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that needs a person.

    ``order`` sorts, smallest first, and groups. ``word`` is a reason code of docs/reasons.md or a short word.
    ``details`` go on from the message. ``actions`` are changes that help, as text. ``proposal`` is the name of the
    PlacementProposal that the item is about, ``acknowledge`` the address of the page that acknowledges it.
    """

    order: Concern
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
    acknowledge: str = ""


@dataclass(frozen=True, slots=True)
class ProposalGroup:
    """Items of one kind. ``total`` counts those of all pages."""

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


def inbox_of(world: ClusterView, now: float, pressures: Pressures = NOT_KNOWN) -> tuple[Item, ...]:
    """Return what needs a person at this time (POSIX seconds), worst first."""
    rows = (item for row in world.rows.values() for item in _of_row(row, now, pressures))
    found = [*rows, *_of_proposals(world, now), *_of_nodes(world)]
    return tuple(sorted(found, key=_place))


def _place(item: Item) -> tuple[Concern, str, str, float]:
    """Return the place in the order: by kind and name, and of one deployment the newest proposal first."""
    newest_first = -(item.since or 0.0) if item.proposal else 0.0
    return item.order, str(item.key), item.subject, newest_first


def _new(message: str, actions: Iterable[str]) -> Iterator[str]:
    """Yield the changes that a message does not name already."""
    return (each for each in actions if each not in message)


def _of_row(row: DeploymentRow, now: float, pressures: Pressures) -> Iterator[Item]:
    mark = mark_of(row, pressures, now)
    judged, known = mark.judged, mark.judged.known
    if not needs_a_person(judged, now):
        return
    message, details = _words(row, judged, pressures)
    actions = () if judged.severity is Severity.OVER else tuple(_new(message, (*row.remedies, *row.proposals)))
    word = mark.word if judged.why is None else judged.why.reason
    concern = _CONCERNS[judged.severity] if known is None else Concern.ACKNOWLEDGED
    details = details if known is None else (f"{known.words()}.", *details)
    # What only the engines say right now cannot be acknowledged: the operator answers by the status.
    path = acknowledging_path(row.key) if known is None and mark_of(row).judged.finding == judged.finding else ""
    yield Item(
        concern, mark.kind, mark.symbol, word, message, row.key,
        details=details, actions=actions, since=judged.since, acknowledge=path,
    )  # fmt: skip


def acknowledging_path(key: ObjectKey) -> str:
    """Return the address of the page that acknowledges what is wrong with a deployment."""
    return f"/deployments/{key.namespace}/{key.name}/acknowledge"


def _words(row: DeploymentRow, judged: Judged, pressures: Pressures) -> tuple[str, tuple[str, ...]]:
    """Return why a deployment is in its state and what helps, and what goes on from there."""
    if judged.why is not None:
        return judged.why.message, ()
    pressure, figures = pressures.get(row.key), row.figures
    if judged.severity is Severity.TROUBLE and pressure is not None:
        waiting = counted(round(pressure.waiting), "request")
        verb = agreed(round(pressure.waiting), "waits", "wait")
        why = f"{percent(pressure.kv_share)} of the KV cache is in use, and {waiting} {verb}."
        return f"{why} {help_sentence(LiveTrouble.KV_BOUND)}", ()
    if figures is None:
        return "", ()
    need, line, over = (gib(each) for each in (figures.upper, figures.budget, -figures.spare))
    return f"One GPU needs {need} GiB, and the engine may use {line} GiB: {over} GiB over.", row.warnings


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
        Concern.PROPOSAL,
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
        if node.reason not in LEFT_OUT_ON_PURPOSE:
            yield Item(Concern.NODE, "warn", "\u25b2", node.reason.value, node.detail, subject=f"node {node.name}")


def counts_of(world: ClusterView, now: float, pressures: Pressures = NOT_KNOWN) -> Mapping[str, int]:
    """Return the count of an entry of the navigation, by its path. What is acknowledged needs nobody now."""
    waiting = [item for item in inbox_of(world, now, pressures) if item.order is not Concern.ACKNOWLEDGED]
    return {"/": len(waiting), "/deployments": len(world.rows)}
