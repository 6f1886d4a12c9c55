"""bitsandbytes checkpoints: NF4 or FP4 in blocks of 64, or 8 bits a channel.

Source: vLLM's ``quantization/bitsandbytes.py`` and ``model_loader/bitsandbytes_loader.py`` (a plugin since 0.28).
"""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization.assignment import Assignment, uniform
from plimsoll.facts.models.quantization.formats import BITSANDBYTES_4, BITSANDBYTES_8, Scheme
from plimsoll.facts.models.quantization.module_list import module_list

_FOUR_BIT_TYPES = ("nf4", "fp4")


def bitsandbytes(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Every linear layer but those listed; the output projection is none of them."""
    left = module_list(name, section.texts("llm_int8_skip_modules"))
    if section.flag("load_in_4bit", default=False):
        kind = section.text("bnb_4bit_quant_type") or _FOUR_BIT_TYPES[0]
        if kind not in _FOUR_BIT_TYPES:
            raise UnsupportedModel(name, f"bitsandbytes' {shown(kind)!r} (quantization_config.bnb_4bit_quant_type)")
        return uniform(Scheme(BITSANDBYTES_4), left)
    if section.flag("load_in_8bit", default=False):
        return uniform(Scheme(BITSANDBYTES_8), left)
    raise UnsupportedModel(name, "bitsandbytes without load_in_4bit or load_in_8bit (quantization_config)")
