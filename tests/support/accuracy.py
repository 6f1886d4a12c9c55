"""Cases and inputs of the accuracy benchmark in one line each."""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy.cases import Case, Measured, Outcome
from benchmarks.accuracy.checkpoint import Checkpoint
from benchmarks.accuracy.reading.configs import Found
from benchmarks.accuracy.scoring import Scored
from benchmarks.accuracy.setups import Setup, setup_of

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LLAMA_8B_ELEMENTS = 8_030_261_248


def case(outcome: Outcome = Outcome.OK, **changes: Any) -> Case:
    """A start of Llama 3.1 8B on an H100; changes of what was measured by its own names."""
    measured = {
        name: changes.pop(name) for name in ("weights_gib", "kv_gib", "kv_tokens", "concurrency") if name in changes
    }
    fields: dict[str, Any] = {
        "id": "one",
        "dataset": "logs",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "measured": Measured(outcome, **measured),
        "gpu": "NVIDIA H100 80GB",
        "version": "0.19.0",
        "max_model_len": 8192,
        "utilization": 0.95,
    }
    return Case(**fields | changes)


def setup(config: dict[str, Any] | None = None, elements: dict[str, int] | None = None, **changes: Any) -> Setup:
    """The inputs of such a start; ``elements`` are those of the checkpoint."""
    checkpoint = Checkpoint(elements or {"BF16": LLAMA_8B_ELEMENTS})
    return setup_of(case(**changes), Found(config or LLAMA_8B, "exact"), checkpoint)


def scored(**changes: Any) -> Scored:
    """Such a start, ready to be scored."""
    start = case(**changes)
    return Scored(start, setup_of(start, Found(LLAMA_8B, "exact"), None), held_out=False)
