"""The metrics page of played engines, with the names and labels of vLLM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from testbed.engine_counters import Counters
from testbed.engine_metrics import Engine

BLOCK_TOKENS = 16
"""vLLM's block size on GPUs."""

_GAUGES: Final = {
    "vllm:kv_cache_usage_perc": attrgetter("usage"),
    "vllm:num_requests_running": attrgetter("running"),
    "vllm:num_requests_waiting": attrgetter("waiting"),
}

_COUNTERS: Final = {
    "vllm:num_preemptions": attrgetter("preemptions"),
    "vllm:prompt_tokens": attrgetter("prompt_tokens"),
    "vllm:generation_tokens": attrgetter("generation_tokens"),
    "vllm:prefix_cache_queries": attrgetter("prompt_tokens"),
}
"""Without the suffix of their series. The engine looks every prompt up, and no two prompts begin alike."""

_HISTOGRAMS: Final = {
    "vllm:request_prompt_tokens": (attrgetter("finished"), attrgetter("finished_prompt_tokens")),
    "vllm:request_generation_tokens": (attrgetter("finished"), attrgetter("finished_output_tokens")),
    "vllm:time_to_first_token_seconds": (attrgetter("first_tokens"), attrgetter("first_token_seconds")),
    "vllm:inter_token_latency_seconds": (attrgetter("gaps"), attrgetter("gap_seconds")),
    "vllm:e2e_request_latency_seconds": (attrgetter("finished"), attrgetter("latency_seconds")),
    "vllm:request_queue_time_seconds": (attrgetter("finished"), attrgetter("queue_seconds")),
}
"""The count and the sum of each."""

_ENDS: Final = ("stop", "length", "abort", "error", "repetition")
"""The reasons for which a request ends; those of a stream end at their length."""


def exposition(engines: Iterable[Engine], *, gauge_override: str | None = None) -> str:
    """The page in Prometheus' text format.

    Names and labels are those of vLLM 0.32 (``vllm/v1/metrics/loggers.py``). A histogram has its sum, its count and the
    bucket of all values; the finer buckets are left out, because nothing reads them here.

    Args:
        engines: what to show.
        gauge_override: text for every gauge of the load instead of its value, e.g. ``NaN``.
    """
    listed = [(engine, engine.counters) for engine in engines]
    alone = [engine for engine, _ in listed]
    lines = [*_gauges(alone, gauge_override), *_counters(listed), *_histograms(listed), *_cache_sizes(alone)]
    return "\n".join(lines) + "\n"


def _gauges(engines: Sequence[Engine], override: str | None) -> Iterator[str]:
    for name, read in _GAUGES.items():
        yield _type(name, "gauge")
        for engine in engines:
            yield f"{name}{_labels(engine)} {override or float(read(engine))}"
    name = "vllm:num_requests_waiting_by_reason"
    yield _type(name, "gauge")
    for engine in engines:
        for reason, value in {"capacity": engine.waiting, "deferred": 0}.items():
            yield f"{name}{_labels(engine, reason=reason)} {override or float(value)}"


def _counters(engines: Sequence[tuple[Engine, Counters]]) -> Iterator[str]:
    for name, read in _COUNTERS.items():
        yield _type(name, "counter")
        for engine, totals in engines:
            yield f"{name}_total{_labels(engine)} {_whole(read(totals))}"
    yield _type("vllm:prefix_cache_hits", "counter")
    for engine, _ in engines:
        yield f"vllm:prefix_cache_hits_total{_labels(engine)} 0.0"
    yield _type("vllm:request_success", "counter")
    for engine, totals in engines:
        for end in _ENDS:
            value = totals.finished if end == "length" else 0
            yield f"vllm:request_success_total{_labels(engine, finished_reason=end)} {_whole(value)}"


def _histograms(engines: Sequence[tuple[Engine, Counters]]) -> Iterator[str]:
    for name, (count, total) in _HISTOGRAMS.items():
        yield _type(name, "histogram")
        for engine, totals in engines:
            yield f"{name}_bucket{_labels(engine, le='+Inf')} {_whole(count(totals))}"
            yield f"{name}_count{_labels(engine)} {_whole(count(totals))}"
            yield f"{name}_sum{_labels(engine)} {float(total(totals))}"


def _cache_sizes(engines: Sequence[Engine]) -> Iterator[str]:
    yield _type("vllm:cache_config_info", "gauge")
    for engine in engines:
        yield f"vllm:cache_config_info{_cache_labels(engine)} 1.0"


def _type(name: str, kind: str) -> str:
    return f"# TYPE {name} {kind}"


def _whole(value: float) -> float:
    """Return a count as an engine writes it: the part of a crowd's token that is on its way is not counted yet."""
    return float(int(value))


def _labels(engine: Engine, **more: str) -> str:
    return _write({"namespace": engine.namespace, "pod": engine.pod, "engine": "0", "model_name": engine.model, **more})


def _cache_labels(engine: Engine) -> str:
    """Labels as vLLM has them: it writes every cache setting as a label, and no model name."""
    return _write(
        {
            "namespace": engine.namespace,
            "pod": engine.pod,
            "engine": "0",
            "block_size": str(BLOCK_TOKENS),
            "num_gpu_blocks": str(engine.capacity_tokens // BLOCK_TOKENS),
            "kv_cache_size_tokens": str(engine.capacity_tokens),
            "enable_prefix_caching": "True",
        }
    )


def _write(labels: Mapping[str, str]) -> str:
    quoted = (f'{name}="{_escape(value)}"' for name, value in labels.items())
    return "{" + ",".join(quoted) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
