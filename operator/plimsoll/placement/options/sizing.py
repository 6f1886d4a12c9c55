"""The size of a request on a GPU type, whether or not the cluster has that type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Fit, MemoryEstimate, Rejection, Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.options.divisibility import replica_refusal
from plimsoll.placement.options.feasibility import sized


@dataclass(frozen=True, slots=True)
class Sized:
    """One GPU type and one split, with the settings and the estimate of one replica."""

    gpu: GpuType
    split: Split
    settings: EngineSettings
    figures: MemoryEstimate


def size_on(request: Request, gpu: GpuType, split: Split) -> Sized | Rejection:
    """Return the estimate for one GPU type and split, or the reason why there is none."""
    request = engine_of(request.engine.name).served_on(request, gpu)
    missing = engine_of(request.engine.name).missing_capability(request, gpu)
    if missing:
        return Rejection(gpu.name, split, Reason.PRECISION_NOT_SUPPORTED, missing)
    gpus = split.shape.gpus_per_pod
    if gpu.is_slice and gpus > 1:
        return Rejection(gpu.name, split, Reason.NODE_TOO_SMALL, (("gpus", gpus), ("largest", 1)))
    refusal = replica_refusal(request, gpu.name, split)
    return refusal or Sized(gpu, split, *sized(request, gpu, split))


def best_on(request: Request, gpu: GpuType, splits: Sequence[Split]) -> Sized | Rejection:
    """Return the split with the fewest GPUs that fits for sure; else one that fits probably; else the nearest one.

    Of those that fit probably, the ones that fit at the estimate itself come first.
    """
    on_a_node = (split for split in splits if split.shape.gpus_per_pod <= max(1, gpu.scale_up_gpus))
    answers = [size_on(request, gpu, split) for split in on_a_node]
    fitting = [each for each in answers if isinstance(each, Sized)]
    if not fitting:
        return next(each for each in answers if isinstance(each, Rejection))
    possible = [each for each in fitting if each.figures.fit_by_figures is not Fit.NO]
    return min(possible, key=_uncertainty) if possible else _nearest(fitting)


def fit_of(request: Request, gpu: GpuType, split: Split) -> Fit:
    """Return how well the request fits with the settings that it would get; ``Fit.NO`` if it cannot run."""
    answer = size_on(request, gpu, split)
    return answer.figures.fit_by_figures if isinstance(answer, Sized) else Fit.NO


def _uncertainty(answer: Sized) -> tuple[bool, bool]:
    return answer.figures.fit_by_figures is not Fit.SURE, not answer.figures.is_expected_to_fit


def _nearest(answers: Sequence[Sized]) -> Sized:
    return min(answers, key=lambda each: each.figures.needed_bytes - each.figures.budget_bytes)
