"""The options and the question of ``plimsoll estimate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Request
from plimsoll.performance.break_even import ApiPrice

DEFAULT_CONTEXT = 8192
"""Context tokens if the command names none and the model declares as many."""

DEFAULT_CONCURRENCY = 16


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """The command's options as typed; None if left out. Commands have options of these names."""

    context_length: int | None = None
    concurrency: int | None = None
    precision: str | None = None
    kv_precision: str | None = None
    engine: str | None = None
    utilization: int | None = None
    batched_tokens: int | None = None
    max_sequences: int | None = None
    prompt: int | None = None
    output: int | None = None
    shared_prefix: int | None = None
    shared_percent: int | None = None
    eager: bool = False
    text_only: bool = False
    cpu_offload: str | None = None
    host_memory: str | None = None
    lora: tuple[int, int] | None = None
    speculate: tuple[str, int] | None = None
    draft: str | None = None
    against_engine: str | None = None
    against_price: str | None = None
    requests_per_day: int | None = None
    busy_hours: float | None = None
    startup: float | None = None
    gpus: tuple[str, ...] = ()
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class ApiQuestion:
    """Would one's own replica be cheaper than an API?

    Attributes:
        price: what the API asks.
        hours: the hours of a day in which requests come.
        requests: those of a day; None: only from how many on it pays is asked.
        startup_seconds: the start-up of a replica.
        idle_seconds: how long no request may have come before the last replica goes.
    """

    price: ApiPrice
    hours: float
    requests: int | None
    startup_seconds: float
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """The same question about another engine, which ``title`` names; None where it refuses, with the ``refusal``."""

    title: str
    question: EstimateQuestion | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class EstimateQuestion:
    """The request to estimate, and notes on the manifest fields that the command line overrides.

    ``share`` is the exact part of a GPU that the engine may use; None if the request's whole percentage is exact.
    ``command`` is what was read of a command line, for ``-o json``; None if the question is not about one.
    ``gpus`` are the GPU types that it is restricted to, empty for all; ``split`` is its split, None for any.
    ``owned`` are the GPU types that the cluster of whoever asks has; empty if no cluster is asked.
    ``idle_seconds`` is the idle time that a manifest names; ``api`` is what is asked about an API, None for nothing.
    ``against`` is another engine to compare with; None for none.
    """

    request: Request
    notes: tuple[str, ...] = ()
    share: float | None = None
    command: Mapping[str, Any] | None = None
    gpus: tuple[str, ...] = ()
    split: Split | None = None
    owned: frozenset[str] = frozenset()
    idle_seconds: int | None = None
    api: ApiQuestion | None = None
    against: OtherEngine | None = None
