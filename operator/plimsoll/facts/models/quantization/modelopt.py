"""NVIDIA ModelOpt's exports: FP8, NVFP4, MXFP8, or one of them for each module.

Source: vLLM, ``quantization/modelopt.py``. The section is that of ``config.json`` or, in older exports, of
``hf_quant_config.json``, whose settings are nested under ``quantization``.
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.facts.models.fields import Fields, mapping_of, shown
from plimsoll.facts.models.quantization.assignment import Assignment, most_weights, uniform
from plimsoll.facts.models.quantization.formats import (
    FP8_CHANNEL,
    FP8_TENSOR,
    MXFP8,
    NVFP4_GROUP,
    QuantizationScheme,
    fp8_blocks,
    kv_precision,
    nvfp4,
)
from plimsoll.facts.models.quantization.module_list import ModuleList, module_list

_BLOCK = 128
_FP8_CAPABILITY = (8, 0)
_KV_KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")
_SHARES = (("experts", 64), ("mlp", 4), ("ffn", 4))
"""Size of a listed module by its name, relative to an attention projection. Only the order of the sizes matters."""


def is_modelopt(section: Fields) -> bool:
    """Whether an export without a method is ModelOpt's: it names ModelOpt as producer or has its configuration."""
    producer = section.section("producer")
    signed = producer is not None and producer.text("name") == "modelopt"
    return signed or "modelopt_quant_config" in (mapping_of(section.values.get("quantization")) or {})


def modelopt(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Read one algorithm for all modules except the excluded ones, or one algorithm for each listed module."""
    settings = section.section("quantization") or section
    left = module_list(name, (*settings.texts("ignore"), *settings.texts("exclude_modules")))
    algorithm = (settings.text("quant_algo") or "").upper()
    kv = kv_precision(name, settings, _KV_KEYS) or kv_precision(name, section, _KV_KEYS)
    if algorithm == "MIXED_PRECISION":
        return _mixed(name, settings, left, kv_precision(name, settings, _KV_KEYS))
    return uniform(_scheme(name, algorithm, settings), left, head=True, kv_precision=kv)


def _scheme(name: str, algorithm: str, settings: Fields) -> QuantizationScheme:
    match algorithm:
        case "FP8":
            return QuantizationScheme(FP8_TENSOR, min_capability=_FP8_CAPABILITY)
        case "FP8_PER_CHANNEL_PER_TOKEN":
            return QuantizationScheme(FP8_CHANNEL, min_capability=_FP8_CAPABILITY)
        case "FP8_PB_WO" | "FP8_BLOCK_SCALES":
            return fp8_blocks(_BLOCK, _BLOCK)
        case "NVFP4" | "W4A16_NVFP4":
            return nvfp4(settings.optional_integer(("group_size",)) or NVFP4_GROUP)
        case "MXFP8":
            return MXFP8
        case _:
            raise UnsupportedModel(name, f"ModelOpt's {shown(algorithm)!r} (quantization_config.quant_algo)")


def _mixed(name: str, settings: Fields, left: ModuleList, kv: KvPrecision | None) -> Assignment:
    """Read ``quantized_layers``: modules that it does not list stay in 16 bits."""
    layers = settings.section("quantized_layers")
    if layers is None or not layers.values:
        raise UnsupportedModel(name, "MIXED_PRECISION without quantized_layers (quantization_config)")
    modules: dict[QuantizationScheme, list[str]] = {}
    for module in layers.values:
        chosen = layers.section(module)
        if chosen is None:
            continue
        scheme = _scheme(name, (chosen.text("quant_algo") or "").upper(), chosen)
        modules.setdefault(scheme, []).append(module)
    if not modules:
        raise UnsupportedModel(name, "MIXED_PRECISION without quantized_layers (quantization_config)")
    rules = tuple((module_list(name, names), scheme) for scheme, names in modules.items())
    headline = most_weights({scheme: _share(names) for scheme, names in modules.items()})
    return Assignment(headline, left, rules, kv_precision=kv)


def _share(names: Iterable[str]) -> int:
    return sum(next((share for part, share in _SHARES if part in name), 1) for name in names)
