"""What is said of facts that nobody has checked, beside the placement made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Fit, Option, Split
from plimsoll.domain.models.model import Evidence, ModelFacts
from plimsoll.domain.requests.serving import ObservedCapacity, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import SeenAnswers
from plimsoll.placement.places.warnings import choice_warnings, model_warnings, slow_warnings, warnings_for
from tests.support.planning import H100, L4, fleet, node, placed, request


def _warnings(model: ModelFacts) -> tuple[str, ...]:
    return placed(replace(request(), model=model), fleet(node("h", H100))).warnings


def test_remarks_on_the_checkpoint_are_passed_on() -> None:
    assert _warnings(replace(request().model, remarks=("The checkpoint stores more.",))) == (
        "The checkpoint stores more.",
    )


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (Evidence.TENSORS, "its weights are those that the checkpoint stores"),
        (Evidence.GENERIC, "its fields were read"),
    ],
)
def test_an_unknown_class_is_told_with_what_was_read_instead(evidence: Evidence, told: str) -> None:
    (warning,) = _warnings(replace(request().model, evidence=evidence))
    assert told in warning
    assert "is not known here" in warning


def on_h100(wanted: Request | None = None, **figures: Any) -> Option:
    """A choice of one H100, with other figures in its estimate."""
    choice = placed(wanted or request(), fleet(node("h", H100))).choice
    return replace(choice, estimate=replace(choice.estimate, **figures))


@pytest.mark.parametrize(("more", "is_too_large"), [(0, False), (1, True)])
def test_a_card_with_over_eight_times_the_memory_of_its_load_is_too_large(more: int, *, is_too_large: bool) -> None:
    choice = on_h100()
    wide = replace(choice.gpu, usable_bytes=8 * choice.estimate.expected_bytes + more)
    said = choice_warnings(request(), replace(choice, gpu=wide))
    assert any("Smaller cards or slices of a card (MIG) would do." in each for each in said) is is_too_large


@pytest.mark.parametrize(("slowness", "said"), [(2.4, ""), (2.41, "A token takes its engines 241 %"), (0.5, "")])
def test_engines_are_slow_beyond_the_upper_edge_of_the_band_with_what_was_measured(slowness: float, said: str) -> None:
    """A band up to 0.08 s around 0.05 s, of a time that has 1.5 in it by measurements already, ends at 2.4."""
    choice = on_h100()
    assert choice.performance is not None
    found = replace(choice.performance, tpot_seconds=0.05, tpot_band=(0.04, 0.08), measured=1.5)
    slow = slow_warnings(replace(choice, performance=found), SeenAnswers(100.0, "h100-sxm-80gb-tp1", slowness))
    assert (bool(slow), all(each.startswith(said) for each in slow)) == (bool(said), True)
    assert [each for each in slow if "the error band ends at 240 %" not in each] == []
    assert slow_warnings(replace(choice, performance=found), SeenAnswers(100.0, "l4-24gb-tp1", slowness)) == ()


def probable(needed: int) -> Option:
    """A choice that fits by its estimate and not at the upper edge of the error band."""
    figures = on_h100().estimate
    choice = on_h100(budget_bytes=figures.expected_bytes, kv_needed_tokens=needed)
    assert choice.estimate.fit is Fit.PROBABLE
    return choice


def test_a_context_as_long_as_the_model_s_is_no_reason_to_warn() -> None:
    wanted = request(context=4096)
    assert model_warnings(replace(wanted, model=replace(wanted.model, max_context_tokens=4096))) == ()
    (warning,) = model_warnings(replace(wanted, model=replace(wanted.model, max_context_tokens=4095)))
    assert "contextLength 4096 exceeds the 4095 tokens" in warning


@pytest.mark.parametrize("forced", [Overrides(gpu_type=H100), Overrides(tensor_parallel=1)])
def test_either_override_of_the_place_is_named_with_the_whole_place(forced: Overrides) -> None:
    (warning,) = choice_warnings(request(overrides=forced), on_h100())
    assert warning.startswith("GPU type and split were forced to h100-sxm-80gb x 1:")


def test_states_for_as_many_sequences_as_declared_are_no_reason_to_warn() -> None:
    declared = on_h100().settings.max_num_seqs
    assert choice_warnings(request(), on_h100(max_sequences=declared)) == ()
    (warning,) = choice_warnings(request(), on_h100(max_sequences=declared - 1))
    assert f"states of {declared - 1} sequences fit for sure, {declared} are to run at the same time" in warning
    assert warning.endswith("the engine refuses to start. Lower spec.engine.maxSequences.")
    commanded = replace(request(), engine=replace(request().engine, own_defaults=True))
    (warning,) = choice_warnings(commanded, on_h100(max_sequences=declared - 1))
    assert warning.endswith(f"the engine refuses to start. Write --max-num-seqs {declared - 1}.")
    (warning,) = choice_warnings(request(), on_h100(max_sequences=declared - 1, max_sequences_high=declared))
    assert "the engine may refuse to start" in warning


def test_a_probable_fit_is_said_until_engines_report_that_the_cache_is_large_enough() -> None:
    def said(*seen: ObservedCapacity) -> bool:
        return bool(warnings_for(request(observed=seen), probable(1000)))

    enough, one_short = ObservedCapacity(H100, Split(1), 1000), ObservedCapacity(H100, Split(1), 999)
    elsewhere = (ObservedCapacity(H100, Split(2), 1000), ObservedCapacity(L4, Split(1), 1000))
    assert [said(), said(enough), said(one_short), said(enough, one_short), said(*elsewhere)] == [
        True, False, True, True, True,
    ]  # fmt: skip


def test_an_engine_starts_with_less_cache_than_the_load_needs_if_one_longest_request_fits() -> None:
    longest = probable(100_000).settings.max_model_len
    for low, words in ((longest, "requests wait then"), (longest - 1, "the engine may fail to start")):
        choice = probable(100_000)
        (warning,) = warnings_for(
            request(), replace(choice, estimate=replace(choice.estimate, kv_capacity_low_tokens=low))
        )
        assert words in warning


def test_without_any_report_nothing_is_proven_even_where_no_cache_is_needed() -> None:
    for needed in (0, 1):
        (warning,) = warnings_for(request(), probable(needed))
        assert warning.startswith("No free GPU fits for sure.")
    assert warnings_for(request(observed=(ObservedCapacity(H100, Split(1), 1),)), probable(1)) == ()


def test_too_little_memory_outside_the_budget_is_named_with_the_share_that_would_do() -> None:
    figures = on_h100().estimate
    short = on_h100(outside_bytes=figures.usable_bytes - figures.budget_bytes + 1)
    (warning,) = warnings_for(request(), short)
    assert warning.startswith("This fits the engine's budget, which leaves 6.")
    assert warning.endswith("Set spec.engine.gpuMemoryUtilizationPercent to 91.")
    (half,) = warnings_for(request(), on_h100(outside_bytes=figures.usable_bytes // 2))
    assert half.endswith("Set spec.engine.gpuMemoryUtilizationPercent to 50.")
    enough = on_h100(outside_bytes=figures.usable_bytes - figures.budget_bytes)
    assert warnings_for(request(), enough) == ()


def test_a_sure_fit_is_not_called_probable() -> None:
    assert warnings_for(request(), on_h100()) == ()


def test_a_forced_figure_shows_by_how_much_the_computed_need_differs() -> None:
    def warning(forced: int, **figures: int) -> str:
        wanted = request(overrides=Overrides(memory_per_gpu_bytes=forced))
        (said,) = choice_warnings(wanted, on_h100(wanted, forced_bytes=forced, **figures))
        return said

    computed = on_h100().estimate.computed_bytes
    assert "(-1.00 GiB); the computed need fits too." in warning(computed - GIB)
    assert "(+0.00 GiB); the computed need fits too." in warning(computed)
    assert "(+1.00 GiB); the computed need fits too." in warning(computed + GIB)
    assert warning(computed - GIB, budget_bytes=computed).endswith("the computed need fits too.")
    short = warning(computed - GIB, budget_bytes=computed - GIB // 2)
    assert "by the computed need the GPU is short of 0.50 GiB" in short
