"""Linear attention, whose state is a matrix for each head.

Lightning attention has a fixed decay for every head (MiniMax-Text-01, Ring 2.5). Gated delta networks forget and
correct (Qwen3-Next, Qwen 3.5, OLMo Hybrid); Kimi delta attention has a decay for every channel (Kimi-Linear, Kimi-K3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, column, norm, replicated, row, vector
from plimsoll.facts.models.mixers.states import convolution, state_bytes
from plimsoll.facts.models.traits import Recurrent

_KERNEL = 4
"""Default of ``linear_conv_kernel_dim`` in Transformers, and of Kimi's and Ling's ``short_conv_kernel_size``."""


def lightning_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """One layer: queries, keys and values of all heads, an output gate, a norm over the heads' outputs.

    Source: vLLM, ``layers/mamba/linear/minimax_linear_attn.py``, ``bailing_linear_attn.py``, ``mamba_utils.py``
    (``linear_attention_state_shape``).

    Raises:
        InvalidInput: the head size is ill-typed or absurd.
    """
    head_dim = fields.optional_integer(("head_dim",)) or shape.hidden // shape.heads
    recurrence = StatePart(shape.heads, head_dim * head_dim, state_bytes(fields, recurrent))
    cache = StateCache(StateKind.LINEAR, ((recurrence,),))
    module, width = recurrent.module, shape.heads * head_dim
    weights = [
        *column(f"{module}.qkv_proj", 3 * width, shape.hidden),
        *column(f"{module}.g_proj", width, shape.hidden),
        *row(f"{module}.o_proj", shape.hidden, width),
        vector(f"{module}.g_norm", width, sharding=Sharding.OUTPUTS),
    ]
    if fields.flag("use_qk_norm", default=False):
        weights += (*norm(f"{module}.q_norm", head_dim), *norm(f"{module}.k_norm", head_dim))
    return LayerPart(tuple(weights), (cache,))


def gated_delta_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """One layer: projections of queries, keys, values and gate, a convolution, two gates a head.

    Source: vLLM, ``layers/mamba/gdn/qwen_gdn_linear_attn.py``, ``olmo_gdn_linear_attn.py``, ``mamba_utils.py``
    (``gated_delta_net_state_shape``).

    Raises:
        InvalidInput: a head count or size is missing, ill-typed or absurd.
    """
    key_heads = fields.integer(("linear_num_key_heads",))
    value_heads = fields.integer(("linear_num_value_heads",))
    key_dim = fields.integer(("linear_key_head_dim",))
    value_dim = fields.integer(("linear_value_head_dim",))
    kernel = fields.optional_integer(("linear_conv_kernel_dim",)) or _KERNEL
    window = (convolution(key_heads, 2 * key_dim, kernel), convolution(value_heads, value_dim, kernel))
    recurrence = StatePart(value_heads, value_dim * key_dim, state_bytes(fields, recurrent))
    keys, values = key_heads * key_dim, value_heads * value_dim
    module, hidden = recurrent.module, shape.hidden
    weights = (
        *column(f"{module}.in_proj_qkv", 2 * keys + values, hidden),
        *column(f"{module}.in_proj_z", values, hidden),
        *column(f"{module}.in_proj_b", value_heads, hidden),
        *column(f"{module}.in_proj_a", value_heads, hidden),
        Weight(f"{module}.conv1d", 2 * keys + values, kernel, Sharding.OUTPUTS, linear=False),
        vector(f"{module}.A_log", value_heads, sharding=Sharding.OUTPUTS, storage=FP32),
        vector(f"{module}.dt_bias", value_heads, sharding=Sharding.OUTPUTS),
        *norm(f"{module}.norm", value_dim),
        *row(f"{module}.out_proj", hidden, values),
    )
    return LayerPart(weights, (StateCache(StateKind.GATED_DELTA, (window, (recurrence,))),))


@dataclass(frozen=True, slots=True)
class _KimiHeads:
    count: int
    dim: int
    kernel: int
    full_rank_gate: bool
    full_rank_decay: bool = False

    @property
    def width(self) -> int:
        return self.count * self.dim


def kimi_delta_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """One layer. Its convolution is kept in 32 bits, its low-rank projections lie whole on every rank.

    Source: vLLM, ``layers/mamba/gdn/kimi_gdn_linear_attn.py``, ``models/kimi_k3/nvidia/kda.py``, ``mamba_utils.py``
    (``kda_state_shape``, ``kda_state_dtype``).

    Raises:
        InvalidInput: the section or a size in it is missing, ill-typed or absurd.
    """
    dims = _kimi_heads(fields, shape)
    window = convolution(dims.count, 3 * dims.dim, dims.kernel)
    recurrence = StatePart(dims.count, dims.dim * dims.dim, state_bytes(fields, recurrent))
    # Only Kimi K3's layers (``models/kimi_k3``), which have a full-rank gate, and GLM's (``models/glm5next``) save
    # states from inside a prefill.
    saves = fields.has("linear_num_heads") or (dims.full_rank_gate and fields.has("linear_attn_config"))
    cache = StateCache(StateKind.KIMI_DELTA, ((window,), (recurrence,)), checkpoints=saves)
    return LayerPart(tuple(_kimi_weights(recurrent.module, shape.hidden, dims)), (cache,))


def _kimi_heads(fields: Fields, shape: DecoderShape) -> _KimiHeads:
    """Read the heads from Kimi's section, GLM's fields or Ling's fields. All projections of Ling have full rank."""
    section = fields.section("linear_attn_config")
    if section is None and fields.has("linear_num_heads"):
        return _KimiHeads(
            count=fields.integer(("linear_num_heads",)),
            dim=fields.integer(("linear_head_dim",)),
            kernel=fields.optional_integer(("linear_conv_kernel_dim",)) or _KERNEL,
            full_rank_gate=False,
        )
    if section is None:
        return _KimiHeads(
            count=shape.heads,
            dim=fields.integer(("head_dim",)),
            kernel=fields.optional_integer(("short_conv_kernel_size",)) or _KERNEL,
            full_rank_gate=True,
            full_rank_decay=True,
        )
    return _KimiHeads(
        count=section.integer(("num_heads",)),
        dim=section.integer(("head_dim",)),
        kernel=section.optional_integer(("short_conv_kernel_size",)) or _KERNEL,
        full_rank_gate=section.flag("use_full_rank_gate", default=False),
    )


