"""Planning is quick enough to be done on every change: what counts is the calls, which no machine changes."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.placement.places.place import place
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L40S, LLAMA_70B_FP8, fleet, gpu, node, request, tenant
from tests.support.work import counted_calls


def calls_of(work: Callable[[], object]) -> float:
    """Calls of the second time: what the first remembers is not made again."""
    work()
    with counted_calls() as calls:
        work()
    return calls.amount


def test_one_estimate_is_two_hundred_calls_at_most() -> None:
    wanted, kind, split = request(LLAMA_70B_FP8), gpu(H100), Split(2)
    settings = engine_settings(wanted, kind, split)
    assert calls_of(lambda: estimate(wanted, kind, split, settings)) < 200


def test_the_whole_catalogue_at_every_degree_is_a_hundred_and_sixty_one_thousand_calls_at_most() -> None:
    everything = fleet(*(node(kind.name, kind) for kind in load_gpu_types()))
    wanted = request(LLAMA_70B_FP8, context=16_384)
    assert calls_of(lambda: place(wanted, everything)) <= 161_000


def test_a_fleet_of_a_thousand_gpus_with_fifty_deployments_is_planned_in_sixty_thousand_calls() -> None:
    where = fleet(*(node(f"n{index}", H100 if index % 2 else L40S, 8) for index in range(125)))
    tenants = [tenant(request(name=f"d{index:02d}", replicas=4)) for index in range(50)]
    assert calls_of(lambda: plan(tenants, where, load_gpu_types())) < 60_000
