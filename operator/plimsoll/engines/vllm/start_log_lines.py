"""The lines of a log that say something about an engine's start.

A log is read line by line, with limits for the length of a line and for the number of lines that are kept. So a log of
any size, with any content, is read in one go with little memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_LINE = 65_536
"""Characters of a line that are read. The longest line of a start, the engine's configuration, has about 10,000."""

MOST_LINES = 4_000
MOST_CHARACTERS = 2_000_000
"""Lines that are kept, and their characters; later lines are left out. An engine of 64 ranks prints fewer."""

SERVER_STARTS = re.compile(r"(?:vLLM (?:API )?server|█ ) version (\S{1,80})")
"""The first line of a server (``entrypoints/openai/api_server.py``). Since 0.16 it is a logo of blocks with the release
next to it, unless VLLM_DISABLE_LOG_LOGO is set (``entrypoints/utils.py``)."""

ENGINE_STARTS = re.compile(r"Initializing a (V[01]) LLM engine \(v([^)\s]{1,80})\) with config: ")
"""The configuration of an engine: ``v1/engine/core.py``."""

ARGUMENTS = re.compile(r"(?:non-default args|\bargs): ")
"""The user's arguments: all of them up to 0.8, and since 0.9 those that differ from the defaults."""

SERVES = re.compile(r"Application startup complete|init engine \(profile, create kv cache, warmup model\) took")
"""The engine is ready: ``v1/engine/core.py``, and the line of its HTTP server."""

_MARKS = (
    "LLM engine (v",
    " version ",
    "args: ",
    "max_num_batched_tokens",
    "KV cache",
    "Maximum concurrency for",
    "Model loading took",
    "Graph capturing finished",
    "CUDA graph",
    "Free memory on device",
    "gpu_memory_utilization",
    "model weights take",
    "device_name=",
    "out of memory",
    "OutOfMemoryError",
    "Failed to load model",
    "cache blocks",
    "To serve at least one request",
    "attention heads",
    "not supported for the current GPU",
    "Bfloat16 is only",
    "startup complete",
    "init engine (",
)
"""Every line that is read holds one of these texts."""

_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


def lines_of_last_start(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that matter of the last start, without colours. A server's first line begins a start."""
    kept: list[str] = []
    length = 0
    for line in lines:
        text = line[:LONGEST_LINE]
        if not any(mark in text for mark in _MARKS):
            continue
        text = _COLOURS.sub("", text).rstrip()
        if SERVER_STARTS.search(text):
            kept.clear()
            length = 0
        if len(kept) < MOST_LINES and length + len(text) < MOST_CHARACTERS:
            kept.append(text)
            length += len(text)
    return tuple(kept)
