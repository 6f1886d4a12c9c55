"""Kimi delta attention: a gated delta network with a decay for every channel (Kimi-Linear, Kimi-K3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, norm, replicated, row, vector
from plimsoll.facts.models.layers.shape import Part, Shape
from plimsoll.facts.models.mixers.states import convolution, state_bytes
from plimsoll.facts.models.traits import Recurrent

_KERNEL = 4


@dataclass(frozen=True, slots=True)
class _Heads:
    count: int
    dim: int
    kernel: int
    full_rank_gate: bool
    full_rank_decay: bool = False

    @property
    def width(self) -> int:
        return self.count * self.dim


def kimi_delta_part(fields: Fields, recurrent: Recurrent, shape: Shape) -> Part:
    """One layer. Its convolution is kept in 32 bits, its low-rank projections lie whole on every rank.

    Source: vLLM, ``layers/mamba/gdn/kimi_gdn_linear_attn.py``, ``models/kimi_k3/nvidia/kda.py``, ``mamba_utils.py``
    (``kda_state_shape``, ``kda_state_dtype``).

    Raises:
        InvalidInput: the section or a size in it is missing, ill-typed or absurd.
    """
    dims = _heads(fields, shape)
    window = convolution(dims.count, 3 * dims.dim, dims.kernel)
    recurrence = StatePart(dims.count, dims.dim * dims.dim, state_bytes(fields, recurrent))
    # Only Kimi K3's layers (``models/kimi_k3``), which have a full-rank gate, and GLM's (``models/glm5next``) save
    # states from inside a prefill.
    saves = fields.has("linear_num_heads") or (dims.full_rank_gate and fields.has("linear_attn_config"))
    cache = StateCache(StateKind.KIMI_DELTA, ((window,), (recurrence,)), checkpoints=saves)
    return Part(tuple(_weights(recurrent.module, shape.hidden, dims)), (cache,))


def _heads(fields: Fields, shape: Shape) -> _Heads:
    """Read the heads from Kimi's section, GLM's fields or Ling's fields. All projections of Ling have full rank."""
    section = fields.section("linear_attn_config")
    if section is None and fields.has("linear_num_heads"):
        return _Heads(
            count=fields.integer(("linear_num_heads",)),
            dim=fields.integer(("linear_head_dim",)),
            kernel=fields.optional_integer(("linear_conv_kernel_dim",)) or _KERNEL,
            full_rank_gate=False,
        )
    if section is None:
        return _Heads(
            count=shape.heads,
            dim=fields.integer(("head_dim",)),
            kernel=fields.optional_integer(("short_conv_kernel_size",)) or _KERNEL,
            full_rank_gate=True,
            full_rank_decay=True,
        )
    return _Heads(
        count=section.integer(("num_heads",)),
        dim=section.integer(("head_dim",)),
        kernel=section.optional_integer(("short_conv_kernel_size",)) or _KERNEL,
        full_rank_gate=section.flag("use_full_rank_gate", default=False),
    )


def _weights(module: str, hidden: int, dims: _Heads) -> Iterator[Weight]:
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
