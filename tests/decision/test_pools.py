"""The words about the pods of a pool, and which replicas others may move."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.decision.deployment import RefusedWrite
from plimsoll.decision.memory import Memory, running_of
from plimsoll.decision.pools import delay_of
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.status.reading import Record
from tests.api.manifests import deployment
from tests.support.outcomes import deployment_of, ready_of
from tests.support.planning import H100, L4, fleet, gpu, node, pool, request

CRASHED = EngineFailure(StartFailure.OUT_OF_MEMORY, "CUDA out of memory")
STARTS = PodFacts("starts", bound=True, ready=False, ended=False, terminating=False, node="h")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({}, "EngineOutOfMemory"), ({"ready": True}, "EnginesStarting"), ({"terminating": True}, "EnginesStarting")],
    ids=["starts", "serves", "ends"],
)
def test_a_pool_is_late_for_the_words_of_pods_that_should_serve_and_do_not(
    changed: dict[str, Any], reason: str
) -> None:
    failed = replace(STARTS, failure=CRASHED, restarts=1, **changed)
    late = pool(H100)
    around = Surroundings({late.name: (failed, replace(STARTS, name="other"))}, {})
    assert delay_of(late, around, Record(), None, 0.0).reason == reason


@pytest.mark.parametrize(("missing", "reason"), [(0, "EnginesStarting"), (1, "PodsNotCreated"), (2, "PodsNotCreated")])
def test_a_refusal_of_the_api_server_is_said_while_a_pod_is_missing(missing: int, reason: str) -> None:
    late = replace(pool(H100), replicas=2, uncreated=missing)
    refusal = RefusedWrite("create a pod", late.name, 403, "exceeded quota: gpus", since=0.0)
    said = delay_of(late, Surroundings({late.name: (STARTS,)}, {}), Record(), refusal, 0.0)
    assert said.reason == reason
    assert ("exceeded quota: gpus" in said.message) == bool(missing)


def test_others_may_move_replicas_on_nodes_at_the_price_of_all_their_gpus() -> None:
    """A type without a price, or one that the fleet has lost, costs nothing that is known."""
    pair, lost = pool(H100, 2), pool(L4)
    pods = (STARTS, replace(STARTS, name="ends", terminating=True), replace(STARTS, name="waits", node="", bound=False))
    given = deployment_of(
        resource=deployment(),
        around=Surroundings({pair.name: pods, lost.name: (replace(STARTS, node="l"),)}, {}),
        pools=(pair, lost),
    )
    listed = list(running_of([ready_of(given, request())], fleet(node("h", H100, 8))))
    price = gpu(H100).price
    assert price is not None
    assert [(each.node, each.price) for each in listed] == [("h", 2 * price.usd_per_hour), ("l", Decimal(0))]


def test_the_estimate_of_what_runs_follows_the_pools() -> None:
    """It is kept while request, fleet and pools are the same objects."""
    memory, where, asked = Memory(), fleet(node("h", H100, 8), node("l", L4, 1)), request()
    found = [
        memory.figures(ready_of(deployment_of(resource=deployment(), pools=(each,)), asked), where)
        for each in (pool(H100), pool(L4), pool(H100))
    ]
    fresh = [
        Memory().figures(ready_of(deployment_of(resource=deployment(), pools=(each,)), asked), where)
        for each in (pool(H100), pool(L4))
    ]
    assert found == [*fresh, fresh[0]]
    assert fresh[0] != fresh[1]
