"""The heads of every attention layer: their number, their size, and the layer whose keys and values they read."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.layers.parts import DecoderShape, Heads, Span
from plimsoll.facts.models.mixers.kv_heads import kv_heads
from plimsoll.facts.models.traits import Architecture

_GLOBAL_HEAD_DIM = 512
"""Default of ``Gemma4TextConfig.global_head_dim`` in Transformers."""


def layer_heads(
    fields: Fields, traits: Architecture, shape: DecoderShape, spans: Sequence[Span]
) -> tuple[Heads | None, ...]:
    """The heads of every layer, None if a layer has no attention.

    Raises:
        InvalidInput: KV heads that do not divide the query heads, no head size and none to be derived, a list that is
            too short.
    """
    if traits.in_blocks:
        sections = block_sections(fields, "attention", shape.layers)
        return tuple(_block(section, fields, shape) for section in sections)
    usual = uniform_heads(fields, traits, shape)
    heads = (usual,) * shape.layers if traits.heads is None else traits.heads(fields, usual, spans)
    return _with_borrowed(fields, traits, heads)


def uniform_heads(fields: Fields, traits: Architecture, shape: DecoderShape) -> Heads:
    """Return the heads and sizes that most layers have.

    Raises:
        InvalidInput: KV heads that do not divide the query heads, or no head size and none to be derived.
    """
    head_dim = fields.optional_integer(("head_dim", "kv_channels", "attention_head_dim"))
    if head_dim is None:
        if shape.hidden % shape.heads:
            raise fields.refuse(
                "num_attention_heads", f"Give head_dim, or a divisor of the hidden size {shape.hidden}."
            )
        head_dim = shape.hidden // shape.heads
    value_dim = fields.optional_integer(("v_head_dim",)) or head_dim
    return Heads(shape.heads, kv_heads(fields, traits.kv_heads, shape.heads), head_dim, value_dim)


def global_own(fields: Fields, usual: Heads, spans: Sequence[Span]) -> tuple[Heads, ...]:
    """Full attention has its own head size, and its own KV heads if keys serve as values (Gemma 4).

    Source: ``Gemma4TextConfig`` in Transformers.

    Raises:
        InvalidInput: KV heads that do not divide the query heads.
    """
    size = fields.optional_integer(("global_head_dim",)) or _GLOBAL_HEAD_DIM
    kv = fields.optional_integer(("num_global_key_value_heads",))
    shared = fields.flag("attention_k_eq_v", default=False)
    key = "num_global_key_value_heads"
    other = _checked(fields, key, usual.query, kv if kv and shared else usual.kv, size, size)
    return tuple(usual if span.local else other for span in spans)


def sliding_own(fields: Fields, usual: Heads, spans: Sequence[Span]) -> tuple[Heads, ...]:
    """Sliding layers have ``swa_`` head counts and sizes (MiMo-V2). Source: vLLM, ``models/mimo_v2.py``.

    Raises:
        InvalidInput: KV heads that do not divide the query heads.
    """
    query = fields.optional_integer(("swa_num_attention_heads",)) or usual.query
    kv = fields.optional_integer(("swa_num_key_value_heads",)) or usual.kv
    key_dim = fields.optional_integer(("swa_head_dim",)) or usual.key_dim
    value_dim = fields.optional_integer(("swa_v_head_dim",)) or usual.value_dim
    other = _checked(fields, "swa_num_key_value_heads", query, kv, key_dim, value_dim)
    return tuple(other if span.local else usual for span in spans)


def other_setting(fields: Fields, usual: Heads, spans: Sequence[Span]) -> tuple[Heads, ...]:
    """``attention_other_setting`` names a layer type and its heads (Step 3.5). Source: vLLM, ``models/step3p5.py``.

    Raises:
        InvalidInput: KV heads that do not divide the query heads.
    """
    setting = fields.section("attention_other_setting")
    if setting is None:
        return (usual,) * len(spans)
    query = setting.optional_integer(("num_attention_heads",)) or usual.query
    kv = setting.optional_integer(("num_attention_groups",)) or usual.kv
    size = setting.optional_integer(("head_dim",)) or usual.key_dim
    other = _checked(setting, "num_attention_groups", query, kv, size, size)
    of_sliding = setting.text("attention_type") == "sliding_attention"
    return tuple(other if span.local is of_sliding else usual for span in spans)


def listed(fields: Fields, usual: Heads, spans: Sequence[Span]) -> tuple[Heads, ...]:
    """``num_attention_heads_per_layer`` lists the query heads (Laguna).

    Raises:
        InvalidInput: the list is too short, or KV heads do not divide an entry.
    """
    key = "num_attention_heads_per_layer"
    if not fields.has(key):
        return (usual,) * len(spans)
    counts = fields.integers(key, len(spans))
    return tuple(_checked(fields, key, count, usual.kv, usual.key_dim, usual.value_dim) for count in counts)


def _block(section: Fields, fields: Fields, shape: DecoderShape) -> Heads | None:
    """DeciLM, Nemotron-NAS. Source: vLLM, ``models/nemotron_nas.py``."""
    if section.flag("no_op", default=False) or section.flag("replace_with_linear", default=False):
        return None
    group = section.integer(("n_heads_in_group",), largest=shape.heads)
    size = fields.optional_integer(("head_dim",)) or max(1, shape.hidden // shape.heads)
    return _checked(section, "n_heads_in_group", shape.heads, shape.heads // group, size, size)


def block_sections(fields: Fields, part: str, layers: int) -> tuple[Fields, ...]:
    """The ``part`` of every entry of ``block_configs``.

    Raises:
        InvalidInput: the list is too short, or an entry has no such part.
    """
    blocks = fields.items("block_configs")
    if len(blocks) < layers:
        raise fields.refuse("block_configs", f"List the {layers} layers.")
    found = []
    for number, block in enumerate(blocks[:layers]):
        values = mapping_of(block)
        entry = Fields(values or {}, f"{fields.origin}: block_configs[{number}]")
        section = entry.section(part)
        if section is None:
            raise entry.refuse(part, "Write an object.")
        found.append(section)
    return tuple(found)


def _with_borrowed(fields: Fields, traits: Architecture, heads: tuple[Heads, ...]) -> tuple[Heads, ...]:
    shared = fields.optional_integer(("num_kv_shared_layers",), smallest=0) if traits.shared_kv else 0
    first = len(heads) - (shared or 0)
    if first < 1:
        raise fields.refuse("num_kv_shared_layers", f"Give fewer than the {len(heads)} layers.")
    return tuple(
        entry if layer < first else Heads(entry.query, entry.kv, entry.key_dim, entry.value_dim, borrows_kv=True)
        for layer, entry in enumerate(heads)
    )


def _checked(fields: Fields, key: str, query: int, kv: int, key_dim: int, value_dim: int) -> Heads:
    if query % kv:
        raise fields.refuse(key, f"Give a divisor of the {query} attention heads.")
    return Heads(query, kv, key_dim, value_dim)
