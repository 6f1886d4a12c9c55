"""The live signals that are worth reading of one deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll.adapters.prometheus.router_scrape import RouterPods
from plimsoll.api.v1alpha1 import RebalancingMode
from plimsoll.app.live.season_watch import DaysWanted
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.pools import engine_that_runs
from plimsoll.decision.results.reports import longest_startup
from plimsoll.decision.turns import policy_of
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import ENGINES, engine_of

CAPACITY_WINDOW_SECONDS = 60
"""The window for objects whose live loop is off: enough to learn what the engine reports."""

HISTORY_SECONDS = 660
"""The least that is read for an object whose live loop is on: ten minutes show a trend, and one minute more tells a pod
that stopped reporting from one that never did. It is read once; then only what is new."""

STALE_MEMORY_SECONDS = 60
"""The same minute for a longer window: how far before it a pod's last sample is still read. Two scrapes of 30 s."""


@dataclass(frozen=True, slots=True)
class WantedSamples:
    """The pods and the window to read for one object, and the names of its engine's metrics.

    ``of_pods`` holds those of each pod with another engine, as there are while an object gets another one.
    ``addresses`` holds the IP addresses of the pods that have one, by name. ``inference_pool`` is the one whose gateway
    holds requests; empty if the spec names none. ``router`` are the pods of its own router; None: it has none.
    ``days`` are the days before that matter; None: none do.
    ``idle_seconds`` is the time without requests that matters; None: none does. ``buckets``: a percentile is promised.
    """

    pods: tuple[str, ...]
    window_seconds: int = CAPACITY_WINDOW_SECONDS
    metrics: EngineMetrics = engine_of().metrics
    addresses: Mapping[str, str] = field(default_factory=dict)
    of_pods: Mapping[str, EngineMetrics] = field(default_factory=dict)
    inference_pool: str = ""
    router: RouterPods | None = None
    days: DaysWanted | None = None
    idle_seconds: float | None = None
    buckets: bool = False

    @property
    def every_metrics(self) -> tuple[EngineMetrics, ...]:
        """The names of the metrics of each engine that the object runs, each engine once, its own first."""
        return tuple({id(each): each for each in (self.metrics, *self.of_pods.values())}.values())

    def by_engine(self, pods: Sequence[str]) -> list[tuple[EngineMetrics, tuple[str, ...]]]:
        """Return pods by their engine, with its names of metrics. No pods are those of the object's own engine."""
        found = [
            (each, tuple(pod for pod in pods if self.of_pods.get(pod, self.metrics) is each))
            for each in self.every_metrics
        ]
        return [each for each in found if each[1]] or [(self.metrics, ())]

    def addresses_of(self, pods: Iterable[str]) -> dict[str, str]:
        """Return the IP address of each of these pods; empty if it has none yet."""
        return {pod: self.addresses.get(pod, "") for pod in pods}


def wanted_signals(deployment: Deployment) -> WantedSamples:
    """Return the signals to read: the history that the live loop needs, or enough to learn what engines report."""
    ready, spec = deployment.placed.around.ready_pods(), deployment.spec
    pods = tuple(pod.name for pod in ready)
    addresses = {pod.name: pod.address for pod in ready if pod.address}
    if spec is None:
        return WantedSamples(pods, addresses=addresses, of_pods=_of_other_engines(deployment, engine_of().metrics))
    is_off = spec.rebalancing.mode is RebalancingMode.OFF
    running = engine_that_runs(spec.engine, deployment.placed.pools)
    metrics = engine_of(running or spec.engine.engine_name).metrics
    history = max(HISTORY_SECONDS, spec.rebalancing.window_seconds + STALE_MEMORY_SECONDS)
    return WantedSamples(
        pods,
        CAPACITY_WINDOW_SECONDS if is_off else history,
        metrics,
        addresses,
        _of_other_engines(deployment, metrics),
        inference_pool=deployment.inference_pool,
        router=RouterPods(deployment.placed.around.router.pickers, not pods) if deployment.is_routed else None,
        days=None if is_off else _days_wanted(deployment, spec.rebalancing.cooldown_seconds),
        idle_seconds=policy_of(spec).idle_seconds,
        buckets=not is_off and spec.slo is not None and spec.slo.percentile is not None,
    )


def _of_other_engines(deployment: Deployment, usual: EngineMetrics) -> dict[str, EngineMetrics]:
    """Return the names of the metrics of each ready pod whose engine has others. Those of no known engine have none."""
    known = ((pod, ENGINES.get(engine)) for pod, engine in deployment.placed.engines.items())
    return {pod: engine.metrics for pod, engine in known if engine is not None and engine.metrics is not usual}


def _days_wanted(deployment: Deployment, cooldown_seconds: int) -> DaysWanted | None:
    """Return the days before that say how many replicas to start now; None if a start-up was never seen."""
    startup = longest_startup(deployment)
    return None if startup is None else DaysWanted(startup, startup + cooldown_seconds)
