"""What observed starts teach the estimates of engines like them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.observations import Correction, Observation, Witness
from plimsoll.domain.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.memory.band import Band
from plimsoll.memory.calibration import RESIDUAL_BYTES, corrections, learned_band
from plimsoll.memory.estimate import estimate
from plimsoll.placement.feasibility import sized
from plimsoll.placement.settings import engine_settings
from tests.support.planning import A100, H100, L4, gpu, request

ONE = Split(1)
PLAIN = request()
KIND = PLAIN.engine_kind(H100, ONE)


def figures(wanted: Request, kind: str = H100, split: Split = ONE) -> MemoryEstimate:
    return estimate(wanted, gpu(kind), split, engine_settings(wanted, gpu(kind), split))


LAW = figures(PLAIN)


def metrics(available: int) -> Observation:
    return Observation(KIND, Witness.METRICS, LAW.available_kv_bytes, available)


def learned(*seen: Observation) -> Request:
    return replace(PLAIN, corrections=corrections(seen))


@given(difference=st.integers(-8 * GIB, 8 * GIB))
def test_the_estimate_says_afterwards_what_was_observed(difference: int) -> None:
    observed = LAW.available_kv_bytes + difference
    corrected = figures(learned(metrics(observed)))
    assert corrected.available_kv_bytes == observed
    assert corrected.overhead_bytes == LAW.overhead_bytes - difference


def test_terms_that_were_told_apart_are_corrected_each() -> None:
    seen = replace(
        metrics(LAW.available_kv_bytes - 700 * MIB),
        witness=Witness.START_LOG,
        predicted_weights_bytes=LAW.weights_bytes,
        weights_bytes=LAW.weights_bytes + 100 * MIB,
        predicted_activations_bytes=LAW.activations_bytes,
        activations_bytes=LAW.activations_bytes + 500 * MIB,
    )
    corrected = figures(learned(seen))
    assert corrected.weights_bytes - LAW.weights_bytes == 100 * MIB
    assert corrected.activations_bytes - LAW.activations_bytes == 500 * MIB
    assert corrected.overhead_bytes - LAW.overhead_bytes == 100 * MIB
    assert corrected.available_kv_bytes == seen.available_kv_bytes


def test_the_median_engine_counts_and_the_spread_stays_in_the_band() -> None:
    rich, usual, poor = (LAW.available_kv_bytes - missing * MIB for missing in (100, 150, 300))
    corrected = figures(learned(metrics(rich), metrics(poor), metrics(usual)))
    assert corrected.available_kv_bytes == usual
    assert corrected.slack_bytes == 200 * MIB + RESIDUAL_BYTES
    assert corrected.margin_bytes == RESIDUAL_BYTES


def test_of_two_engines_the_poorer_counts() -> None:
    rich, poor = LAW.available_kv_bytes - 100 * MIB, LAW.available_kv_bytes - 300 * MIB
    assert figures(learned(metrics(rich), metrics(poor))).available_kv_bytes == poor


def test_a_failed_start_with_figures_is_an_observation_like_another() -> None:
    failed = Observation(KIND, Witness.START_FAILURE, LAW.available_kv_bytes, -GIB)
    corrected = figures(learned(failed))
    assert corrected.available_kv_bytes == -GIB
    assert corrected.fit is Fit.NO


def test_out_of_memory_raises_the_need_so_that_it_no_longer_fits() -> None:
    told = Observation(KIND, Witness.OUT_OF_MEMORY, LAW.available_kv_bytes, None)
    settings, corrected = sized(learned(told), gpu(H100), ONE)
    assert LAW.fit is Fit.SURE
    assert corrected.fit is Fit.NO
    assert corrected.margin_bytes == pytest.approx(LAW.margin_bytes, rel=0.2)
    assert settings.max_num_batched_tokens <= 2048


def test_out_of_memory_outweighs_what_served() -> None:
    told = Observation(KIND, Witness.OUT_OF_MEMORY, LAW.available_kv_bytes, None)
    (correction,) = corrections([metrics(LAW.available_kv_bytes), told])
    assert not correction.exact
    assert correction.total_bytes > LAW.available_kv_bytes


def test_engines_of_another_kind_learn_nothing() -> None:
    wanted = learned(metrics(LAW.available_kv_bytes - GIB))
    assert figures(wanted, A100) == figures(PLAIN, A100)
    assert figures(wanted, H100, Split(2)) == figures(PLAIN, H100, Split(2))
    other = replace(wanted, kv_precision=next(each for each in type(KIND.kv_precision) if each != KIND.kv_precision))
    assert other.correction_for(H100, ONE) is None


def test_each_kind_has_one_correction() -> None:
    elsewhere = replace(metrics(0), kind=replace(KIND, gpu_type=L4))
    found = corrections([metrics(1), elsewhere, metrics(2)])
    assert sorted(each.kind.gpu_type for each in found) == sorted([H100, L4])


BANDS = st.builds(Band, st.integers(-5 * GIB, 0), st.integers(0, 5 * GIB))


@given(prior=BANDS, spread=st.integers(0, 5 * GIB), exact=st.booleans())
def test_a_band_narrows_and_never_widens(prior: Band, spread: int, exact: bool) -> None:  # noqa: FBT001 - drawn
    after = learned_band(prior, Correction(KIND, spread_bytes=spread, exact=exact))
    assert prior.low_bytes <= after.low_bytes <= 0 <= after.high_bytes <= prior.high_bytes
    if not exact:
        assert after == prior
    elif prior.high_bytes > RESIDUAL_BYTES:
        assert after.high_bytes == RESIDUAL_BYTES


def test_nothing_observed_changes_nothing() -> None:
    assert corrections([]) == ()
    assert PLAIN.correction_for(H100, ONE) is None
