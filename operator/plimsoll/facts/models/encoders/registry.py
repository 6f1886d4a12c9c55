"""The builder of each tower."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.domain.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.composites import EncoderRule
from plimsoll.facts.models.encoders import (
    audio,
    deepseek,
    deepseek_v41,
    gemma,
    gemma3n,
    generic_tower,
    glm,
    intern_vit,
    llava,
    minicpm,
    minimax,
    molmo,
    moonvit,
    muse,
    phi,
    phi4mm,
    qformer,
    qwen_vl,
    radio,
    tiled,
)
from plimsoll.facts.models.fields import Fields

_BUILDERS: dict[EncoderRule, Callable[[Fields, Fields, ModelFacts], EncoderFacts]] = {
    EncoderRule.GENERIC: generic_tower.generic_tower,
    EncoderRule.AUDIO_FLAMINGO3: audio.audio_flamingo3,
    EncoderRule.BLIP2: qformer.blip2,
    EncoderRule.COHERE2_VISION: llava.cohere2_vision,
    EncoderRule.DEEPSEEK_OCR: deepseek.deepseek_ocr,
    EncoderRule.DEEPSEEK_V41: deepseek_v41.deepseek_v41,
    EncoderRule.DEEPSEEK_VL2: deepseek.deepseek_vl2,
    EncoderRule.DOTS_OCR: tiled.dots_ocr,
    EncoderRule.GEMMA3: gemma.gemma3,
    EncoderRule.GEMMA3N: gemma3n.gemma3n,
    EncoderRule.GEMMA4: gemma.gemma4,
    EncoderRule.GLM4V: glm.glm4v,
    EncoderRule.GLM4_1V: glm.glm4_1v,
    EncoderRule.GLM_OCR: glm.glm_ocr,
    EncoderRule.GRANITE_SPEECH: qformer.granite_speech,
    EncoderRule.IDEFICS3: tiled.idefics3,
    EncoderRule.INTERNVL: intern_vit.internvl,
    EncoderRule.INTERNVL_CHAT: intern_vit.internvl_chat,
    EncoderRule.KIMI_K25: moonvit.kimi_k25,
    EncoderRule.KIMI_VL: moonvit.kimi_vl,
    EncoderRule.LFM2_VL: tiled.lfm2_vl,
    EncoderRule.LLAMA4: tiled.llama4,
    EncoderRule.LLAVA: llava.llava,
    EncoderRule.LLAVA_NEXT: llava.llava_next,
    EncoderRule.LLAVA_NEXT_VIDEO: llava.llava_next_video,
    EncoderRule.LLAVA_ONEVISION: llava.llava_onevision,
    EncoderRule.MINIMAX_M3: minimax.minimax_m3,
    EncoderRule.MUSE_GLIMMER: muse.muse_glimmer,
    EncoderRule.GLM5_NEXT: glm.glm5_next,
    EncoderRule.MINICPMO: minicpm.minicpmo,
    EncoderRule.MINICPMV: minicpm.minicpmv,
    EncoderRule.MISTRAL3: llava.mistral3,
    EncoderRule.MOLMO: molmo.molmo,
    EncoderRule.NEMOTRON_VL: radio.nemotron_vl,
    EncoderRule.OVIS: tiled.ovis,
    EncoderRule.PALIGEMMA: gemma.paligemma,
    EncoderRule.PHI3V: phi.phi3v,
    EncoderRule.PHI4MM: phi4mm.phi4mm,
    EncoderRule.QWEN2_5_OMNI: audio.qwen2_5_omni,
    EncoderRule.QWEN2_5_VL: qwen_vl.qwen2_5_vl,
    EncoderRule.QWEN2_AUDIO: audio.qwen2_audio,
    EncoderRule.QWEN2_VL: qwen_vl.qwen2_vl,
    EncoderRule.QWEN3_ASR: audio.qwen3_asr,
    EncoderRule.QWEN3_OMNI: audio.qwen3_omni,
    EncoderRule.QWEN3_VL: qwen_vl.qwen3_vl,
    EncoderRule.STEP3: tiled.step3,
    EncoderRule.ULTRAVOX: audio.ultravox,
    EncoderRule.VOXTRAL: audio.voxtral,
    EncoderRule.WHISPER: audio.whisper,
}


def encoder_facts(whole: Fields, language: Fields, rule: EncoderRule, facts: ModelFacts) -> EncoderFacts | None:
    """The tower of a composite model, or None where there is none.

    Args:
        whole: the whole configuration, with the tower's section.
        language: the language model's fields.
        rule: how the class builds its tower.
        facts: the language model.

    Raises:
        InvalidInput: a field of the tower is missing, ill-typed or absurd.
    """
    builder = _BUILDERS.get(rule)
    return None if builder is None else builder(whole, language, facts)
