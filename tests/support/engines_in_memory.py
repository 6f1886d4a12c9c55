"""Engines on an API server in memory: the load that each deployment has, and what a Prometheus remembers of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, PODS
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from testbed.engine_pods import is_ready, played_engine
from tests.support.api_in_memory import ApiInMemory
from tests.support.operator_in_memory import OperatorInMemory

_MOST_SAMPLES = 40


@dataclass
class EnginesInMemory:
    """All engines of a cluster. The names of deployments are ``namespace/name``, as for the played engines."""

    api: ApiInMemory
    loads: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[EngineSample]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)

    def load(self, name: str, *, kv_tokens: int) -> None:
        """Let clients hold this many tokens in the engines of a deployment together."""
        self.loads[name] = kv_tokens

    def resize(self, name: str, tokens: int) -> None:
        """Give the engines that run now another size of their KV cache, in tokens."""
        self.sizes |= dict.fromkeys(self._pods(ObjectKey(*name.split("/"))), tokens)

    def drop(self, pod: str) -> None:
        """Let a pod report no more, while it serves."""
        self.silent.add(pod)

    def scrape(self, operator: OperatorInMemory) -> None:
        """Take one sample of every engine, and show the operator all of them."""
        live = operator.passes.live
        live.reader = live.reader or PrometheusSignals("http://nowhere.invalid")
        for body in self.api.all(INFERENCE_DEPLOYMENTS):
            key = key_of(body)
            pods = self._pods(key)
            held = self.loads.get(f"{key.namespace}/{key.name}", 0) / max(1, len(pods))
            for pod, capacity in pods.items():
                kept = self.samples.setdefault(pod, [])[1 - _MOST_SAMPLES :]
                self.samples[pod] = [*kept, self._sample(min(1.0, held / capacity), capacity)]
            heard = [pod for pod in pods if pod not in self.silent]
            live.readings[key] = Reading({pod: PodSignals(pod, tuple(self.samples[pod])) for pod in heard})

    def _pods(self, key: ObjectKey) -> dict[str, int]:
        """The pods of a deployment that serve, each with the size of its KV cache."""
        found = (body for body in self.api.all(PODS, key.namespace) if is_ready(body))
        ours = (body for body in found if body["metadata"]["labels"].get("plimsoll.dev/deployment") == key.name)
        sizes = {str(body["metadata"]["name"]): played_engine(body).capacity_tokens for body in ours}
        return {pod: self.sizes.get(pod, size) for pod, size in sizes.items()}

    def _sample(self, usage: float, capacity: int) -> EngineSample:
        now = self.api.clock.now
        return EngineSample(
            at=now,
            kv_usage=usage,
            waiting=0,
            running=1,
            preemptions_total=0,
            kv_capacity_tokens=capacity,
            prompt_tokens_total=now,
            generation_tokens_total=now,
        )
