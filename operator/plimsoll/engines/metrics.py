"""The names under which an engine reports its load, by meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """The metrics of one engine.

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
        rank_label: the label of a data-parallel rank.
        own_labels: the labels that the engine gives its series itself.
        former_names: older names of these metrics, each with its current name.
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
    former_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Every current name."""
        loads = (self.kv_usage, self.waiting, self.running, self.preemptions)
        return (*loads, self.prompt_tokens, self.generation_tokens, self.capacity)
