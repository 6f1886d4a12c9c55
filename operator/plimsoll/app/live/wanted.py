"""The live signals that are worth reading of one deployment."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import RebalancingMode
from plimsoll.app.live.quiet_watch import IdleWanted
from plimsoll.app.live.season_watch import DaysWanted
from plimsoll.app.live.signal_watch import CAPACITY_WINDOW_SECONDS, HISTORY_SECONDS, STALE_MEMORY_SECONDS, Wanted
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.results.reports import longest_startup
from plimsoll.decision.turns import policy_of
from plimsoll.engines.registry import engine_of


def wanted_signals(deployment: Deployment) -> Wanted:
    """Return the signals to read: the history that the live loop needs, or enough to learn what engines report."""
    ready, spec = deployment.placed.around.ready_pods(), deployment.spec
    pods = tuple(pod.name for pod in ready)
    addresses = {pod.name: pod.address for pod in ready if pod.address}
    if spec is None:
        return Wanted(pods, addresses=addresses)
    is_off = spec.rebalancing.mode is RebalancingMode.OFF
    history = max(HISTORY_SECONDS, spec.rebalancing.window_seconds + STALE_MEMORY_SECONDS)
    idle_seconds = policy_of(spec).idle_seconds
    return Wanted(
        pods,
        CAPACITY_WINDOW_SECONDS if is_off else history,
        engine_of(spec.engine.engine_name).metrics,
        addresses,
        inference_pool=deployment.inference_pool,
        days=None if is_off else _days_wanted(deployment, spec.rebalancing.cooldown_seconds),
        idle=None if idle_seconds is None else IdleWanted(idle_seconds),
    )


def _days_wanted(deployment: Deployment, cooldown_seconds: int) -> DaysWanted | None:
    """Return the days before that say how many replicas to start now; None if a start-up was never seen."""
    startup = longest_startup(deployment)
    return None if startup is None else DaysWanted(startup, startup + cooldown_seconds)
