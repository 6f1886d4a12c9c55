"""Find the layers that read only a part of the sequence, and how many tokens they read."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.layers.parts import DecoderShape, Span
from plimsoll.facts.models.traits import Architecture, WindowRule

_LONGEST_WINDOW = 1_000_000_000
_FULL = ("full_attention", "attention", "global_attention", "indexed_attention")
_CHUNKED = "chunked_attention"
_NO_ROPE_STEP = 4
"""Every how many layers Llama 4 leaves positions out. Source: default of ``no_rope_layer_interval`` in Transformers."""


_EVERYTHING = Span()


def spans(fields: Fields, traits: Architecture, shape: DecoderShape) -> tuple[Span, ...]:
    """Return for every layer which tokens it reads.

    Raises:
        InvalidInput: a field is ill-typed, a list too short, a window missing.
        UnsupportedModel: a layer of another type.
    """
    chunked = traits.window_rule is WindowRule.CHUNKED or _CHUNKED in fields.texts("layer_types")
    layers = _rope_layers(fields, shape, "attention_chunk_size") if chunked else _sliding_layers(fields, traits, shape)
    if not any(layers):
        return (_EVERYTHING,) * len(layers)
    local = _local(fields, chunked=chunked)
    return tuple(local if here else _EVERYTHING for here in layers)


def _local(fields: Fields, *, chunked: bool) -> Span:
    if chunked:
        return Span(local=True, chunk=fields.integer(("attention_chunk_size",), largest=_LONGEST_WINDOW))
    keys = ("sliding_window", "sliding_window_size", "window_size")
    return Span(local=True, window=fields.integer(keys, largest=_LONGEST_WINDOW))


def _rope_layers(fields: Fields, shape: DecoderShape, key: str) -> tuple[bool, ...]:
    """Which layers rotate positions; none of them counts if the size under ``key`` is not set."""
    if not fields.has(key):
        return (False,) * shape.layers
    if fields.items("no_rope_layers"):
        return marked(fields, "no_rope_layers", shape.layers)
    return tuple((layer + 1) % _NO_ROPE_STEP != 0 for layer in range(shape.layers))


def _sliding_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> tuple[bool, ...]:
    layers = shape.layers
    if traits.window_rule is WindowRule.HYBRID_PATTERN and fields.items("hybrid_layer_pattern"):
        return marked(fields, "hybrid_layer_pattern", layers)
    if traits.window_rule is WindowRule.ROPE_LAYERS:
        return _rope_layers(fields, shape, "sliding_window")
    types = fields.texts("layer_types")
    if types:
        return _by_layer_types(shape, fields, types)
    if not fields.has("sliding_window"):
        return (False,) * layers
    match traits.window_rule:
        case WindowRule.ALL:
            return (True,) * layers
        case WindowRule.PERIODIC:
            period = _period(fields, traits.window_period)
            return tuple((layer + 1) % period != 0 for layer in range(layers))
        case WindowRule.QWEN:
            return _qwen(fields, layers)
        case _:
            return (False,) * layers


def marked(fields: Fields, key: str, layers: int) -> tuple[bool, ...]:
    """A list of 0 and 1 for each layer.

    Raises:
        InvalidInput: it is too short, or holds something else.
    """
    entries = fields.items(key)
    if len(entries) < layers or any(entry not in (0, 1) for entry in entries):
        raise fields.refuse(key, f"List 0 or 1 for each of the {layers} layers.")
    return tuple(entry == 1 for entry in entries[:layers])


def _by_layer_types(shape: DecoderShape, fields: Fields, types: tuple[str, ...]) -> tuple[bool, ...]:
    if len(types) < shape.layers:
        raise fields.refuse("layer_types", f"List a type for each of the {shape.layers} layers.")
    for kind in types:
        if kind != "sliding_attention" and kind not in _FULL:
            raise UnsupportedModel(shape.name, f"layers of the type {shown(kind)} (layer_types)")
    return tuple(kind == "sliding_attention" for kind in types[: shape.layers])


def _period(fields: Fields, default: int) -> int:
    """Return the period of layers with full attention. The file has a number, or a pattern like ``LLLG``."""
    key = fields.first(("sliding_window_pattern", "_sliding_window_pattern"))
    if key is None:
        return default
    pattern = fields.values[key]
    if isinstance(pattern, str) and set(pattern[:-1]) <= {"L"} and pattern.endswith("G"):
        return len(pattern)
    return fields.integer((key,))


def _qwen(fields: Fields, layers: int) -> tuple[bool, ...]:
    if not fields.flag("use_sliding_window", default=False):
        return (False,) * layers
    first = fields.optional_integer(("max_window_layers",), smallest=0)
    return tuple(layer >= (layers if first is None else first) for layer in range(layers))
