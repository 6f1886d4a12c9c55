"""Causes for which an SGLang server refuses to start, apart from its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.sglang.memory.doubts import NEWEST_READ

OLDEST = EngineVersion(0, 5, 14)
"""The oldest release whose flags were read. The law of its memory is older."""

_LINE = f"{NEWEST_READ.major}.{NEWEST_READ.minor}"

_WITHOUT_CLASS = """
AXK1ForCausalLM AquilaForCausalLM ArcticForCausalLM AudioFlamingo3ForConditionalGeneration BaiChuanForCausalLM
BambaForCausalLM BioGptForCausalLM BitNetForCausalLM Blip2ForConditionalGeneration BloomForCausalLM
ChatGLMForConditionalGeneration CodeGenForCausalLM CwmForCausalLM DeepseekVLV2ForCausalLM Dots1ForCausalLM
Ernie4_5ForCausalLM Exaone4_5_ForConditionalGeneration FalconForCausalLM FlexOlmoForCausalLM GLM4VForCausalLM
GPTNeoXForCausalLM GlmForCausalLM GraniteSpeechForConditionalGeneration H2OVLChatModel HeliumForCausalLM
HyperCLOVAXForCausalLM Idefics3ForConditionalGeneration InternLMForCausalLM InternVLForConditionalGeneration
IsaacForConditionalGeneration JAISLMHeadModel JambaForCausalLM KananaVForConditionalGeneration
KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration LLaMAForCausalLM
LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration LlavaOnevision2ForConditionalGeneration
LlavaOnevisionForConditionalGeneration MPTForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM
MiniMaxText01ForCausalLM MinistralForCausalLM MolmoForCausalLM MptForCausalLM NanoChatForCausalLM
NemotronForCausalLM OlmoHybridForCausalLM OpenCUAForConditionalGeneration
OpenPanguVLForConditionalGeneration PaliGemmaForConditionalGeneration PanguEmbeddedForCausalLM
PanguUltraMoEForCausalLM Param2MoEForCausalLM Phi3VForCausalLM PhimoeForCausalLM Plamo3ForCausalLM
QianfanOCRForConditionalGeneration RWForCausalLM Rnj1ForCausalLM
SeedOssForCausalLM SkyworkR1VChatModel SmolLM3ForCausalLM SmolVLMForConditionalGeneration
StableLMEpochForCausalLM Step1ForCausalLM TeleChat2ForCausalLM TeleChat3ForCausalLM TeleChatForCausalLM
VaultGemmaForCausalLM Zamba2ForCausalLM
"""
"""Classes that are known here and that the registry of 0.5.23 (``EntryClass`` of ``srt/models``) does not have. It runs
them through Transformers (``resolve_transformers_arch``), if at all, with memory that no law here covers."""


def release_refusal(model: ModelFacts, _: Precision, release: EngineVersion) -> str | None:
    """Return why a release is not served: none has such a number, none is known, or it lacks the model's class."""
    if release[:2] > NEWEST_READ[:2]:
        return f"SGLang {release} is not known: write {OLDEST} to {NEWEST_READ}, or a later one of {_LINE}."
    if release <= NEWEST_READ and model.architecture in _WITHOUT_CLASS.split():
        return (
            f"SGLang {release} has no {model.architecture} of its own, and no memory law covers what it runs through "
            "Transformers: name another engine, or a later release."
        )
    return None


_PERMISSION = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_OTHER_POSITIONS = "--json-model-override-args"
_TRUE = ("true", "1", "yes", "y")


def context_refusal(
    model: ModelFacts, context_tokens: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """Return why the engine does not start with this context, and what to write; None where it does, or may.

    Source: ``ModelConfig._derive_context_length`` (``srt/configs/model_config.py``, 0.5.23), which raises ValueError
    unless the variable permits it.

    Args:
        model: the facts. Where its configuration names no length, nothing is said.
        context_tokens: the tokens of the longest request.
        arguments: what the user adds to the command line.
        environment: the variables of the engine's container whose values are known.
    """
    most = model.max_context_tokens
    is_permitted = environment.get(_PERMISSION, "").lower() in _TRUE
    if context_tokens <= most or not model.names_context or is_permitted:
        return None
    if any(each.startswith(_OTHER_POSITIONS) for each in arguments):
        return None
    return (
        f"{model.name} has {most:,} positions, and SGLang refuses to start with more: write at most {most}. If its "
        f"positions can be scaled, scale them with --json-model-override-args in spec.engine.extraArgs; "
        f"{_PERMISSION}=1 in spec.podTemplate.env only turns the check off."
    )
