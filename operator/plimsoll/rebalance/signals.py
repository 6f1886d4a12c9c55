"""What the engines said, with its age; and a name for every way in which they said nothing usable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SignalState(StrEnum):
    """How far the numbers of one pod, or of a whole load, can be relied on. Listed from best to worst."""

    FRESH = "Fresh"
    """Complete, plausible, and younger than the bound throughout the window."""
    COLD = "Cold"
    """Plausible, but the window is not covered yet: the pod is young, or scrapes are missing in between."""
    STALE = "Stale"
    """The newest sample is older than the bound."""
    MISSING = "Missing"
    """No series for the pod, or none for a metric the decision needs."""
    INVALID = "Invalid"
    """A number that cannot be: NaN, infinite, negative, a KV-cache use above 1, or a sample from the future."""
    UNAVAILABLE = "Unavailable"
    """Prometheus did not answer, or not with an answer."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One pod's metrics as of one scrape; None where the scrape had no such series, which is never the same as 0.

    ``at`` is the true scrape time in POSIX seconds. ``kv_usage`` is the share 0..1 of KV blocks in use (blocks kept
    only for the prefix cache count as free: vLLM's ``BlockPool.get_usage``). ``waiting`` and ``running`` count
    requests, ``*_total`` are counters since the engine started, ``kv_capacity_tokens`` is the KV cache it really got.
    """

    at: float
    kv_usage: float | None = None
    waiting: float | None = None
    running: float | None = None
    preemptions_total: float | None = None
    kv_capacity_tokens: int | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None


@dataclass(frozen=True, slots=True)
class PodSignals:
    """The samples of one pod, in any order."""

    pod: str
    samples: tuple[EngineSample, ...] = ()


@dataclass(frozen=True, slots=True)
class PodState:
    """How far one pod can be relied on. ``age_seconds`` is of its newest sample, None where it has none."""

    pod: str
    state: SignalState
    age_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """The load of one deployment over the window, from the pods that can be relied on.

    Every figure sums over the ``fresh_pods`` alone; what the other pods carry is unknown, not zero. The sustained
    figures are the lowest value the sum took at any scrape in the window, the peaks the highest: pressure has to last,
    slack has to hold throughout. ``demanded`` tokens are those in use plus those the waiting requests will need.
    ``smallest_capacity_tokens`` is over every pod that reports a capacity now, however short its history.
    """

    state: SignalState
    pods: tuple[PodState, ...] = ()
    window_seconds: int = 0
    oldest_age_seconds: float | None = None
    used_tokens: int = 0
    demanded_tokens: int = 0
    demanded_sustained_tokens: int = 0
    demanded_peak_tokens: int = 0
    held_tokens: int = 0
    largest_capacity_tokens: int = 0
    smallest_capacity_tokens: int | None = None
    waiting_sustained: int = 0
    waiting_peak: int = 0
    preemptions: int | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None

    @property
    def fresh_pods(self) -> int:
        """How many pods the figures are from."""
        return sum(1 for pod in self.pods if pod.state is SignalState.FRESH)

    @property
    def worst_pod(self) -> PodState | None:
        """The pod that is furthest from being relied on; the first by name among equals."""
        return max(self.pods, key=lambda pod: _SEVERITY[pod.state], default=None)

    @property
    def sustained_percent(self) -> int | None:
        """Sustained demand over held capacity, in whole percent rounded down; None where nothing is held."""
        return self.demanded_sustained_tokens * 100 // self.held_tokens if self.held_tokens else None


_SEVERITY = {state: rank for rank, state in enumerate(SignalState)}


def worst(states: tuple[SignalState, ...]) -> SignalState:
    """The state furthest from fresh; MISSING where there is none to look at."""
    return max(states, key=_SEVERITY.__getitem__, default=SignalState.MISSING)
