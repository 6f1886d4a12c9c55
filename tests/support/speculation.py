"""Configurations of drafts, as their authors publish them."""

from __future__ import annotations

from typing import Any, Final

from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

EAGLE_HEAD: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
}
"""A head of Llama 3.1 8B of the first generation: one layer, under the class of a plain decoder."""

EAGLE3_HEAD: Final[dict[str, Any]] = EAGLE_HEAD | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 32000,
}
"""A head of Llama 3.1 8B of the third generation, with a vocabulary of its own."""

MIMO_7B: Final[dict[str, Any]] = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1,
    "attention_bias": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 151680,
}
"""A model with one prediction layer: the fields of XiaomiMiMo/MiMo-7B-Base."""


def facts_of(config: dict[str, Any], name: str = "org/head") -> ModelFacts:
    """What a configuration says."""
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)
