"""Which ``config.json`` does the engine get to read?

Not always the one that was published: quantization is taken out where the plain model is asked for, references to code
in a model's repository are taken out always (nothing is downloaded, and vLLM has its own classes), and a few files are
written in names that vLLM's class does not know under a name that it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_QUANTIZATION: Final = frozenset({"quantization_config", "compression_config"})

_REMOTE_CODE: Final = "auto_map"

_EXPERT_COUNTS: Final = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""The names under which configurations give the number of routed experts."""


def engine_config(config: Mapping[str, Any], *, quantized: bool) -> dict[str, Any]:
    """The configuration that the engine reads in the place of ``config``.

    Args:
        config: the published ``config.json``.
        quantized: whether its quantization stays.
    """
    return _renamed(_without(config, _QUANTIZATION if not quantized else frozenset()))


def is_quantized(config: Mapping[str, Any]) -> bool:
    """Whether the configuration, or one nested in it, names a quantization."""
    return any(
        (key in _QUANTIZATION and bool(value)) or (isinstance(value, Mapping) and is_quantized(value))
        for key, value in config.items()
    )


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether the configuration, or one nested in it, has more than one routed expert."""
    counts = (config.get(name) for name in _EXPERT_COUNTS)
    return any(isinstance(count, int) and count > 1 for count in counts) or any(
        has_experts(value) for value in config.values() if isinstance(value, Mapping)
    )


def write_folder(folder: Path, config: Mapping[str, Any], *, quantized: bool) -> Path:
    """Write ``config.json`` into a folder of its own, made here; the folder comes back."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(engine_config(config, quantized=quantized)))
    return folder


def _without(config: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {
        key: _without(value, keys) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in keys and key != _REMOTE_CODE
    }


def _renamed(config: dict[str, Any]) -> dict[str, Any]:
    if config.get("model_type") == "phi-msft":
        return _phi(config)
    if config.get("architectures") == ["MiniMaxM3ForCausalLM"]:
        # vLLM registers the class as MiniMaxM3Sparse...; the activation's offset has no default there.
        return {"swiglu_beta": 1.0} | config | {"architectures": ["MiniMaxM3SparseForCausalLM"]}
    return config


def _phi(config: dict[str, Any]) -> dict[str, Any]:
    """Phi-2's first configuration (2023) in the names that Transformers took it over with."""
    width, heads = config["n_embd"], config["n_head"]
    names = {
        "model_type": "phi",
        "hidden_size": width,
        "num_hidden_layers": config["n_layer"],
        "num_attention_heads": heads,
        "num_key_value_heads": config["n_head_kv"] or heads,
        "intermediate_size": config["n_inner"] or 4 * width,
        "max_position_embeddings": config["n_positions"],
        "partial_rotary_factor": config["rotary_dim"] / (width // heads),
    }
    return {key: value for key, value in config.items() if not key.startswith("n_")} | names
