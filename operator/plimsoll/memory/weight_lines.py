"""The lines of the weights of one rank: every matrix with its shape there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import Line
from plimsoll.domain.models.model import ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Precision, Storage
from plimsoll.memory.kernels import ABSORBED, absorbed_bytes, kernel_shape
from plimsoll.memory.weights import (
    EXPERTS,
    StageTensors,
    Stored,
    WeightFormat,
    rank_shape,
    rotary_table_bytes,
    rotary_value_bytes,
    stage_tensors,
    weight_format,
)

_CUT = {
    Sharding.OUTPUTS: "cut by outputs",
    Sharding.INPUTS: "cut by inputs",
    Sharding.HEADS: "cut by heads",
    Sharding.VOCABULARY: "cut by vocabulary",
}
"""How ranks divide a matrix. A kind without a row is whole on every rank."""

_Row = tuple[str, str]
"""Name and formula."""


def weight_lines(model: ModelFacts, precision: Precision, split: Split, stage: int) -> Iterator[Line]:
    """The lines of one rank of one stage; they add up to :func:`plimsoll.memory.weights.stage_weights`."""
    stored, form = stage_tensors(model, precision, split, stage), weight_format(model, precision)
    yield from _layer_lines(stored, form, split)
    yield from _outside_lines(model, stored, form, split)
    tables = rotary_table_bytes(model, precision)
    if tables:
        size = rotary_value_bytes(precision)
        formula = f"cosine and sine of every position: {tables // size:,} values of {size} B"
        yield Line("rotary tables", formula, tables)


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
        yield ("kernel copies", f"{copies:,} B of {ABSORBED}, which decoding reads in another order"), copies


def _outside_lines(model: ModelFacts, stored: StageTensors, form: WeightFormat, split: Split) -> Iterator[Line]:
    tower = set(model.encoder.weights) if model.encoder is not None else set()
    for each in stored.outside:
        if each.weight not in tower:
            yield Line(each.weight.name, _formula(each.weight, form.of(each.weight), split), each.total)
    towers = [each for each in stored.outside if each.weight in tower]
    if towers:
        formula = f"{len(towers)} kinds of matrices of the vision or audio tower and its projector"
        yield Line("tower and projector", formula, sum(each.total for each in towers))


def _formula(weight: Weight, storage: Storage, split: Split) -> str:
    shape = rank_shape(weight, split)
    count, outputs, inputs = shape
    rows, columns = kernel_shape(weight, storage, shape)
    padded = f"padded from {outputs:,} x {inputs:,}" if (rows, columns) != (outputs, inputs) else ""
    times = f"{count:,} x " if count > 1 else ""
    scales = f" + scales per {storage.group_inputs or 'row'}" if storage.scale_bytes else ""
    notes = ", ".join(filter(None, (padded, _cut(weight.sharding, split))))
    return f"{times}{rows:,} x {columns:,} x {storage.bits} bit{scales}{f' ({notes})' if notes else ''}"


def _cut(sharding: Sharding, split: Split) -> str:
    """Return how a matrix is divided, if the ranks divide anything."""
    if sharding in EXPERTS:
        whole = "whole on its GPU" if split.expert_parallel else "each cut over the GPUs"
        return f"experts, {whole}" if split.expert_ranks > 1 else ""
    return _CUT.get(sharding, "whole on each GPU") if split.tensor_parallel > 1 else ""
