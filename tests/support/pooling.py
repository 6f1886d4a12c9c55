"""Models that pool, as configurations: an encoder, and an embedding model whose class generates."""

from __future__ import annotations

from typing import Any, Final

from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

BGE_M3: Final[dict[str, Any]] = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "hidden_act": "gelu",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 8194,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "pad_token_id": 1,
    "position_embedding_type": "absolute",
    "torch_dtype": "float32",
    "type_vocab_size": 1,
    "vocab_size": 250002,
}

QWEN3_EMBEDDING: Final[dict[str, Any]] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151665,
}


def bge_m3() -> ModelFacts:
    """An encoder of 568 million parameters."""
    return read_model_facts("BAAI/bge-m3", BGE_M3, revision=None, source=FactsSource.INLINE)


def qwen3_embedding() -> ModelFacts:
    """An embedding model of 8 billion parameters that declares a class that generates."""
    return read_model_facts("Qwen/Qwen3-Embedding-8B", QWEN3_EMBEDDING, revision=None, source=FactsSource.INLINE)
