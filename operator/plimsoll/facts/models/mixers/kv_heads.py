"""The number of key/value heads of a layer: each family has its own field for it."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.facts.models.fields import Fields

_ONE = ""


def kv_heads(fields: Fields, key_of: Callable[[Fields], str | None], query_heads: int) -> int:
    """KV heads of the model's attention layers.

    Args:
        fields: the language model's configuration.
        key_of: returns the field with their number; empty for one head, None for as many as query heads.
        query_heads: attention heads.

    Raises:
        InvalidInput: they do not divide the query heads.
    """
    key = key_of(fields)
    count = query_heads if key is None else 1 if key == _ONE else fields.integer((key,))
    if query_heads % count:
        raise fields.refuse(key or "num_key_value_heads", f"Give a divisor of the {query_heads} attention heads.")
    return count


def grouped(fields: Fields) -> str | None:
    """``num_key_value_heads``, as many as query heads if it is not set."""
    return fields.first(("num_key_value_heads", "n_head_kv"))


def falcon(fields: Fields) -> str | None:
    """``num_kv_heads`` with ``new_decoder_architecture``, else one or all by ``multi_query``.

    The first files of Falcon 40B (``RWForCausalLM``) have ``n_head_kv`` and not the flag.
    """
    if fields.flag("new_decoder_architecture", default=fields.has("n_head_kv")):
        return fields.first(("num_kv_heads", "n_head_kv"))
    return multi_query(fields)


def multi_query(fields: Fields) -> str | None:
    """One with ``multi_query`` (the default), else as many as query heads."""
    return _ONE if fields.flag("multi_query", default=True) else None


def chatglm(fields: Fields) -> str | None:
    """``multi_query_group_num`` with ``multi_query_attention``, else as many as query heads."""
    return "multi_query_group_num" if fields.flag("multi_query_attention", default=False) else None


def all_heads(_fields: Fields) -> str | None:
    """None: as many as query heads."""
    return None
