"""The load that a replica carries: it falls with everything that makes requests dearer, and its limit has a name."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance.law.capacity import (
    ConcurrencyLimit,
    ReplicaModel,
    capacity_of,
    seconds_while_generating,
    times_of,
)
from plimsoll.rebalance.law.promise import is_strained, keeps_promises, unreachable
from plimsoll.rebalance.law.spread import Spread
from plimsoll.rebalance.signals.traffic import Lengths
from tests.support.engine_loads import Serves, replica_model, traffic
from tests.support.tables import examples

FIRST_TOKEN_SHARE = 0.35
TOKEN_SHARE = 0.85

MODEL = replica_model()
NO_PROMISE = Slo(None, None)


def lengths(prompt: float = 1000, output: float = 200, cached: float = 0) -> Lengths:
    return Lengths(prompt, output, cached, prompt + output / 2)


LIMITED: dict[ConcurrencyLimit, tuple[ReplicaModel, Lengths]] = {
    ConcurrencyLimit.KV_CACHE: (replica_model(kv_tokens=20_000), lengths()),
    ConcurrencyLimit.BATCH: (replica_model(max_sequences=8), lengths()),
    ConcurrencyLimit.TOKEN_TIME: (replace(MODEL, slo=Slo(None, 0.012)), lengths()),
    ConcurrencyLimit.FIRST_TOKEN_TIME: (replace(MODEL, slo=Slo(0.15, None)), lengths()),
}
EVERY_LIMIT = pytest.mark.parametrize(("limit", "case"), LIMITED.items(), ids=[each.value for each in LIMITED])


@EVERY_LIMIT
def test_the_limit_is_named(limit: ConcurrencyLimit, case: tuple[ReplicaModel, Lengths]) -> None:
    assert capacity_of(*case).limit is limit


@EVERY_LIMIT
def test_a_replica_carries_less_of_longer_requests_and_on_a_slower_engine(
    limit: ConcurrencyLimit, case: tuple[ReplicaModel, Lengths]
) -> None:
    model, usual = case
    now = capacity_of(model, usual).per_second
    for dearer in (lengths(prompt=2000), lengths(output=400), lengths(2000, 400)):
        assert capacity_of(model, dearer).per_second < now, limit
    assert capacity_of(replace(model, slowness=1.5), usual).per_second < now


@pytest.mark.parametrize("output", [1, 2, 200])
def test_a_request_takes_its_first_token_and_one_time_per_token_after_it(output: int) -> None:
    """The first token comes with the prefill, so that an answer of one token has no time per token."""
    carried = capacity_of(MODEL, lengths(output=output))
    times = times_of(MODEL, lengths(output=output), carried.running)
    seconds = times.first_token + (output - 1) * times.token
    assert carried.per_second == pytest.approx(carried.running / seconds, rel=0.02), "lengths are rounded"


@EVERY_LIMIT
def test_more_of_what_limits_carries_more(limit: ConcurrencyLimit, case: tuple[ReplicaModel, Lengths]) -> None:
    model, usual = case
    wider = {
        ConcurrencyLimit.KV_CACHE: replace(model, kv_tokens=2 * model.kv_tokens),
        ConcurrencyLimit.BATCH: model.limited(StepLimits(sequences=2 * model.limits.sequences)),
        ConcurrencyLimit.TOKEN_TIME: replace(model, slo=Slo(None, 0.02)),
        ConcurrencyLimit.FIRST_TOKEN_TIME: replace(model, slo=Slo(0.3, None)),
    }[limit]
    assert capacity_of(wider, usual).per_second > capacity_of(model, usual).per_second


def test_a_tighter_promise_never_lets_a_replica_carry_more() -> None:
    for promises in (
        [Slo(seconds, None) for seconds in (10, 5, 1, 0.3, 0.1, 0.01)],
        [Slo(None, seconds) for seconds in (1, 0.1, 0.05, 0.02, 0.01, 0.001)],
    ):
        carried = [capacity_of(replace(MODEL, slo=promise), lengths()).per_second for promise in promises]
        assert carried == sorted(carried, reverse=True)
        assert carried[-1] < carried[0]


def test_a_promise_that_is_never_kept_still_leaves_one_request_at_a_time() -> None:
    found = capacity_of(replace(MODEL, slo=Slo(1e-6, 1e-6)), lengths())
    assert found.running == pytest.approx(1.0)
    assert found.per_second > 0


@pytest.mark.parametrize("part", [1.0, 1 - 2**-20], ids=["exactly kept", "broken by a millionth"])
def test_a_time_that_is_exactly_the_promised_one_keeps_the_promise(part: float) -> None:
    """Percentiles of twice the mean leave half of a promise to it, and half of a double loses no digit."""
    free, exact = (
        replace(replica_model(max_sequences=8), slo=NO_PROMISE, spread=Spread(95, 2.0, 2.0)),
        lengths(1024, 256),
    )
    most = capacity_of(free, exact)
    times = times_of(free, exact, most.running)
    for promise in (Slo(2 * part * times.first_token, None), Slo(None, 2 * part * times.token)):
        carried = capacity_of(replace(free, slo=promise), exact)
        assert (carried == most) is (part == 1), promise


def test_without_its_promises_a_replica_carries_at_least_as_much() -> None:
    tight = replace(MODEL, slo=Slo(0.15, 0.012))
    most = capacity_of(tight, lengths(), promised=False)
    assert most.per_second > capacity_of(tight, lengths()).per_second
    assert most == capacity_of(replace(MODEL, slo=NO_PROMISE), lengths())


def test_prompts_in_the_prefix_cache_cost_less_time() -> None:
    tight = replace(MODEL, slo=Slo(0.6, None))
    long = lengths(prompt=6000)
    cached = replace(long, cached=5000.0)
    assert capacity_of(tight, cached).per_second > capacity_of(tight, long).per_second
    assert times_of(MODEL, cached, 10).first_token < times_of(MODEL, long, 10).first_token


def test_the_cache_that_requests_hold_limits_whatever_their_lengths() -> None:
    """Long answers stay longer than short ones, so the mean over running requests may be more than expected."""
    usual = lengths()
    held = replace(usual, in_cache=2 * usual.in_cache)
    small = replica_model(kv_tokens=20_000)
    assert capacity_of(small, held).running < capacity_of(small, usual).running


def test_room_for_chance_stays_free_below_a_hard_limit() -> None:
    for sequences in (4, 16, 256):
        found = capacity_of(replica_model(kv_tokens=10**8, max_sequences=sequences), lengths(100, 100))
        assert found.limit is ConcurrencyLimit.BATCH
        assert found.running + 1.3 * math.sqrt(found.running) == pytest.approx(sequences)


@pytest.mark.parametrize("sequences", [1, 2])
def test_one_request_runs_although_chance_leaves_no_room_for_it(sequences: int) -> None:
    """One request and 1.3 standard deviations are 2.3."""
    assert capacity_of(replica_model(kv_tokens=10**8, max_sequences=sequences), lengths(100, 100)).running == 1.0


def test_a_twentieth_of_the_cache_and_room_for_chance_stay_free() -> None:
    """Requests of 1,280 tokens on average in a cache of 16 times as many."""
    found = capacity_of(replica_model(kv_tokens=20_480), lengths(1024, 512))
    assert found.limit is ConcurrencyLimit.KV_CACHE
    assert found.running + 1.3 * math.sqrt(found.running) == pytest.approx(0.95 * 16)


def test_requests_a_second_are_those_that_run_over_the_seconds_that_each_takes() -> None:
    model, of = replica_model(kv_tokens=20_480), lengths(1024, 512)
    found = capacity_of(model, of)
    times = times_of(model, of, found.running)
    assert found.running / found.per_second == pytest.approx(times.first_token + 511 * times.token)
    single = capacity_of(model, lengths(1024, 1))
    assert single.running / single.per_second == pytest.approx(
        times_of(model, lengths(1024, 1), single.running).first_token
    )


def test_small_differences_of_the_lengths_are_answered_alike() -> None:
    model = replica_model(kv_tokens=20_000)
    assert capacity_of(model, lengths(1024.0)) is capacity_of(model, lengths(1044.0))
    assert capacity_of(model, lengths(1024.0)) is not capacity_of(model, lengths(1088.0)), (
        "a 32nd of the next power of 2"
    )


@settings(max_examples=examples(100), deadline=None)
@given(
    st.floats(0, 200_000),
    st.floats(0, 50_000),
    st.one_of(st.integers(0, 100).map(lambda percent: percent / 100), st.just(2.0**-53)),
    st.sampled_from([1 / 3, 1.0, 3.0]),
    st.sampled_from([1, 2_000, 400_000]),
)
def test_every_capacity_is_a_number_of_which_something_can_be_said(
    prompt: float, output: float, cached: float, slowness: float, kv_tokens: int
) -> None:
    prompt, output = max(1.0, prompt), max(1.0, output)
    of = Lengths(prompt, output, cached * prompt, prompt + output / 2)
    found = capacity_of(replace(replica_model(kv_tokens=kv_tokens), slowness=slowness), of)
    assert found.running >= 1 - 1e-9
    assert 0 < found.per_second < math.inf
    most = capacity_of(replace(replica_model(kv_tokens=kv_tokens), slowness=slowness), of, promised=False)
    assert most.running >= found.running


ALONE = times_of(MODEL, lengths(), 1.0)
"""What a request takes that no other one shares its engine with."""


def promise_of(seconds: float, share: float) -> float:
    """A promise of which this part is so many seconds, to the last digit."""
    about = seconds / share
    return next(each for each in (about, *(math.nextafter(about, end) for end in (0, 1))) if share * each == seconds)


TOKEN, FIRST_TOKEN = promise_of(ALONE.token, TOKEN_SHARE), promise_of(ALONE.first_token, FIRST_TOKEN_SHARE)


@pytest.mark.parametrize(
    ("slo", "kept"),
    [
        (NO_PROMISE, True),
        (Slo(None, TOKEN), True),
        (Slo(None, math.nextafter(TOKEN, 0)), False),
        (Slo(FIRST_TOKEN, None), True),
        (Slo(math.nextafter(FIRST_TOKEN, 0), None), False),
        (Slo(FIRST_TOKEN, 0.9 * TOKEN), False),
        (Slo(0.9 * FIRST_TOKEN, TOKEN), False),
    ],
    ids=str,
)
def test_a_place_keeps_its_promises_if_one_request_alone_leaves_the_room_that_chance_needs(
    slo: Slo, *, kept: bool
) -> None:
    assert keeps_promises(replace(MODEL, slo=slo), lengths()) is kept


@pytest.mark.parametrize(
    ("measured", "strained"), [(None, False), (TOKEN_SHARE * 0.5, False), (math.nextafter(TOKEN_SHARE * 0.5, 1), True)]
)
def test_a_replica_is_strained_above_the_part_of_a_promise_that_tokens_may_take(
    measured: float | None, *, strained: bool
) -> None:
    seen = replace(traffic(Serves()), token_seconds=measured)
    assert is_strained(seen, replace(MODEL, slo=Slo(None, 0.5))) is strained
    assert not is_strained(seen, replace(MODEL, slo=NO_PROMISE))


@pytest.mark.parametrize("name", ["tpot", "ttft"])
def test_a_missed_time_is_out_of_reach_if_one_request_alone_takes_longer(name: str) -> None:
    """These replicas run eight requests at the same time: with one of them, none is wasted."""
    seen = replace(traffic(Serves()), token_seconds=9.0, ttft_seconds=9.0)
    seconds = ALONE.token if name == "tpot" else ALONE.first_token
    few = replica_model(max_sequences=8)

    def found(promised: float) -> str | None:
        slo = Slo(None, promised) if name == "tpot" else Slo(promised, None)
        figure = unreachable(replace(few, slo=slo), lengths(), seen)
        return None if figure is None else figure.name

    assert found(seconds) is None
    assert found(math.nextafter(seconds, 0)) == name
    assert found(9.0) is None, "it is not missed"


@pytest.mark.parametrize("running", [2.0, 4.0])
@pytest.mark.parametrize("of", [lengths(6000, 100), lengths(600, 400)], ids=["documents", "chats"])
def test_next_to_requests_that_generate_run_those_whose_prompt_is_computed(of: Lengths, running: float) -> None:
    times = times_of(MODEL, of, running)
    answer = (of.output - 1) * times.token
    generating = running * answer / (times.first_token + answer)
    assert seconds_while_generating(MODEL, of, generating) == pytest.approx(times.token, rel=0.02)
