"""Proposals for a deployment that waits, on drawn nodes: which replicas end, and which ones move.

Nobody says that these proposals are the best ones: other tests compare them with every set there is. They are kept so
that a change of the search shows the proposals that it moves. ``make goldens`` takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import Option, Split, Target
from plimsoll.domain.decisions.proposals import Proposal, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.proposing.defragmentation import defragmentation
from plimsoll.placement.proposing.preemption import Spare, Waiting, preemption
from plimsoll.placement.proposing.running import Running
from tests.support.planning import H100, L40S, fleet, node, request

KEPT_PROPOSALS = Path(__file__).parent / "data" / "proposals.jsonl"
WORLDS = 600
ZONES = ((), (), (("zone", "a"),))


def kept_proposals() -> Iterator[tuple[Path, str]]:
    """The file with a line for each world, with its text."""
    memo = Memo()
    yield KEPT_PROPOSALS, "".join(f"{json.dumps(_world(seed, memo))}\n" for seed in range(WORLDS))


def _world(seed: int, memo: Memo) -> dict[str, Any]:
    dice = Random(seed)  # noqa: S311 - a simulation
    running = [_running(dice) for _ in range(dice.randint(2, 10))]
    where = fleet(*(_node(dice, name, running) for name in "wxyz"[: dice.randint(2, 4)]))
    quota = {"default": {"requests.nvidia.com/gpu": dice.randint(0, 9)}} if dice.random() < 0.2 else None
    ledger = Ledger.of(where, quota)
    wants = _waiting(dice, where, memo)
    owners = {each.owner: request(key=each.owner, node_selector=dice.choice(ZONES)) for each in running}
    spare: Spare | None = None if dice.random() < 0.5 else {owner: dice.randint(0, 2) for owner in owners}
    found = {
        "ends": preemption(wants, running, where, ledger, spare),
        "moves": defragmentation(wants, running, owners, where, ledger),
    }
    return {"world": seed, **{kind: _said(each) for kind, each in found.items() if each is not None}}


def _running(dice: Random) -> Running:
    kind, gpus = dice.choice((H100, H100, H100, L40S)), dice.choice((1, 1, 1, 2, 2, 4))
    there = node("any", kind)
    return Running(
        ObjectKey("ns", f"d{dice.randint(0, 5)}"),
        Target(kind, Split(gpus), there.selector, there.resource),
        dice.choice("wxyz"),
        priority=dice.choice((0, 0, 5, 10)),
        need=HostNeed(1_000 * dice.randint(0, 4), 8 * GIB * dice.randint(0, 4)),
        price=Decimal(dice.randint(1, 9)),
        startup_seconds=dice.choice((None, None, 900.0)),
    )


def _node(dice: Random, name: str, running: Sequence[Running]) -> GpuNode:
    """A node of the kind of one that runs there, with the GPUs of its replicas and a few more."""
    there = [each for each in running if each.node == name]
    gpus = sum(each.gpus for each in there)
    usual = node(
        name,
        there[0].target.gpu_type if there else H100,
        gpus + dice.randint(0, 3),
        held=gpus + dice.choice((0, 0, 0, -1)) if gpus else 0,
        labels={"zone": dice.choice("aab")},
    )
    left = HostRoom(1_000 * dice.randint(0, 20), 8 * GIB * dice.randint(0, 20), dice.randint(0, 3))
    hosts = (None, None, left, left._replace(pods=None), left._replace(cpu_millis=None, memory_bytes=None))
    host = dice.choice(hosts)
    return usual if host is None else replace(usual, host=host, host_free=host)


def _waiting(dice: Random, where: Fleet, memo: Memo) -> Waiting:
    asked: Request = request(
        name="gold",
        overrides=Overrides(tensor_parallel=dice.choice((1, 2, 4, 8))),
        constraints=GpuConstraints(allow=dice.choice(((H100,), (H100, L40S)))),
        node_selector=dice.choice(ZONES),
    )
    found = tuple(each for each in options(asked, where, memo).verdicts if isinstance(each, Option))
    before = tuple(Share(each.target, dice.randint(1, 2)) for each in found[:1] if dice.random() < 0.3)
    return Waiting(asked, dice.randint(1, 4), found, dice.choice((5, 10, 11)), before)


def _said(proposal: Proposal) -> Mapping[str, Any]:
    return {
        "changes": [
            [each.owner.name, each.leaving.target.place, each.leaving.replicas, each.node, each.to]
            for each in proposal.changes
        ],
        "before": [[share.target.place, share.replicas] for share in proposal.before],
        "after": [[share.target.place, share.replicas] for share in proposal.after],
        "numbers": dict(proposal.numbers),
    }
