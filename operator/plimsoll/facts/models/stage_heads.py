"""Classes that keep their vocabulary tables on every pipeline stage: the engine's module does not check the stage."""

from __future__ import annotations

from plimsoll.domain.model import Tables

_BOTH = frozenset(
    {
        "BloomForCausalLM",
        "ChatGLMForConditionalGeneration",
        "ChatGLMModel",
        "DbrxForCausalLM",
        "FalconForCausalLM",
        "FalconMambaForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma4ForCausalLM",
        "GemmaForCausalLM",
        "GptOssForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "HYV3ForCausalLM",
        "InternLM2ForCausalLM",
        "JambaForCausalLM",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "MiniCPMForCausalLM",
        "MixtralForCausalLM",
        "MolmoForCausalLM",
        "NemotronHForCausalLM",
        "OPTForCausalLM",
        "OlmoHybridForCausalLM",
        "OlmoeForCausalLM",
        "OrionForCausalLM",
        "PhiMoEForCausalLM",
        "Plamo3ForCausalLM",
        "QWenLMHeadModel",
        "RWForCausalLM",
        "StableLMEpochForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "StableLmForCausalLM",
    }
)
_EMBEDDING = frozenset({"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"})
"""Source: vLLM 0.32 (0.23 for classes dropped since), ``model_executor/models``: ``ParallelLMHead`` or embedding made
without asking for the rank."""


def tables_on_every_stage(architecture: str | None) -> Tables:
    """Return the tables that each stage of a class keeps."""
    if architecture in _BOTH:
        return Tables.BOTH
    return Tables.EMBEDDING if architecture in _EMBEDDING else Tables.NONE
