"""Checkpoints in FP8, with one scale a tensor, a channel or a block, and GPT-OSS's own export in MXFP4.

Source: vLLM, ``quantization/fp8.py``, ``fbgemm_fp8.py``, ``mxfp4.py`` and ``models/deepseek_v4/quant_config.py``.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization.assignment import Assignment, uniform
from plimsoll.facts.models.quantization.formats import (
    BYTE_SCALE,
    FP8_CHANNEL,
    FP8_TENSOR,
    MX_GROUP,
    MXFP4,
    QuantizationScheme,
    block_shape,
    fp8_blocks,
    nvfp4,
)
from plimsoll.facts.models.quantization.module_list import module_list

_DEEPSEEK_V4 = ("deepseek_v4", "deepseek_v41", "deepseek_v41_text")


def fp8(name: str, section: Fields, fields: Fields) -> Assignment:
    """Read block or per-tensor FP8. DeepSeek V4 also has experts in four bits."""
    left = module_list(name, section.texts("ignored_layers") or section.texts("modules_to_not_convert"))
    experts = _expert_scheme(name, section, fields)
    scheme = _scheme(section, exponents=fields.text("model_type") in _DEEPSEEK_V4 and experts is not None)
    found = uniform(scheme, left)
    return found if experts is None else replace(found, headline=experts, experts=experts)


def _scheme(section: Fields, *, exponents: bool) -> QuantizationScheme:
    """Return the FP8 scheme. ``exponents`` says that scales are stored as powers of two, in one byte.

    For blocks of 32 x 32 the engine copies these scales to all rows, so the format becomes MXFP8 (DeepSeek-V4.1).
    """
    block = block_shape(section, "weight_block_size")
    if block is None:
        return QuantizationScheme(FP8_TENSOR)
    if exponents and block == (MX_GROUP, MX_GROUP):
        block = (1, MX_GROUP)
    return fp8_blocks(*block, scale_bytes=BYTE_SCALE) if exponents else fp8_blocks(*block)


def _expert_scheme(name: str, section: Fields, fields: Fields) -> QuantizationScheme | None:
    """The experts' own format, None if it is that of the other layers."""
    if section.text("store_dtype") == "mxfp4":
        return MXFP4
    if fields.text("model_type") not in _DEEPSEEK_V4:
        if section.has("quant_algo") or section.has("moe_quant_algo"):
            raise UnsupportedModel(name, "weights of several precisions (quantization_config.quant_algo)")
        return None
    expert_dtype = fields.text("expert_dtype") or section.text("expert_dtype") or "fp4"
    if expert_dtype == "fp8":
        return None
    if expert_dtype != "fp4":
        raise UnsupportedModel(name, f"experts in {shown(expert_dtype)!r} (expert_dtype)")
    return nvfp4() if (section.text("moe_quant_algo") or "").upper() == "NVFP4" else MXFP4


def fbgemm_fp8(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Meta's FP8: one scale a channel; routed experts stay in 16 bits."""
    scheme = QuantizationScheme(FP8_CHANNEL, min_capability=(8, 0))
    return replace(uniform(scheme, module_list(name, section.texts("modules_to_not_convert"))), experts=None)


_EXPERT_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")


def mxfp4(name: str, _section: Fields, fields: Fields) -> Assignment:
    """Quantize only the experts; the list of exceptions has no effect."""
    if fields.first(_EXPERT_COUNTS) is None:
        raise UnsupportedModel(name, "mxfp4 weights in a dense model")
    return Assignment(MXFP4, experts=MXFP4)
