"""Heads and windows: which layers share one KV-cache shape."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.model import AttentionLayers
from plimsoll.facts.fields import Fields, shown
from plimsoll.facts.traits import Architecture, KvRule, WindowRule

_LONGEST_WINDOW = 1_000_000_000


def attention_layers(
    name: str, fields: Fields, traits: Architecture, *, layers: int, hidden: int, heads: int, context: int
) -> tuple[AttentionLayers, ...]:
    """Group the layers by KV-cache shape, full attention first.

    A window that the declared context never exceeds is no window: the cache holds every token either way.

    Raises:
        InvalidInput: head counts that do not divide, a window that is missing or no whole number.
        UnsupportedModel: a layer type other than full or sliding attention.
    """
    kv_heads = _kv_heads(fields, traits, heads)
    head_dim = fields.optional_integer(("head_dim", "kv_channels"))
    if head_dim is None:
        if hidden % heads:
            raise fields.refuse("num_attention_heads", f"Give head_dim, or a divisor of the hidden size {hidden}.")
        head_dim = hidden // heads
    sliding = sum(_slides(name, fields, traits, layers))
    window = _window(fields) if sliding else None
    if window is None or window >= context:
        return (AttentionLayers(layers, kv_heads, head_dim),)
    groups = (
        AttentionLayers(layers - sliding, kv_heads, head_dim),
        AttentionLayers(sliding, kv_heads, head_dim, window),
    )
    return tuple(group for group in groups if group.count)


def _kv_heads(fields: Fields, traits: Architecture, heads: int) -> int:
    key = _kv_key(fields, traits)
    kv_heads = heads if key is None else 1 if key == "" else fields.integer((key,))
    if heads % kv_heads:
        raise fields.refuse(key or "num_key_value_heads", f"Give a divisor of the {heads} attention heads.")
    return kv_heads


def _kv_key(fields: Fields, traits: Architecture) -> str | None:
    """The field with the number of KV heads; empty for one head, None for as many as query heads."""
    match traits.kv_rule:
        case KvRule.GROUPED:
            return fields.first(("num_key_value_heads", "n_head_kv"))
        case KvRule.FALCON:
            if fields.flag("new_decoder_architecture", default=False):
                return fields.first(("num_kv_heads", "n_head_kv"))
            return "" if fields.flag("multi_query", default=True) else None
        case KvRule.MULTI_QUERY:
            return "" if fields.flag("multi_query", default=True) else None
        case KvRule.CHATGLM:
            grouped = fields.flag("multi_query_attention", default=False)
            return "multi_query_group_num" if grouped else None
        case KvRule.ALL:
            return None


def _window(fields: Fields) -> int:
    return fields.integer(("sliding_window",), largest=_LONGEST_WINDOW)


def _slides(name: str, fields: Fields, traits: Architecture, layers: int) -> tuple[bool, ...]:
    """For every layer, whether it slides."""
    types = fields.texts("layer_types")
    if types:
        return _by_layer_types(name, fields, types, layers)
    if not fields.has("sliding_window"):
        return (False,) * layers
    match traits.window_rule:
        case WindowRule.NEVER:
            return (False,) * layers
        case WindowRule.ALL:
            return (True,) * layers
        case WindowRule.PERIODIC:
            period = _period(fields, traits.window_period)
            return tuple((layer + 1) % period != 0 for layer in range(layers))
        case WindowRule.QWEN:
            return _qwen(fields, layers)


def _by_layer_types(name: str, fields: Fields, types: tuple[str, ...], layers: int) -> tuple[bool, ...]:
    if len(types) < layers:
        raise fields.refuse("layer_types", f"List a type for each of the {layers} layers.")
    for kind in types:
        if kind not in ("full_attention", "sliding_attention"):
            raise UnsupportedModel(name, f"layers of the type {shown(kind)} (layer_types)")
    return tuple(kind == "sliding_attention" for kind in types[:layers])


def _period(fields: Fields, default: int) -> int:
    """Every how many layers one has full attention; written as a number, or spelled out as ``LLLG``."""
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
