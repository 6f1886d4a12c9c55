"""The whole estimate of one rank: the identity of the budget, and the KV tokens that engines really got."""

from __future__ import annotations

from statistics import median

import pytest

from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import EngineChoice, EngineVersion, Overrides
from plimsoll.domain.units import GIB
from plimsoll.memory.estimate import estimate
from plimsoll.placement.settings import engine_settings
from tests.memory.measured import RUNS, Run
from tests.support.planning import H100, gpu, request

WITH_TOKENS = [run for run in RUNS if run.tokens is not None and run.dtype != "float32"]
"""All but the start in 32 bits, whose KV cache no release we write for would keep in 32 bits."""


@pytest.mark.parametrize("run", WITH_TOKENS, ids=lambda run: run.label)
def test_kv_tokens_are_never_overstated_and_at_most_five_percent_below_the_engines(run: Run) -> None:
    """The margin (0.25 GiB + 1 % of the GPU) is what is given away; without it the error is within 1.3 %."""
    assert run.tokens is not None
    error = run.estimate().kv_capacity_tokens / run.tokens - 1
    assert -0.05 <= error <= 0


@pytest.mark.parametrize("run", WITH_TOKENS, ids=lambda run: run.label)
def test_without_its_margin_the_estimate_leaves_the_kv_bytes_of_the_log_within_one_and_a_half_percent(run: Run) -> None:
    figures = run.estimate()
    fixed = figures.weights_bytes + figures.activations_bytes + figures.cuda_graphs_bytes + figures.overhead_bytes
    assert (figures.budget_bytes - fixed) / GIB == pytest.approx(run.kv_cache_gib, rel=0.015)


def test_over_all_runs_half_are_within_two_and_a_quarter_percent() -> None:
    errors = [run.estimate().kv_capacity_tokens / run.tokens - 1 for run in WITH_TOKENS if run.tokens]
    assert len(errors) == 24
    assert median(errors) == pytest.approx(-0.021, abs=0.002)


def test_the_terms_add_up_and_the_budget_is_usable_memory_times_utilization() -> None:
    wanted = request(context=8192, concurrency=16)
    kind = gpu(H100)
    figures = estimate(wanted, kind, Split(1), engine_settings(wanted, kind, Split(1)))
    assert figures.budget_bytes == kind.usable_bytes * 92 // 100
    assert figures.computed_bytes == (
        figures.weights_bytes
        + figures.kv_cache_bytes
        + figures.activations_bytes
        + figures.cuda_graphs_bytes
        + figures.overhead_bytes
        + figures.margin_bytes
    )
    assert figures.kv_needed_tokens == 16 * 8192
    assert figures.fits is (figures.computed_bytes <= figures.budget_bytes) is True


def test_an_admins_figure_replaces_the_need_and_leaves_the_working_readable() -> None:
    wanted = request(overrides=Overrides(memory_per_gpu_bytes=500 * GIB))
    kind = gpu(H100)
    figures = estimate(wanted, kind, Split(1), engine_settings(wanted, kind, Split(1)))
    assert figures.needed_bytes == 500 * GIB
    assert figures.computed_bytes < figures.budget_bytes
    assert not figures.fits


@pytest.mark.parametrize("version", [EngineVersion(0, 19), EngineVersion(0, 32)])
@pytest.mark.parametrize("percent", [50, 92, 98])
@pytest.mark.parametrize("name", ["t4-16gb", "l4-24gb", "h100-sxm-80gb", "mi300x-192gb"])
@pytest.mark.parametrize("degree", [1, 2])
def test_what_cuda_takes_always_finds_room_beside_the_budget(
    version: EngineVersion, percent: int, name: str, degree: int
) -> None:
    """Else the engine would not start, or would die while it captures its graphs."""
    wanted = request(concurrency=512, engine=EngineChoice(version, gpu_memory_utilization_percent=percent))
    kind = gpu(name)
    settings = engine_settings(wanted, kind, Split(degree))
    figures = estimate(wanted, kind, Split(degree), settings)
    assert figures.budget_bytes + figures.outside_bytes <= figures.usable_bytes
    assert settings.gpu_memory_utilization_percent <= percent
