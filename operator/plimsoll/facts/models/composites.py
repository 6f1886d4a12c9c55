"""Composite models: a language model and a vision or audio tower, each with its own section in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plimsoll.domain.models.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.encoders import (
    audio,
    deepseek,
    gemma,
    generic_tower,
    glm,
    intern_vit,
    llava,
    own_size,
    phi,
    qformer,
    qwen_vl,
    tiled,
)
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.section_defaults import LANGUAGE_CLASSES, SECTION_DEFAULTS

_LANGUAGE_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Sections of composite configurations that describe the language model."""


TowerBuilder = Callable[[Fields, Fields, ModelFacts], EncoderFacts]
"""Builds the tower of a composite model from the whole configuration, the language model's fields, and its facts.

Raises:
    InvalidInput: a field of the tower is missing, ill-typed or absurd.
    UnsupportedModel: the configuration names a tower of another type.
"""


@dataclass(frozen=True, slots=True)
class Composite:
    """A class with a tower: the tower's builder, and the class its language model behaves as.

    ``language`` is None if the language model's section names its class. A class with a generic tower is listed only
    because of its language model: the engine fixes that in code, and no file names it.
    """

    encoder: TowerBuilder
    language: str | None = None


COMPOSITES: dict[str, Composite] = {
    "AudioFlamingo3ForConditionalGeneration": Composite(audio.audio_flamingo3),
    "BailingMoeV3VLForConditionalGeneration": Composite(generic_tower.generic_tower, "BailingMoeV3ForCausalLM"),
    "Blip2ForConditionalGeneration": Composite(qformer.blip2),
    "Cohere2VisionForConditionalGeneration": Composite(llava.cohere2_vision),
    "DeepseekOCRForCausalLM": Composite(deepseek.deepseek_ocr),
    "DeepseekV41ForCausalLM": Composite(own_size.deepseek_v41, "DeepseekV41ForCausalLM"),
    "DeepseekVLV2ForCausalLM": Composite(deepseek.deepseek_vl2),
    "DotsOCRForCausalLM": Composite(tiled.dots_ocr, "Qwen2ForCausalLM"),
    "Exaone4_5_ForConditionalGeneration": Composite(qwen_vl.qwen2_5_vl, "Exaone4ForCausalLM"),
    "GLM4VForCausalLM": Composite(glm.glm4v, "ChatGLMModel"),
    "Gemma3ForConditionalGeneration": Composite(gemma.gemma3, "Gemma3ForCausalLM"),
    "Gemma3nForConditionalGeneration": Composite(gemma.gemma3n, "Gemma3nForCausalLM"),
    "Gemma4ForConditionalGeneration": Composite(gemma.gemma4, "Gemma4ForCausalLM"),
    "Gemma4UnifiedForConditionalGeneration": Composite(generic_tower.generic_tower, "Gemma4ForCausalLM"),
    "Glm4vForConditionalGeneration": Composite(glm.glm4_1v, "Glm4ForCausalLM"),
    "Glm4vMoeForConditionalGeneration": Composite(glm.glm4_1v, "Glm4MoeForCausalLM"),
    "Glm5NextForConditionalGeneration": Composite(glm.glm5_next, "Glm5NextForCausalLM"),
    "GlmOcrForConditionalGeneration": Composite(glm.glm_ocr, "Glm4ForCausalLM"),
    "GraniteSpeechForConditionalGeneration": Composite(qformer.granite_speech),
    "H2OVLChatModel": Composite(intern_vit.internvl_chat),
    "Idefics3ForConditionalGeneration": Composite(tiled.idefics3, "LlamaForCausalLM"),
    "InternS1ForConditionalGeneration": Composite(intern_vit.internvl),
    "InternVLChatModel": Composite(intern_vit.internvl_chat),
    "InternVLForConditionalGeneration": Composite(intern_vit.internvl),
    "IsaacForConditionalGeneration": Composite(generic_tower.generic_tower, "Qwen3ForCausalLM"),
    "KananaVForConditionalGeneration": Composite(generic_tower.generic_tower, "LlamaForCausalLM"),
    "KeyeForConditionalGeneration": Composite(generic_tower.generic_tower, "Qwen3ForCausalLM"),
    "KeyeVL1_5ForConditionalGeneration": Composite(generic_tower.generic_tower, "Qwen3ForCausalLM"),
    "KimiK25ForConditionalGeneration": Composite(own_size.kimi_k25, "DeepseekV3ForCausalLM"),
    "KimiK3ForConditionalGeneration": Composite(own_size.kimi_k25, "KimiLinearForCausalLM"),
    "KimiVLForConditionalGeneration": Composite(own_size.kimi_vl, "DeepseekV3ForCausalLM"),
    "Lfm2VlForConditionalGeneration": Composite(tiled.lfm2_vl),
    "LightOnOCRForConditionalGeneration": Composite(llava.mistral3),
    "Llama4ForConditionalGeneration": Composite(tiled.llama4, "Llama4ForCausalLM"),
    "LlavaForConditionalGeneration": Composite(llava.llava),
    "LlavaNextForConditionalGeneration": Composite(llava.llava_next),
    "LlavaNextVideoForConditionalGeneration": Composite(llava.llava_next_video),
    "LlavaOnevision2ForConditionalGeneration": Composite(generic_tower.generic_tower, "Qwen3ForCausalLM"),
    "LlavaOnevisionForConditionalGeneration": Composite(llava.llava_onevision),
    "MiniCPMO": Composite(qformer.minicpmo),
    "MiniCPMV": Composite(qformer.minicpmv),
    "MiniMaxM3SparseForConditionalGeneration": Composite(own_size.minimax_m3, "MiniMaxM3SparseForCausalLM"),
    "Mistral3ForConditionalGeneration": Composite(llava.mistral3),
    "MolmoForCausalLM": Composite(tiled.molmo, "MolmoForCausalLM"),
    "MuseGlimmerForConditionalGeneration": Composite(own_size.muse_glimmer, "MuseGlimmerForCausalLM"),
    "NemotronH_Nano_VL_V2": Composite(intern_vit.nemotron_vl),
    "OpenCUAForConditionalGeneration": Composite(qwen_vl.qwen2_5_vl, "Qwen2ForCausalLM"),
    "OpenPanguVLForConditionalGeneration": Composite(generic_tower.generic_tower, "PanguEmbeddedForCausalLM"),
    "Ovis": Composite(tiled.ovis),
    "PaliGemmaForConditionalGeneration": Composite(gemma.paligemma),
    "Phi3VForCausalLM": Composite(phi.phi3v, "Phi3ForCausalLM"),
    "Phi4MMForCausalLM": Composite(phi.phi4mm, "Phi3ForCausalLM"),
    "QianfanOCRForConditionalGeneration": Composite(intern_vit.internvl_chat),
    "Qwen2AudioForConditionalGeneration": Composite(audio.qwen2_audio),
    "Qwen2VLForConditionalGeneration": Composite(qwen_vl.qwen2_vl, "Qwen2ForCausalLM"),
    "Qwen2_5OmniForConditionalGeneration": Composite(audio.qwen2_5_omni, "Qwen2ForCausalLM"),
    "Qwen2_5OmniModel": Composite(audio.qwen2_5_omni, "Qwen2ForCausalLM"),
    "Qwen2_5_VLForConditionalGeneration": Composite(qwen_vl.qwen2_5_vl, "Qwen2ForCausalLM"),
    "Qwen3ASRForConditionalGeneration": Composite(audio.qwen3_asr, "Qwen3ForCausalLM"),
    "Qwen3OmniMoeForConditionalGeneration": Composite(audio.qwen3_omni, "Qwen3MoeForCausalLM"),
    "Qwen3VLForConditionalGeneration": Composite(qwen_vl.qwen3_vl, "Qwen3ForCausalLM"),
    "Qwen3VLMoeForConditionalGeneration": Composite(qwen_vl.qwen3_vl, "Qwen3MoeForCausalLM"),
    "Qwen3_5ForConditionalGeneration": Composite(qwen_vl.qwen3_vl, "Qwen3_5ForCausalLM"),
    "Qwen3_5MoeForConditionalGeneration": Composite(qwen_vl.qwen3_vl, "Qwen3_5MoeForCausalLM"),
    "Qwen4ExpForConditionalGeneration": Composite(qwen_vl.qwen3_vl, "Qwen4ExpForCausalLM"),
    "SkyworkR1VChatModel": Composite(intern_vit.internvl_chat),
    "SmolVLMForConditionalGeneration": Composite(tiled.idefics3, "LlamaForCausalLM"),
    "Step3VLForConditionalGeneration": Composite(tiled.step3, "Step3TextForCausalLM"),
    "UltravoxModel": Composite(audio.ultravox),
    "VoxtralForConditionalGeneration": Composite(audio.voxtral),
    "WhisperForConditionalGeneration": Composite(audio.whisper, "WhisperForConditionalGeneration"),
}
"""Composite classes by name, as ``architectures`` of a configuration spells it. Source: vLLM 0.32, ``registry.py``."""

