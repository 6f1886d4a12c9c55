"""The costs of the proposals of a list, in a few figures each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.console.views.proposals.content import Body, content_of
from plimsoll.console.views.proposals.inbox import Item
from plimsoll.console.views.proposals.lines import Line, costs_of
from plimsoll.console.views.proposals.page import path_of
from plimsoll.console.views.world import World
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey


@dataclass(frozen=True, slots=True)
class Costs:
    """The figures that change, how many others are touched, and the address of the proposal's page."""

    path: str
    lines: tuple[Line, ...]
    touched: int


def costs_by_proposal(world: World, items: Sequence[Item]) -> Mapping[tuple[str, str], Costs]:
    """Return the costs of the proposals among these items, by namespace and name of the proposal.

    Only proposals that are shown are read: a cluster may have thousands.
    """
    wanted = {proposal_key(item) for item in items if item.proposal}
    bodies = ((_key(body), body) for body in world.proposals) if wanted else ()
    return {(key.namespace, key.name): _costs(key, body, world.fleet) for key, body in bodies if key in wanted}


def proposal_key(item: Item) -> ObjectKey:
    """Return the proposal of an item."""
    return ObjectKey("" if item.key is None else item.key.namespace, item.proposal)


def _key(body: Body) -> ObjectKey:
    head = body["metadata"]
    return ObjectKey(str(head.get("namespace") or ""), str(head["name"]))


def _costs(key: ObjectKey, body: Body, fleet: Fleet | None) -> Costs:
    fields = content_of(body).fields
    return Costs(path_of(key), costs_of(fields, fleet), len(fields.touches))
