"""The metrics page of played engines: a pure function of what every engine is doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

BLOCK_TOKENS = 16
"""vLLM's block size on GPUs."""

REQUEST_TOKENS = 2_000
"""Tokens of KV cache that one played request holds: turns tokens into counts of requests. Chosen, not measured."""

GENERATED_PER_SECOND, PROMPT_PER_SECOND = 50.0, 200.0
"""How fast one running request moves the token counters; chosen, so that rates are neither zero nor absurd."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the clients of one deployment want from all its replicas together.

    Attributes:
        kv_tokens: KV cache that all requests would hold at the same time.
        running: requests in execution; None derives them from the tokens.
        waiting: requests in the queue; None derives them from what does not fit.
    """

    kv_tokens: float = 0.0
    running: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one engine, since it started."""

    preemptions: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Engine:
    """One ready pod and its share of the load.

    Attributes:
        namespace: of the pod.
        pod: its name.
        model: what the engine calls the model it serves.
        capacity_tokens: size of its KV cache.
        usage: share of that cache in use, 0 to 1.
        running: requests in execution.
        waiting: requests in its queue.
        counters: totals so far.
    """

    namespace: str
    pod: str
    model: str
    capacity_tokens: int
    usage: float = 0.0
    running: int = 0
    waiting: int = 0
    counters: Counters = Counters()

    def after(self, seconds: float) -> Engine:
        """The same engine when it has gone on like this for a while; it preempts only while its cache is full."""
        counters = Counters(
            preemptions=self.counters.preemptions + (seconds if self.usage >= 1 and self.waiting else 0.0),
            prompt_tokens=self.counters.prompt_tokens + seconds * self.running * PROMPT_PER_SECOND,
            generation_tokens=self.counters.generation_tokens + seconds * self.running * GENERATED_PER_SECOND,
        )
        return replace(self, counters=counters)


def spread(engines: Iterable[Engine], demand: Demand) -> list[Engine]:
    """Spread a deployment's demand evenly over its engines: one engine more means less for each."""
    listed = list(engines)
    share = demand.kv_tokens / len(listed) if listed else 0.0
    result = []
    for index, engine in enumerate(listed):
        held = min(share, float(engine.capacity_tokens))
        running = round(held / REQUEST_TOKENS) if demand.running is None else _part(demand.running, index, len(listed))
        overflow = round((share - held) / REQUEST_TOKENS)
        waiting = overflow if demand.waiting is None else _part(demand.waiting, index, len(listed))
        result.append(replace(engine, usage=held / engine.capacity_tokens, running=running, waiting=waiting))
    return result


def _part(whole: int, index: int, count: int) -> int:
    """Whole requests for engine ``index`` of ``count``; the first ones carry the remainder."""
    return whole // count + (1 if index < whole % count else 0)


def exposition(engines: Iterable[Engine], *, gauge_override: str | None = None) -> str:
    """The page in Prometheus' text format.

    Args:
        engines: what to show.
        gauge_override: text for every gauge of the load instead of its value, e.g. ``NaN``.
    """
    listed = list(engines)
    lines: list[str] = []
    for name, kind, values in _series(listed, gauge_override):
        lines.append(f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}")
        lines += [f"{name}{_labels(engine)} {value}" for engine, value in zip(listed, values, strict=True)]
    lines.append("# TYPE vllm:cache_config_info gauge")
    lines += [f"vllm:cache_config_info{_cache_labels(engine)} 1.0" for engine in listed]
    return "\n".join(lines) + "\n"


def _series(engines: list[Engine], override: str | None) -> list[tuple[str, str, list[str]]]:
    def gauge(values: Iterable[float]) -> list[str]:
        return [override or str(float(value)) for value in values]

    def counter(values: Iterable[float]) -> list[str]:
        return [str(float(int(value))) for value in values]

    return [
        ("vllm:kv_cache_usage_perc", "gauge", gauge(engine.usage for engine in engines)),
        ("vllm:num_requests_running", "gauge", gauge(engine.running for engine in engines)),
        ("vllm:num_requests_waiting", "gauge", gauge(engine.waiting for engine in engines)),
        ("vllm:num_preemptions_total", "counter", counter(engine.counters.preemptions for engine in engines)),
        ("vllm:prompt_tokens_total", "counter", counter(engine.counters.prompt_tokens for engine in engines)),
        ("vllm:generation_tokens_total", "counter", counter(engine.counters.generation_tokens for engine in engines)),
    ]


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
