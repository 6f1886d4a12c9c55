"""The whole estimate of one rank: the identity of the budget, and the KV tokens that engines really got."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import Evidence
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Overrides
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.facts.models.generic import WEIGHTS_ERROR
from plimsoll.memory.weights import stage_weights
from tests.memory.measured import RUNS, Run
from tests.support.planning import H100, gpu, request
from tests.support.tables import every_case

WITH_TOKENS = [run for run in RUNS if run.tokens is not None]


@every_case("run", WITH_TOKENS, ids=lambda run: run.label)
def test_kv_tokens_are_within_one_percent_of_the_engines_and_inside_the_band(run: Run) -> None:
    assert run.tokens is not None
    figures = run.estimate()
    assert figures.kv_capacity_tokens == pytest.approx(run.tokens, rel=0.01)
    assert figures.kv_capacity_low_tokens <= run.tokens <= figures.kv_capacity_high_tokens


@every_case("run", WITH_TOKENS, ids=lambda run: run.label)
def test_the_band_is_no_wider_than_one_gib_and_one_and_a_half_percent_of_the_card(run: Run) -> None:
    figures = run.estimate()
    assert figures.margin_bytes + figures.slack_bytes <= GIB + 0.015 * figures.usable_bytes


def test_over_all_runs_half_are_within_a_quarter_of_a_percent() -> None:
    errors = [abs(run.estimate().kv_capacity_tokens / run.tokens - 1) for run in WITH_TOKENS if run.tokens]
    assert len(errors) == 25
    assert median(errors) < 0.0025


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
    assert figures.computed_bytes <= figures.budget_bytes
    assert figures.fit is Fit.SURE


@pytest.mark.parametrize(
    ("release", "by_group"), [((0, 9, 0), False), ((0, 19), True), ((0, 20), True), ((0, 20, 1), False)]
)
def test_which_releases_tell_the_tokens_of_one_group(release: tuple[int, ...], *, by_group: bool) -> None:
    """Qwen3.8-27B on an MI355X (0.20.2) told 1,451,258 tokens of 95.4 GiB, not the 390,000 of one of its groups."""
    wanted, kind = request("openai/gpt-oss-20b", context=8192), gpu(H100)
    wanted = replace(wanted, engine=replace(wanted.engine, version=EngineVersion(*release)))
    figures = estimate(wanted, kind, Split(1), engine_settings(wanted, kind, Split(1)))
    assert (figures.kv_reported_tokens != figures.kv_capacity_tokens) is by_group


def test_an_admins_figure_replaces_the_need_and_leaves_the_working_readable() -> None:
    wanted = request(overrides=Overrides(memory_per_gpu_bytes=500 * GIB))
    kind = gpu(H100)
    figures = estimate(wanted, kind, Split(1), engine_settings(wanted, kind, Split(1)))
    assert figures.needed_bytes == 500 * GIB
    assert figures.computed_bytes < figures.budget_bytes
    assert figures.fit is Fit.NO


@every_case("version", [EngineVersion(0, 19), EngineVersion(0, 32)])
@every_case("percent", [50, 92, 98])
@every_case("name", ["t4-16gb", "l4-24gb", "h100-sxm-80gb", "mi300x-192gb"])
@every_case("degree", [1, 2])
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


def test_a_need_inside_its_band_fits_probably_and_the_line_is_its_lower_edge() -> None:
    wanted = request(concurrency=1)
    settings = engine_settings(wanted, gpu(H100), Split(1))
    sure = estimate(wanted, gpu(H100), Split(1), settings)
    share = settings.gpu_memory_utilization_percent / 100

    def on(budget_bytes: int) -> MemoryEstimate:
        card = replace(gpu(H100), usable_bytes=int(budget_bytes / share))
        return estimate(wanted, card, Split(1), settings)

    likely, unlikely = (
        on(sure.expected_bytes + sure.margin_bytes // 4),
        on(sure.expected_bytes - sure.slack_bytes // 2),
    )
    assert (likely.fit, likely.is_expected_to_fit) == (Fit.PROBABLE, True)
    assert (unlikely.fit, unlikely.is_expected_to_fit) == (Fit.PROBABLE, False)
    # The band follows the card's size a little, so the line is that of a card that is nearly on it.
    assert on(unlikely.least_bytes + 16 * MIB).fit is Fit.PROBABLE
    assert on(unlikely.least_bytes - 16 * MIB).fit is Fit.NO


def test_with_stages_every_one_gets_as_many_tokens_as_the_poorest() -> None:
    wanted = request("meta-llama/Llama-3.3-70B-Instruct", concurrency=1)
    kind, two = gpu(H100), Split(1, 2)
    settings = engine_settings(wanted, kind, two)
    figures = estimate(wanted, kind, two, settings)
    assert figures.kv_bytes_per_token == 40 * 2 * 8 * 128 * 2
    assert figures.weights_bytes == stage_weights(wanted.model, Precision.BF16, two, figures.stage).total_bytes


def test_a_model_that_only_the_generic_reading_knows_gets_room_for_other_weights() -> None:
    known = request(context=8192, concurrency=16)
    kind = gpu(H100)
    guessed = replace(known, model=replace(known.model, evidence=Evidence.GENERIC))
    figures, wider = (
        estimate(each, kind, Split(1), engine_settings(each, kind, Split(1))) for each in (known, guessed)
    )
    share = int(WEIGHTS_ERROR * figures.weights_bytes)
    assert wider.weights_bytes == figures.weights_bytes
    assert wider.margin_bytes >= figures.margin_bytes + share
    assert wider.slack_bytes > figures.slack_bytes
    assert wider.fit is Fit.PROBABLE
