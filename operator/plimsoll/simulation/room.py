"""Answers for a deployment that runs, on a cluster where every change has a place."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.outcomes import Option
from plimsoll.domain.serving import Request
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import WhatIf
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.pools import Decision, Pool, PoolState, Tenant, as_it_is, pool_name

_NOTHING = Ledger({})


def open_room(request: Request, option: Option) -> WhatIf:
    """Return what answers hypotheses about a deployment whose replicas all are like the option.

    Nothing is known of other places, so no move is ever proposed.
    """
    runs = Tenant(request, 1, (_pool(option, request.replicas),))
    return WhatIf(runs, _decision(runs, option), lambda changed: _answer(changed, option))


def _answer(changed: Tenant, option: Option) -> Answer:
    return Answer(changed, _decision(changed, option), _NOTHING, _NOTHING)


def _decision(tenant: Tenant, option: Option) -> Decision:
    own, pool = tenant.pools[0], _pool(option, tenant.request.replicas)
    choice = _choice(option, own.max_sequences, own.batched_tokens)
    return Decision(tenant.request, (replace(as_it_is(pool), surge=True, choice=choice),))


def _choice(option: Option, sequences: int | None, step: int | None) -> Option:
    """Return a replica with other settings; None keeps what is."""
    usual = option.settings
    settings = replace(
        usual,
        max_num_seqs=sequences or usual.max_num_seqs,
        max_num_batched_tokens=step or usual.max_num_batched_tokens,
    )
    return replace(option, settings=settings)


def _pool(option: Option, replicas: int) -> Pool:
    target = option.target
    name = pool_name(target.gpu_type, target.split)
    return Pool(name, target, PoolState.ACTIVE, 1, replicas, bound=replicas, ready=replicas)
