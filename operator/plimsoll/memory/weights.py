"""The weights of one rank: the parts that parallelism divides, the parts that it copies, and the bytes of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import LayerKind, ModelFacts, Sharding, Tables, Weight
from plimsoll.domain.models.precision import PLAIN, Precision, Storage
from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.quantization import TYPICAL
from plimsoll.memory.kernels import ABSORBED, absorbed_bytes, stored_bytes, stored_parts
from plimsoll.memory.stages import stage_layers

VOCABULARY_STEP = 64
"""vLLM pads the vocabulary to a multiple of it (``DEFAULT_VOCAB_PADDING_SIZE``, ``vocab_parallel_embedding.py``)."""


EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)
"""How the matrices of routed experts are divided."""


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Bytes of weights on one rank.

    ``parameters_bytes`` are the tensors that the engine creates and loads, with their padding. ``kernel_bytes`` are the
    additional copies of absorbed projections, and the rotary tables.
    """

    parameters_bytes: int
    kernel_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything that stays on the GPU after loading."""
        return self.parameters_bytes + self.kernel_bytes


class Stored(NamedTuple):
    """One weight of one layer on a rank: the bytes of its values, and of the scales, which are separate tensors."""

    weight: Weight
    values: int
    scales: int

    @property
    def total(self) -> int:
        """The bytes of both."""
        return self.values + self.scales


class StageTensors(NamedTuple):
    """The weights of one rank of one stage: for each kind of layer its number and weights, and the weights outside."""

    layers: tuple[tuple[int, tuple[Stored, ...]], ...]
    outside: tuple[Stored, ...]


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """The format in which a checkpoint runs: the type of unquantized weights, and the quantization at load."""

    checkpoint_dtype: Precision
    dtype: Precision
    online: Storage | None

    @property
    def plain(self) -> Storage:
        """The storage of weights that are not quantized."""
        return PLAIN[self.dtype]

    def of(self, weight: Weight) -> Storage:
        """Return the storage of one weight. A type that the model class fixes (32-bit states) stays.

        Quantization at load does not change embeddings and the output projection.
        """
        if weight.storage.precision is not self.checkpoint_dtype:
            return weight.storage
        if self.online is not None and weight.linear and weight.sharding is not Sharding.VOCABULARY:
            return self.online
        return self.plain


def weight_format(model: ModelFacts, precision: Precision) -> WeightFormat:
    """Return the format in which ``model`` runs at ``precision``."""
    checkpoint = model.checkpoint
    if precision is checkpoint.precision:
        dtype = checkpoint.dtype_beside_quantized if precision.is_quantized else precision
        return WeightFormat(checkpoint.dtype, dtype, None)
    if precision.is_quantized:
        return WeightFormat(checkpoint.dtype, checkpoint.dtype_beside_quantized, TYPICAL[precision])
    return WeightFormat(checkpoint.dtype, precision, None)


@lru_cache(maxsize=1024)
def stage_weights(model: ModelFacts, precision: Precision, split: Split, stage: int = 0) -> RankWeights:
    """Return the weights on the fullest rank of one pipeline stage.

    The first stage holds the embeddings, the last stage the output projection. Both hold tied embeddings. All stages
    hold an encoder.

    Raises:
        ValueError: there are more stages than layers.
    """
    stored, plain = stage_tensors(model, precision, split, stage), weight_format(model, precision).plain
    parameters = sum(each.total for each in stored.outside)
    kernels = rotary_table_bytes(model, precision)
    for count, layer in stored.layers:
        parameters += count * sum(each.total for each in layer)
        kernels += count * sum(
            absorbed_bytes(each.weight, rank_shape(each.weight, split), dtype=plain)
            for each in layer
            if each.weight.name == ABSORBED
        )
    return RankWeights(parameters, kernels)


def stage_tensors(model: ModelFacts, precision: Precision, split: Split, stage: int = 0) -> StageTensors:
    """Return the tensors on the fullest rank of one stage, weight by weight.

    Raises:
        ValueError: there are more stages than layers.
    """
    form = weight_format(model, precision)
    layers = stage_layers(model.layers, split.pipeline_parallel)[stage]
    outside = outside_weights(model, stage, split.pipeline_parallel)
    return StageTensors(
        layers=tuple(
            (count, tuple(_stored(model.kinds[kind].weights, form, split)))
            for kind, count in Counter(model.order[layer] for layer in layers).items()
        ),
        outside=tuple(_stored(outside, form, split)),
    )


def _stored(weights: Iterable[Weight], form: WeightFormat, split: Split) -> Iterator[Stored]:
    for weight in weights:
        yield Stored(weight, *stored_parts(weight, form.of(weight), rank_shape(weight, split)))


def rotary_table_bytes(model: ModelFacts, precision: Precision) -> int:
    """Return the bytes of the tables of rotary positions. They have the type in which the model runs."""
    return model.rotary_bytes * _table_width(precision)


def older_table_bytes(model: ModelFacts, precision: Precision) -> int:
    """Return the bytes of the tables that older releases keep in addition."""
    return model.older_rotary_bytes * _table_width(precision)


def rotary_value_bytes(precision: Precision) -> int:
    """Return the bytes of one value of these tables."""
    return 2 * _table_width(precision)


def _table_width(precision: Precision) -> int:
    """Return the width of one value, in units of the 16 bits that the facts count."""
    return 2 if precision is Precision.FP32 else 1


def weights_bytes(model: ModelFacts, precision: Precision, split: Split) -> int:
    """Return the bytes of weights on the fullest rank of the fullest stage."""
    return max(stage_weights(model, precision, split, stage).total_bytes for stage in range(split.pipeline_parallel))


def layer_bytes(kind: LayerKind, form: WeightFormat, split: Split) -> int:
    """Return the bytes of the parameters of one layer on one rank."""
    return rank_bytes(kind.weights, form, split)


def idle_expert_bytes(model: ModelFacts, precision: Precision, split: Split, stage: int) -> int:
    """Return the bytes of routed experts on one rank that one token does not use."""
    if model.experts is None:
        return 0
    form = weight_format(model, precision)
    layers = stage_layers(model.layers, split.pipeline_parallel)[stage]
    routed = sum(
        count * rank_bytes((each for each in model.kinds[kind].weights if each.sharding in EXPERTS), form, split)
        for kind, count in Counter(model.order[layer] for layer in layers).items()
    )
    return routed * (model.experts.experts - model.experts.experts_per_token) // model.experts.experts


def outside_weights(model: ModelFacts, stage: int, stages: int) -> Iterable[Weight]:
    """Yield the weights of a stage outside its layers. Every class creates its tower on every stage."""
    first, last = stage == 0, stage == stages - 1
    if first or (model.tied_embeddings and last) or model.on_every_stage is not Tables.NONE:
        yield from model.embedding
    if model.encoder is not None:
        yield from model.encoder.weights
    if last or model.on_every_stage is Tables.BOTH:
        yield from model.head


def projection(model: ModelFacts) -> tuple[Weight, ...]:
    """Return the weights of the output projection: with tied embeddings it is the table of tokens.

    That is the first of the tables; the others have positions, or are embeddings a layer.
    """
    tables = [weight for weight in model.embedding if weight.sharding is Sharding.VOCABULARY]
    return (*model.head, *(tables[:1] if model.tied_embeddings else ()))


def rank_bytes(weights: Iterable[Weight], form: WeightFormat, split: Split) -> int:
    """Return the bytes of these weights on the fullest rank of one stage."""
    return sum(stored_bytes(weight, form.of(weight), rank_shape(weight, split)) for weight in weights)


def rank_shape(weight: Weight, split: Split) -> tuple[int, int, int]:
    """Return matrices, rows and columns of ``weight`` on the fullest rank of one stage.

    Sharding rules: :class:`~plimsoll.domain.models.model.Sharding`.
    """
    degree, outputs, inputs = split.tensor_parallel, weight.outputs, weight.inputs
    if _is_undividable(weight, degree):
        return weight.count, outputs, inputs
    match weight.sharding:
        case Sharding.OUTPUTS:
            return weight.count, ceil_div(outputs, degree), inputs
        case Sharding.INPUTS:
            return weight.count, outputs, ceil_div(inputs, degree)
        case Sharding.HEADS:
            return weight.count, outputs // weight.units * max(1, weight.units // degree), inputs
        case Sharding.VOCABULARY:
            padded = ceil_div(outputs, VOCABULARY_STEP) * VOCABULARY_STEP
            return weight.count, ceil_div(padded, degree), inputs
        case Sharding.REPLICATED:
            return weight.count, outputs, inputs
        case Sharding.EXPERT_OUTPUTS | Sharding.EXPERT_INPUTS:
            return _expert_shape(weight, split)


def _is_undividable(weight: Weight, degree: int) -> bool:
    """Whether the ranks cannot share its heads equally. Then every rank has a whole copy."""
    divided = weight.sharding in (Sharding.OUTPUTS, Sharding.INPUTS)
    return divided and weight.units > 1 and weight.units % degree != 0


def _expert_shape(weight: Weight, split: Split) -> tuple[int, int, int]:
    """Return the shape on one rank. Experts are divided by width over their ranks, or distributed as whole experts.

    The first ranks get one expert more if the number does not divide.
    """
    ranks, outputs, inputs = split.expert_ranks, weight.outputs, weight.inputs
    if split.expert_parallel:
        return ceil_div(weight.count, ranks), outputs, inputs
    least = weight.smallest_share if ranks > 1 else 0
    if weight.sharding is Sharding.EXPERT_OUTPUTS:
        return weight.count, max(least, ceil_div(outputs, ranks)), inputs
    return weight.count, outputs, max(least, ceil_div(inputs, ranks))
