"""What observed starts teach the estimates of engines like them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.observations import Correction, EngineKind, Observation, Witness
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.decisions.terms import Teacher
from plimsoll.domain.engines.engine_choice import LoraSlots, MediaUse, StepLimits
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.calibration import (
    RESIDUAL_BYTES,
    STEP_BYTES,
    Band,
    believed,
    corrections,
    learned_band,
    representative,
)
from plimsoll.placement.options.feasibility import sized
from tests.support.planning import A100, H100, L4, gpu, request

ONE = Split(1)
PLAIN = request()
KIND = PLAIN.engine_kind(H100, ONE)


def figures(wanted: Request, kind: str = H100, split: Split = ONE) -> MemoryEstimate:
    return estimate(wanted, gpu(kind), split, engine_settings(wanted, gpu(kind), split))


LAW = figures(PLAIN)


def metrics(available: int) -> Observation:
    usual = engine_settings(PLAIN, gpu(H100), ONE)
    return Observation(KIND, Witness.METRICS, LAW.available_kv_bytes, available, usual.limits)


def starved(kind: EngineKind = KIND) -> Observation:
    return Observation(kind, Witness.OUT_OF_MEMORY, LAW.available_kv_bytes, None)


def learned(*seen: Observation) -> Request:
    return replace(PLAIN, corrections=corrections(seen))


@given(difference=st.integers(-8 * GIB, 8 * GIB))
def test_the_estimate_says_afterwards_what_was_observed(difference: int) -> None:
    observed = LAW.available_kv_bytes + difference
    corrected = figures(learned(metrics(observed)))
    assert corrected.available_kv_bytes == observed
    assert corrected.learned_bytes == -difference
    assert corrected.overhead_bytes == LAW.overhead_bytes


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
    assert corrected.learned_bytes == 100 * MIB
    assert corrected.available_kv_bytes == seen.available_kv_bytes


def test_the_median_engine_counts_and_the_spread_is_the_band() -> None:
    rich, usual, poor = (LAW.available_kv_bytes - missing * MIB for missing in (100, 150, 300))
    corrected = figures(learned(metrics(rich), metrics(poor), metrics(usual)))
    assert corrected.available_kv_bytes == usual
    assert corrected.slack_bytes == 50 * MIB + RESIDUAL_BYTES
    assert corrected.margin_bytes == 150 * MIB + RESIDUAL_BYTES


def test_a_far_outlier_leaves_the_estimate_and_widens_the_band() -> None:
    usual, far = LAW.available_kv_bytes, LAW.available_kv_bytes - 20 * GIB
    corrected = figures(learned(metrics(usual), metrics(usual), metrics(far)))
    assert corrected.available_kv_bytes == usual
    assert corrected.margin_bytes == 20 * GIB + RESIDUAL_BYTES


def test_steps_of_another_size_stay_as_uncertain_as_they_were() -> None:
    other = replace(metrics(LAW.available_kv_bytes - 100 * MIB), limits=StepLimits(99))
    corrected = figures(learned(other))
    assert corrected.available_kv_bytes == LAW.available_kv_bytes - 100 * MIB
    assert (corrected.slack_bytes, corrected.margin_bytes) == (LAW.slack_bytes, LAW.margin_bytes)


def test_the_need_is_never_said_to_be_less_than_weights_and_cache() -> None:
    poor, rich = metrics(LAW.available_kv_bytes), metrics(LAW.available_kv_bytes + 20 * GIB)
    corrected = figures(learned(rich, poor))
    least = corrected.expected_bytes - corrected.slack_bytes
    assert least >= corrected.weights_bytes + corrected.kv_cache_bytes


def test_of_two_engines_the_poorer_counts() -> None:
    rich, poor = LAW.available_kv_bytes - 100 * MIB, LAW.available_kv_bytes - 300 * MIB
    assert figures(learned(metrics(rich), metrics(poor))).available_kv_bytes == poor


def test_a_failed_start_with_figures_is_an_observation_like_another() -> None:
    failed = Observation(KIND, Witness.START_FAILURE, LAW.available_kv_bytes, -GIB)
    corrected = figures(learned(failed))
    assert corrected.available_kv_bytes == -GIB
    assert corrected.fit is Fit.NO


def test_out_of_memory_without_figures_only_widens_the_band() -> None:
    _, corrected = sized(learned(starved()), gpu(H100), ONE)
    assert corrected.available_kv_bytes == LAW.available_kv_bytes
    assert corrected.margin_bytes == LAW.margin_bytes + STEP_BYTES


def test_out_of_memory_does_not_outweigh_what_was_measured() -> None:
    (correction,) = corrections([metrics(LAW.available_kv_bytes), starved()])
    assert correction.exact
    assert correction.total_bytes == 0


def test_engines_of_another_kind_learn_nothing() -> None:
    wanted = learned(metrics(LAW.available_kv_bytes - GIB))
    assert figures(wanted, A100) == figures(PLAIN, A100)
    assert figures(wanted, H100, Split(2)) == figures(PLAIN, H100, Split(2))
    other = replace(wanted, kv_precision=next(each for each in type(KIND.kv_precision) if each != KIND.kv_precision))
    assert other.correction_for(H100, ONE) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"enforce_eager": True},
        {"media": MediaUse(text_only=True)},
        {"unfollowed": ("--hf-overrides={}",)},
        {"block_tokens": 32},
        {"prefix_caching": False},
        {"plans_ahead": False},
        {"unchecked": ("--numa-bind-nodes 0",)},
        {"unconfirmed": ("--config-format mistral (needs params.json)",)},
        {"lora": LoraSlots(8, 16)},
    ],
    ids=str,
)
def test_engines_with_another_option_are_of_another_kind(changed: dict[str, Any]) -> None:
    other = replace(PLAIN, engine=replace(PLAIN.engine, **changed))
    assert other.engine_kind(H100, ONE) != KIND


def test_a_model_with_other_facts_under_the_same_name_is_of_another_kind() -> None:
    wider = replace(PLAIN, model=replace(PLAIN.model, vocabulary=PLAIN.model.vocabulary + 1))
    assert wider.engine_kind(H100, ONE) != KIND


def test_the_share_and_the_step_do_not_make_another_kind() -> None:
    other = replace(PLAIN, engine=replace(PLAIN.engine, max_batched_tokens=2048, gpu_memory_utilization_percent=80))
    assert other.engine_kind(H100, ONE) == KIND


def test_each_kind_has_one_correction() -> None:
    elsewhere = replace(metrics(0), kind=replace(KIND, gpu_type=L4))
    found = corrections([metrics(1), elsewhere, metrics(2)])
    assert sorted(each.kind.gpu_type for each in found) == sorted([H100, L4])


BANDS = st.builds(Band, st.integers(-5 * GIB, 0), st.integers(0, 5 * GIB))
SPREADS = st.integers(0, 5 * GIB)


@given(prior=BANDS, above=SPREADS, below=SPREADS, same_step=st.booleans())
def test_a_learned_band_holds_all_that_was_seen(prior: Band, above: int, below: int, same_step: bool) -> None:  # noqa: FBT001 - drawn
    lesson = Correction(KIND, above_bytes=above, below_bytes=below, limits=StepLimits(8192, 256))
    after = learned_band(prior, lesson, batched_tokens=8192 if same_step else 2048, sequences=256)
    assert after.low_bytes <= -below - RESIDUAL_BYTES
    assert after.high_bytes >= above + RESIDUAL_BYTES
    if same_step:
        assert after == Band(-below - RESIDUAL_BYTES, above + RESIDUAL_BYTES)
    else:
        assert after.low_bytes <= prior.low_bytes
        assert after.high_bytes >= prior.high_bytes


def test_nothing_observed_changes_nothing() -> None:
    assert corrections([]) == ()
    assert PLAIN.correction_for(H100, ONE) is None


# -- what others teach -------------------------------------------------------------------------------------------------

SISTER = Teacher(names=("sister",))
BAND = Band(-100, 300)


def of_others(weights: int, activations: int, rest: int, *, above: int = 0, below: int = 0) -> Correction:
    return Correction(KIND, weights, activations, rest, above, below, taught_by=SISTER)


def test_several_engines_are_represented_by_the_median_of_those_with_a_figure() -> None:
    most, middle, least = (metrics(LAW.available_kv_bytes + each) for each in (3, 2, 1))
    assert representative([least, starved(), most, middle]) == middle
    assert representative([most, least]) == least, "of two, the one that took more"
    assert representative(iter([starved(), replace(starved(), limits=StepLimits(sequences=9))])) == starved()
    with pytest.raises(ValueError, match="no observation"):
        representative([])


@pytest.mark.parametrize("total", [-200, -1, 0, 600])
def test_what_others_teach_near_the_law_counts_term_by_term(total: int) -> None:
    taught = of_others(7, 5, total - 12)
    assert believed(taught, BAND, 1000) == taught


@pytest.mark.parametrize(
    ("total", "estimated", "counts"), [(601, 1000, 600), (10**12, 0, 600), (-201, 1000, -200), (-150, 120, -120)]
)
def test_what_others_teach_counts_up_to_twice_the_band_and_never_below_what_is_counted(
    total: int, estimated: int, counts: int
) -> None:
    found = believed(of_others(7, 5, total - 12), BAND, estimated)
    assert (found.weights_bytes, found.activations_bytes, found.rest_bytes) == (0, 0, counts)
    assert (found.kind, found.taught_by, found.exact) == (KIND, SISTER, True)


def test_the_spread_of_others_ends_where_their_lessons_end() -> None:
    found = believed(of_others(0, 0, 500, above=10**9, below=10**9), BAND, 1000)
    assert (found.rest_bytes, found.above_bytes, found.below_bytes) == (500, 100, 700)
    near = of_others(0, 0, 500, above=9, below=8)
    assert believed(near, BAND, 1000) == near


def test_own_measurements_and_crashes_without_a_figure_are_not_limited() -> None:
    own = replace(of_others(10**9, 10**9, 10**9, above=10**9), taught_by=Teacher())
    crash = replace(of_others(0, 0, 0), exact=False)
    assert believed(own, BAND, 0) == own
    assert believed(crash, BAND, 0) == crash
