"""Mamba: selective state spaces with one state for every channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import norm, vector
from plimsoll.facts.models.layers.shape import Part, Shape
from plimsoll.facts.models.mixers.states import convolution, state_bytes
from plimsoll.facts.models.traits import Recurrent

_EXPAND, _STATE, _KERNEL = 2, 16, 4
"""Defaults of ``MambaConfig`` and ``JambaConfig`` in Transformers."""

_STEP_RANK_DIVISOR = 16
"""If the file has no rank for the step size, the rank is the hidden size divided by this number, rounded up."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    hidden: int
    channels: int
    state: int
    kernel: int
    step_rank: int


def mamba1_part(fields: Fields, recurrent: Recurrent, shape: Shape) -> Part:
    """One Mamba layer: its projections stay unquantized in the engine.

    Source: vLLM, ``layers/mamba/mamba_mixer.py``, ``mamba_utils.py`` (``mamba1_state_shape``).

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    sizes = _sizes(fields, shape.hidden)
    recurrence = StatePart(sizes.channels, sizes.state, state_bytes(fields, recurrent))
    window = convolution(sizes.channels, 1, sizes.kernel, speculates=False)
    cache = StateCache(StateKind.MAMBA1, ((window,), (recurrence,)))
    return Part(tuple(_weights(fields, recurrent, sizes)), (cache,))


def _sizes(fields: Fields, hidden: int) -> _Sizes:
    expand = fields.optional_integer(("mamba_expand", "expand")) or _EXPAND
    rank_key = fields.first(("mamba_dt_rank", "time_step_rank"))
    automatic = rank_key is None or fields.values[rank_key] == "auto"
    channels = expand * hidden
    if not fields.has("mamba_expand"):
        channels = fields.optional_integer(("intermediate_size",)) or channels
    return _Sizes(
        hidden=hidden,
        channels=channels,
        state=fields.optional_integer(("mamba_d_state", "state_size")) or _STATE,
        kernel=fields.optional_integer(("mamba_d_conv", "conv_kernel")) or _KERNEL,
        step_rank=ceil_div(hidden, _STEP_RANK_DIVISOR) if automatic else fields.integer((rank_key or "",)),
    )


def _weights(fields: Fields, recurrent: Recurrent, sizes: _Sizes) -> Iterator[Weight]:
    module, channels = recurrent.module, sizes.channels
    biased = fields.flag(fields.first(("mamba_proj_bias", "use_bias")) or "use_bias", default=False)
    convolves_biased = fields.flag(fields.first(("mamba_conv_bias",)) or "use_conv_bias", default=True)
    projected = sizes.step_rank + 2 * sizes.state
    yield Weight(f"{module}.in_proj", 2 * channels, sizes.hidden, Sharding.OUTPUTS, linear=False)
    yield Weight(f"{module}.conv1d", channels, sizes.kernel, Sharding.OUTPUTS, linear=False)
    yield Weight(f"{module}.x_proj", projected, channels, Sharding.INPUTS, linear=False)
    yield Weight(f"{module}.dt_proj", channels, sizes.step_rank, Sharding.OUTPUTS, linear=False)
    yield Weight(f"{module}.out_proj", sizes.hidden, channels, Sharding.INPUTS, linear=False)
    yield Weight(f"{module}.A_log", channels, sizes.state, Sharding.OUTPUTS, storage=FP32, linear=False)
    yield vector(f"{module}.D", channels, sharding=Sharding.OUTPUTS)
    yield vector(f"{module}.dt_proj.bias", channels, sharding=Sharding.OUTPUTS)
    if convolves_biased:
        yield vector(f"{module}.conv1d.bias", channels, sharding=Sharding.OUTPUTS)
    if biased:
        yield vector(f"{module}.in_proj.bias", 2 * channels, sharding=Sharding.OUTPUTS)
        yield vector(f"{module}.out_proj.bias", sizes.hidden)
    if recurrent.step_norms:
        yield from norm(f"{module}.dt_layernorm", sizes.step_rank)
        yield from norm(f"{module}.b_layernorm", sizes.state)
        yield from norm(f"{module}.c_layernorm", sizes.state)
