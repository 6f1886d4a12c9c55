"""What vLLM takes when a flag is left out: by the GPU's memory and name, and by release."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.engine_law import EngineLaw

_LARGE_BYTES, _LARGEST_BYTES = 70 * GIB, 160 * GIB


class BatchDefaults(NamedTuple):
    """``--max-num-seqs`` and ``--max-num-batched-tokens`` of ``vllm serve`` without flags."""

    sequences: int
    batched_tokens: int


def batch_defaults(gpu: GpuType, law: EngineLaw) -> BatchDefaults:
    """Batch sizes of a server: small below 70 GiB and, since 0.9, on A100, whatever the model.

    Source: vLLM ``engine/arg_utils.py``, ``get_batch_defaults``; 16,384 tokens on 160 GiB and more since 0.28.
    """
    if gpu.usable_bytes < _LARGE_BYTES or (law.spares_a100 and "a100" in gpu.name.lower()):
        return BatchDefaults(law.default_small_sequences, 2048)
    largest = gpu.usable_bytes >= _LARGEST_BYTES
    return BatchDefaults(1024, law.largest_batched_tokens if largest else 8192)
