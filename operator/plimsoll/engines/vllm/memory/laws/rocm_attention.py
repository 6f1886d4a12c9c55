"""The attention kernels of an engine on AMD's graphics cards, as far as they change its memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, StateCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.units import GIB
from plimsoll.memory.kinds import is_rdna

ROCM_KERNELS = "ROCM_ATTN"

_ROCM_KERNELS_SINCE = EngineVersion(0, 19)
"""``platforms/rocm.py``, ``_get_backend_priorities``: first in the list since 0.19, only on demand up to 0.18."""

_ROCM_KERNEL_HEADS = frozenset((32, 64, 80, 96, 128, 160, 192, 224, 256))
"""``v1/attention/backends/rocm_attn.py``, ``get_supported_head_sizes`` of 0.19 and 0.32."""

_CLASSES_WITH_SINKS = ("GptOssForCausalLM",)
"""``supports_sink`` of the same file is false."""

_MEASURED_ALIKE = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Qwen3NextForCausalLM")
"""Six starts of Gemma 3 (12B and 27B) took the same memory with either kernel, within 0.3 GiB, and two of Qwen3-Next
exactly the same."""

_SPILLS_BEFORE = EngineVersion(0, 14)
"""The one start of 0.14 (Radeon RX 9070 XT) took no scratch memory."""

SPILL_BYTES = int(1.9 * GIB)
"""The median of ten starts of 0.11 on R9700: from 0 to 3.1 GiB over all other terms."""

_CHOICE = re.compile(r"(?:--attention[-_](?:backend|config\.backend)|-ac\.backend)[=\s]+(\w+)")


def chosen_attention(arguments: Sequence[str]) -> str | None:
    """Return the attention back end that the user's arguments name, in capitals; None where they name none."""
    found = _CHOICE.search(" ".join(arguments))
    return found[1].upper() if found else None


def spilled_bytes(gpu: GpuType | None, model: ModelFacts, release: EngineVersion, chosen: str | None) -> int:
    """Return the scratch memory that the attention is expected to take; the band reaches down to a start without it."""
    expected = release < _SPILLS_BEFORE and gpu is not None and is_rdna(gpu)
    return SPILL_BYTES if expected and spills_attention(model, release, chosen) else 0


def spills_attention(model: ModelFacts, release: EngineVersion, chosen: str | None) -> bool:
    """Whether the attention may take up to 3.1 GiB of scratch memory on a graphics card, depending on the image.

    On R9700, nine of ten starts with Triton's kernel took 1.1 to 3.1 GiB more than the law says, and eleven with ROCm's
    own kernel at most 0.65 GiB. Two images of one release differed by 2.6 GiB for the same model and flags, so builds
    of ROCm and Triton decide. Caches of other shapes were not measured, and count as spilling.
    """
    if model.architecture in _MEASURED_ALIKE:
        return False
    caches = tuple(model.caches())
    heads = {cache.key_dim for cache in caches if isinstance(cache, AttentionCache)}
    if not all(isinstance(cache, AttentionCache | StateCache) for cache in caches):
        return True
    if chosen is not None:
        return chosen != ROCM_KERNELS
    is_served = heads <= _ROCM_KERNEL_HEADS and model.architecture not in _CLASSES_WITH_SINKS
    return release < _ROCM_KERNELS_SINCE or not is_served
