"""Parts of a scheme that several methods share: groups, the format of the KV cache, and quantization while loading."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision, Precision, Storage
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.quantization.formats import (
    BITSANDBYTES_4,
    BYTE,
    FOUR_BITS,
    FP8_TENSOR,
    INT8_CHANNEL,
    MXFP4,
    awq,
    gptq,
    nvfp4,
)

_WHOLE_ROW = -1


def group_size(section: Fields, keys: Sequence[str] = ("group_size",)) -> int | None:
    """Inputs that share a scale; -1, the convention for one scale a channel, reads as None.

    Raises:
        InvalidInput: it is neither -1 nor a count.
    """
    key = section.first(keys)
    if key is None or (section.values[key] == _WHOLE_ROW and not isinstance(section.values[key], bool)):
        return None
    return section.integer((key,))


def block_shape(section: Fields, key: str) -> tuple[int, int] | None:
    """Outputs and inputs of one block, None if the method has no blocks.

    Raises:
        InvalidInput: it is not a pair of counts.
    """
    edges = section.items(key)
    if not edges:
        return None
    counts = [edge for edge in edges if isinstance(edge, int) and not isinstance(edge, bool) and 0 < edge <= _LARGEST]
    if len(edges) != 2 or len(counts) != 2:  # noqa: PLR2004
        raise section.refuse(key, "Give two whole numbers, e.g. [128, 128].")
    return counts[0], counts[1]


_LARGEST = 1_000_000


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


_GROUP = 128
"""Weights that share a scale in nearly every published AWQ and GPTQ checkpoint."""

ONLINE: dict[Precision, Storage] = {
    Precision.FP8: FP8_TENSOR,
    Precision.BITSANDBYTES: BITSANDBYTES_4,
}
"""The new storage of linear layers; embeddings and the output projection do not change.

FP8 has one scale a tensor (``quantization/online/fp8.py``); vLLM 0.19 measured 8.49 GiB for Llama 3.1 8B on an H100,
rotary table (31 MiB) included. bitsandbytes is quantized to NF4 with double quantization and unpacked to 32-bit scales.
"""

TYPICAL: dict[Precision, Storage] = {
    **ONLINE,
    Precision.INT8: INT8_CHANNEL,
    Precision.AWQ: awq(_GROUP, zero_points=True).storage,
    Precision.GPTQ: gptq(4, _GROUP, activation_order=False).storage,
    Precision.MXFP4: MXFP4.storage,
    Precision.NVFP4: nvfp4().storage,
}
"""Usual storage of checkpoints in other precisions, to estimate the memory that one would need."""
