"""The lesson of a logged start: the observation, the correction that follows from it, and the estimate after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.cli.starts.logged_start import Start
from plimsoll.domain.decisions.observations import Correction, Observation, Witness
from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.errors import PlimsollError
from plimsoll.memory.calibration import corrections

_LEAST_WEIGHTS_PERCENT = 90
"""The least share of the weights that an engine holds. A log with more KV cache than the rest of the budget is not
believed: it is of another model, or of another GPU. A figure inside the band is."""

_NO_FIGURE = (StartFailure.OUT_OF_MEMORY, StartFailure.WEIGHTS_TOO_LARGE)
"""Failures without a figure of the cache that can be believed: the engine ran out of memory at an unknown point."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The lesson of a start. ``after`` is the estimate with the correction."""

    observation: Observation
    correction: Correction
    after: MemoryEstimate


def lesson_of(start: Start) -> Lesson | str:
    """Return the lesson, or the reason why the start teaches nothing, as a sentence.

    Raises:
        PlimsollError: the log ends before the figures, or its figures cannot be those of this model and GPU.
    """
    if start.log.complaint:
        return start.log.complaint
    if start.log.options.cache_bytes is not None:
        return "The user gave the size of the KV cache, so it says nothing about the other terms."
    observation = _observation(start)
    if isinstance(observation, str):
        return observation
    (correction,) = corrections((observation,))
    request = replace(start.request, corrections=(correction,))
    after = start.engine.estimate(request, start.gpu, start.split, start.settings)
    return Lesson(observation, correction, after)


def available_bytes(start: Start) -> tuple[int, int] | None:
    """Return the predicted and the logged bytes of the KV cache of one GPU; None if the log has none.

    Logs of 0.8 give its tokens alone. With several stages, tokens are exact and bytes are those of one of the stages.
    """
    logged, figures = start.log.figures, start.figures
    staged = start.split.pipeline_parallel > 1
    if logged.kv_tokens is not None and (logged.kv_bytes is None or staged):
        tokens = logged.kv_tokens * start.split.data_parallel
        return start.engine.cache_bytes(start.request, start.gpu, start.split, start.settings, figures, tokens)
    return None if logged.kv_bytes is None else (figures.available_kv_bytes, logged.kv_bytes)


def _observation(start: Start) -> Observation | str:
    failure = start.log.failure
    if failure is not None and not failure.is_about_memory:
        return "The engine did not start for another reason than its own memory."
    if failure is not None and failure.reason in _NO_FIGURE:
        return _observed(start, Witness.OUT_OF_MEMORY, start.figures.available_kv_bytes, None)
    pair = available_bytes(start)
    if pair is None and failure is not None:
        left = failure.available_kv_bytes
        witness = Witness.OUT_OF_MEMORY if left is None else Witness.START_FAILURE
        return _observed(start, witness, start.figures.available_kv_bytes, left)
    if pair is None:
        raise PlimsollError(
            "The log ends before the engine logs its KV cache. Give the log of the whole start (`kubectl logs POD`)."
        )
    _refuse_incredible(start, pair[1])
    return _observed(start, Witness.START_LOG if failure is None else Witness.START_FAILURE, *pair)


def _refuse_incredible(start: Start, available: int) -> None:
    figures = start.figures
    left = figures.budget_bytes - figures.weights_bytes * _LEAST_WEIGHTS_PERCENT // 100
    if available > max(left, figures.available_kv_bytes + figures.slack_bytes):
        raise PlimsollError(
            f"The log has more KV cache than the weights of {start.request.model.name} leave on {start.gpu.name}: "
            "it is of another model or GPU, or of another share of it. Name them with --model, --gpu and --utilization."
        )


def _observed(start: Start, witness: Witness, predicted: int, available: int | None) -> Observation:
    """Return the observation. Terms of one stage of several, and those of a failed start, stay in the rest.

    The engine logs the slots of adapters as weights.
    """
    logged, figures, settings = start.log.figures, start.figures, start.settings
    is_whole = start.split.pipeline_parallel == 1 and available is not None
    weights = logged.weights_bytes if is_whole else None
    return Observation(
        start.request.engine_kind(start.gpu.name, start.split),
        witness,
        predicted,
        available,
        settings.limits,
        figures.weights_bytes,
        None if weights is None else weights - figures.adapters_bytes,
        figures.activations_bytes,
        logged.activations_bytes if is_whole else None,
    )
