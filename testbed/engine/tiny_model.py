"""What does the real engine serve in tests? A Llama of 2.5 million random weights: a configuration and a tokenizer.

There are no weight files: the engine is told ``--load-format dummy`` and makes the numbers up.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

MAX_CONTEXT_TOKENS: Final = 131072
"""Positions the model has: the longest context that its servers may be asked for."""

KV_BYTES_PER_TOKEN: Final = 2048
"""2 (key and value) x 4 layers x 4 KV heads x 32 values per head x 2 bytes (bfloat16)."""

TINY_CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": MAX_CONTEXT_TOKENS,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "vocab_size": 258,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
"""The model's ``config.json``."""


def write_tiny_model(directory: Path, *, engine_python: Path) -> Path:
    """Make the model in ``directory`` and return it. ``engine_python`` is :func:`ensure_engine`'s answer.

    Raises:
        subprocess.CalledProcessError: the tokenizer could not be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(TINY_CONFIG, indent=2))
    maker = Path(__file__).with_name("make_tokenizer.py")
    subprocess.run([str(engine_python), "-P", str(maker), str(directory)], check=True)
    return directory
