"""The memory that is free before the weights are loaded, of which ``--mem-fraction-static`` is a share.

Source of the rule: ``mem_cache/kv_cache_configurator.py`` (``_profile_available_bytes``), 0.5.18 to 0.5.23; before
0.5.18 ``model_runner.py``. The figures are those of the lines ``Load weight begin. avail mem=`` in starts whose card is
named (``benchmarks/accuracy/data/sglang_starts.json``). The least free memory of all ranks counts.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.memory.kinds import Card, card_of, shared_bytes

_FEW = 2
"""GPUs of an engine whose communication takes no memory that logs show."""

_AITER_CONTEXT = 8192
_AITER_PERCENT = 85


class Taken(NamedTuple):
    """The bytes that are taken before the weights: as expected, and how much less or more it may be."""

    expected: int
    less: int
    more: int


def _gib(expected: float, less: float, more: float) -> Taken:
    return Taken(int(expected * GIB), int(less * GIB), int(more * GIB))


_ALONE = _gib(0.70, 0.06, 0.10)
"""CUDA's or ROCm's context, on one GPU and on two: 0.65 (RTX 3090) to 0.76 GiB (H100, RTX PRO 6000, MI355X)."""

_PCIE = _gib(1.0, 0.3, 0.7)
"""Eight RTX PRO 6000: 1.0 GiB. One start."""

_NVLINK = _gib(2.5, 1.5, 1.0)
"""Eight H200: 2.5 GiB. One start."""

_CATALOGUED_LESS = 2.2
"""GiB. SGLang's logs of MI355X count from 288.0 GiB, where the catalogue has 285.8, which vLLM's logs agree with."""

_AMD_ALONE = _gib(0.70, 0.06 + _CATALOGUED_LESS, 0.10)
_XGMI = _gib(4.5, 0.9 + _CATALOGUED_LESS, 5.0)
"""Eight MI355X: 4.5 GiB (two starts), eight MI300X 3.7, and four 9.4."""

_SHARED_MORE, _SHARED_LESS = 8, 13
"""GiB. Of a memory that is the host's, 110 to 113 GiB were free on GB10 kits, and 41 next to another server."""


def taken_bytes(gpu: GpuType, split: Split) -> Taken:
    """Return what the driver and the communication between the ranks take before the weights."""
    if gpu.unified_memory:
        return _gib(shared_bytes(gpu) / GIB, min(_SHARED_LESS, shared_bytes(gpu) / GIB), _SHARED_MORE)
    if gpu.vendor is Vendor.AMD:
        return _AMD_ALONE if split.gpus <= _FEW else _XGMI
    if split.gpus <= _FEW:
        return _ALONE
    return _PCIE if gpu.interconnect is Interconnect.PCIE else _NVLINK


def free_bytes(gpu: GpuType, split: Split) -> int:
    """Return the memory of one GPU that is expected to be free before the weights."""
    return gpu.usable_bytes - taken_bytes(gpu, split).expected


_MEDIA_BYTES = 100 * MIB
"""``SGLANG_VLM_CACHE_SIZE_MB``: what the engine keeps of its share for the embeddings of images, audio and videos."""

_MEDIA_SINCE, _HOPPER_SINCE = EngineVersion(0, 5, 18), EngineVersion(0, 5, 20)
_LARGE_HOPPER_BYTES = 60 * GIB
_QWEN3_VL = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
_MANY_REQUESTS = 400
_TRANSPORT_BYTES, _LARGE_TRANSPORT_BYTES = GIB, 3 * GIB
"""Qwen3-VL on a large Hopper card keeps the images' features on the GPU instead (``SGLANG_MM_FEATURE_CACHE_MB``)."""


def media_bytes(request: Request, gpu: GpuType, sequences: int) -> int:
    """Return the part of the share that the engine keeps for images, audio and videos; 0 for a model without them.

    Sources: ``mm_runtime_reservation_gb`` of ``mem_cache/kv_cache_configurator.py`` and
    ``arg_groups/model_overrides/qwen3_vl.py``, read in 0.5.18, 0.5.20, 0.5.22 and 0.5.23.
    """
    model, engine = request.model, request.engine
    if model.encoder is None or engine.media.text_only or engine.version < _MEDIA_SINCE:
        return 0
    is_large_hopper = card_of(gpu) is Card.HOPPER and gpu.total_bytes >= _LARGE_HOPPER_BYTES
    if model.architecture not in _QWEN3_VL or not is_large_hopper or engine.version < _HOPPER_SINCE:
        return _MEDIA_BYTES
    return _LARGE_TRANSPORT_BYTES if sequences >= _MANY_REQUESTS else _TRANSPORT_BYTES


class Effect(NamedTuple):
    """The share that the engine works with, for a share that it was given: as expected, and the most it may be.

    Both are in hundred-thousandths.
    """

    expected: int
    most: int


def effective_share(gpu: GpuType, thousandths: int, context_tokens: int, attention: str | None) -> Effect:
    """Return the share in force. On AMD's accelerators AITER's attention lowers it by 15 %, even one that was given.

    It does so for contexts above 8,192 tokens. ``attention`` is the back end that is named, in lower case; None leaves
    it to the engine, which takes AITER's where the image turns it on. Source: ``server_args.py``, 0.5.6 to 0.5.23. Seen
    once: on MI355X a share of 0.6 acted as 0.51.
    """
    full = thousandths * 100
    lowered = thousandths * _AITER_PERCENT
    if card_of(gpu) is not Card.CDNA or context_tokens <= _AITER_CONTEXT or attention not in (None, "aiter"):
        return Effect(full, full)
    return Effect(lowered, lowered if attention else full)
