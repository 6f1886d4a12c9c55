"""The start-up log of a vLLM engine, 0.8 to 0.32: text in, values out.

The figures that vLLM logs while it starts, 0.8 to 0.32.

The texts are from ``v1/worker/gpu_worker.py``, ``v1/worker/gpu_model_runner.py`` and ``v1/core/kv_cache_utils.py``.
Every worker logs its own figures, some releases only those of the first. All figures are in GiB with two to four
digits, so they are exact to 5 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.units import GIB
from plimsoll.engines.start_fields import fields_of, text_in
from plimsoll.engines.start_lines import DEVICE_NAME, LastStart, first_match, line_that_begins, until
from plimsoll.engines.starts import StartFigures, StartLog, StartOptions
from plimsoll.engines.vllm.starts.failures import find_failure
from plimsoll.engines.vllm.starts.start_options import options_of, split_of

_GIB = r"(-?\d{1,6}(?:\.\d{1,6})?) ?GiB"
_COUNT = r"([\d,]{1,20})"

_FRONT = r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?)?(?:\[[\w./-]{1,200}:\d{1,6}\] )?"
"""The logger's words in front of each line of a message (``logger.py``, ``logging_utils/formatter.py``)."""

_line = partial(line_that_begins, _FRONT)

_RAISED = r"(?:[\w.()]{1,100}: )?"
"""The name of an exception in front of its text."""

_FREE = r"Free memory on device "
_MEMORY = rf"{_FREE}.{{0,200}}? Actual usage is "
_V0_MEMORY = r"model weights take "

_TOTAL = (
    _line(rf"{_RAISED}{_FREE}(?:\S{{1,20}} )?\(\d{{1,6}}(?:\.\d{{1,6}})?/{_GIB}\)"),
    _line(rf"{_RAISED}(?:CUDA|HIP) out of memory\..{{0,200}}? total capacity of {_GIB}"),
    _line(rf"the current vLLM instance can use total_gpu_memory \({_GIB}\)"),
)
_WEIGHTS = (_line(rf"Model loading took {_GIB}"), _line(rf"{_V0_MEMORY}{_GIB}"))
_CONSUMED = (_line(rf"{_MEMORY}{_GIB} for consumed memory"),)
_ACTIVATIONS = (
    _line(rf"{_MEMORY}.{{0,200}}?\b{_GIB} for peak activation"),
    _line(rf"{_V0_MEMORY}.{{0,200}}?PyTorch activation peak memory takes {_GIB}"),
)
_OUTSIDE = (
    _line(rf"{_MEMORY}.{{0,200}}?\b{_GIB} for non-torch memory"),
    _line(rf"{_V0_MEMORY}.{{0,200}}?non_torch_memory takes {_GIB}"),
)
_CHARGED = (_line(rf"Estimated CUDA graph memory: {_GIB} total"),)
_NOT_CHARGED = _line(r"CUDA graph memory profiling is disabled")
_GRAPHS = (_line(rf"Graph capturing finished in \d{{1,6}} secs, took {_GIB}"),)
_KV = (
    _line(rf"Available KV cache memory: {_GIB}"),
    _line(rf"{_V0_MEMORY}.{{0,300}}?memory reserved for KV Cache is {_GIB}"),
)
_KV_SIZE = r"\w{1,20} KV cache size: "
_KV_TOKENS = _line(rf"{_KV_SIZE}{_COUNT} tokens")
_CONCURRENCY = _line(
    rf"(?:{_KV_SIZE}[\d,]{{1,20}} tokens, )?Maximum concurrency for [\d,]{{1,20}} tokens per request: "
    r"(\d{1,9}(?:\.\d{1,6})?)x"
)
_TOO_SMALL = rf"{_RAISED}To serve at least one request with "
_NEEDED = (_line(rf"{_TOO_SMALL}.{{0,200}}?\({_GIB} KV cache is needed"),)
_LONGEST = _line(rf"{_TOO_SMALL}.{{0,500}}?estimated maximum model length is (\d{{1,12}})")

_CHARGES_GRAPHS_SINCE = EngineVersion(0, 21)
"""From this release the engine takes its estimate of the graphs out of the budget, unless that is switched off."""

_GRAPHS_IN_PEAK_SINCE = EngineVersion(0, 27)
"""From this release the logged peak of activations includes the charge for graphs."""


def figures_of(lines: Sequence[str], version: EngineVersion) -> StartFigures:
    """Return the figures of one start."""
    estimated = _bytes(lines, _CHARGED, max)
    charges = version >= _CHARGES_GRAPHS_SINCE and not any(_NOT_CHARGED.search(line) for line in lines)
    charged = estimated if charges else None
    concurrency, longest = first_match(lines, _CONCURRENCY), first_match(lines, _LONGEST)
    return StartFigures(
        total_bytes=_bytes(lines, _TOTAL, min),
        weights_bytes=_bytes(lines, _WEIGHTS, max),
        consumed_bytes=_bytes(lines, _CONSUMED, max),
        activations_bytes=_peak(lines, version, charged),
        charged_graphs_bytes=charged,
        graphs_bytes=_bytes(lines, _GRAPHS, max),
        outside_torch_bytes=_bytes(lines, _OUTSIDE, max),
        kv_bytes=_bytes(lines, _KV, min),
        kv_tokens=_least_count(lines, _KV_TOKENS),
        concurrency=None if concurrency is None else float(concurrency),
        kv_needed_bytes=_bytes(lines, _NEEDED, max),
        longest_context=None if longest is None else int(longest),
    )


def _peak(lines: Sequence[str], version: EngineVersion, charged: int | None) -> int | None:
    """Return the peak of activations without the charge for graphs."""
    peak = _bytes(lines, _ACTIVATIONS, max)
    if peak is None or version < _GRAPHS_IN_PEAK_SINCE:
        return peak
    return peak - (charged or 0)


