"""How tensor parallelism divides a module of a layer, by the name that most families give it."""

from __future__ import annotations

from enum import Enum, auto

from plimsoll.domain.model import Sharding

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
