"""AWQ and GPTQ: integers of four or eight bits in groups along the inputs. bitsandbytes: NF4, FP4 or 8 bits.

Source: vLLM, ``quantization/auto_awq.py``, ``auto_gptq.py``, ``utils/gptq_utils.py`` and ``bitsandbytes.py``, with
``model_loader/bitsandbytes_loader.py`` (a plugin since 0.28).
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.assignment import Assignment, ordered_rules, uniform
from plimsoll.facts.models.quantization.formats import BYTE, FOUR_BITS, QuantizationScheme
from plimsoll.facts.models.quantization.module_list import module_list

_NEGATIVE, _POSITIVE = "-:", "+:"


def awq(name: str, section: Fields, _fields: Fields) -> Assignment:
    """AWQ, four bits; the output projection if ``lm_head`` says so."""
    bits = section.integer(("w_bit", "bits"))
    if bits != FOUR_BITS:
        raise UnsupportedModel(name, f"{bits}-bit AWQ (quantization_config.bits)")
    group = formats.group_size(section, ("q_group_size", "group_size"))
    scheme = formats.awq(group, zero_points=section.flag("zero_point", default=True))
    left = module_list(name, section.texts("modules_to_not_convert"))
    return uniform(scheme, left, head=section.flag("lm_head", default=False))


def gptq(name: str, section: Fields, _fields: Fields) -> Assignment:
    """GPTQ of four or eight bits, with the settings of single modules (``dynamic``)."""
    scheme = _scheme(name, section, section)
    rules = ordered_rules(name, _overrides(name, section), all_patterns=True)
    chosen = tuple(_names(section, "modules_in_block_to_quantize"))
    head = scheme if section.flag("lm_head", default=False) else None
    left = module_list(name, section.texts("modules_to_not_convert"))
    if chosen:
        return Assignment(scheme, left, (*rules, (module_list(name, chosen), scheme)), head=head)
    return Assignment(scheme, left, rules, head=head, experts=scheme, others=scheme)


def _scheme(name: str, section: Fields, override: Fields) -> QuantizationScheme:
    """Return the scheme of the file; settings in ``override`` replace those of the file."""
    bits = override.optional_integer(("bits",)) or section.integer(("bits",))
    if bits not in (FOUR_BITS, BYTE):
        raise UnsupportedModel(name, f"{bits}-bit GPTQ (quantization_config.bits)")
    group = formats.group_size(override if override.has("group_size") else section)
    order = override.flag("desc_act", default=section.flag("desc_act", default=False))
    return formats.gptq(bits, group, activation_order=order)


def _overrides(name: str, section: Fields) -> Iterator[tuple[str, QuantizationScheme | None]]:
    """GPTQModel's ``dynamic``: patterns, ``-:`` for modules left in 16 bits, ``+:`` or nothing for other settings."""
    dynamic = section.section("dynamic")
    if dynamic is None:
        return
    for pattern in dynamic.values:
        positive = pattern.removeprefix(_POSITIVE)
        if pattern.startswith(_NEGATIVE):
            yield pattern.removeprefix(_NEGATIVE), None
            continue
        settings = dynamic.section(pattern)
        scheme = _scheme(name, section, settings if settings is not None else section)
        yield positive, scheme


def _names(section: Fields, key: str) -> Iterator[str]:
    for entry in section.items(key):
        names = entry if isinstance(entry, list | tuple) else (entry,)
        for name in names:
            if not isinstance(name, str):
                raise section.refuse(key, "Write a list of names.")
            yield name


_FOUR_BIT_TYPES = ("nf4", "fp4")


def bitsandbytes(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Every linear layer but those listed; the output projection is none of them."""
    left = module_list(name, section.texts("llm_int8_skip_modules"))
    if section.flag("load_in_4bit", default=False):
        kind = section.text("bnb_4bit_quant_type") or _FOUR_BIT_TYPES[0]
        if kind not in _FOUR_BIT_TYPES:
            raise UnsupportedModel(name, f"bitsandbytes' {shown(kind)!r} (quantization_config.bnb_4bit_quant_type)")
        return uniform(QuantizationScheme(formats.BITSANDBYTES_4), left)
    if section.flag("load_in_8bit", default=False):
        return uniform(QuantizationScheme(formats.BITSANDBYTES_8), left)
    raise UnsupportedModel(name, "bitsandbytes without load_in_4bit or load_in_8bit (quantization_config)")