def _bytes(lines: Iterable[str], patterns: Sequence[re.Pattern[str]], choose: Callable[..., float]) -> int | None:
    """Return the figure of the fullest or of the emptiest rank; None where no line has one."""
    found = [float(each[1]) for line in lines for pattern in patterns if (each := pattern.search(line)) is not None]
    return int(choose(found) * GIB) if found else None


def _least_count(lines: Iterable[str], pattern: re.Pattern[str]) -> int | None:
    found = [each[1].replace(",", "") for line in lines if (each := pattern.search(line)) is not None]
    return min((int(text) for text in found if text), default=None)


_SERVER_STARTS = _line(r"(?:vLLM (?:API )?server| {0,8}▄▄ ▄█ [█▄▀ ]{1,40}) version (\S{1,80})")
"""The first line of a server (``entrypoints/openai/api_server.py``). Since 0.16 it is a logo of blocks with the release
next to it, unless VLLM_DISABLE_LOG_LOGO is set (``entrypoints/utils.py``)."""

_ENGINE_STARTS = _line(r"Initializing a (V[01]) LLM engine \(v([^)\s]{1,80})\) with config: ")
"""The configuration of an engine: ``v1/engine/core.py``."""

_ARGUMENTS = _line(r"(non-default )?args: ")
"""The user's arguments: all of them up to 0.8, and since 0.9 those that differ from the defaults."""

_OPEN = _line(r"(?:INFO: {1,10})?Application startup complete")
"""The HTTP server takes requests from here on."""

_SERVES = _line(
    r"(?:INFO: {1,10})?Application startup complete|init engine \(profile, create kv cache, warmup model\) took"
)
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


def last_start() -> LastStart:
    """Return a keeper of lines. A server's first line begins a start."""
    return LastStart(_MARKS, _SERVER_STARTS)


_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")
_STEP = _line(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,9})\b")
_UTILIZATION = (
    _line(rf"{_FREE}.{{0,200}}?Desired GPU memory utilization is \((\d(?:\.\d{{1,20}})?),"),
    _line(r"CUDA graph memory profiling is .{0,200}?current --gpu-memory-utilization=(\d(?:\.\d{1,20})?) "),
    _line(rf"{_RAISED}{_FREE}.{{0,200}}?less than desired GPU memory utilization \((\d(?:\.\d{{1,20}})?),"),
    _line(r"the current vLLM instance can use .{0,100}?x gpu_memory_utilization \((\d(?:\.\d{1,20})?)\)"),
)

_OTHER_ENGINE = (
    "It is a log of vLLM's V0 engine. The memory law is that of the V1 engine, so nothing can be learned from it."
)
_NO_GPU = "The engine ran on a processor without a GPU, so its log says nothing about the memory of a GPU."


def read_start_log(lines: Iterable[str]) -> StartLog | None:
    """Return the last start of a log; None where the log is none of vLLM's, or begins after its first lines."""
    return read_lines(last_start().of(lines))


def read_lines(kept: Sequence[str]) -> StartLog | None:
    """Return the start that kept lines are of; None where they are none of vLLM's, or begin after its first lines."""
    kept = until(kept, _OPEN)  # what follows is about requests
    starts = [found for line in kept if (found := _ENGINE_STARTS.search(line)) is not None]
    server = next((found for line in kept if (found := _SERVER_STARTS.search(line)) is not None), None)
    build = starts[0][2] if starts else "" if server is None else server[1].strip(",")
    version = _version(build)
    if version is None:
        return None
    config = fields_of(starts[0].string[starts[0].end() :]) if starts else {}
    arguments, are_all = _arguments(kept)
    served = any(_SERVES.search(line) for line in kept)
    return StartLog(
        engine="vllm",
        build=build,
        version=version,
        model=text_in(config.get("model")) or text_in(arguments.get("model")) or text_in(arguments.get("model_tag")),
        split=split_of(config, arguments),
        options=_options(kept, config, arguments, are_all=are_all),
        figures=figures_of(kept, version),
        gpu_name=first_match(kept, DEVICE_NAME),
        failure=None if served else _failure(kept),
        served=served,
        complaint=_complaint(config, [each[1] for each in starts]),
    )


def _version(build: str) -> EngineVersion | None:
    """Return the release of a build: a development build counts as the release that it leads to."""
    found = _RELEASE.match(build)
    return None if found is None else EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0))


def _arguments(lines: Sequence[str]) -> tuple[Mapping[str, str], bool]:
    """Return the user's arguments, and whether they hold the defaults, too."""
    for line in lines:
        found = _ARGUMENTS.search(line)
        if found is not None:
            return fields_of(line[found.end() :]), found[1] is None
    return {}, False


def _options(
    lines: Sequence[str], config: Mapping[str, str], arguments: Mapping[str, str], *, are_all: bool
) -> StartOptions:
    step = next((int(found[1]) for line in lines if (found := _STEP.search(line)) is not None), None)
    options = options_of(config, arguments, batched_tokens=step, are_all=are_all)
    return replace(options, utilization=options.utilization or _logged_utilization(lines))


def _logged_utilization(lines: Sequence[str]) -> float | None:
    found = first_match(lines, *_UTILIZATION)
    return None if found is None else float(found)


def _failure(lines: Sequence[str]) -> EngineFailure | None:
    return find_failure("\n".join(lines))


def _complaint(config: Mapping[str, str], kinds: Sequence[str]) -> str:
    if "V0" in kinds:
        return _OTHER_ENGINE
    return _NO_GPU if text_in(config.get("device_config")) == "cpu" else ""
