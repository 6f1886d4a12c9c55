"""Common parts of the Dynamo planner for aggregated engines: its tick, its guards, and the figures of one engine.

Source: ai-dynamo/dynamo, components/src/dynamo/planner/core/load_scaling.py at 0c6da1e and config/defaults.py. The
planner looks every 5 s. It only observes while a replica starts, and while the number of engines with metrics differs
from the number of replicas. One look changes at most one replica.

Dynamo reads the passes of the engines themselves. Here their scrapes take that place, so a decision waits until every
engine was scraped after the last change. The tokens of waiting requests are their number times the mean prompt. A
request that was preempted waits like the others. Nothing is known of prefix hits, so none are assumed. The budget of 8
GPUs is replaced by the scenario's largest number of replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plimsoll.simulation.peers.signals import clamped, known, mean_prompt, newest, serving
from plimsoll.simulation.peers.view import PodView, View

LOAD_SECONDS = 5.0
"""The time between two looks at the load."""

LENGTHS_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One engine: tokens in its KV cache, and prompt tokens that wait."""

    in_cache: float
    queued: float


def loads_of(pods: Sequence[PodView], view: View) -> list[EngineLoad]:
    """Return the load of each known engine."""
    prompt = mean_prompt(pods, view.now, LENGTHS_SECONDS)
    samples = [newest(pod, view.now) for pod in pods]
    return [EngineLoad(each.kv_usage * view.engine.kv_tokens, each.waiting * prompt) for each in samples]


@dataclass(slots=True)
class Guarded:
    """Changes the number only when all replicas serve, all are known, and all show the effect of the last change."""

    changed_at: float = 0.0

    def __call__(self, view: View, step: Callable[[Sequence[PodView]], int]) -> int:
        """Return the number after a step, which is asked for only where the guards let it pass."""
        pods = known(view)
        if not len(pods) == len(serving(view)) == view.wanted or self._is_old(pods, view.now):
            return view.wanted
        wanted = clamped(view.wanted + step(pods), view)
        if wanted != view.wanted:
            self.changed_at = view.now
        return wanted

    def _is_old(self, pods: Sequence[PodView], now: float) -> bool:
        """Whether an engine's newest sample is from before the last change."""
        return any(newest(pod, now).at < self.changed_at for pod in pods)
