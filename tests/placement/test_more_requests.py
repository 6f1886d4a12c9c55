"""The requests at the same time: as many as the cache holds, within the latency, the engine and the memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Fit, Option, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, Speculation, StepLimits
from plimsoll.domain.requests.serving import Overrides, Request, ServingShape
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.demand import demand_of
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import candidates
from plimsoll.placement.options.engine_limits import STEPS, with_more_requests
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.options.speed import speed_of
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, LLAMA_8B, LLAMA_70B_FP8, MI300X, fleet, node, pool, request
from tests.support.tables import every_case

TYPES = (H100, A100, L40S, L4, MI300X)
FLEET = fleet(*(node(kind, kind, 8) for kind in TYPES))
VERSION = EngineVersion(0, 32)


def judged(wanted: Request) -> list[Option]:
    verdicts = (judge(wanted, candidate, FLEET) for candidate in candidates(wanted, FLEET))
    return [verdict for verdict in verdicts if isinstance(verdict, Option)]


def on(wanted: Request, kind: str = H100, degree: int = 1) -> Option:
    option = next(each for each in judged(wanted) if (each.gpu.name, each.split) == (kind, Split(degree)))
    return with_more_requests(wanted, option)


def most(wanted: Request, kind: str = H100, degree: int = 1) -> int:
    return on(wanted, kind, degree).settings.max_num_seqs


def engine(**changes: Any) -> EngineChoice:
    return EngineChoice(VERSION, **changes)


def test_an_engine_runs_as_many_requests_as_its_cache_holds() -> None:
    wanted = request(context=16_384, concurrency=2)
    option = on(wanted)
    held = option.estimate.kv_capacity_tokens / 16_384
    assert 2 < option.settings.max_num_seqs <= held < 1.5 * option.settings.max_num_seqs


def test_expected_lengths_count_where_they_are_declared_also_where_the_declared_load_is_guaranteed() -> None:
    full = most(request(context=16_384, concurrency=2))
    mean = ServingShape(16_384, 2, expected_prompt_tokens=1500, expected_output_tokens=500)
    expected, guaranteed = (most(request(shape=each)) for each in (mean, replace(mean, guaranteed=True)))
    assert full < expected
    assert guaranteed == expected


def test_a_cache_that_is_full_with_the_declared_load_gets_no_more() -> None:
    option = on(request(context=4096, concurrency=6), L4)
    assert option.estimate.kv_capacity_low_tokens < 8 * 4096
    assert option.settings.max_num_seqs == 6


@pytest.mark.parametrize(
    ("kind", "degree", "choice", "limit"),
    [
        (H100, 8, engine(), 512),
        (A100, 8, engine(), 256),
        (H100, 8, engine(speculation=Speculation(3)), 128),
        (H100, 8, engine(enforce_eager=True), 1024),
        (H100, 8, EngineChoice(EngineVersion(0, 8, 4)), 256),
    ],
)
def test_the_engines_defaults_and_graphs_are_a_limit(kind: str, degree: int, choice: EngineChoice, limit: int) -> None:
    load = request(context=256, concurrency=2, engine=choice, slo=Slo(tpot_seconds=60.0))
    assert most(load, kind, degree) == limit


def test_the_declared_number_may_exceed_every_limit() -> None:
    assert most(request(context=64, concurrency=700), A100, 1) == 700


def test_the_time_per_token_is_a_limit_the_declared_one_or_the_usual_one() -> None:
    plain = request(context=1024, concurrency=2)
    option = on(plain)
    seconds = {
        number: found.tpot_seconds
        for number in STEPS
        if (found := speed_of(plain, option.gpu, option.split, option.settings, number)) is not None
    }
    strict = replace(plain, slo=Slo(tpot_seconds=(seconds[24] + seconds[32]) / 2))
    assert most(strict) == 24
    assert 24 < most(plain) <= max(number for number in STEPS if seconds[number] <= 0.1)
    unbound = replace(plain, slo=Slo(tpot_seconds=60.0))
    assert most(unbound, L40S, 8) > most(plain, L40S, 8)


def test_the_users_own_figure_wins() -> None:
    fixed = request(context=1024, concurrency=2, engine=engine(max_sequences=5))
    assert most(fixed) == 5
    assert most(replace(fixed, engine=engine())) > 5


def test_an_admins_memory_figure_and_an_unsure_fit_leave_the_declared_number() -> None:
    forced = request(context=1024, concurrency=2, overrides=Overrides(memory_per_gpu_bytes=30 * GIB))
    assert most(forced) == 2
    unsure = [
        (wanted, option)
        for concurrency in range(16, 64)
        for wanted in [request(context=1024, concurrency=concurrency)]
        for option in judged(wanted)
        if option.estimate.fit_by_figures is Fit.PROBABLE
    ]
    assert unsure
    assert all(with_more_requests(wanted, option) == option for wanted, option in unsure)


def test_after_an_engine_ran_out_of_memory_there_is_no_more_than_declared() -> None:
    plain = request(context=4096, concurrency=8)
    here, elsewhere = plain.engine_kind(H100, Split(1)), plain.engine_kind(A100, Split(1))
    assert most(replace(plain, corrections=(Correction(here, exact=False),))) == 8
    assert most(replace(plain, corrections=(Correction(elsewhere, exact=False),))) > 8


@every_case("name", [LLAMA_8B, LLAMA_70B_FP8, "google/gemma-3-27b-it", "Qwen/Qwen3-30B-A3B"])
@every_case(("context", "concurrency"), [(2048, 4), (16_384, 8), (65_536, 1)])
def test_the_memory_holds_both_the_declared_load_and_the_larger_number_for_sure(
    name: str, context: int, concurrency: int
) -> None:
    wanted = request(name, context=context, concurrency=concurrency)
    law = engine_of(wanted.engine.name)
    options = judged(wanted)
    assert options
    for plain in options:
        option = with_more_requests(wanted, plain)
        each, declared = option.settings.max_num_seqs, option.split.seats(concurrency)
        number = option.split.data_parallel * each
        assert each == declared or each in STEPS
        assert option.estimate == law.estimate(wanted, option.gpu, option.split, option.settings)
        assert option.settings.max_num_batched_tokens >= plain.settings.max_num_batched_tokens
        if each > declared:
            filled = replace(wanted, shape=replace(wanted.shape, concurrency=number))
            full = law.estimate(filled, option.gpu, option.split, option.settings)
            assert (option.estimate.is_trusted, full.is_trusted) == (True, True)


def test_small_corrections_mostly_do_not_change_the_number() -> None:
    numbers = []
    for learned in range(-500, 501, 50):
        plain = request(context=4096, concurrency=8)
        kind = plain.engine_kind(H100, Split(1))
        numbers.append(most(replace(plain, corrections=(Correction(kind, rest_bytes=learned * MIB),))))
    changes = sum(one != other for one, other in pairwise(numbers))
    assert changes <= 1


def kept(spec: str, plain: Request, *, held: int, recorded: str = "same") -> int | None:
    running = pool(H100, limits=StepLimits(sequences=held), spec=recorded)
    demand = demand_of(Tenant(plain, 2, (running,), spec=spec), FLEET, Memo())
    return demand.kept[0].sequences


def test_running_engines_keep_their_number_until_their_spec_changes() -> None:
    plain = request(context=4096, concurrency=8)
    fresh = most(plain)
    assert fresh > 8
    assert kept("same", plain, held=8) == 8
    assert kept("other", plain, held=8) == fresh
    kind = plain.engine_kind(H100, Split(1))
    learned = replace(plain, corrections=(Correction(kind, rest_bytes=20 * GIB),))
    assert most(learned) < fresh
    assert kept("same", learned, held=fresh) == fresh


def test_a_placement_has_the_number_and_remembers_for_which_spec() -> None:
    plain = request(context=4096, concurrency=8)
    (decision,) = plan([Tenant(plain, 1, spec="digest")], fleet(node("h", H100)))
    [placed] = decision.pools
    assert (placed.sequences, placed.spec) == (most(plain), "digest")
    assert decision.choice is not None
    assert decision.choice.settings.max_num_seqs == most(plain)
