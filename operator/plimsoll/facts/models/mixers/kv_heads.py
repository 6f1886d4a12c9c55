"""The number of key/value heads of a layer: each family has its own field for it."""

from __future__ import annotations

from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.traits import Architecture, KvRule


def kv_heads(fields: Fields, traits: Architecture, query_heads: int) -> int:
    """KV heads of the model's attention layers.

    Raises:
        InvalidInput: they do not divide the query heads.
    """
    key = _key(fields, traits)
    count = query_heads if key is None else 1 if key == "" else fields.integer((key,))
    if query_heads % count:
        raise fields.refuse(key or "num_key_value_heads", f"Give a divisor of the {query_heads} attention heads.")
    return count


def _key(fields: Fields, traits: Architecture) -> str | None:
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
