"""vLLM's own error texts, found in the message of a crashed container."""

from __future__ import annotations

import re

from plimsoll.domain.engines.failures import MESSAGE_LIMIT, EngineFailure, StartFailure
from plimsoll.domain.units import GIB

_PATTERNS: tuple[tuple[StartFailure, re.Pattern[str]], ...] = (
    (StartFailure.WEIGHTS_TOO_LARGE, re.compile(r"Failed to load model - not enough GPU memory[^\n]*")),
    (
        StartFailure.KV_CACHE_TOO_SMALL,
        re.compile(r"To serve at least one request with the models?'?s? max seq len[^\n]*"),
    ),
    (StartFailure.NO_KV_CACHE, re.compile(r"No available memory for the cache blocks[^\n]*")),
    (
        StartFailure.MEMORY_HELD_BY_OTHERS,
        re.compile(r"Free memory on device[^\n]*is less than (?:desired|the engine's budget)[^\n]*"),
    ),
    (StartFailure.MAMBA_BLOCKS, re.compile(r"max_num_seqs \(\d+\) exceeds available Mamba cache blocks[^\n]*")),
    (StartFailure.HEADS_NOT_DIVISIBLE, re.compile(r"Total number of attention heads[^\n]*must be divisible[^\n]*")),
    (
        StartFailure.UNSUPPORTED_GPU,
        re.compile(r"(?:The quantization method|Quantization scheme)[^\n]*not supported for the current GPU[^\n]*"),
    ),
    (StartFailure.UNSUPPORTED_GPU, re.compile(r"Bfloat16 is only supported on GPUs[^\n]*")),
    (StartFailure.OPTIONS_REFUSED, re.compile(r"Chunked MM input disabled but max_tokens_per_mm_item[^\n]*")),
    (StartFailure.OPTIONS_REFUSED, re.compile(r"(?<=Value error, )[^\n]*?(?= \[type=value_error|\n|$)")),
    (StartFailure.OPTIONS_REFUSED, re.compile(r"\b(?:vllm(?: serve)?|api_server\.py): error: [^\n]*")),
    (
        StartFailure.OUT_OF_MEMORY,
        re.compile(r"CUDA out of memory[^\n]*|HIP out of memory[^\n]*|torch\.OutOfMemoryError[^\n]*"),
    ),
)
"""The most specific patterns come first: a crash log usually has the general CUDA text below the specific one.

The texts are from vLLM's sources, 0.8 to 0.32 (``v1/core/kv_cache_utils.py``, ``v1/worker/utils.py``,
``gpu_model_runner.py``). A configuration that is refused is an error of pydantic, whose sentence follows "Value error";
an argument, one of ``argparse``.
"""

_AVAILABLE = re.compile(r"available KV cache memory \((-?\d{1,6}(?:\.\d{1,6})?) GiB\)")


def find_failure(message: str) -> EngineFailure | None:
    """Return the failure that the end of a log names; None if it holds none of the texts."""
    for reason, pattern in _PATTERNS:
        found = pattern.search(message)
        if found:
            return EngineFailure(reason, found.group(0)[:MESSAGE_LIMIT], _available_bytes(found.group(0)))
    return None


def _available_bytes(sentence: str) -> int | None:
    """Return the size from "larger than the available KV cache memory (1.23 GiB)", in bytes."""
    found = _AVAILABLE.search(sentence)
    return None if found is None else int(float(found.group(1)) * GIB)
