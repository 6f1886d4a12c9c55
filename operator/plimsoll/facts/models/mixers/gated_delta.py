"""Gated delta networks: linear attention whose state forgets and corrects (Qwen3-Next, Qwen 3.5, OLMo Hybrid)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, norm, row, vector
from plimsoll.facts.models.layers.shape import Part, Shape
from plimsoll.facts.models.mixers.states import convolution, state_bytes
from plimsoll.facts.models.traits import Recurrent

_KERNEL = 4
"""Default of ``linear_conv_kernel_dim`` in Transformers."""


@dataclass(frozen=True, slots=True)
class _Heads:
    keys: int
    values: int
    key_dim: int
    value_dim: int
    kernel: int


def gated_delta_part(fields: Fields, recurrent: Recurrent, shape: Shape) -> Part:
    """One layer: projections of queries, keys, values and gate, a convolution, two gates a head.

    Source: vLLM, ``layers/mamba/gdn/qwen_gdn_linear_attn.py``, ``olmo_gdn_linear_attn.py``, ``mamba_utils.py``
    (``gated_delta_net_state_shape``).

    Raises:
        InvalidInput: a head count or size is missing, ill-typed or absurd.
    """
    dims = _Heads(
        keys=fields.integer(("linear_num_key_heads",)),
        values=fields.integer(("linear_num_value_heads",)),
        key_dim=fields.integer(("linear_key_head_dim",)),
        value_dim=fields.integer(("linear_value_head_dim",)),
        kernel=fields.optional_integer(("linear_conv_kernel_dim",)) or _KERNEL,
    )
    window = (
        convolution(dims.keys, 2 * dims.key_dim, dims.kernel),
        convolution(dims.values, dims.value_dim, dims.kernel),
    )
    recurrence = StatePart(dims.values, dims.value_dim * dims.key_dim, state_bytes(fields, recurrent))
    cache = StateCache(StateKind.GATED_DELTA, (window, (recurrence,)))
    return Part(tuple(_weights(recurrent.module, shape.hidden, dims)), (cache,))


def _weights(module: str, hidden: int, dims: _Heads) -> Iterator[Weight]:
    keys, values = dims.keys * dims.key_dim, dims.values * dims.value_dim
    yield from column(f"{module}.in_proj_qkv", 2 * keys + values, hidden)
    yield from column(f"{module}.in_proj_z", values, hidden)
    yield from column(f"{module}.in_proj_b", dims.values, hidden)
    yield from column(f"{module}.in_proj_a", dims.values, hidden)
    yield Weight(f"{module}.conv1d", 2 * keys + values, dims.kernel, Sharding.OUTPUTS, linear=False)
    yield vector(f"{module}.A_log", dims.values, sharding=Sharding.OUTPUTS, storage=FP32)
    yield vector(f"{module}.dt_bias", dims.values, sharding=Sharding.OUTPUTS)
    yield from norm(f"{module}.norm", dims.value_dim)
    yield from row(f"{module}.out_proj", hidden, values)
