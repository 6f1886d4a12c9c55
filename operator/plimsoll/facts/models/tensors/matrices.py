"""Turn one stored tensor into the weights of a rank: rows, columns, their division, and their format.

How tensor parallelism divides a module of a layer, by the name that most families give it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto

from plimsoll.domain.models.model import CheckpointFacts, Sharding, Weight
from plimsoll.domain.models.precision import FP32, PLAIN, Precision, Storage
from plimsoll.facts.models.tensors.tensor import FLOATS, MAIN, TRANSPOSED, Tensor, expert_of, module_of

_OUTPUTS = frozenset(
    {
        "q_proj", "wq", "query", "q", "q_lin", "q_b_proj", "kv_b_proj", "g_proj", "gate_proj", "up_proj",
        "gate_up_proj", "gate_and_up_proj", "gate_up", "up", "w1", "w3", "w13", "v1", "fc1", "fc_in", "fc_1", "c_fc",
        "c_fc_0", "c_fc_1", "dense_h_to_4h", "in_proj", "in_proj_qkvz", "in_proj_ba", "in_proj_qkv", "in_proj_z",
        "in_proj_a", "in_proj_b", "conv1d", "q_conv1d", "k_conv1d", "v_conv1d", "dt_proj", "A_log", "D", "dt_bias",
        "sinks", "input_linear", "wi", "wi_0", "wi_1", "ff_proj", "b_proj", "f_b_proj", "g_b_proj", "linear_fc1",
        "linear_1", "wq_b", "wo_a", "linear_gate",
    }
)  # fmt: skip
"""Column parallel in vLLM's modules."""

_INPUTS = frozenset(
    {
        "o_proj", "wo", "out_proj", "output_proj", "down_proj", "down", "w2", "fc2", "fc_out", "fc_2", "c_proj",
        "dense", "dense_4h_to_h", "output_linear", "attn_out", "ff_out", "x_proj", "linear_fc2", "linear_2", "out_lin",
        "wo_b", "proj",
    }
)  # fmt: skip
"""Row parallel in vLLM's modules."""

_HEADS = frozenset({"k_proj", "v_proj", "wk", "wv", "key", "value", "k", "v", "k_lin", "v_lin"})
_QKV = frozenset(
    {"qkv_proj", "query_key_value", "c_attn", "qkv", "Wqkv", "W_pack", "wqkv", "att_proj", "attn_qkv", "qkv_linear"}
)
_GATE_AND_UP = frozenset({"gate_up_proj", "w13", "gate_up", "gate_and_up_proj", "input_linear"})

_WHOLE_INSIDE = ("indexer", "router")
"""Modules all of whose projections lie on every rank (``deepseek_v2.py``: ``Indexer``)."""

_WHOLE_LINEARS = frozenset({"q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj_with_mqa"})
"""Projections that are whole on every rank, but that online quantization still quantizes."""

_STATES = frozenset({"A_log", "D", "dt_bias", "sinks", "conv1d", "q_conv1d", "k_conv1d", "v_conv1d"})

FIXED_IN_FP32 = ("A_log", "D", "dt_bias", "correction_bias")
"""Parameters whose 32-bit type the modelling files fix, whatever type the model runs in."""


class Cut(Enum):
    """How tensor parallelism divides a module's rows and columns."""

    OUTPUTS = auto()
    INPUTS = auto()
    HEADS = auto()
    """Keys or values."""
    QKV = auto()
    """Queries, keys and values in one matrix."""
    WHOLE = auto()


def cut_of(module: str, shape: tuple[int, ...]) -> Cut:
    """Return the division by the name. An unknown name is whole on every rank, which is the larger estimate."""
    parts = module.split(".")
    leaf = parts[-1]
    if any(part.startswith(_WHOLE_INSIDE) for part in parts):
        return Cut.WHOLE
    if leaf == "gate":
        # A router has a row for each expert, a gate projection one for each column of the MLP.
        return Cut.OUTPUTS if len(shape) > 1 and shape[-2] > shape[-1] else Cut.WHOLE
    tables = {Cut.OUTPUTS: _OUTPUTS, Cut.INPUTS: _INPUTS, Cut.HEADS: _HEADS, Cut.QKV: _QKV}
    return next((cut for cut, names in tables.items() if leaf in names), Cut.WHOLE)


def expert_sharding(module: str, shape: tuple[int, ...]) -> Sharding:
    """Routed experts: cut like a dense MLP, or dealt out whole."""
    return Sharding.EXPERT_INPUTS if cut_of(module, shape) is Cut.INPUTS else Sharding.EXPERT_OUTPUTS


def holds_gate_and_up(module: str) -> bool:
    """Whether two matrices of one shape lie in it, one behind the other."""
    return module.rpartition(".")[2] in _GATE_AND_UP


def is_linear(module: str, cut: Cut) -> bool:
    """Whether the module is a linear layer that quantization at load reaches."""
    leaf = module.rpartition(".")[2]
    return leaf in _WHOLE_LINEARS or (cut is not Cut.WHOLE and leaf not in _STATES)


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

    Matrices are divided if their names say so and the degree divides ``heads``, as in most of vLLM's towers; a tower
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
