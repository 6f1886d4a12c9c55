"""The metrics page of played engines, with the names and labels of vLLM and of SGLang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from testbed.engine_counters import Counters
from testbed.engine_metrics import Engine, Server

BLOCK_TOKENS = 16
"""vLLM's block size on GPUs."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The names of one server's metrics, and what is read for each. Histograms have a count and a sum.

    Counters are without the suffix of their series. ``more`` are the further lines. ``streamed`` are the names that the
    server divides by whether an answer streams; all of ours do.
    """

    gauges: Mapping[str, Callable[[Engine], Any]]
    counters: Mapping[str, Callable[[Counters], float]]
    histograms: Mapping[str, tuple[Callable[[Counters], float], Callable[[Counters], float]]]
    labels: Mapping[str, str]
    more: Callable[[Sequence[tuple[Engine, Counters]]], Iterator[str]]
    streamed: frozenset[str] = frozenset()


_ENDS: Final = ("stop", "length", "abort", "error", "repetition")
"""The reasons for which a request ends; those of a stream end at their length."""


def exposition(engines: Iterable[Engine], *, gauge_override: str | None = None) -> str:
    """The page in Prometheus' text format.

    Names and labels are those of vLLM 0.32 (``vllm/v1/metrics/loggers.py``) and of SGLang 0.5.23
    (``srt/observability/metrics_collector.py``). A histogram has its sum, its count and the bucket of all values; the
    finer buckets are left out, because nothing reads them here.

    Args:
        engines: what to show.
        gauge_override: text for every gauge of the load instead of its value, e.g. ``NaN``.
    """
    listed = [(engine, engine.counters) for engine in engines]
    lines = [
        line
        for server, page in _PAGES.items()
        for line in _lines(page, [each for each in listed if each[0].server is server], gauge_override)
    ]
    return "\n".join(lines) + "\n"


def _lines(page: _Page, engines: Sequence[tuple[Engine, Counters]], override: str | None) -> Iterator[str]:
    if not engines:
        return
    for name, of_engine in page.gauges.items():
        yield _type(name, "gauge")
        for engine, _ in engines:
            yield f"{name}{_labels(page, name, engine)} {override or float(of_engine(engine))}"
    for name, of_totals in page.counters.items():
        yield _type(name, "counter")
        for engine, totals in engines:
            yield f"{name}_total{_labels(page, name, engine)} {_whole(of_totals(totals))}"
    for name, (count, total) in page.histograms.items():
        yield _type(name, "histogram")
        for engine, totals in engines:
            yield f"{name}_bucket{_labels(page, name, engine, le='+Inf')} {_whole(count(totals))}"
            yield f"{name}_count{_labels(page, name, engine)} {_whole(count(totals))}"
            yield f"{name}_sum{_labels(page, name, engine)} {float(total(totals))}"
    yield from page.more(engines)


def _more_of_vllm(engines: Sequence[tuple[Engine, Counters]]) -> Iterator[str]:
    ends = "vllm:request_success"
    for hits in ("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits"):
        yield _type(hits, "counter")
        for engine, _ in engines:
            yield f"{hits}_total{_labels(_VLLM, hits, engine)} 0.0"
    yield _type(ends, "counter")
    for engine, totals in engines:
        for end in _ENDS:
            ended = totals.finished if end == "length" else 0.0
            yield f"{ends}_total{_labels(_VLLM, ends, engine, finished_reason=end)} {_whole(ended)}"
    yield _type("vllm:cache_config_info", "gauge")
    for engine, _ in engines:
        yield f"vllm:cache_config_info{_cache_labels(engine)} 1.0"


def _more_of_sglang(engines: Sequence[tuple[Engine, Counters]]) -> Iterator[str]:
    """Requests that are thrown out have no series until the first, and prefixes none until one is found."""
    yield _type("sglang:max_total_num_tokens", "gauge")
    for engine, _ in engines:
        name = "sglang:max_total_num_tokens"
        yield f"{name}{_labels(_SGLANG, name, engine)} {float(engine.capacity_tokens)}"
    name = "sglang:num_retracted_requests"
    yield _type(name, "counter")
    for engine, totals in engines:
        if totals.preemptions >= 1:
            yield f"{name}_total{_labels(_SGLANG, name, engine)} {_whole(totals.preemptions)}"


_VLLM: Final = _Page(
    gauges={
        "vllm:kv_cache_usage_perc": attrgetter("usage"),
        "vllm:num_requests_running": attrgetter("running"),
        "vllm:num_requests_waiting": attrgetter("waiting"),
    },
    counters={
        "vllm:num_preemptions": attrgetter("preemptions"),
        "vllm:prompt_tokens": attrgetter("prompt_tokens"),
        "vllm:generation_tokens": attrgetter("generation_tokens"),
        # The engine looks every prompt up, and no two prompts begin alike.
        "vllm:prefix_cache_queries": attrgetter("prompt_tokens"),
    },
    histograms={
        "vllm:request_prompt_tokens": (attrgetter("finished"), attrgetter("finished_prompt_tokens")),
        "vllm:request_generation_tokens": (attrgetter("finished"), attrgetter("finished_output_tokens")),
        "vllm:time_to_first_token_seconds": (attrgetter("first_tokens"), attrgetter("first_token_seconds")),
        "vllm:inter_token_latency_seconds": (attrgetter("gaps"), attrgetter("gap_seconds")),
        "vllm:e2e_request_latency_seconds": (attrgetter("finished"), attrgetter("latency_seconds")),
    },
    labels={"engine": "0"},
    more=_more_of_vllm,
)

_SGLANG: Final = _Page(
    gauges={
        "sglang:token_usage": lambda engine: round(engine.usage, 2),
        "sglang:num_running_reqs": attrgetter("running"),
        "sglang:num_queue_reqs": attrgetter("waiting"),
    },
    counters={
        # Both move when a request ends.
        "sglang:prompt_tokens": attrgetter("finished_prompt_tokens"),
        "sglang:generation_tokens": attrgetter("finished_output_tokens"),
        "sglang:num_requests": attrgetter("finished"),
    },
    histograms={
        "sglang:prompt_tokens_histogram": (attrgetter("finished"), attrgetter("finished_prompt_tokens")),
        "sglang:generation_tokens_histogram": (attrgetter("finished"), attrgetter("finished_output_tokens")),
        "sglang:time_to_first_token_seconds": (attrgetter("first_tokens"), attrgetter("first_token_seconds")),
        "sglang:inter_token_latency_seconds": (attrgetter("gaps"), attrgetter("gap_seconds")),
        "sglang:e2e_request_latency_seconds": (attrgetter("finished"), attrgetter("latency_seconds")),
    },
    labels={"engine_type": "unified", "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"},
    more=_more_of_sglang,
    streamed=frozenset(
        {
            "sglang:prompt_tokens",
            "sglang:generation_tokens",
            "sglang:num_requests",
            "sglang:time_to_first_token_seconds",
            "sglang:e2e_request_latency_seconds",
        }
    ),
)

_PAGES: Final = {Server.VLLM: _VLLM, Server.SGLANG: _SGLANG}


def _type(name: str, kind: str) -> str:
    return f"# TYPE {name} {kind}"


def _whole(value: float) -> float:
    """Return a count as an engine writes it: the part of a crowd's token that is on its way is not counted yet."""
    return float(int(value))


def _labels(page: _Page, name: str, engine: Engine, **more: str) -> str:
    streams = {"is_streaming": "true"} if name in page.streamed else {}
    head = {"namespace": engine.namespace, "pod": engine.pod, **page.labels, "model_name": engine.model}
    return _write({**head, **streams, **more})


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
