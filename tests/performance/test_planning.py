"""Planning is quick enough to be done on every change; figures are printed, bounds are for slow machines."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import process_time

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.outcomes import Split
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.placement.place import place
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L40S, LLAMA_70B_FP8, fleet, gpu, node, request, tenant

NOISE = 4
"""How much slower than on a quiet machine a shared one may be."""


def median_ms(work: Callable[[], object], times: int) -> float:
    """Milliseconds of this process in the middle run; the first is left out."""
    work()
    spent: list[float] = []
    for _ in range(times):
        start = process_time()
        work()
        spent.append((process_time() - start) * 1000)
    return median(spent)


def test_one_estimate_takes_half_a_millisecond_at_most() -> None:
    wanted, kind, split = request(LLAMA_70B_FP8), gpu(H100), Split(2)
    settings = engine_settings(wanted, kind, split)
    spent = median_ms(lambda: estimate(wanted, kind, split, settings), 200)
    print(f"one estimate: {spent:.3f} ms")  # noqa: T201 - the figure is what one wants to see
    assert spent <= 0.5 * NOISE


def test_the_whole_catalogue_at_every_degree_takes_thirty_milliseconds_at_most() -> None:
    everything = fleet(*(node(kind.name, kind) for kind in load_gpu_types()))
    wanted = request(LLAMA_70B_FP8, context=16_384)
    spent = median_ms(lambda: place(wanted, everything), 15)
    print(f"{4 * len(load_gpu_types())} candidates: {spent:.1f} ms")  # noqa: T201 - same
    assert spent <= 30 * NOISE


def test_a_fleet_of_a_thousand_gpus_with_fifty_deployments_is_planned_in_half_a_second() -> None:
    where = fleet(*(node(f"n{index}", H100 if index % 2 else L40S, 8) for index in range(125)))
    tenants = [tenant(request(name=f"d{index:02d}", replicas=4)) for index in range(50)]
    spent = median_ms(lambda: plan(tenants, where, load_gpu_types()), 3)
    print(f"50 deployments on 1,000 GPUs: {spent:.0f} ms")  # noqa: T201 - same
    assert spent <= 500 * NOISE
