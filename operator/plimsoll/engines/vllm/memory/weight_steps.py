"""The working of the weights: every matrix with its shape on one rank, and what else lies or does not lie there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.engine_options import Residency
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import LayerKind, ModelFacts, Weight
from plimsoll.domain.outcomes import EngineSettings, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.storage import Storage
from plimsoll.engines.vllm.memory.allocator import loading_bytes, step_buffer_bytes
from plimsoll.engines.vllm.memory.laws import law_for
from plimsoll.memory.draft import draft_weights
from plimsoll.memory.kernels import absorbed_bytes, stored_bytes
from plimsoll.memory.residency import resident_weights
from plimsoll.memory.stages import stage_layers
from plimsoll.memory.steps import Step
from plimsoll.memory.weights import (
    WeightFormat,
    outside_weights,
    rank_shape,
    rotary_table_bytes,
    weight_format,
)

_Line = tuple[str, str]
"""Name and formula."""


def weight_steps(request: Request, gpu: GpuType, split: Split, settings: EngineSettings, stage: int) -> Iterator[Step]:
    """The lines of one rank of one stage; they add up to its weights by the law alone."""
    model, form = request.model, weight_format(request.model, request.precision)
    law = law_for(request.engine.version)
    yield from _layer_steps(model, form, split, stage)
    yield from _outside_steps(model, form, split, stage)
    tables = rotary_table_bytes(model, request.precision)
    if tables:
        yield Step("  rotary tables", "cosine and sine of every position, on every rank", tables)
    tokens = settings.max_num_batched_tokens
    buffers = step_buffer_bytes(model, tokens)
    if buffers:
        yield Step("  step buffers", f"{tokens:,} tokens x {buffers // tokens:,} B", buffers)
    extra = loading_bytes(model, request.precision, gpu, split, law, stage)
    if extra:
        yield Step(
            "  layout", "ends of blocks in PyTorch's allocator, older releases' tables, the kernel's own order", extra
        )
    residency = request.engine.residency
    if residency is not None:
        yield from _residency_steps(request, split, residency, stage)
    draft = draft_weights(request, split) if stage == split.pipeline_parallel - 1 else 0
    if draft:
        yield Step("  draft", "what speculative decoding loads beside the model", draft)


def _layer_steps(model: ModelFacts, form: WeightFormat, split: Split, stage: int) -> Iterator[Step]:
    counts = Counter(model.order[layer] for layer in stage_layers(model.layers, split.pipeline_parallel)[stage])
    sizes: Counter[_Line] = Counter()
    layers: Counter[_Line] = Counter()
    for kind, count in counts.items():
        lines = tuple(_kind_lines(model.kinds[kind], form, split))
        layers.update({line: count for line, _ in lines})
        for line, size in lines:
            sizes[line] += count * size
    for (name, formula), size in sizes.items():
        yield Step(f"  {name}", f"{layers[name, formula]} layers x {formula}", size)


def _kind_lines(kind: LayerKind, form: WeightFormat, split: Split) -> Iterator[tuple[_Line, int]]:
    for weight in kind.weights:
        storage = form.of(weight)
        if weight.inputs > 1:
            yield (weight.name, _formula(weight, storage, split)), _size(weight, storage, split)
    vectors = sum(_size(weight, form.of(weight), split) for weight in kind.weights if weight.inputs == 1)
    if vectors:
        yield ("norms, biases, states", f"{vectors:,} B"), vectors
    copies = sum(absorbed_bytes(weight, rank_shape(weight, split), dtype=form.plain) for weight in kind.weights)
    if copies:
        yield ("kernel copies", f"{copies:,} B"), copies


def _outside_steps(model: ModelFacts, form: WeightFormat, split: Split, stage: int) -> Iterator[Step]:
    tower = set(model.encoder.weights) if model.encoder is not None else set()
    tower_bytes = 0
    for weight in outside_weights(model, stage, split.pipeline_parallel):
        storage = form.of(weight)
        size = _size(weight, storage, split)
        if weight in tower:
            tower_bytes += size
        else:
            yield Step(f"  {weight.name}", _formula(weight, storage, split), size)
    if tower_bytes:
        yield Step("  tower and projector", "all their matrices", tower_bytes)


def _residency_steps(request: Request, split: Split, residency: Residency, stage: int) -> Iterator[Step]:
    where = resident_weights(request.model, request.precision, split, residency, stage)
    yield Step("  in host memory", "decoder layers that leave the GPU", -where.host_bytes)
    if where.buffer_bytes:
        yield Step("  buffers", "what streamed layers are copied into", where.buffer_bytes)


def _formula(weight: Weight, storage: Storage, split: Split) -> str:
    count, outputs, inputs = rank_shape(weight, split)
    times = f"{count:,} x " if count > 1 else ""
    scales = f" + scales per {storage.group_inputs or 'row'}" if storage.scale_bytes else ""
    return f"{times}{outputs:,} x {inputs:,} x {storage.bits} bit{scales} ({weight.sharding.value})"


def _size(weight: Weight, storage: Storage, split: Split) -> int:
    return stored_bytes(weight, storage, rank_shape(weight, split))
