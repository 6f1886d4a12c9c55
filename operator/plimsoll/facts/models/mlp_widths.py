"""The width of the dense MLP in each layer."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.mixers.heads import block_sections
from plimsoll.facts.models.shape import Shape
from plimsoll.facts.models.traits import Architecture

_BLOCK_STEP = 256
"""DeciLM rounds a width that is given as a factor up to a multiple of it. Source: vLLM, ``models/nemotron_nas.py``."""
_LARGEST_FACTOR = 1_000


def dense_widths(fields: Fields, traits: Architecture, shape: Shape) -> tuple[int, ...]:
    """The width of every layer's dense MLP, 0 if it has none.

    Raises:
        InvalidInput: a width is missing, ill-typed or absurd, or a list of them too short.
    """
    if traits.in_blocks:
        return tuple(_block_width(section, shape) for section in block_sections(fields, "ffn", shape.layers))
    key = fields.first(traits.width_keys)
    if key is not None and isinstance(fields.values[key], list | tuple):
        return fields.integers(key, shape.layers)
    width = dense_width(fields, traits, shape.hidden)
    return (width,) * shape.layers if traits.widths is None else traits.widths(fields, width, shape.layers)


def dense_width(fields: Fields, traits: Architecture, hidden: int) -> int:
    """Width of a dense MLP."""
    keys = traits.width_keys
    if traits.intermediate_factor is not None and fields.first(keys) is None:
        return traits.intermediate_factor * hidden
    return fields.integer(keys)


def double_if_shared(fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """With ``use_double_wide_mlp`` twice as wide in the layers that borrow keys and values (Gemma 4).

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    wide = fields.flag("use_double_wide_mlp", default=False)
    shared = fields.optional_integer(("num_kv_shared_layers",), smallest=0) if wide else 0
    first = layers - (shared or 0)
    return tuple(width if layer < first else 2 * width for layer in range(layers))


def half(_fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """Half of what is written: the field counts gate and up together (Molmo, Qwen 1)."""
    return (width // 2,) * layers


def two_thirds(fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """With ``block_auto_adjust_ff_dim`` two thirds, rounded up to ``block_multiple_of`` (LFM2).

    Source: vLLM, ``models/lfm2.py``.

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    if not fields.flag("block_auto_adjust_ff_dim", default=True):
        return (width,) * layers
    factor = fields.number("block_ffn_dim_multiplier", default=1.0)
    step = fields.optional_integer(("block_multiple_of",)) or _BLOCK_STEP
    narrowed = int(factor * int(2 * width / 3))
    return (narrowed + -narrowed % step,) * layers


def _block_width(section: Fields, shape: Shape) -> int:
    """Return the width of one DeciLM block: a number, or two thirds of a factor times the hidden size, rounded up."""
    if section.flag("no_op", default=False) or section.flag("replace_with_linear", default=False):
        return 0
    if section.first(("intermediate_size",)) is not None:
        return section.integer(("intermediate_size",))
    if not section.has("ffn_mult"):
        raise section.refuse("ffn_mult", "Give ffn_mult or intermediate_size.")
    factor = section.number("ffn_mult", default=1.0)
    if factor > _LARGEST_FACTOR:
        raise section.refuse("ffn_mult", f"Give a factor up to {_LARGEST_FACTOR}.")
    width = int(2 * factor * shape.hidden / 3)
    return width + -width % _BLOCK_STEP
