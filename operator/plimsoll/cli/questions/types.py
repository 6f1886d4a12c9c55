"""The GPU types and splits that ``plimsoll estimate`` considers, and those that the manifest excludes.

Shares of a GPU that are no whole percentage, for a request that has whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.gpu_names import did_you_mean
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.placement.options.candidates import splits_for
from plimsoll.placement.options.feasibility import wishes_refusal
from plimsoll.placement.options.sizing import Sized, best_on, size_on

_ENOUGH = 1e-9
"""Shares of the GPU that differ by less than this are the same: 0.29 x 100 is a little more than 29."""


def whole_percent(share: float) -> int:
    """Return a share of the GPU in whole percent, rounded up (:func:`with_share` makes up for it)."""
    return max(1, math.ceil(100 * share - _ENOUGH))


def with_share(gpu: GpuType, share: float) -> GpuType:
    """Return a type of which :func:`whole_percent` is exactly this share; the same if that is a whole percentage."""
    percent = whole_percent(share)
    if abs(100 * share - percent) < _ENOUGH:
        return gpu
    return replace(gpu, usable_bytes=int(gpu.usable_bytes * share * 100 / percent))


_MOST_NAMES = 6
"""The most names in one message; more are counted instead."""


def named_on_the_command_line(
    overrides: Overrides, gpus: Sequence[str], split: Split | None
) -> tuple[Overrides, tuple[str, ...]]:
    """The manifest's overrides without those that the command line contradicts, and a note for each of those."""
    notes: list[str] = []
    kind, degree = overrides.gpu_type, overrides.tensor_parallel
    if kind is not None and gpus and set(gpus) != {kind}:
        notes.append(f"spec.overrides.gpuType {kind} is set aside: --gpu names {', '.join(gpus)}.")
        overrides = replace(overrides, gpu_type=None)
    if degree is not None and split is not None and split != Split(degree):
        notes.append(f"spec.overrides.tensorParallel {degree} is set aside: --tp names {split.tensor_parallel}.")
        overrides = replace(overrides, tensor_parallel=None)
    return overrides, tuple(notes)


def answers(
    request: Request, gpus: Sequence[str], split: Split | None, share: float | None = None
) -> list[Sized | Rejection]:
    """Return one answer for each GPU type: at the requested split, or at the best one that the manifest allows.

    ``share`` is the exact part of a GPU that the engine may use, if the request rounds it.

    Raises:
        InvalidInput: a GPU type is not catalogued.
    """
    forced = request.overrides
    types = _types(gpus, "--gpu") if gpus else _types_of(request)
    if split is None and forced.tensor_parallel is not None:
        split = Split(forced.tensor_parallel)
    splits = splits_for(request) if split is None else (split,)
    exact = types if share is None else [with_share(gpu, share) for gpu in types]
    return [_answer(request, gpu, splits) for gpu in exact]


def left_out(
    request: Request, found: Sequence[Sized | Rejection]
) -> tuple[Sequence[Sized | Rejection], tuple[str, ...]]:
    """Return the answers without the types that ``spec.gpu`` excludes, and sentences about those."""
    denied = [each for each in found if isinstance(each, Rejection) and each.reason is Reason.GPU_TYPE_DENIED]
    sentences: list[str] = []
    for field in sorted({str(each.number("field")) for each in denied}):
        names = [each.gpu_type for each in denied if each.number("field") == field]
        which = ", ".join(names) if len(names) <= _MOST_NAMES else f"{len(names)} GPU types"
        sentences.append(f"{which} left out by {field}.")
    known = {gpu.name for gpu in load_gpu_types()}
    unknown = [name for name in (*request.constraints.allow, *request.constraints.deny) if name not in known]
    sentences += [f"spec.gpu names {name}, which `plimsoll gpus` does not list." for name in unknown]
    return [each for each in found if each not in denied], tuple(sentences)


def _answer(request: Request, gpu: GpuType, splits: Sequence[Split]) -> Sized | Rejection:
    refusals = [wishes_refusal(request, gpu, split) for split in splits]
    allowed = [split for split, refusal in zip(splits, refusals, strict=True) if refusal is None]
    if not allowed:
        return next(refusal for refusal in refusals if refusal is not None)
    return size_on(request, gpu, allowed[0]) if len(splits) == 1 else best_on(request, gpu, allowed)


def _types_of(request: Request) -> Sequence[GpuType]:
    """The type that the manifest forces, else all types; slices of a GPU only if it allows them by name."""
    if request.overrides.gpu_type is not None:
        return _types([request.overrides.gpu_type], "spec.overrides.gpuType")
    return [gpu for gpu in load_gpu_types() if not gpu.is_slice or gpu.name in request.constraints.allow]


def _types(names: Sequence[str], field: str) -> Sequence[GpuType]:
    known = {gpu.name: gpu for gpu in load_gpu_types()}
    for name in names:
        if name not in known:
            raise InvalidInput(field, name, f"There is no such GPU type{did_you_mean(name, known)}.")
    return [known[name] for name in dict.fromkeys(names)]
