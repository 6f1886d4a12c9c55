"""Number formats of matrices in vLLM: the bytes that scales and zero points add to the weights.

Every figure is from the parameters that vLLM 0.32 registers in ``model_executor/layers/quantization``. If a kernel
rearranges them after loading, the figure is from the parameters that remain.

Parts of a scheme that several methods share follow: groups, the format of the KV cache, and quantization while loading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision, Precision, Storage
from plimsoll.facts.models.fields import Fields, mapping_of

FP32_SCALE = 4
"""FP8 and INT8 scales of a tensor, a channel or a block: ``torch.float32`` (``create_fp8_scale_parameter``)."""

HALF_SCALE = 2
"""Scales of integer groups have the model's 16-bit type (``compressed_tensors_wNa16.py``, ``auto_gptq.py``)."""

BYTE_SCALE = 1
"""MX scales are exponents of 8 bits (OCP Microscaling Formats 1.0), those of NVFP4 E4M3 numbers."""

MX_GROUP = 32
NVFP4_GROUP = 16
FOUR_BITS = 4
BYTE = 8

_GPTQ_INDEX = 8
"""``g_idx`` and its sorted copy, 32 bits each, for every input of a checkpoint with activation order."""

_W4A8_SCALE = 8
"""CUTLASS reads a group's FP8 scale from a table of 8 multiples (``cutlass_pack_scale_fp8``)."""

_BITSANDBYTES_GROUP = 64
"""Weights that share an ``absmax``: the library's default block, which vLLM does not change."""


@dataclass(frozen=True, slots=True)
class QuantizationScheme:
    """One way a checkpoint stores linear layers, and the NVIDIA GPUs that have the kernels.

    ``group_size`` is the number of inputs in a group, which tensor parallelism must not divide. Capabilities are given
    only if a method needs more than its precision does.
    """

    storage: Storage
    group_size: int | None = None
    min_capability: tuple[int, int] | None = None
    max_capability: tuple[int, int] | None = None


FP8_TENSOR = Storage(Precision.FP8, BYTE, FP32_SCALE, group_inputs=None, group_outputs=None)
FP8_CHANNEL = Storage(Precision.FP8, BYTE, FP32_SCALE)
INT8_TENSOR = Storage(Precision.INT8, BYTE, FP32_SCALE, group_inputs=None, group_outputs=None)
INT8_CHANNEL = Storage(Precision.INT8, BYTE, FP32_SCALE)
INT8_ZERO_POINTS = Storage(Precision.INT8, BYTE, FP32_SCALE, zero_point_bits=BYTE)
BITSANDBYTES_8 = Storage(Precision.BITSANDBYTES, BYTE, FP32_SCALE)
BITSANDBYTES_4 = Storage(Precision.BITSANDBYTES, FOUR_BITS, FP32_SCALE, _BITSANDBYTES_GROUP)
"""NF4 or FP4. Loading undoes the double quantization of the scales: vLLM's loader stores them in 32 bits."""

MXFP4 = QuantizationScheme(Storage(Precision.MXFP4, FOUR_BITS, BYTE_SCALE, MX_GROUP), MX_GROUP)
MXFP8 = QuantizationScheme(Storage(Precision.FP8, BYTE, BYTE_SCALE, MX_GROUP), MX_GROUP)


def nvfp4(group: int = NVFP4_GROUP) -> QuantizationScheme:
    """Return NVFP4 with the scales of its groups; the additional 4-byte scale of the whole tensor is not counted."""
    return QuantizationScheme(Storage(Precision.NVFP4, FOUR_BITS, BYTE_SCALE, group), group)


def fp8_blocks(outputs: int, inputs: int, *, scale_bytes: int = FP32_SCALE) -> QuantizationScheme:
    """FP8 in blocks of ``outputs`` x ``inputs`` weights, square (128 x 128) in every published checkpoint."""
    storage = Storage(Precision.FP8, BYTE, scale_bytes, group_inputs=inputs, group_outputs=outputs)
    return QuantizationScheme(storage, max(outputs, inputs))


def awq(group: int | None, *, zero_points: bool) -> QuantizationScheme:
    """Return AWQ: four bits, with a packed zero point for each scale."""
    zero_bits = FOUR_BITS if zero_points else 0
    return QuantizationScheme(Storage(Precision.AWQ, FOUR_BITS, HALF_SCALE, group, zero_point_bits=zero_bits), group)


def gptq(bits: int, group: int | None, *, activation_order: bool) -> QuantizationScheme:
    """GPTQ: the format has zero points even for symmetric weights.

    Marlin drops them after loading; ExLlama and the kernels of AMD GPUs keep them. They are counted, which is the
    larger estimate: 0.5 % of the weights. With one group a row, activation order has no effect (``gptq_utils.py``).
    """
    index = _GPTQ_INDEX if activation_order and group is not None else 0
    storage = Storage(Precision.GPTQ, bits, HALF_SCALE, group, zero_point_bits=bits, index_bytes=index)
    return QuantizationScheme(storage, group)


def packed_integers(bits: int, group: int | None, *, symmetric: bool) -> QuantizationScheme:
    """Integers of compressed-tensors, packed and run like GPTQ's; zero points only if they are not symmetric."""
    zero_bits = 0 if symmetric else bits
    return QuantizationScheme(Storage(Precision.GPTQ, bits, HALF_SCALE, group, zero_point_bits=zero_bits), group)


def four_bits_with_float_zero_points(group: int) -> QuantizationScheme:
    """Return torchao's integers of four bits: scale and zero point of a group are both 16-bit numbers.

    The kernels need bfloat16, so they need capability 8.0. The older tiled layout fills rows up to 1,024 inputs, which
    is not counted.
    """
    storage = Storage(Precision.GPTQ, FOUR_BITS, 2 * HALF_SCALE, group)
    return QuantizationScheme(storage, group, min_capability=(8, 0))


def four_bits_with_fp8_activations(group: int | None) -> QuantizationScheme:
    """W4A8-FP8: its CUTLASS kernel exists for compute capability 9.0 alone (``_is_fp8_w4a8_sm90``)."""
    storage = Storage(Precision.GPTQ, FOUR_BITS, _W4A8_SCALE, group)
    return QuantizationScheme(storage, group, min_capability=(9, 0), max_capability=(9, 0))


WHOLE_ROW = -1
"""The size of a group by which files name one scale a channel."""


def group_size(section: Fields, keys: Sequence[str] = ("group_size",)) -> int | None:
    """Inputs that share a scale; -1, the convention for one scale a channel, reads as None.

    Raises:
        InvalidInput: it is neither -1 nor a count.
    """
    key = section.first(keys)
    if key is None or (section.values[key] == WHOLE_ROW and not isinstance(section.values[key], bool)):
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
