"""SGLang's own error texts, found in the message of a crashed container.

A scheduler that fails makes its parent end the whole tree of processes, so the container ends with 137 and the reason
``Error``, which is not the kernel's: the last lines hold the cause (0.5.23, seen on a server without a GPU).
"""

from __future__ import annotations

import re

from plimsoll.domain.engines.failures import MESSAGE_LIMIT, EngineFailure, StartFailure

_PATTERNS: tuple[tuple[StartFailure, re.Pattern[str]], ...] = (
    (
        StartFailure.MAMBA_BLOCKS,
        re.compile(
            r"Hybrid \(mamba/linear-attention\) state cache is too small[^\n]*"
            r"|Not enough GPU memory for hybrid \(mamba/linear-attention\) state cache[^\n]*"
        ),
    ),
    (
        StartFailure.NO_KV_CACHE,
        re.compile(
            r"Loaded weights leave no GPU memory for the KV cache[^\n]*"
            r"|Not enough memory\. Please try to increase --mem-fraction-static[^\n]*"
            r"|max_total_tokens=\d+ is larger than the profiled value -\d+[^\n]*"
        ),
    ),
    (StartFailure.KV_CACHE_TOO_SMALL, re.compile(r"SWA pool \([^\n]*cannot hold even one request[^\n]*")),
    (StartFailure.MEMORY_HELD_BY_OTHERS, re.compile(r"The memory capacity is unbalanced[^\n]*")),
    (StartFailure.HEADS_NOT_DIVISIBLE, re.compile(r"tp_size (?:\d+ )?must be divisible by[^\n]*")),
    (StartFailure.HEADS_NOT_DIVISIBLE, re.compile(r"(?<=AssertionError: )\d+ is not divisible by \d+")),
    (StartFailure.HOST_MEMORY, re.compile(r"Rank \d+ scheduler died during initialization \(exit code: -9\)[^\n]*")),
    (StartFailure.OUT_OF_MEMORY, re.compile(r"Capture cuda graph failed: (?:CUDA|HIP) out of memory[^\n]*")),
    (StartFailure.OUT_OF_MEMORY, re.compile(r"(?:Prefill|Decode) out of memory[^\n]*")),
    (StartFailure.OPTIONS_REFUSED, re.compile(r"\b(?:sglang(?: serve)?|launch_server\.py): error: [^\n]*")),
    (
        StartFailure.OUT_OF_MEMORY,
        re.compile(r"(?:CUDA|HIP) out of memory[^\n]*|torch\.(?:cuda\.)?OutOfMemoryError[^\n]*"),
    ),
)
"""The most specific patterns come first. Texts of 0.5.14 to 0.5.23 (``mem_cache/kv_cache_configurator.py``,
``model_executor``, ``managers/scheduler.py``)."""


def find_failure(message: str) -> EngineFailure | None:
    """Return the failure that the end of a log names; None if it holds none of the texts."""
    for reason, pattern in _PATTERNS:
        found = pattern.search(message)
        if found:
            return EngineFailure(reason, found.group(0)[:MESSAGE_LIMIT])
    return None
