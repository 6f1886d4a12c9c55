"""Selective state spaces: Mamba with one state for every channel, Mamba 2 with heads and groups of them.

The heads of a group share their projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, heads, norm, row, vector
from plimsoll.facts.models.mixers.states import convolution, state_bytes
from plimsoll.facts.models.traits import Recurrent

_EXPAND, _KERNEL = 2, 4
_MAMBA1_STATE = 16
"""Defaults of ``MambaConfig``, ``JambaConfig`` and the Mamba-2 configurations in Transformers."""

_STEP_RANK_DIVISOR = 16
"""If the file has no rank for the step size, the rank is the hidden size divided by this number, rounded up."""

_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
_HEAD_DIM = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
_GROUPS = ("mamba_n_groups", "mamba_ngroups", "n_groups")
_STATE = ("mamba_d_state", "ssm_state_size", "state_size")
_CONV = ("mamba_d_conv", "conv_kernel")


@dataclass(frozen=True, slots=True)
class _Mamba1Sizes:
    hidden: int
    channels: int
    state: int
    kernel: int
    step_rank: int


def mamba1_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """One Mamba layer: its projections stay unquantized in the engine.

    Source: vLLM, ``layers/mamba/mamba_mixer.py``, ``mamba_utils.py`` (``mamba1_state_shape``).

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    sizes = _mamba1_sizes(fields, shape.hidden)
    recurrence = StatePart(sizes.channels, sizes.state, state_bytes(fields, recurrent))
    window = convolution(sizes.channels, 1, sizes.kernel, speculates=False)
    cache = StateCache(StateKind.MAMBA1, ((window,), (recurrence,)))
    return LayerPart(tuple(_mamba1_weights(fields, recurrent, sizes)), (cache,))


def _mamba1_sizes(fields: Fields, hidden: int) -> _Mamba1Sizes:
    expand = fields.optional_integer(("mamba_expand", "expand")) or _EXPAND
    rank_key = fields.first(("mamba_dt_rank", "time_step_rank"))
    automatic = rank_key is None or fields.values[rank_key] == "auto"
    channels = expand * hidden
    if not fields.has("mamba_expand"):
        channels = fields.optional_integer(("intermediate_size",)) or channels
    return _Mamba1Sizes(
        hidden=hidden,
        channels=channels,
        state=fields.optional_integer(("mamba_d_state", "state_size")) or _MAMBA1_STATE,
        kernel=fields.optional_integer(_CONV) or _KERNEL,
        step_rank=ceil_div(hidden, _STEP_RANK_DIVISOR) if automatic else fields.integer((rank_key or "",)),
    )


def _mamba1_weights(fields: Fields, recurrent: Recurrent, sizes: _Mamba1Sizes) -> Iterator[Weight]:
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


@dataclass(frozen=True, slots=True)
class _Mamba2Sizes:
    hidden: int
    channels: int
    heads: int
    groups: int
    state: int
    kernel: int

    @property
    def head_dim(self) -> int:
        return self.channels // self.heads


def mamba2_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """One Mamba-2 layer. If there are fewer groups than ranks, every rank has a group of its own.

    Source: vLLM, ``layers/mamba/mamba_mixer2.py``, ``mamba_utils.py`` (``mamba2_state_shape``).

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    sizes = _mamba2_sizes(fields, shape.hidden)
    window = (
        convolution(sizes.heads, sizes.head_dim, sizes.kernel),
        convolution(sizes.groups, 2 * sizes.state, sizes.kernel),
    )
    recurrence = StatePart(sizes.heads, sizes.head_dim * sizes.state, state_bytes(fields, recurrent))
    cache = StateCache(StateKind.MAMBA2, (window, (recurrence,)), checkpoints=True)
    return LayerPart(tuple(_mamba2_weights(fields, recurrent, sizes)), (cache,))


def _mamba2_sizes(fields: Fields, hidden: int) -> _Mamba2Sizes:
    count = fields.integer(_HEADS)
    expand = fields.optional_integer(("mamba_expand", "expand")) or _EXPAND
    channels = fields.optional_integer(("mamba_d_ssm",))
    head_dim = fields.first(_HEAD_DIM)
    if channels is None and head_dim is not None and fields.values[head_dim] != "auto":
        channels = count * fields.integer((head_dim,))
    channels = expand * hidden if channels is None else channels
    if channels % count:
        raise fields.refuse(fields.first(_HEADS) or _HEADS[0], f"Give a divisor of the {channels} channels.")
    return _Mamba2Sizes(
        hidden=hidden,
        channels=channels,
        heads=count,
        groups=fields.optional_integer(_GROUPS) or 1,
        state=fields.integer(_STATE),
        kernel=fields.optional_integer(_CONV) or _KERNEL,
    )


def _mamba2_weights(fields: Fields, recurrent: Recurrent, sizes: _Mamba2Sizes) -> Iterator[Weight]:
    """The input projection holds gate, input and step sizes by heads, then the two projections of the groups."""
    module, channels = recurrent.module, sizes.channels
    bias_key = fields.first(("mamba_proj_bias",)) if not fields.has("use_bias") else "use_bias"
    biased = fields.flag(bias_key or "add_bias_linear", default=False)
    convolves_biased = fields.flag(fields.first(("mamba_conv_bias",)) or "use_conv_bias", default=True)
    by_heads = 2 * channels + sizes.heads
    yield Weight(f"{module}.in_proj", by_heads, sizes.hidden, Sharding.OUTPUTS)
    yield from heads(f"{module}.in_proj", sizes.groups, 2 * sizes.state, sizes.hidden, bias=biased)
    if biased:
        yield vector(f"{module}.in_proj.bias", by_heads, sharding=Sharding.OUTPUTS)
    yield from _convolution(f"{module}.conv1d", sizes, bias=convolves_biased)
    yield vector(f"{module}.A_log", sizes.heads, sharding=Sharding.OUTPUTS, storage=FP32)
    yield vector(f"{module}.D", sizes.heads, sharding=Sharding.OUTPUTS)
    yield vector(f"{module}.dt_bias", sizes.heads, sharding=Sharding.OUTPUTS)
    if recurrent.group_norm.read(fields):
        yield vector(f"{module}.norm", channels, sharding=Sharding.OUTPUTS)
    yield from row(f"{module}.out_proj", sizes.hidden, channels, bias=biased)


def _convolution(name: str, sizes: _Mamba2Sizes, *, bias: bool) -> Iterator[Weight]:
    grouped = 2 * sizes.groups * sizes.state
    yield Weight(name, sizes.channels, sizes.kernel, Sharding.OUTPUTS, linear=False)
    yield Weight(name, grouped, sizes.kernel, Sharding.HEADS, units=sizes.groups, linear=False)
    if bias:
        yield vector(f"{name}.bias", sizes.channels, sharding=Sharding.OUTPUTS)
        yield Weight(f"{name}.bias", grouped, 1, Sharding.HEADS, units=sizes.groups, linear=False)
