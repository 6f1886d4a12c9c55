"""AMD Quark's exports: one scheme for all layers, others for named ones.

Source: vLLM, ``quantization/quark/quark.py`` (``_find_matched_config``, ``get_scheme_cls``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.assignment import Assignment, ordered_rules, uniform
from plimsoll.facts.models.quantization.formats import FOUR_BITS, MX_GROUP, QuantizationScheme, block_shape
from plimsoll.facts.models.quantization.module_list import module_list

_FP8_CAPABILITY = (8, 9)
_FP8 = ("fp8_e4m3", "fp8_e4m3fn")


def quark(name: str, section: Fields, _fields: Fields) -> Assignment:
    """``exclude`` first, then ``layer_quant_config``, then the scheme of all; never the output projection."""
    by_type = section.section("layer_type_quant_config")
    if by_type is not None and by_type.values:
        raise UnsupportedModel(name, "Quark's settings by class (quantization_config.layer_type_quant_config)")
    everywhere = section.section("global_quant_config")
    if everywhere is None:
        raise UnsupportedModel(name, "Quark without settings for all layers (quantization_config.global_quant_config)")
    left = module_list(name, section.texts("exclude"))
    kv = _kv_precision(name, section)
    rules = ordered_rules(name, _named(name, section))
    return replace(uniform(_scheme(name, everywhere), left, kv_precision=kv), rules=rules)


def _named(name: str, section: Fields) -> Iterator[tuple[str, QuantizationScheme]]:
    """Named layers; an entry without weights only describes the KV cache."""
    layers = section.section("layer_quant_config")
    if layers is None:
        return
    for pattern in layers.values:
        settings = layers.section(pattern)
        if settings is not None and settings.has("weight"):
            yield pattern, _scheme(name, settings)


def _scheme(name: str, settings: Fields) -> QuantizationScheme:
    if isinstance(settings.values.get("weight"), list):
        return _two_levels(name, settings)
    weight = settings.section("weight")
    if weight is None:
        raise UnsupportedModel(name, "Quark's settings without weights (quantization_config: weight)")
    dtype, by = weight.text("dtype") or "", weight.text("qscheme") or ""
    scheme = _float8(weight, by) if dtype in _FP8 else _other(weight, dtype, by)
    if scheme is None:
        raise UnsupportedModel(name, f"Quark's {shown(dtype)} weights {shown(by)} (quantization_config: weight)")
    return scheme


def _float8(weight: Fields, by: str) -> QuantizationScheme | None:
    if by == "per_block":
        block = block_shape(weight, "block_size")
        return None if block is None else replace(formats.fp8_blocks(*block), min_capability=_FP8_CAPABILITY)
    if by == "per_group":
        return formats.MXFP8 if weight.optional_integer(("group_size",)) == MX_GROUP else None
    storage = {"per_tensor": formats.FP8_TENSOR, "per_channel": formats.FP8_CHANNEL}.get(by)
    return None if storage is None else QuantizationScheme(storage, min_capability=_FP8_CAPABILITY)


def _other(weight: Fields, dtype: str, by: str) -> QuantizationScheme | None:
    group = weight.optional_integer(("group_size",))
    match (dtype, by):
        case ("fp4", "per_group") if group == MX_GROUP:
            return formats.MXFP4
        case ("int8", "per_tensor"):
            return QuantizationScheme(formats.INT8_TENSOR)
        case ("int8", "per_channel"):
            return QuantizationScheme(formats.INT8_CHANNEL)
        case ("int4" | "uint4", "per_group") if group is not None:
            return formats.packed_integers(FOUR_BITS, group, symmetric=weight.flag("symmetric", default=True))
        case _:
            return None


def _two_levels(name: str, settings: Fields) -> QuantizationScheme:
    """Scales of scales: NVFP4 is the one that vLLM runs for dense layers."""
    levels = [settings_of for settings_of in settings.items("weight") if isinstance(settings_of, dict)]
    if any(level.get("dtype") == "fp4" and level.get("group_size") == formats.NVFP4_GROUP for level in levels):
        return formats.nvfp4()
    raise UnsupportedModel(name, "Quark's weights with scales of scales (quantization_config: weight)")


def _kv_precision(name: str, section: Fields) -> KvPrecision | None:
    export = section.section("export")
    if export is None or not export.texts("kv_cache_group"):
        return None
    layers = section.section("layer_quant_config")
    for pattern in layers.values if layers is not None else ():
        settings = layers.section(pattern) if layers is not None else None
        outputs = settings.section("output_tensors") if settings is not None else None
        if outputs is not None and outputs.text("dtype") not in _FP8:
            raise UnsupportedModel(name, "a KV cache of another type than FP8 (quantization_config: output_tensors)")
    return KvPrecision.FP8
