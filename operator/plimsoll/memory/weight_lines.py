"""The lines of the weights of one rank: every matrix with its shape there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.model import ModelFacts, Weight
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.storage import Storage
from plimsoll.domain.terms import Line
from plimsoll.memory.kernels import absorbed_bytes
from plimsoll.memory.weights import (
    StageTensors,
    Stored,
    WeightFormat,
    rank_shape,
    rotary_table_bytes,
    stage_tensors,
    weight_format,
)

_Row = tuple[str, str]
"""Name and formula."""


def weight_lines(model: ModelFacts, precision: Precision, split: Split, stage: int) -> Iterator[Line]:
    """The lines of one rank of one stage; they add up to :func:`plimsoll.memory.weights.stage_weights`."""
    stored, form = stage_tensors(model, precision, split, stage), weight_format(model, precision)
    yield from _layer_lines(stored, form, split)
    yield from _outside_lines(model, stored, form, split)
    tables = rotary_table_bytes(model, precision)
    if tables:
        yield Line("rotary tables", "cosine and sine of every position, on every rank", tables)


def _layer_lines(stored: StageTensors, form: WeightFormat, split: Split) -> Iterator[Line]:
    sizes: Counter[_Row] = Counter()
    layers: Counter[_Row] = Counter()
    for count, layer in stored.layers:
        rows = tuple(_layer_rows(layer, form, split))
        layers.update({row: count for row, _ in rows})
        for row, size in rows:
            sizes[row] += count * size
    for (name, formula), size in sizes.items():
        yield Line(name, f"{layers[name, formula]} layers x {formula}", size)


def _layer_rows(layer: tuple[Stored, ...], form: WeightFormat, split: Split) -> Iterator[tuple[_Row, int]]:
    for each in layer:
        if each.weight.inputs > 1:
            yield (each.weight.name, _formula(each.weight, form.of(each.weight), split)), each.total
    vectors = sum(each.total for each in layer if each.weight.inputs == 1)
    if vectors:
        yield ("norms, biases, states", f"{vectors:,} B"), vectors
    copies = sum(absorbed_bytes(each.weight, rank_shape(each.weight, split), dtype=form.plain) for each in layer)
    if copies:
        yield ("kernel copies", f"{copies:,} B"), copies


def _outside_lines(model: ModelFacts, stored: StageTensors, form: WeightFormat, split: Split) -> Iterator[Line]:
    tower = set(model.encoder.weights) if model.encoder is not None else set()
    for each in stored.outside:
        if each.weight not in tower:
            yield Line(each.weight.name, _formula(each.weight, form.of(each.weight), split), each.total)
    tower_bytes = sum(each.total for each in stored.outside if each.weight in tower)
    if tower_bytes:
        yield Line("tower and projector", "all their matrices", tower_bytes)


def _formula(weight: Weight, storage: Storage, split: Split) -> str:
    count, outputs, inputs = rank_shape(weight, split)
    times = f"{count:,} x " if count > 1 else ""
    scales = f" + scales per {storage.group_inputs or 'row'}" if storage.scale_bytes else ""
    return f"{times}{outputs:,} x {inputs:,} x {storage.bits} bit{scales} ({weight.sharding.value})"
