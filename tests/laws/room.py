"""The arithmetic of GPUs on nodes, done once more apart from the planner's."""

from __future__ import annotations

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.nodes import eligible_nodes


def is_within(decisions: tuple[Decision, ...], where: Fleet) -> bool:
    """Whether every promised replica finds its GPUs on one node: taken largest first, for degrees divide each other."""
    ledger = Ledger.of(where)
    promised = [(pool, each.request) for each in decisions for pool in each.pools if pool.replicas]
    for pool, wanted in sorted(promised, key=lambda entry: -entry[0].split.gpus):
        nodes = eligible_nodes(wanted, where, pool.gpu_type)
        if ledger.room_for(nodes, pool.split.shape) < pool.replicas:
            return False
        ledger = ledger.take(nodes, pool.split.shape, pool.replicas)
    return True
