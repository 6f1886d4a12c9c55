"""Weights in host memory: whether their copies over PCIe hide behind the work of the layers on the GPU."""

from __future__ import annotations

import math
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import WeightStreaming
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, agreed, counted
from plimsoll.memory.residency import stage_layer_bytes
from plimsoll.performance.layer_copy import LayerCopy, layer_copy
from plimsoll.performance.step_costs import step_costs
from plimsoll.placement.options.speed import load_of


class HostLayers(NamedTuple):
    """The copy of one layer and its work, at a load.

    ``streamed`` of every ``group`` layers are copied ahead while the others work; 0: kernels read them over PCIe
    themselves, and nothing hides that. ``requests`` generate at the same time, and a step reads ``prompt_tokens``.
    """

    layer: LayerCopy
    link_gb_per_second: int
    streamed: int
    group: int
    requests: int
    prompt_tokens: int


def host_layers(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> HostLayers | None:
    """Return it for weights that stay in host memory; None if none do, or if the speed is not known."""
    residency, model = request.engine.residency, request.model
    if residency is None:
        return None
    try:
        costs = step_costs(model, request.precision, request.kv_precision, gpu, split)
        stages = range(split.pipeline_parallel)
        size = sum(stage_layer_bytes(model, request.precision, split, stage) for stage in stages) // model.layers
    except (UnsupportedModel, ValueError):
        return None
    load, tokens = load_of(request), settings.limits.step_tokens
    return HostLayers(
        layer=layer_copy(costs, gpu, size, load, tokens),
        link_gb_per_second=gpu.host_bandwidth_gb_per_second,
        streamed=residency.layers if isinstance(residency, WeightStreaming) else 0,
        group=residency.group if isinstance(residency, WeightStreaming) else 0,
        requests=round(load.running),
        prompt_tokens=tokens,
    )


def layer_words(found: HostLayers) -> str:
    """Return sentences about the copy of a layer, the work that could hide it, and whether it does."""
    layer = found.layer
    said = (
        f"Host memory to GPU at {found.link_gb_per_second} GB/s: a decoder layer of {layer.size_bytes / GIB:.3g} GiB "
        f"takes {_milliseconds(layer.copied)}. Its work takes {_milliseconds(layer.decoding)} in a step in which "
        f"{counted(found.requests, 'request')} {agreed(found.requests, 'generates', 'generate')}, and "
        f"{_milliseconds(layer.reading)} in one of {found.prompt_tokens:,} prompt tokens."
    )
    if not found.streamed:
        return f"{said} Kernels read the weights over this link in every step, and nothing hides that."
    decoding, reading = (_share(layer.copied, work) for work in (layer.decoding, layer.reading))
    from_ = (
        "no step hides" if layer.hidden_from is None else f"steps of {layer.hidden_from:,} prompt tokens or more hide"
    )
    return (
        f"{said} {found.streamed} of {found.group} layers {agreed(found.streamed, 'is', 'are')} copied in each step. "
        f"While requests generate, {decoding} would be hidden, and {reading} in steps of prompts; {from_} every copy."
    )


def _share(copied: float, work: float) -> str:
    """Return the most layers whose copies are hidden by the work of all."""
    return "every one" if work >= copied else f"1 of {math.ceil(copied / work)}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
