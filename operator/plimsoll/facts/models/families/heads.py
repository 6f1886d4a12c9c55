"""Classes of EAGLE heads: drafts that belong to a model and read its hidden states.

Sources: vLLM 0.32, ``models/registry.py``, ``models/llama_eagle.py``, ``models/llama_eagle3.py`` and
``models/qwen3_eagle3.py``; each class was checked by building its modules and counting their parameters.
"""

from __future__ import annotations

from plimsoll.domain.engines.engine_choice import DraftMethod
from plimsoll.facts.models.traits import Architecture, Flag

_LLAMA3 = Architecture(eagle=DraftMethod.EAGLE3)
_QWEN3 = Architecture(eagle=DraftMethod.EAGLE3, qk_norm=Flag(default=True))

HEADS: dict[str, Architecture] = {
    "EagleLlamaForCausalLM": Architecture(eagle=DraftMethod.EAGLE),
    "LlamaForCausalLMEagle3": _LLAMA3,
    "Eagle3LlamaForCausalLM": _LLAMA3,
    "Eagle3MiniMaxM2ForCausalLM": _LLAMA3,
    "Eagle3Qwen2_5vlForCausalLM": _LLAMA3,
    "Eagle3Qwen3vlForCausalLM": _LLAMA3,
    "Eagle3Qwen3ForCausalLM": _QWEN3,
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
