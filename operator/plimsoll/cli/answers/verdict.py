"""Sentences about one answer: whether the law or an override decides, and which warnings apply."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.outcomes import Fit, MemoryEstimate, Option, Rejection, Target
from plimsoll.domain.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.placement.doubt_words import doubt_sentence
from plimsoll.placement.sizing import Sized
from plimsoll.placement.warnings import choice_warnings, model_warnings

_SAID = {Fit.SURE: "fits for sure", Fit.PROBABLE: "fits only probably", Fit.NO: "does not fit"}


def verdict(figures: MemoryEstimate) -> str:
    """A sentence on whether it fits. If an override decides, it names the override and the law's answer."""
    may = f"the engine may use {format_gib(figures.budget_bytes)}"
    if figures.fit_of_step is Fit.NO:
        return (
            f"It does not start: a step has {figures.step_tokens:,} tokens, and it needs {figures.least_step_tokens:,} "
            "at least, for one token of each sequence or for the largest input that is read as a whole."
        )
    given = figures.given_cache
    if given is not None and not given.is_enough and figures.forced_bytes is None:
        return (
            f"It does not start: the cache is given {given.blocks:,} blocks, and the load needs {given.needed:,}, one "
            "of which the engine keeps unused."
        )
    if figures.fit_of_states is figures.fit is not Fit.SURE:
        states = f"the cache has blocks for the recurrent states of {figures.max_sequences} sequences for sure"
        return f"It {_SAID[figures.fit]}: {states}, and {figures.sequences} are to run at the same time."
    if figures.forced_bytes is None and not figures.is_expected_to_fit and figures.fit_of_bytes is not Fit.NO:
        least = f"{format_gib(figures.least_bytes)} at the lower edge of the error band"
        return f"It may fit: {may}, {least} and {format_gib(figures.expected_bytes)} by the estimate are needed."
    if figures.forced_bytes is None:
        return f"It {_SAID[figures.fit]}: {may}{_outside(figures)}."
    answer = "does not fit" if figures.fit is Fit.NO else "fits"
    return (
        f"It {answer}, needed {format_gib(figures.forced_bytes)} by override (spec.overrides.memoryPerGpu): {may}. "
        f"By the memory law it {_SAID[fit_by_law(figures)]}."
    )


def _outside(figures: MemoryEstimate) -> str:
    """Return what is lacking outside the budget, where the budget itself is enough."""
    if figures.has_room_outside or figures.computed_bytes > figures.budget_bytes:
        return ""
    left = format_gib(figures.usable_bytes - figures.budget_bytes)
    return (
        f", which leaves {left} outside it, where CUDA, communication and CUDA graphs may take "
        f"{format_gib(figures.outside_bytes)}: lower --utilization"
    )


def fit_by_law(figures: MemoryEstimate) -> Fit:
    """Whether the computed need fits, whatever an override says."""
    return replace(figures, forced_bytes=None).fit_by_figures


def is_sure(answer: Sized | Rejection) -> bool:
    """Whether it fits for sure by the memory law: then no change of the load or of its numbers is needed."""
    return isinstance(answer, Sized) and fit_by_law(answer.figures) is Fit.SURE


def warnings_of(request: Request, answer: Sized) -> tuple[str, ...]:
    """The warnings that the placement would give for this GPU."""
    # The way in which pods reach the GPU does not matter here.
    choice = Option(answer.gpu, Target(answer.gpu.name, answer.split, ("", ""), ""), answer.settings, answer.figures)
    doubts = (doubt_sentence(doubt) for doubt in answer.figures.doubts)
    return (*choice_warnings(request, choice), *doubts, *model_warnings(request))
