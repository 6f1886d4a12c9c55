"""The number format a checkpoint fixes for its KV cache."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.precision import KvPrecision
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.quantization.formats import BYTE, FOUR_BITS

_BY_NAME = {"FP8": KvPrecision.FP8, "NVFP4": KvPrecision.NVFP4, "NONE": None, "": None}
_BY_BITS = {BYTE: KvPrecision.FP8, FOUR_BITS: KvPrecision.NVFP4}


def kv_precision(name: str, section: Fields, keys: tuple[str, ...]) -> KvPrecision | None:
    """The format under the first key that is set, as a word or as a scheme.

    Source: vLLM, ``utils/torch_utils.py``, ``get_kv_cache_quant_algo_string``.

    Raises:
        UnsupportedModel: it is neither FP8 nor NVFP4.
    """
    key = section.first(keys)
    if key is None:
        return None
    if mapping_of(section.values[key]) is None:
        word = (section.text(key) or "").upper()
        if word not in _BY_NAME:
            raise _unknown(name, key)
        return _BY_NAME[word]
    scheme = section.section(key) or section
    bits = scheme.integer(("num_bits",))
    if (scheme.text("type") or "").lower() != "float" or bits not in _BY_BITS:
        raise _unknown(name, key)
    return _BY_BITS[bits]


def _unknown(name: str, key: str) -> UnsupportedModel:
    return UnsupportedModel(name, f"a KV cache of another type than FP8 or NVFP4 (quantization_config.{key})")
