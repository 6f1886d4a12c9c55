"""Another limit of requests at the same time: only where the limit binds, and only for enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.demands.pools import PoolState
from plimsoll.placement.options.engine_limits import STEPS
from plimsoll.rebalance.law.capacity import ConcurrencyLimit, capacity_of
from plimsoll.rebalance.law.tuning import after_retune
from plimsoll.rebalance.remedies.retune import retuned
from plimsoll.rebalance.signals.traffic import Lengths
from tests.support.engine_loads import replica_model
from tests.support.planning import H100, L4, pool, request, tenant

LEAST_GAIN = 1.25

USUAL = Lengths(1000, 200, 0, 1100)


@pytest.mark.parametrize("sequences", [2, 8, 16, 48])
def test_a_limit_that_binds_is_raised_to_a_usual_number_that_does_not(sequences: int) -> None:
    model = replica_model(max_sequences=sequences)
    tuned = after_retune(model, USUAL, 256)
    assert tuned is not None
    assert tuned.limits.sequences in STEPS
    assert sequences < tuned.limits.sequences <= 256
    assert tuned.per_second >= LEAST_GAIN * capacity_of(model, USUAL).per_second
    assert tuned.per_second == capacity_of(replica_model(max_sequences=tuned.limits.sequences), USUAL).per_second


def test_the_smallest_number_that_binds_no_more_is_enough() -> None:
    small = replica_model(kv_tokens=40_000, max_sequences=8)
    tuned = after_retune(small, USUAL, 1024)
    assert tuned is not None
    assert tuned.limits.sequences < 256
    wider = replica_model(kv_tokens=40_000, max_sequences=tuned.limits.sequences)
    assert capacity_of(wider, USUAL).limit is not ConcurrencyLimit.BATCH


def test_no_more_than_the_engine_could_be_given() -> None:
    tuned = after_retune(replica_model(max_sequences=8), USUAL, 50)
    assert tuned is not None
    assert tuned.limits.sequences == 50


def test_where_something_else_limits_nothing_is_gained() -> None:
    full = replica_model(kv_tokens=5_000, max_sequences=64)
    assert capacity_of(full, USUAL).limit is ConcurrencyLimit.KV_CACHE
    assert after_retune(full, USUAL, 256) is None


def test_a_small_gain_is_not_worth_a_restart() -> None:
    assert after_retune(replica_model(max_sequences=64), USUAL, 68) is None
    assert after_retune(replica_model(max_sequences=64), USUAL, 64) is None
    assert after_retune(replica_model(max_sequences=64), USUAL, 8) is None, "the engine could be given even less"


def test_replicas_for_a_rate_are_whole_and_leave_some_room() -> None:
    tuned = after_retune(replica_model(max_sequences=8), USUAL, 256)
    assert tuned is not None
    assert tuned.replicas_for(0.5 * tuned.per_second, 0.9) == 1
    assert tuned.replicas_for(tuned.per_second, 0.9) == 2


@pytest.mark.parametrize(
    ("spec", "asked", "limits"),
    [
        ("s", StepLimits(sequences=65), StepLimits(4096, 33)),
        ("s", StepLimits(2048), StepLimits(2048, 16)),
        ("before", StepLimits(2048), StepLimits(2048)),
    ],
    ids=["sequences", "step", "sequences of another spec"],
)
def test_other_limits_restart_the_engines_of_the_pools_that_stay(
    spec: str, asked: StepLimits, limits: StepLimits
) -> None:
    """Each replica has two engines, which share its requests."""
    stays = pool(H100, limits=StepLimits(4096, 16), spec=spec)
    stays = replace(stays, target=replace(stays.target, split=Split(1, data_parallel=2)))
    goes = pool(L4, state=PoolState.RETIRING)
    assert retuned(tenant(request(), stays, goes, spec="s"), asked).pools == (
        replace(stays, limits=limits, spec="s", restarts=True),
        goes,
    )