TYPES = {"deepseek_vl_v2": "DeepseekVLV2ForCausalLM"}
"""Classes of the types whose published files list no class."""

_MINICPM_CLASSES = {
    "2": "MiniCPMForCausalLM",
    "2.0": "MiniCPMForCausalLM",
    "2.5": "LlamaForCausalLM",
    "2.6": "Qwen2ForCausalLM",
    "4": "LlamaForCausalLM",
    "4.0": "LlamaForCausalLM",
    "4.5": "Qwen3ForCausalLM",
}
"""The language model of MiniCPM-V and MiniCPM-o by ``version``. Source: vLLM's ``minicpmv.py``, ``minicpmo.py``."""


_MINICPM_2_WIDTH = 2304


def language_class(fields: Fields, composite: Composite) -> str | None:
    """Return the class that the language model of a composite configuration behaves as; None if it is unknown.

    The section names the class. If it does not, the class follows from the section's ``model_type``.

    Raises:
        InvalidInput: a section is no object.
    """
    if composite.language is not None:
        return composite.language
    if composite.encoder in (qformer.minicpmv, qformer.minicpmo):
        return _minicpm_class(fields)
    return section_class(fields)


def _minicpm_class(fields: Fields) -> str | None:
    """Return the class by version. Files without a version are of 2.0, or of 2.5 if the model is wider."""
    if not fields.has("version"):
        return "MiniCPMForCausalLM" if fields.values.get("hidden_size") == _MINICPM_2_WIDTH else "LlamaForCausalLM"
    return _MINICPM_CLASSES.get(str(fields.values["version"]))


