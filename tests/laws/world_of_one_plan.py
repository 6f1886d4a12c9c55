"""The digest of one plan for a crowded cluster: ``python -m tests.laws.world_of_one_plan``.

The lists of nodes, deployments and GPU types are shuffled with the seed in the argument, as an API may list them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from hashlib import sha256
from random import Random

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from testbed.fleet import gpu_node
from tests.support.planning import LLAMA_8B, LLAMA_70B, LLAMA_70B_FP8, request

PRODUCTS = (("H100-80GB-HBM3", 8), ("A100-SXM4-80GB", 8), ("L40S", 4), ("L4", 1))
NODES = 24
DEPLOYMENTS = 70
"""More than the nodes hold, so that several programmes decide who waits."""


def decisions(seed: int) -> list[Decision]:
    """Return the decisions by name, from lists in the order of the seed."""
    dice = Random(seed)  # noqa: S311 - a reproducible order
    bodies = [gpu_node(f"n{index:02}", *PRODUCTS[index % len(PRODUCTS)]) for index in range(NODES)]
    catalog = list(load_gpu_types())
    tenants = [_tenant(index) for index in range(DEPLOYMENTS)]
    for each in (bodies, catalog, tenants):
        dice.shuffle(each)
    found = plan(tenants, read_fleet(bodies, (), tuple(catalog)), tuple(catalog), memo=Memo(), solver=fleetwide())
    return sorted(found, key=lambda decision: decision.request.key)


def _tenant(index: int) -> Tenant:
    """Return a deployment that differs from its neighbours in model, load, replicas, age and priority."""
    facts = (LLAMA_8B, LLAMA_70B, LLAMA_8B, LLAMA_70B_FP8)[index % 4]
    wanted = request(facts, name=f"d{index:02}", created=f"{index % 9}", context=4096 * (1 + index % 3))
    return Tenant(replace(wanted, replicas=1 + index % 4), 1, priority=Priority(10 * (index % 7 == 0)))


def digest(seed: int) -> str:
    """Return the digest of everything that is decided: pools, reasons, remedies, sizes and the appraisal."""
    made = decisions(seed)
    appraisals = [each.appraisal for each in made]
    return sha256(repr((made, appraisals)).encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest(int(sys.argv[1])))
