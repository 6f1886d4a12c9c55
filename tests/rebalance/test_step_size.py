"""Another size of a step: larger where prompts are the bottleneck, smaller where they break the time per token."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.options.engine_limits import OtherStep
from plimsoll.rebalance.law.capacity import (
    ConcurrencyLimit,
    ReplicaModel,
    capacity_of,
    decode_seconds,
    model_of,
    times_of,
)
from plimsoll.rebalance.law.tuning import (
    is_prefill_bound,
    larger_step,
    most_per_second,
    prompt_share,
    smaller_step,
    token_times,
)
from plimsoll.rebalance.signals.percentiles import Percentile
from plimsoll.rebalance.signals.traffic import Lengths, Traffic
from tests.support.engine_loads import Serves, traffic
from tests.support.planning import H100, L40S, gpu, request

STEP_SIZES = (512, 1024, 2048, 4096, 8192)
LEAST_STEP_GAIN = 1.1
NEARLY_ALL = 0.97

PROMPTS, DOCUMENTS, ANSWERS = Lengths(6000, 2, 0, 6001), Lengths(6000, 100, 0, 6050), Lengths(500, 1000, 0, 1000)
KV_TOKENS = 120_000


def replica(kind: str, step: int, slo: Slo, kv_tokens: int = KV_TOKENS) -> ReplicaModel:
    found = model_of(request(slo=slo), gpu(kind), Split(1), kv_tokens)
    assert found is not None
    return replace(found, limits=StepLimits(step, 256))


def steps(kv_tokens: int = 400_000) -> tuple[OtherStep, ...]:
    return tuple(OtherStep(tokens, kv_tokens) for tokens in STEP_SIZES)


def seen(lengths: Lengths, token_seconds: float, running: float = 4.0) -> Traffic:
    load = Serves(prompt=lengths.prompt, output=lengths.output, token_seconds=token_seconds, running=running)
    return replace(traffic(load), lengths=lengths)


READS = Slo(2, 60)
"""A time to the first token is promised, and none per token that matters."""
FAST = Slo(5, 0.05)
SMALL_STEP, LARGE_STEP = replica(H100, 1024, READS, kv_tokens=400_000), replica(L40S, 2048, FAST)


def test_where_prompts_are_the_bottleneck_a_larger_step_carries_clearly_more() -> None:
    found = larger_step(SMALL_STEP, PROMPTS, seen(PROMPTS, 0.2), steps())
    assert found is not None
    assert found.limits.step_tokens > 1024
    assert found.per_second >= LEAST_STEP_GAIN * capacity_of(SMALL_STEP, PROMPTS).per_second
    assert found.per_second == capacity_of(SMALL_STEP.limited(found.limits), PROMPTS).per_second


def test_of_steps_that_carry_nearly_the_same_the_nearest_is_taken() -> None:
    """A larger one would only take memory from the KV cache."""
    found = larger_step(SMALL_STEP, PROMPTS, seen(PROMPTS, 0.2), steps())
    assert found is not None
    best = max(capacity_of(SMALL_STEP.limited(StepLimits(each)), PROMPTS).per_second for each in STEP_SIZES)
    assert found.per_second >= NEARLY_ALL * best
    nearer = [each for each in STEP_SIZES if 1024 < each < found.limits.step_tokens]
    assert all(
        capacity_of(SMALL_STEP.limited(StepLimits(each)), PROMPTS).per_second < NEARLY_ALL * best for each in nearer
    )


def test_steps_are_tried_from_the_nearest_on_in_whatever_order_they_come() -> None:
    found = [
        (
            larger_step(SMALL_STEP, PROMPTS, seen(PROMPTS, 0.2), steps()[::order]),
            smaller_step(LARGE_STEP, DOCUMENTS, seen(DOCUMENTS, 0.06), steps(KV_TOKENS)[::order]),
        )
        for order in (1, -1)
    ]
    assert found[0] == found[1]
    assert None not in found[0]


def test_a_small_gain_is_not_worth_a_restart() -> None:
    assert larger_step(SMALL_STEP.limited(StepLimits(4096)), PROMPTS, seen(PROMPTS, 0.2), steps()) is None
    assert smaller_step(replica(L40S, 512, FAST), DOCUMENTS, seen(DOCUMENTS, 0.06), steps(KV_TOKENS)) is None


def test_the_cache_that_another_step_leaves_counts() -> None:
    slow = seen(DOCUMENTS, 0.06)
    assert smaller_step(LARGE_STEP, DOCUMENTS, slow, steps(KV_TOKENS)) is not None
    assert smaller_step(LARGE_STEP, DOCUMENTS, slow, steps(kv_tokens=10_000)) is None


def test_where_the_promised_time_per_token_is_missed_no_larger_step_is_taken() -> None:
    tight = replica(H100, 1024, Slo(5, 0.3))
    assert larger_step(tight, PROMPTS, seen(PROMPTS, 0.2), steps()) is not None
    assert larger_step(tight, PROMPTS, seen(PROMPTS, 0.31), steps()) is None


@pytest.mark.parametrize(
    ("mean", "token", "first_token", "is_taken"),
    [
        (0.2, None, None, True),
        (0.2, 0.29, None, True),
        (0.2, 0.29, 60.0, True),
        (0.2, 0.30, 60.0, True),
        (0.2, 0.31, 1.0, False),
        (0.31, 0.29, None, False),
    ],
)
def test_a_promise_per_token_at_a_percentile_is_missed_by_that_percentile_or_by_the_mean(
    mean: float, token: float | None, first_token: float | None, *, is_taken: bool
) -> None:
    """A time to the first token that is missed is no reason against a larger step: it shortens that time."""
    tight = replica(H100, 1024, Slo(5, 0.3, percentile=95))
    measured = replace(
        seen(PROMPTS, mean),
        token_percentile=None if token is None else Percentile(token),
        ttft_percentile=None if first_token is None else Percentile(first_token),
    )
    assert (larger_step(tight, PROMPTS, measured, steps()) is not None) is is_taken


def test_the_times_of_a_token_are_those_with_the_requests_of_one_pod() -> None:
    of_one = seen(DOCUMENTS, 0.06, running=4.0)
    assert token_times(LARGE_STEP, DOCUMENTS, replace(of_one, running=8.0, pods=2)) == token_times(
        LARGE_STEP, DOCUMENTS, of_one
    )


def test_where_answers_are_the_bottleneck_no_larger_step_is_looked_for() -> None:
    busy = replica(H100, 512, Slo(5, 0.02), kv_tokens=2_000_000)
    assert capacity_of(busy, ANSWERS).limit is ConcurrencyLimit.TOKEN_TIME
    assert not is_prefill_bound(busy, ANSWERS)
    assert larger_step(busy, ANSWERS, seen(ANSWERS, 0.01), steps()) is None


def test_where_prompts_break_the_time_per_token_a_smaller_step_carries_clearly_more() -> None:
    found = smaller_step(LARGE_STEP, DOCUMENTS, seen(DOCUMENTS, 0.06), steps(KV_TOKENS))
    assert found is not None
    assert found.limits.step_tokens < 2048
    assert found.per_second >= LEAST_STEP_GAIN * capacity_of(LARGE_STEP, DOCUMENTS).per_second


@pytest.mark.parametrize(("token_seconds", "is_found"), [(0.049, False), (0.051, True)])
def test_a_smaller_step_needs_a_promise_that_is_missed(token_seconds: float, *, is_found: bool) -> None:
    found = smaller_step(LARGE_STEP, DOCUMENTS, seen(DOCUMENTS, token_seconds), steps(KV_TOKENS))
    assert (found is not None) == is_found


def test_where_a_token_would_take_too_long_without_prompts_as_well_a_smaller_step_is_no_help() -> None:
    slow = replace(LARGE_STEP, slowness=3.0)
    assert decode_seconds(slow, DOCUMENTS, 4) > 0.05
    assert smaller_step(slow, DOCUMENTS, seen(DOCUMENTS, 0.2), steps(KV_TOKENS)) is None


def test_a_step_that_computes_too_few_prompts_is_none_however_short_a_token_takes_with_it() -> None:
    """Else tokens would be fast, and requests would wait for them in a queue that grows."""
    tiny = OtherStep(64, KV_TOKENS)
    now = capacity_of(LARGE_STEP, DOCUMENTS).per_second
    assert most_per_second(LARGE_STEP.limited(StepLimits(64)), DOCUMENTS) < now
    assert smaller_step(LARGE_STEP, DOCUMENTS, seen(DOCUMENTS, 0.06), [tiny]) is None


def test_full_steps_carry_what_their_tokens_and_their_time_say() -> None:
    model = replace(LARGE_STEP.limited(StepLimits(512)), kv_tokens=10**7)
    rate = most_per_second(model, DOCUMENTS)
    generating = 512 * 100 / 6100
    step = model.costs.step(generating, DOCUMENTS.in_cache, 512 - generating).total
    attention = model.costs.prompt_attention(6000) * (512 - generating) / 6000
    assert rate == pytest.approx((512 - generating) / 6000 / (step + attention))
    assert most_per_second(replace(model, slowness=2.0), DOCUMENTS) == pytest.approx(rate / 2)
    few = replace(model, kv_tokens=20_000)
    assert 0 < most_per_second(few, DOCUMENTS) < rate, "the KV cache holds fewer than a step could serve"


def test_of_a_prompt_that_is_cached_one_token_is_computed() -> None:
    model = replace(LARGE_STEP.limited(StepLimits(512)), kv_tokens=10**7)
    rates = [most_per_second(model, Lengths(1000, 2, cached, 1001)) for cached in (0, 300, 600, 900)]
    assert rates == sorted(set(rates)), "what is in the prefix cache is not computed"
    all_but_one, whole = (most_per_second(model, Lengths(1000, 2, cached, 1001)) for cached in (999, 1000))
    assert whole == pytest.approx(all_but_one, rel=0.01)


def test_every_engine_of_a_replica_fills_its_own_steps() -> None:
    """Of several engines, data or pipeline parallel, each generates for its share of the requests that run."""
    for split in (Split(1, pipeline_parallel=2), Split(1, data_parallel=2)):
        found = model_of(request(slo=FAST), gpu(H100), split, KV_TOKENS)
        assert found is not None
        assert most_per_second(found, DOCUMENTS) > most_per_second(SMALL_STEP, DOCUMENTS)


def test_a_time_that_is_just_kept_needs_no_smaller_step() -> None:
    promised = FAST.tpot_seconds
    assert promised is not None
    for measured, is_missed in ((promised, False), (math.nextafter(promised, 1), True)):
        now = replace(seen(DOCUMENTS, 0.06), token_seconds=measured)
        assert (smaller_step(LARGE_STEP, DOCUMENTS, now, steps()) is not None) == is_missed


def test_nothing_is_found_where_a_time_is_not_known() -> None:
    unknown = replace(seen(DOCUMENTS, 0.06), token_seconds=None)
    assert token_times(LARGE_STEP, DOCUMENTS, unknown) is None
    assert smaller_step(LARGE_STEP, DOCUMENTS, unknown, steps()) is None


def test_the_times_of_another_step_are_those_of_the_performance_model() -> None:
    found = token_times(LARGE_STEP, DOCUMENTS, seen(DOCUMENTS, 0.06), 512)
    assert found is not None
    assert found.measured == pytest.approx(0.06)
    assert found.promised == 0.05
    assert found.then == times_of(LARGE_STEP.limited(StepLimits(512)), DOCUMENTS, 4).token
    assert found.decode < found.then < times_of(LARGE_STEP, DOCUMENTS, 4).token


def test_prompts_take_none_of_the_time_of_a_request_alone_and_most_of_it_where_answers_are_short() -> None:
    assert prompt_share(SMALL_STEP, PROMPTS, 1) == 0
    assert prompt_share(SMALL_STEP, PROMPTS, 8) > 0.5
    assert prompt_share(SMALL_STEP, ANSWERS, 8) < 0.1
