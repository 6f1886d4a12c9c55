"""The architecture family of a configuration: the row of the table that its cases count for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.accuracy.peers.config_fields import text_config

_BY_CLASS = (
    (
        r"Qwen3Next|Qwen3_5|Jamba|Mamba|NemotronH|Bamba|FalconH1|KimiLinear|Lfm2|GraniteMoeHybrid|Zamba",
        "recurrent hybrid",
    ),
    (r"GptOss", "gpt-oss"),
    (r"DeepseekV4", "DeepSeek V4"),
    (r"Gemma", "Gemma"),
    (r"Llama4", "Llama 4"),
    (r"Moe|Mixtral|MiniMaxM|Dbrx|Ernie4_5_Moe", "mixture of experts"),
    (r"VL|Vision|Llava|Mistral3|Pixtral|OCR|InternVL|Molmo|MiniCPMV|Audio|ForConditionalGeneration", "with encoder"),
    (r"Llama|Mistral|CodeLlama", "Llama"),
    (r"Qwen", "Qwen dense"),
    (r"Granite", "Granite"),
)


def architecture_of(config: Mapping[str, Any]) -> str:
    """The model class a configuration names; its type where it names none."""
    classes = config.get("architectures")
    if isinstance(classes, list) and classes:
        return str(classes[0])
    return str(config.get("model_type", "unknown"))


def family_of(config: Mapping[str, Any]) -> str:
    """The family by the kind of cache first (latent, recurrent), then by the name of the class."""
    name = architecture_of(config)
    text = text_config(config)
    if re.search(_BY_CLASS[0][0], name):
        return _BY_CLASS[0][1]
    if text.get("kv_lora_rank"):
        return "latent attention"
    return next((family for pattern, family in _BY_CLASS if re.search(pattern, name)), "other")
