"""torchao's checkpoints: integers of four or eight bits, or FP8, for all linear layers or for each by its name.

Sources: vLLM, ``quantization/torchao.py`` (routed experts, embeddings and the output projection stay in 16 bits), and
the tensors that torchao 0.18 makes.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, mapping_of, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.assignment import Assignment, most_weights, ordered_rules
from plimsoll.facts.models.quantization.formats import QuantizationScheme
from plimsoll.facts.models.quantization.module_list import REGULAR_EXPRESSION, module_list

_BY_NAME = {"FqnToConfig": "fqn_to_config", "ModuleFqnToConfig": "module_fqn_to_config"}
"""torchao's types with one setting for each module, and the field that holds these settings."""

_DEFAULT = "_default"
_USUAL_GROUP = 128
_FLOAT8_ACTIVATIONS = (8, 9)
_INT8 = ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig")

IMAGE_REMARK = (
    "The checkpoint is torchao's, and the engine loads it with the Python package torchao, which its usual image does "
    "not hold: name one that does (spec.engine.image), or take a checkpoint in another format (FP8, AWQ, GPTQ)."
)


def torchao(name: str, section: Fields, _fields: Fields) -> Assignment:
    """One setting for every linear layer of the decoder, or settings by name with a default."""
    settings = _settings(name, section)
    left = module_list(name, section.texts("modules_to_not_convert"))
    key = _BY_NAME.get(settings.text("_type") or "")
    if key is None:
        scheme = _scheme(name, settings)
        return Assignment(scheme, left, experts=None, others=scheme)
    modules = _data(settings).section(key)
    chosen = {} if modules is None else dict(_chosen(name, modules))
    default = chosen.pop(_DEFAULT, None)
    sizes = {each: sum(each == other for other in chosen.values()) for each in chosen.values() if each is not None}
    if default is None and not sizes:
        raise UnsupportedModel(name, f"torchao's settings without a format (quantization_config.quant_type: {key})")
    headline = default if default is not None else most_weights(sizes)
    # The engine looks up names before patterns.
    ordered = sorted(chosen.items(), key=lambda entry: entry[0].startswith(REGULAR_EXPRESSION))
    rules = ordered_rules(name, ((_whole(module), scheme) for module, scheme in ordered))
    return Assignment(headline, left, rules, others=default)


def _settings(name: str, section: Fields) -> Fields:
    """Return the settings that vLLM reads: a dictionary with the one key ``default``."""
    kinds = section.section("quant_type") if mapping_of(section.values.get("quant_type")) is not None else None
    settings = None if kinds is None else kinds.section("default")
    if settings is None:
        kind = shown(section.values.get("quant_type"))
        raise UnsupportedModel(name, f"torchao's {kind!r}: the engine wants quant_type.default (quantization_config)")
    return settings


def _data(settings: Fields) -> Fields:
    return settings.section("_data") or Fields({}, settings.origin)


def _chosen(name: str, modules: Fields) -> Iterator[tuple[str, QuantizationScheme | None]]:
    """Yield the scheme of each named module, None for 16 bits."""
    for module in modules.values:
        settings = modules.section(module)
        yield module, None if settings is None else _scheme(name, settings)


def _whole(module: str) -> str:
    """Return an entry whose pattern, if it is one, must match the whole name."""
    simple = module.startswith(REGULAR_EXPRESSION) and "|" not in module and not module.endswith("$")
    return f"{module}$" if simple else module


def _scheme(name: str, settings: Fields) -> QuantizationScheme:
    kind = settings.text("_type") or ""
    data = _data(settings)
    if kind == "Int4WeightOnlyConfig":
        return formats.four_bits_with_float_zero_points(data.optional_integer(("group_size",)) or _USUAL_GROUP)
    if kind in _INT8 and not data.has("group_size"):
        return QuantizationScheme(formats.INT8_ZERO_POINTS)
    if kind == "Float8WeightOnlyConfig":
        return QuantizationScheme(formats.FP8_CHANNEL)
    if kind == "Float8DynamicActivationFloat8WeightConfig":
        return QuantizationScheme(formats.FP8_CHANNEL, min_capability=_FLOAT8_ACTIVATIONS)
    raise UnsupportedModel(name, f"torchao's {shown(kind)!r} (quantization_config.quant_type)")
