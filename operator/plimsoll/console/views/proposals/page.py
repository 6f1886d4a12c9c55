"""One proposal: what changes, why, what it costs, who is touched, and until when it stands.

The costs of the proposals of a list, in a few figures each.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from plimsoll.console.views.proposals.content import Body, Content, content_of
from plimsoll.console.views.proposals.inbox import Item
from plimsoll.console.views.proposals.lines import ProposalLine, costs_of, lines_of, place_of
from plimsoll.console.views.proposals.spec_change import Spec, SpecChange, spec_change_of
from plimsoll.console.views.rows import key_of
from plimsoll.console.views.words import Sign, age
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey

_ID_DIGITS = 12

_STATES = {
    "Open": ("note", "\u25c6"),
    "Approved": ("good", "\u2713"),
    "Rejected": ("warn", "\u2717"),
    "Expired": ("warn", "\u25b2"),
    "gone": ("muted", "\u25cb"),
}


@dataclass(frozen=True, slots=True)
class Alternative:
    """A place that was not taken, and the code of the reason."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProposalPage:
    """Everything on the page of one proposal that stands.

    ``verdicts`` are the answers that are possible now. ``startup`` says in words when a new replica serves; empty if
    none starts.
    """

    content: Content
    badge: Sign
    lines: tuple[ProposalLine, ...]
    alternatives: tuple[Alternative, ...]
    startup: str
    validity: str
    verdicts: tuple[str, ...]
    commands: tuple[str, ...]
    change: SpecChange


def badge_of(state: str) -> Sign:
    """Return the state of a proposal with its symbol. Unknown words stay as they are."""
    kind, symbol = _STATES.get(state, ("muted", "?"))
    return Sign(symbol, state, kind)


def proposal_of(body: Body, fleet: Fleet | None, spec: Spec, now: float) -> ProposalPage:
    """Return the page of a proposal as the API server has it.

    Args:
        body: the object.
        fleet: the GPU nodes; None if they are not known.
        spec: that of the deployment; empty if it is not known.
        now: POSIX seconds.
    """
    content = content_of(body)
    fields = content.fields
    return ProposalPage(
        content=content,
        badge=badge_of(content.state_at(now)),
        lines=lines_of(fields, fleet),
        alternatives=tuple(Alternative(place_of(each), each.reason) for each in fields.alternatives),
        startup=_startup(content),
        validity=_validity(content, now),
        verdicts=_verdicts(content, now),
        commands=_commands(content),
        change=spec_change_of(fields, spec),
    )


def _startup(content: Content) -> str:
    """Return in words when a new replica serves; empty if none starts."""
    fields = content.fields
    if fields.startup_seconds is not None:
        return f"A new replica serves after about {age(fields.startup_seconds)}, the longest start-up that was seen."
    seconds = next((each.value for each in fields.figures if each.name == "seconds"), "")
    if seconds and fields.touches:  # the remedies that make room at others count the time until it is there
        return f"A new replica serves after about {seconds} s."
    if fields.change == _REMOVES:
        return ""
    return "How long a new replica takes until it serves is unknown: no start-up was seen yet."


_REMOVES = "RemoveReplica"
"""The only change after which no engine starts."""


def _validity(content: Content, now: float) -> str:
    if content.expires is None:
        return "its end is no time that can be read"
    if content.expires <= now:
        return f"expired {age(now - content.expires)} ago"
    return f"expires in {age(content.expires - now)}"


def _verdicts(content: Content, now: float) -> tuple[str, ...]:
    """Return the possible answers. A later approval lifts a rejection, and a rejection overrules an approval."""
    if not content.is_answerable(now):
        return ()
    return {"Approved": ("reject",), "Rejected": ("approve",)}.get(content.state, ("approve", "reject"))


def _commands(content: Content) -> tuple[str, ...]:
    fields = content.fields
    if content.complaints:
        return ()
    named = (fields.deployment, "-n", content.key.namespace, "--proposal", fields.id)
    return tuple(shlex.join(("plimsoll", verdict, *named)) for verdict in ("approve", "reject"))


def parts_of(name: str) -> tuple[str, str]:
    """Return the deployment and the id that a proposal's name is made of; empty texts for any other name."""
    deployment, _, known = name.rpartition("-")
    is_id = len(known) == _ID_DIGITS and set(known) <= set("0123456789abcdef")
    return (deployment, known) if is_id and deployment else ("", "")


def path_of(key: ObjectKey) -> str:
    """Return the address of a proposal's page."""
    return f"/proposals/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"


@dataclass(frozen=True, slots=True)
class Costs:
    """The figures that change, how many others are touched, and the address of the proposal's page."""

    path: str
    lines: tuple[ProposalLine, ...]
    touched: int


def costs_by_proposal(world: ClusterView, items: Sequence[Item]) -> Mapping[tuple[str, str], Costs]:
    """Return the costs of the proposals among these items, by namespace and name of the proposal.

    Only proposals that are shown are read: a cluster may have thousands.
    """
    wanted = {ObjectKey(item.key.namespace, item.proposal) for item in items if item.proposal and item.key is not None}
    bodies = ((key_of(body), body) for body in world.proposals) if wanted else ()
    return {(key.namespace, key.name): _costs(key, body, world.fleet) for key, body in bodies if key in wanted}


def _costs(key: ObjectKey, body: Body, fleet: Fleet | None) -> Costs:
    fields = content_of(body).fields
    return Costs(path_of(key), costs_of(fields, fleet), len(fields.touches))
