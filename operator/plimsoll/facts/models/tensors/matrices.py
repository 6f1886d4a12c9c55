"""Turn one stored tensor into the weights of a rank: rows, columns, their division, and their format."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from plimsoll.domain.model import CheckpointFacts, Sharding, Weight
from plimsoll.domain.precision import Precision
from plimsoll.domain.storage import FP32, PLAIN, Storage
from plimsoll.facts.models.tensors.names import MAIN, TRANSPOSED, expert_of, module_of
from plimsoll.facts.models.tensors.sharding import (
    FIXED_IN_FP32,
    Cut,
    cut_of,
    expert_sharding,
    holds_gate_and_up,
    is_linear,
)
from plimsoll.facts.models.tensors.tensor import FLOATS, Tensor

_TWO_A_BYTE = (Precision.MXFP4, Precision.NVFP4)
"""Formats of four bits, packed in bytes."""

_OF_INPUTS = (".g_idx", "weight_g_idx", ".absmax")

_SCALES = ("scale", "scales", "absmax")


@dataclass(frozen=True, slots=True)
class Context:
    """The facts of a layer from the configuration: widths, query heads, key heads, experts (0: none)."""

    checkpoint: CheckpointFacts
    hidden: int
    heads: int
    kv_heads: int
    experts: int


def layer_weights(tensor: Tensor, context: Context) -> tuple[Weight, ...]:
    """Return the weights of one tensor in a decoder layer. Its name begins below the layer."""
    module, suffix = module_of(tensor.name)
    module, routed = expert_of(module)
    storage, factor = _storage(tensor, module, suffix, context.checkpoint)
    name = module if suffix in MAIN else f"{module}.{suffix}"
    stacked = len(tensor.shape) > 2 and tensor.shape[0] == context.experts  # noqa: PLR2004
    if routed or stacked:
        return _expert(name, module, suffix, tensor, storage, factor, context)
    outputs, inputs = _sides(tensor.shape, suffix, transposed=_is_transposed(module, tensor.shape, context))
    inputs *= factor
    cut = cut_of(module, tensor.shape)
    linear = suffix in MAIN and len(tensor.shape) > 1 and is_linear(module, cut)
    return _cut(Weight(name, outputs, inputs, Sharding.REPLICATED, storage=storage, linear=linear), cut, context)


def whole_weight(tensor: Tensor, checkpoint: CheckpointFacts) -> Weight:
    """A tensor outside the layers, whole on every rank."""
    module, suffix = module_of(tensor.name)
    storage, factor = _storage(tensor, module, suffix, checkpoint)
    outputs, inputs = _sides(tensor.shape, suffix)
    name = module if suffix in MAIN else f"{module}.{suffix}"
    return Weight(name, outputs, inputs * factor, Sharding.REPLICATED, storage=storage, linear=False)


def tower_weight(tensor: Tensor, checkpoint: CheckpointFacts, heads: int) -> Weight:
    """A tensor of a tower, under a name without numbers.

    Matrices are divided where their names say so and the degree divides ``heads``, as in most of vLLM's towers; a tower
    without a head count (0) is whole on every rank.
    """
    weight = whole_weight(tensor, checkpoint)
    module, _ = module_of(tensor.name)
    weight = replace(weight, name=".".join(part for part in weight.name.split(".") if not part.isdigit()))
    cut = cut_of(module, tensor.shape) if heads > 1 else Cut.WHOLE
    if cut is Cut.WHOLE or (cut is Cut.INPUTS and weight.inputs == 1):
        return weight
    return replace(weight, sharding=Sharding.INPUTS if cut is Cut.INPUTS else Sharding.OUTPUTS, units=heads)


def _expert(
    name: str, module: str, suffix: str, tensor: Tensor, storage: Storage, factor: int, context: Context
) -> tuple[Weight, ...]:
    """Return one expert, or all experts of a layer in one tensor: one after another, or in a separate dimension."""
    count, shape = _unstacked(tensor, context.experts)
    sharding = expert_sharding(module, shape)
    outputs, inputs = _sides(shape, suffix, transposed=_is_turned(shape, sharding, context.hidden))
    linear = suffix in MAIN and len(shape) > 1
    if inputs == 1 and (linear or name.endswith(_OF_INPUTS)):
        sharding = Sharding.EXPERT_OUTPUTS
    weight = Weight(name, outputs, inputs * factor, sharding, count=count, storage=storage, linear=linear)
    if not holds_gate_and_up(module) or outputs % 2:
        return (weight,)
    root, rest = module.rpartition(".")[0], "" if suffix in MAIN else f".{suffix}"
    return tuple(
        replace(weight, name=f"{root}.{half}{rest}", outputs=outputs // 2) for half in ("gate_proj", "up_proj")
    )


def _unstacked(tensor: Tensor, experts: int) -> tuple[int, tuple[int, ...]]:
    """Return how many experts a tensor holds, and the shape of one. DBRX stores all of them in one matrix, by rows."""
    shape = tensor.shape
    if not experts or len(shape) < 2 or shape[0] % experts or _is_numbered(tensor.name):  # noqa: PLR2004
        return 1, shape
    rows = shape[0] // experts
    return experts, shape[1:] if rows == 1 else (rows, *shape[1:])


def _is_numbered(name: str) -> bool:
    return any(part.isdigit() for part in name.split("."))


def _sides(shape: tuple[int, ...], suffix: str, *, transposed: bool = False) -> tuple[int, int]:
    """Return rows and columns; all dimensions after the first count as columns."""
    if len(shape) < 2:  # noqa: PLR2004
        return math.prod(shape), 1
    first, rest = shape[0], math.prod(shape[1:])
    return (rest, first) if transposed is not (suffix in TRANSPOSED) else (first, rest)


def _is_transposed(module: str, shape: tuple[int, ...], context: Context) -> bool:
    """GPT-2's family stores inputs first."""
    leaf = module.rpartition(".")[2]
    widening = leaf in ("c_attn", "c_fc") and len(shape) == 2  # noqa: PLR2004
    return widening and shape[0] == context.hidden != shape[1]


