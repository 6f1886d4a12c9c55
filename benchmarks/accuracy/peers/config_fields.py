"""The fields of ``config.json`` that the peers' formulas read, as their publishers spell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a multimodal configuration, over the outer fields; else the whole."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, Mapping) else config


def integer(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of several fields that is a positive whole number."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def context_length(config: Mapping[str, Any]) -> int | None:
    """The context that the configuration declares."""
    return integer(text_config(config), "max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def head_dim(text: Mapping[str, Any]) -> int | None:
    """The width of an attention head: stated, else hidden over heads."""
    stated, hidden = integer(text, "head_dim"), integer(text, "hidden_size", "n_embd")
    heads = integer(text, "num_attention_heads", "n_head")
    return stated or (hidden // heads if hidden and heads else None)


def is_recurrent(config: Mapping[str, Any]) -> bool:
    """Whether some layers keep a recurrent state instead of keys and values."""
    text = text_config(config)
    kinds = text.get("layer_types")
    linear = isinstance(kinds, list) and any("linear" in str(kind) or "mamba" in str(kind) for kind in kinds)
    return linear or any(key in text for key in ("mamba_d_state", "ssm_state_size", "linear_num_value_heads"))
