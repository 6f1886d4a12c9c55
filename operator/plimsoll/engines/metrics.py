"""The names under which an engine reports its load, by meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _no_tokens(_labels: Mapping[str, str], _value: float) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """The metrics of one engine. An empty name means that the engine does not report it.

    A histogram is named without the suffixes of its series: ``_sum`` and ``_count`` are read, and those of its buckets
    that a percentile is made of (``_bucket``).

    Attributes:
        kv_usage: gauge, the share of the KV cache that running requests hold, 0 to 1.
        waiting: gauge, requests that were accepted and are not in a batch yet.
        running: gauge, requests in the current batch.
        preemptions: counter, requests removed from the batch because the KV cache ran out.
        prompt_tokens: counter, prompt tokens read.
        generation_tokens: counter, tokens generated.
        capacity: gauge from which ``capacity_tokens`` reads the size of the KV cache.
        capacity_tokens: returns the tokens of one engine's KV cache from the labels and the value of ``capacity``; None
            while the engine does not know them.
        host_capacity: gauge from whose labels ``host_capacity_tokens`` reads the size of its cache in host memory.
        host_capacity_tokens: returns the tokens that one engine keeps there, as ``capacity_tokens`` does.
        rank_label: the label of a data-parallel rank.
        own_labels: the labels that the engine gives its series itself.
        part_labels: those of them that divide one figure of an engine: its series are added up.
        model_label: the one of them that holds the name under which clients ask for the model; empty where none does.
        former_names: older names of these series, each with its current name.
        added_names: further counters, each with the name of that of these to which it is added.
        path: the path of the engine's own page of metrics, on the port that it serves at.
        prompt_lengths: histogram, prompt tokens of the requests that are done.
        output_lengths: histogram, generated tokens of the requests that are done.
        first_token_seconds: histogram, times to the first token.
        token_gap_seconds: histogram, times between two tokens of a request.
        prefix_queried: counter, prompt tokens that were looked up in the prefix cache.
        prefix_hit: counter, prompt tokens that were found there, or in a cache behind it by one of ``added_names``.
        behind_hit: that of ``added_names`` which counts those that a cache behind it had, e.g. in host memory.
        adapters: gauge, whose labels name the LoRA adapters that are loaded and waited for.
    """

    kv_usage: str
    waiting: str
    running: str
    preemptions: str
    prompt_tokens: str
    generation_tokens: str
    capacity: str
    capacity_tokens: Callable[[Mapping[str, str], float], int | None]
    rank_label: str
    own_labels: frozenset[str] = frozenset()
    part_labels: tuple[str, ...] = ()
    model_label: str = ""
    former_names: Mapping[str, str] = field(default_factory=dict)
    added_names: Mapping[str, str] = field(default_factory=dict)
    path: str = "/metrics"
    prompt_lengths: str = ""
    output_lengths: str = ""
    first_token_seconds: str = ""
    token_gap_seconds: str = ""
    prefix_queried: str = ""
    prefix_hit: str = ""
    behind_hit: str = ""
    adapters: str = ""
    host_capacity: str = ""
    host_capacity_tokens: Callable[[Mapping[str, str], float], int | None] = _no_tokens

    @property
    def of_sizes(self) -> frozenset[str]:
        """The gauges that say the size of a cache by their labels, of which they may have dozens."""
        return frozenset({self.capacity, self.host_capacity})

    @property
    def names(self) -> tuple[str, ...]:
        """The current name of every series that is read, each once."""
        loads = (self.kv_usage, self.waiting, self.running, self.preemptions, self.prompt_tokens)
        histograms = (self.prompt_lengths, self.output_lengths, self.first_token_seconds, self.token_gap_seconds)
        series = [name for each in histograms for name in (total_of(each), count_of(each))]
        more = (self.generation_tokens, self.capacity, *series, self.prefix_queried, self.prefix_hit)
        return tuple(dict.fromkeys(name for name in (*loads, *more) if name))

    def summands(self, counter: str) -> tuple[str, ...]:
        """Return the series that one of these counters is the sum of; none for an empty name."""
        return tuple(
            name for name in (counter, *(new for new, old in self.added_names.items() if old == counter)) if name
        )

    @property
    def labels(self) -> frozenset[str]:
        """The labels that the engine gives its series itself, that of its ranks included."""
        return self.own_labels | {self.rank_label}


def total_of(histogram: str) -> str:
    """Return the series with the sum of a histogram's values; empty where there is no histogram."""
    return histogram and f"{histogram}_sum"


def count_of(histogram: str) -> str:
    """Return the series with the number of a histogram's values; empty where there is no histogram."""
    return histogram and f"{histogram}_count"