def _is_turned(shape: tuple[int, ...], sharding: Sharding, hidden: int) -> bool:
    """Whether stacked experts are stored inputs first, as Transformers does for some classes."""
    if len(shape) != 2:  # noqa: PLR2004
        return False
    outputs, inputs = shape
    if sharding is Sharding.EXPERT_OUTPUTS:
        return outputs == hidden != inputs
    return inputs == hidden != outputs


def _cut(weight: Weight, cut: Cut, context: Context) -> tuple[Weight, ...]:
    """Return the weight with its division; queries, keys and values of one matrix become separate weights."""
    kv = context.kv_heads
    match cut:
        case Cut.WHOLE:
            return (weight,)
        case Cut.INPUTS if weight.inputs > 1:
            return (replace(weight, sharding=Sharding.INPUTS),)
        case Cut.INPUTS:
            # The tensor has one column. Weights that are packed row after row, and values of the inputs, are still
            # divided; biases and scales of rows are whole on every rank.
            divided = weight.name.endswith(_OF_INPUTS) or weight.linear
            return (replace(weight, sharding=Sharding.OUTPUTS) if divided else weight,)
        case Cut.HEADS if kv and weight.outputs % kv == 0:
            return (replace(weight, sharding=Sharding.HEADS, units=kv),)
        case Cut.QKV if kv and weight.outputs % (context.heads + 2 * kv) == 0:
            head = weight.outputs // (context.heads + 2 * kv)
            queries = replace(weight, name=f"{weight.name}.q", outputs=context.heads * head, sharding=Sharding.OUTPUTS)
            keys = replace(weight, name=f"{weight.name}.kv", outputs=2 * kv * head, sharding=Sharding.HEADS, units=kv)
            return queries, keys
        case _:
            return (replace(weight, sharding=Sharding.OUTPUTS) if weight.outputs > 1 else weight,)


def _storage(tensor: Tensor, module: str, suffix: str, checkpoint: CheckpointFacts) -> tuple[Storage, int]:
    """The format of a tensor, and how many weights each of its columns holds."""
    is_scale = suffix.rpartition(".")[2].removesuffix("_inv").endswith(_SCALES)
    if suffix == "weight.absmax":
        return FP32, 1  # loading undoes the double quantization of the scales
    if tensor.dtype in FLOATS:
        fixed = tensor.dtype == "F32" and (is_scale or module.endswith(FIXED_IN_FP32))
        return (FP32 if fixed else PLAIN[checkpoint.dtype]), 1
    if suffix in MAIN and tensor.dtype == "U8" and checkpoint.precision in _TWO_A_BYTE:
        return Storage(checkpoint.precision, 4), 2
    if suffix in MAIN and checkpoint.precision.is_quantized and checkpoint.precision not in _TWO_A_BYTE:
        return Storage(checkpoint.precision, tensor.bits), 1
    return Storage(Precision.FP8 if tensor.dtype.startswith("F8") else Precision.INT8, tensor.bits), 1
