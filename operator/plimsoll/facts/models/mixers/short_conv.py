"""Gated short convolutions (LFM2)."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import StateCache, StateKind
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, row, vector
from plimsoll.facts.models.layers.shape import Part, Shape
from plimsoll.facts.models.mixers.states import convolution
from plimsoll.facts.models.traits import Recurrent

_KERNEL = 3
"""Default of ``conv_L_cache`` in Transformers."""


def short_conv_part(fields: Fields, recurrent: Recurrent, shape: Shape) -> Part:
    """Return one layer: its only state is the convolution's window.

    Source: vLLM, ``layers/mamba/short_conv.py``, ``mamba_utils.py`` (``short_conv_state_shape``).

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    kernel = fields.optional_integer(("conv_L_cache",)) or _KERNEL
    bias = fields.flag("conv_bias", default=False)
    cache = StateCache(StateKind.SHORT_CONV, ((convolution(shape.hidden, 1, kernel, speculates=False),),))
    return Part(tuple(_weights(recurrent.module, shape.hidden, kernel, bias=bias)), (cache,))


def _weights(module: str, hidden: int, kernel: int, *, bias: bool) -> Iterator[Weight]:
    yield from column(f"{module}.in_proj", 3 * hidden, hidden, bias=bias)
    yield Weight(f"{module}.conv", hidden, kernel, Sharding.OUTPUTS, linear=False)
    if bias:
        yield vector(f"{module}.conv.bias", hidden, sharding=Sharding.OUTPUTS)
    yield from row(f"{module}.out_proj", hidden, hidden, bias=bias)
