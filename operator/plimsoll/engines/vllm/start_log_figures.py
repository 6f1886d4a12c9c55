"""The figures that vLLM logs while it starts, 0.8 to 0.32.

The texts are from ``v1/worker/gpu_worker.py``, ``v1/worker/gpu_model_runner.py`` and ``v1/core/kv_cache_utils.py``.
Every worker logs its own figures, some releases only those of the first. All figures are in GiB with two to four
digits, so they are exact to 5 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.start_logs import StartFigures

_GIB = r"(-?\d{1,6}(?:\.\d{1,6})?) ?GiB"
_COUNT = r"([\d,]{1,20})"

_TOTAL = (
    re.compile(rf"Free memory on device (?:\S{{1,20}} )?\(\d{{1,6}}(?:\.\d{{1,6}})?/{_GIB}\)"),
    re.compile(rf"total capacity of {_GIB}"),
    re.compile(rf"total_gpu_memory \({_GIB}\)"),
)
_WEIGHTS = (re.compile(rf"Model loading took {_GIB}"), re.compile(rf"model weights take {_GIB}"))
_CONSUMED = (re.compile(rf"Actual usage is {_GIB} for consumed memory"),)
_ACTIVATIONS = (
    re.compile(rf"{_GIB} for peak activation"),
    re.compile(rf"PyTorch activation peak memory takes {_GIB}"),
)
_OUTSIDE = (re.compile(rf"{_GIB} for non-torch memory"), re.compile(rf"non_torch_memory takes {_GIB}"))
_CHARGED = (re.compile(rf"Estimated CUDA graph memory: {_GIB} total"),)
_NOT_CHARGED = re.compile(r"CUDA graph memory profiling is disabled")
_GRAPHS = (re.compile(rf"Graph capturing finished in \d{{1,6}} secs, took {_GIB}"),)
_KV = (
    re.compile(rf"Available KV cache memory: {_GIB}"),
    re.compile(rf"memory reserved for KV Cache is {_GIB}"),
)
_KV_TOKENS = re.compile(rf"KV cache size: {_COUNT} tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]{1,20} tokens per request: (\d{1,9}(?:\.\d{1,6})?)x")
_NEEDED = (re.compile(rf"\({_GIB} KV cache is needed"),)
_LONGEST = re.compile(r"estimated maximum model length is (\d{1,12})")

_CHARGES_GRAPHS_SINCE = EngineVersion(0, 21)
"""From this release the engine takes its estimate of the graphs out of the budget, unless that is switched off."""

_GRAPHS_IN_PEAK_SINCE = EngineVersion(0, 27)
"""From this release the logged peak of activations includes the charge for graphs."""


def figures_of(lines: Sequence[str], version: EngineVersion) -> StartFigures:
    """Return the figures of one start."""
    estimated = _bytes(lines, _CHARGED, max)
    charges = version >= _CHARGES_GRAPHS_SINCE and not any(_NOT_CHARGED.search(line) for line in lines)
    charged = estimated if charges else None
    concurrency, longest = _first(lines, _CONCURRENCY), _first(lines, _LONGEST)
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


def _first(lines: Iterable[str], pattern: re.Pattern[str]) -> str | None:
    return next((each[1] for line in lines if (each := pattern.search(line)) is not None), None)
