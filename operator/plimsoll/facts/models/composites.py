"""Composite models: a language model and a vision or audio tower, each with its own section in the file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.section_defaults import LANGUAGE_CLASSES, SECTION_DEFAULTS

_LANGUAGE_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Sections of composite configurations that describe the language model."""


class EncoderRule(Enum):
    """How the tower of a composite class is built: the builder in :mod:`plimsoll.facts.models.encoders`."""

    NONE = auto()
    GENERIC = auto()
    """Estimated from the usual fields of ``vision_config``."""
    AUDIO_FLAMINGO3 = auto()
    BLIP2 = auto()
    COHERE2_VISION = auto()
    DEEPSEEK_OCR = auto()
    DEEPSEEK_V41 = auto()
    DEEPSEEK_VL2 = auto()
    DOTS_OCR = auto()
    GEMMA3 = auto()
    GEMMA3N = auto()
    GEMMA4 = auto()
    GLM4V = auto()
    GLM5_NEXT = auto()
    GLM4_1V = auto()
    GLM_OCR = auto()
    GRANITE_SPEECH = auto()
    IDEFICS3 = auto()
    INTERNVL = auto()
    INTERNVL_CHAT = auto()
    KIMI_K25 = auto()
    KIMI_VL = auto()
    LFM2_VL = auto()
    LLAMA4 = auto()
    LLAVA = auto()
    LLAVA_NEXT = auto()
    LLAVA_NEXT_VIDEO = auto()
    LLAVA_ONEVISION = auto()
    MINICPMO = auto()
    MINICPMV = auto()
    MINIMAX_M3 = auto()
    MISTRAL3 = auto()
    MOLMO = auto()
    MUSE_GLIMMER = auto()
    NEMOTRON_VL = auto()
    OVIS = auto()
    PALIGEMMA = auto()
    PHI3V = auto()
    PHI4MM = auto()
    QWEN2_5_OMNI = auto()
    QWEN2_5_VL = auto()
    QWEN2_AUDIO = auto()
    QWEN2_VL = auto()
    QWEN3_ASR = auto()
    QWEN3_OMNI = auto()
    QWEN3_VL = auto()
    STEP3 = auto()
    ULTRAVOX = auto()
    VOXTRAL = auto()
    WHISPER = auto()


@dataclass(frozen=True, slots=True)
class Composite:
    """A class with a tower: the tower's builder, and the class its language model behaves as.

    ``language`` is None where the language model's section names its class. A class with a :attr:`EncoderRule.GENERIC`
    tower is listed only because of its language model: the engine fixes that in code, and no file names it.
    """

    encoder: EncoderRule
    language: str | None = None


