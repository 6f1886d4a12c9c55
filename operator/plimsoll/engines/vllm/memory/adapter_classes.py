"""The model classes to which the engine gives LoRA slots, in their layers and outside them."""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts

LARGEST_VOCABULARY = 258_048
"""Beyond it the engine refuses slots of the output projection (``lora/layers/logits_processor.py``)."""

EMBEDDING_AND_HEAD = frozenset(
    {
        "ApertusForCausalLM",
        "DeciLMForCausalLM",
        "Ernie4_5ForCausalLM",
        "Exaone4ForCausalLM",
        "ExaoneForCausalLM",
        "ExaoneMoEForCausalLM",
        "FalconH1ForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "HyperCLOVAXForCausalLM",
        "InternLM3ForCausalLM",
        "JambaForCausalLM",
        "LLaMAForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "Llama4ForCausalLM",
        "LlamaForCausalLM",
        "LlavaForConditionalGeneration",
        "MiniCPM3ForCausalLM",
        "MiniCPMForCausalLM",
        "MixtralForCausalLM",
        "NemotronForCausalLM",
        "NemotronHForCausalLM",
        "Phi3ForCausalLM",
        "PhiMoEForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "SolarForCausalLM",
        "TeleChat2ForCausalLM",
        "TeleFLMForCausalLM",
    }
)
"""Classes that give embeddings and output projection slots: their ``embedding_modules`` in vLLM 0.32's registry."""

EMBEDDING_ALONE = frozenset(
    {
        "ArceeForCausalLM",
        "Cohere2ForCausalLM",
        "CohereForCausalLM",
        "CwmForCausalLM",
        "FlexOlmoForCausalLM",
        "GPTBigCodeForCausalLM",
        "GPTNeoXForCausalLM",
        "GlmForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Olmo2ForCausalLM",
        "Olmo3ForCausalLM",
        "OlmoForCausalLM",
        "PhiForCausalLM",
        "SeedOssForCausalLM",
        "SmolLM3ForCausalLM",
        "Starcoder2ForCausalLM",
        "TransformersForCausalLM",
        "TransformersMoEForCausalLM",
    }
)
"""Classes that give slots to the embeddings alone."""

WITHOUT_ADAPTERS = frozenset(
    {
        "AriaForConditionalGeneration",
        "BloomForCausalLM",
        "Cohere2MoeForCausalLM",
        "DbrxForCausalLM",
        "DeepseekV4ForCausalLM",
        "DeepseekVLV2ForCausalLM",
        "FalconForCausalLM",
        "FalconMambaForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "Gemma3nForCausalLM",
        "Gemma3nForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "KimiVLForConditionalGeneration",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "OrionForCausalLM",
        "Phi3VForCausalLM",
        "Qwen2AudioForConditionalGeneration",
        "StableLmForCausalLM",
        "Step3TextForCausalLM",
        "Step3p5ForCausalLM",
        "Zamba2ForCausalLM",
    }
)
"""Classes without ``supports_lora`` in that registry: the engine refuses ``--enable-lora`` for them."""

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that ``--max-lora-rank`` accepts (``config/lora.py``)."""


def adapters_refusal(model: ModelFacts) -> str | None:
    """Why the engine makes no slots for a model; None where it does."""
    if model.architecture in WITHOUT_ADAPTERS:
        return f"vLLM knows no LoRA for {model.architecture}; remove it."
    if model.architecture in EMBEDDING_AND_HEAD and model.vocabulary > LARGEST_VOCABULARY:
        return f"vLLM refuses LoRA for a vocabulary above {LARGEST_VOCABULARY}, this is {model.vocabulary}; remove it."
    return None