def _kimi_weights(module: str, hidden: int, dims: _KimiHeads) -> Iterator[Weight]:
    for name in ("q", "k", "v"):
        yield from column(f"{module}.{name}_proj", dims.width, hidden)
        yield Weight(f"{module}.{name}_conv1d", dims.width, dims.kernel, Sharding.OUTPUTS, storage=FP32, linear=False)
    if dims.full_rank_gate:
        yield from column(f"{module}.g_proj", dims.width, hidden)
    else:
        yield from replicated(f"{module}.g_a_proj", dims.dim, hidden)
        yield from column(f"{module}.g_b_proj", dims.width, dims.dim)
    if dims.full_rank_decay:
        yield from column(f"{module}.f_proj", dims.width, hidden)
    else:
        yield from replicated(f"{module}.f_a_proj", dims.dim, hidden)
        yield from column(f"{module}.f_b_proj", dims.width, dims.dim)
    yield from column(f"{module}.b_proj", dims.count, hidden)
    yield vector(f"{module}.A_log", dims.count, sharding=Sharding.OUTPUTS, storage=FP32)
    yield vector(f"{module}.dt_bias", dims.width, sharding=Sharding.OUTPUTS, storage=FP32)
    yield from norm(f"{module}.o_norm", dims.dim)
    yield from row(f"{module}.o_proj", hidden, dims.width)