COMPOSITES: dict[str, Composite] = {
    "AudioFlamingo3ForConditionalGeneration": Composite(EncoderRule.AUDIO_FLAMINGO3),
    "BailingMoeV3VLForConditionalGeneration": Composite(EncoderRule.GENERIC, "BailingMoeV3ForCausalLM"),
    "Blip2ForConditionalGeneration": Composite(EncoderRule.BLIP2),
    "Cohere2VisionForConditionalGeneration": Composite(EncoderRule.COHERE2_VISION),
    "DeepseekOCRForCausalLM": Composite(EncoderRule.DEEPSEEK_OCR),
    "DeepseekV41ForCausalLM": Composite(EncoderRule.DEEPSEEK_V41, "DeepseekV41ForCausalLM"),
    "DeepseekVLV2ForCausalLM": Composite(EncoderRule.DEEPSEEK_VL2),
    "DotsOCRForCausalLM": Composite(EncoderRule.DOTS_OCR, "Qwen2ForCausalLM"),
    "Exaone4_5_ForConditionalGeneration": Composite(EncoderRule.QWEN2_5_VL, "Exaone4ForCausalLM"),
    "GLM4VForCausalLM": Composite(EncoderRule.GLM4V, "ChatGLMModel"),
    "Gemma3ForConditionalGeneration": Composite(EncoderRule.GEMMA3, "Gemma3ForCausalLM"),
    "Gemma3nForConditionalGeneration": Composite(EncoderRule.GEMMA3N, "Gemma3nForCausalLM"),
    "Gemma4ForConditionalGeneration": Composite(EncoderRule.GEMMA4, "Gemma4ForCausalLM"),
    "Gemma4UnifiedForConditionalGeneration": Composite(EncoderRule.GENERIC, "Gemma4ForCausalLM"),
    "Glm4vForConditionalGeneration": Composite(EncoderRule.GLM4_1V, "Glm4ForCausalLM"),
    "Glm4vMoeForConditionalGeneration": Composite(EncoderRule.GLM4_1V, "Glm4MoeForCausalLM"),
    "Glm5NextForConditionalGeneration": Composite(EncoderRule.GLM5_NEXT, "Glm5NextForCausalLM"),
    "GlmOcrForConditionalGeneration": Composite(EncoderRule.GLM_OCR, "Glm4ForCausalLM"),
    "GraniteSpeechForConditionalGeneration": Composite(EncoderRule.GRANITE_SPEECH),
    "H2OVLChatModel": Composite(EncoderRule.INTERNVL_CHAT),
    "Idefics3ForConditionalGeneration": Composite(EncoderRule.IDEFICS3, "LlamaForCausalLM"),
    "InternS1ForConditionalGeneration": Composite(EncoderRule.INTERNVL),
    "InternVLChatModel": Composite(EncoderRule.INTERNVL_CHAT),
    "InternVLForConditionalGeneration": Composite(EncoderRule.INTERNVL),
    "IsaacForConditionalGeneration": Composite(EncoderRule.GENERIC, "Qwen3ForCausalLM"),
    "KananaVForConditionalGeneration": Composite(EncoderRule.GENERIC, "LlamaForCausalLM"),
    "KeyeForConditionalGeneration": Composite(EncoderRule.GENERIC, "Qwen3ForCausalLM"),
    "KeyeVL1_5ForConditionalGeneration": Composite(EncoderRule.GENERIC, "Qwen3ForCausalLM"),
    "KimiK25ForConditionalGeneration": Composite(EncoderRule.KIMI_K25, "DeepseekV3ForCausalLM"),
    "KimiK3ForConditionalGeneration": Composite(EncoderRule.KIMI_K25, "KimiLinearForCausalLM"),
    "KimiVLForConditionalGeneration": Composite(EncoderRule.KIMI_VL, "DeepseekV3ForCausalLM"),
    "Lfm2VlForConditionalGeneration": Composite(EncoderRule.LFM2_VL),
    "LightOnOCRForConditionalGeneration": Composite(EncoderRule.MISTRAL3),
    "Llama4ForConditionalGeneration": Composite(EncoderRule.LLAMA4, "Llama4ForCausalLM"),
    "LlavaForConditionalGeneration": Composite(EncoderRule.LLAVA),
    "LlavaNextForConditionalGeneration": Composite(EncoderRule.LLAVA_NEXT),
    "LlavaNextVideoForConditionalGeneration": Composite(EncoderRule.LLAVA_NEXT_VIDEO),
    "LlavaOnevision2ForConditionalGeneration": Composite(EncoderRule.GENERIC, "Qwen3ForCausalLM"),
    "LlavaOnevisionForConditionalGeneration": Composite(EncoderRule.LLAVA_ONEVISION),
    "MiniCPMO": Composite(EncoderRule.MINICPMO),
    "MiniCPMV": Composite(EncoderRule.MINICPMV),
    "MiniMaxM3SparseForConditionalGeneration": Composite(EncoderRule.MINIMAX_M3, "MiniMaxM3SparseForCausalLM"),
    "Mistral3ForConditionalGeneration": Composite(EncoderRule.MISTRAL3),
    "MolmoForCausalLM": Composite(EncoderRule.MOLMO, "MolmoForCausalLM"),
    "MuseGlimmerForConditionalGeneration": Composite(EncoderRule.MUSE_GLIMMER, "MuseGlimmerForCausalLM"),
    "NemotronH_Nano_VL_V2": Composite(EncoderRule.NEMOTRON_VL),
    "OpenCUAForConditionalGeneration": Composite(EncoderRule.QWEN2_5_VL, "Qwen2ForCausalLM"),
    "OpenPanguVLForConditionalGeneration": Composite(EncoderRule.GENERIC, "PanguEmbeddedForCausalLM"),
    "Ovis": Composite(EncoderRule.OVIS),
    "PaliGemmaForConditionalGeneration": Composite(EncoderRule.PALIGEMMA),
    "Phi3VForCausalLM": Composite(EncoderRule.PHI3V, "Phi3ForCausalLM"),
    "Phi4MMForCausalLM": Composite(EncoderRule.PHI4MM, "Phi3ForCausalLM"),
    "QianfanOCRForConditionalGeneration": Composite(EncoderRule.INTERNVL_CHAT),
    "Qwen2AudioForConditionalGeneration": Composite(EncoderRule.QWEN2_AUDIO),
    "Qwen2VLForConditionalGeneration": Composite(EncoderRule.QWEN2_VL, "Qwen2ForCausalLM"),
    "Qwen2_5OmniForConditionalGeneration": Composite(EncoderRule.QWEN2_5_OMNI, "Qwen2ForCausalLM"),
    "Qwen2_5OmniModel": Composite(EncoderRule.QWEN2_5_OMNI, "Qwen2ForCausalLM"),
    "Qwen2_5_VLForConditionalGeneration": Composite(EncoderRule.QWEN2_5_VL, "Qwen2ForCausalLM"),
    "Qwen3ASRForConditionalGeneration": Composite(EncoderRule.QWEN3_ASR, "Qwen3ForCausalLM"),
    "Qwen3OmniMoeForConditionalGeneration": Composite(EncoderRule.QWEN3_OMNI, "Qwen3MoeForCausalLM"),
    "Qwen3VLForConditionalGeneration": Composite(EncoderRule.QWEN3_VL, "Qwen3ForCausalLM"),
    "Qwen3VLMoeForConditionalGeneration": Composite(EncoderRule.QWEN3_VL, "Qwen3MoeForCausalLM"),
    "Qwen3_5ForConditionalGeneration": Composite(EncoderRule.QWEN3_VL, "Qwen3_5ForCausalLM"),
    "Qwen3_5MoeForConditionalGeneration": Composite(EncoderRule.QWEN3_VL, "Qwen3_5MoeForCausalLM"),
    "Qwen4ExpForConditionalGeneration": Composite(EncoderRule.QWEN3_VL, "Qwen4ExpForCausalLM"),
    "SkyworkR1VChatModel": Composite(EncoderRule.INTERNVL_CHAT),
    "SmolVLMForConditionalGeneration": Composite(EncoderRule.IDEFICS3, "LlamaForCausalLM"),
    "Step3VLForConditionalGeneration": Composite(EncoderRule.STEP3, "Step3TextForCausalLM"),
    "UltravoxModel": Composite(EncoderRule.ULTRAVOX),
    "VoxtralForConditionalGeneration": Composite(EncoderRule.VOXTRAL),
    "WhisperForConditionalGeneration": Composite(EncoderRule.WHISPER, "WhisperForConditionalGeneration"),
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
    if composite.encoder in (EncoderRule.MINICPMV, EncoderRule.MINICPMO):
        return _minicpm_class(fields)
    return section_class(fields)


def _minicpm_class(fields: Fields) -> str | None:
    """Return the class by version. Files without a version are of 2.0, or of 2.5 if the model is wider."""
    if not fields.has("version"):
        return "MiniCPMForCausalLM" if fields.values.get("hidden_size") == _MINICPM_2_WIDTH else "LlamaForCausalLM"
    return _MINICPM_CLASSES.get(str(fields.values["version"]))


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
    """The innermost section of a language model."""
    key = fields.first(_LANGUAGE_SECTIONS)
    section = fields.section(key) if key is not None else None
    if section is None:
        return None
    return _language_section(section) or section


_LATENT_SIZES = ("v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank")

_DTYPES = ("torch_dtype", "dtype")

_SHARED = ("quantization_config", "compression_config", "rope_scaling")
"""Objects outside the section that describe the language model."""
