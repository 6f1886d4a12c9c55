"""Recurrent states: the cache of a convolution and of a recurrence, and the type they are kept in.

Gated short convolutions (LFM2) keep the window of a convolution alone.
"""

from __future__ import annotations

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, column, row, vector
from plimsoll.facts.models.traits import Recurrent

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_KERNEL = 3
"""Default of ``conv_L_cache`` in Transformers."""


def state_bytes(fields: Fields, recurrent: Recurrent) -> int | None:
    """Bytes of one element of the recurrence; None if it has the type of the model.

    Source: vLLM, ``mamba_utils.py`` (``MambaStateDtypeCalculator``) and ``models/config.py``, which reads the
    configuration's field for Nemotron-H and Qwen 3.5 alone.

    Raises:
        InvalidInput: the field names a type that is none.
    """
    key = recurrent.state_dtype_key
    written = fields.text(key) if key is not None else None
    name = written or recurrent.state_dtype
    if name is None or name == "auto":
        return None
    if name not in _BYTES:
        raise fields.refuse(key or "dtype", f"Write one of {', '.join(sorted(_BYTES))}.")
    return _BYTES[name]


def convolution(units: int, channels: int, kernel: int, *, speculates: bool = True) -> StatePart:
    """The last inputs of a causal convolution, in the model's type: ``kernel - 1`` of each channel.

    Args:
        units: heads or groups by which it is divided.
        channels: channels of one unit.
        kernel: width of the convolution in tokens.
        speculates: whether one column more is kept for every speculative token.
    """
    return StatePart(units, channels * (kernel - 1), grows_with_speculation=channels if speculates else 0)


def short_conv_part(fields: Fields, recurrent: Recurrent, shape: DecoderShape) -> LayerPart:
    """Return one layer: its only state is the convolution's window.

    Source: vLLM, ``layers/mamba/short_conv.py``, ``mamba_utils.py`` (``short_conv_state_shape``).

    Raises:
        InvalidInput: a size is ill-typed or absurd.
    """
    kernel = fields.optional_integer(("conv_L_cache",)) or _KERNEL
    bias = fields.flag("conv_bias", default=False)
    cache = StateCache(StateKind.SHORT_CONV, ((convolution(shape.hidden, 1, kernel, speculates=False),),))
    module, hidden = recurrent.module, shape.hidden
    weights = (
        *column(f"{module}.in_proj", 3 * hidden, hidden, bias=bias),
        Weight(f"{module}.conv", hidden, kernel, Sharding.OUTPUTS, linear=False),
        *((vector(f"{module}.conv.bias", hidden, sharding=Sharding.OUTPUTS),) if bias else ()),
        *row(f"{module}.out_proj", hidden, hidden, bias=bias),
    )
    return LayerPart(weights, (cache,))
