"""Answers to hypotheses, for tests of the live loop that have no plan behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.public_words import Reason
from plimsoll.placement.demands.pools import Decision, Tenant, as_it_is
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from tests.support.planning import H100, L4, L40S, fleet, node, placed, pool, request, tenant

_NOTHING = Ledger.of(fleet())


@cache
def room_for_all(replicas: int) -> WhatIf:
    """A deployment on L40S for which every change has a place: replicas and settings there, and a move to H100."""
    return _about(replicas, _with_room)


@cache
def no_room(replicas: int, nearest: str = L4) -> WhatIf:
    """The same deployment on a full fleet: a replica more is missing, and a move is blocked."""
    taken = Rejection(nearest, Split(1), Reason.GPUS_TAKEN, (("gpus", 1), ("free", 0)))
    return _about(replicas, partial(_without_room, taken))


def _about(replicas: int, decide: Callable[[Tenant], Decision]) -> WhatIf:
    runs = tenant(request(replicas=replicas), pool(L40S, replicas=replicas))
    now = Decision(runs.request, tuple(as_it_is(each) for each in runs.pools))
    return WhatIf(runs, now, lambda changed: Answer(changed, decide(changed), _NOTHING, _NOTHING))


def _with_room(changed: Tenant) -> Decision:
    kind = H100 if changed.accepts_move else L40S
    planned, own = as_it_is(pool(kind, replicas=changed.request.replicas)), changed.pools[0]
    choice = replace(_chosen(kind), settings=_chosen(kind).settings.limited(own.limits))
    return Decision(changed.request, (replace(planned, surge=True, choice=choice),))


@cache
def _chosen(kind: str) -> Option:
    return placed(request(), fleet(node("any", kind))).choice


def _without_room(taken: Rejection, changed: Tenant) -> Decision:
    missing = max(0, changed.request.replicas - sum(each.replicas for each in changed.pools))
    return Decision(
        changed.request,
        tuple(as_it_is(each) for each in changed.pools),
        missing=missing,
        change_blocked=changed.accepts_move,
        rejections=(taken,),
    )