def reads_items_whole(whole: Fields, language: Fields) -> bool:
    """Whether one step of the engine must hold each image, video or sound as a whole.

    It is so if positions of an item attend to later ones of it, or if an encoder-decoder reads its input at
    once. Source: vLLM 0.32, ``is_mm_prefix_lm`` of ``transformers_utils/model_arch_config_convertor.py``, and
    ``__post_init__`` of ``config/scheduler.py``.
    """
    kind = next(iter(whole.texts("architectures")), "")
    if kind in _LATER_POSITIONS_IF_NAMED:
        return language.values.get("use_bidirectional_attention") == "vision"
    return kind in _LATER_POSITIONS or (kind.startswith("DeepseekV4For") and whole.has("vision_n_layers"))


_LATER_POSITIONS = frozenset(
    {
        "BagelForConditionalGeneration",
        "Gemma3ForConditionalGeneration",
        "Molmo2ForConditionalGeneration",
        "Moondream3ForCausalLM",
        "PaliGemmaForConditionalGeneration",
        "WhisperForConditionalGeneration",
    }
)

_LATER_POSITIONS_IF_NAMED = frozenset({"Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"})


def section_class(fields: Fields) -> str | None:
    """Return the language model's class from its own section; None if there is no section or it names no class.

    Raises:
        InvalidInput: a section is no object.
    """
    section = _language_section(fields)
    if section is None:
        return None
    if section.text("model_type") == "deepseek_v2" and not section.has("kv_lora_rank"):
        return "DeepseekForCausalLM"
    kind = LANGUAGE_CLASSES.get(section.text("model_type") or "")
    listed = section.texts("architectures")
    return kind or (listed[0] if listed else None)


def language_fields(fields: Fields) -> Fields:
    """Return the language model's fields: its section first, then the defaults of its ``model_type``, then the file.

    A section leaves out the defaults of its configuration class, and quantization and ties are often outside it. A
    section without latent attention may write 0 for its sizes (DeepSeek-OCR). The type of the whole file has priority
    over that of the section, as in vLLM's ``_find_dtype``.

    Raises:
        InvalidInput: a section is no object.
    """
    key = fields.first(_LANGUAGE_SECTIONS)
    section = fields.section(key) if key is not None else None
    if section is None:
        return fields
    inner = language_fields(section)
    outside = {name: value for name, value in fields.values.items() if mapping_of(value) is None or name in _SHARED}
    zeros = () if inner.values.get("kv_lora_rank") else _LATENT_SIZES
    own = {
        name: value for name, value in inner.values.items() if value is not None and not (name in zeros and value == 0)
    }
    defaults = SECTION_DEFAULTS.get(inner.text("model_type") or "", {})
    dtype = {name: fields.values[name] for name in _DTYPES if fields.has(name)}
    if dtype:
        own = {name: value for name, value in own.items() if name not in _DTYPES}
    return Fields({**outside, **defaults, **own, **dtype}, inner.origin)


def _language_section(fields: Fields) -> Fields | None:
    key = fields.first(_LANGUAGE_SECTIONS)
    section = fields.section(key) if key is not None else None
    if section is None:
        return None
    return _language_section(section) or section


_LATENT_SIZES = ("v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank")

_DTYPES = ("torch_dtype", "dtype")

_SHARED = ("quantization_config", "compression_config", "rope_scaling")
"""Objects outside the section that describe the language model."""
