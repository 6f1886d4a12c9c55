"""The past of a deployment, from its Prometheus, and its bounds. Only ``later`` imports this module."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.prometheus.past_load import ANSWER_SECONDS, PastLoad, past_load
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.api.checks.schedules import check_times, minima_of
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.app.reading.openings import scheduled_at
from plimsoll.app.settings import Settings
from plimsoll.decision.pools import engine_that_runs
from plimsoll.decision.turns import policy_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import Place
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy, ScheduledMinimum
from plimsoll.simulation.replay import Schedule
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import record_of, whole_status

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PastOfDeployment:
    """The load of a deployment, and the longest start-up that its status remembers; None: none."""

    load: PastLoad
    startup_seconds: float | None


def past_of(body: Body, url: str | None, seconds: float, progress: Callable[[float], None]) -> PastOfDeployment:
    """Ask Prometheus for the load of a deployment in the time that ends now.

    Args:
        body: the InferenceDeployment.
        url: the address; None: that of ``PLIMSOLL_PROMETHEUS_URL``. How to prove who asks is as for the operator.
        seconds: how long the time is.
        progress: is called with the part that was asked for.

    Raises:
        InvalidInput: no Prometheus is named.
        SourceUnavailable: it does not answer.
    """
    settings = Settings.from_environment()
    address = url or settings.prometheus_url
    if not address:
        fix = "Name the Prometheus that scrapes the engines, or set PLIMSOLL_PROMETHEUS_URL."
        raise InvalidInput("--prometheus-url", url, fix)
    signals = PrometheusSignals(
        address,
        timeout_seconds=ANSWER_SECONDS,
        access=settings.prometheus_access,
        label_pairs=settings.prometheus_labels,
    )
    head, spec = body["metadata"], parse_inference_deployment(body).spec
    load = past_load(
        signals,
        ObjectKey(head["namespace"], head["name"]),
        engine_of(chosen_engine(body) or spec.engine.engine_name).metrics,
        until=time.time(),
        seconds=seconds,
        progress=progress,
    )
    learned = record_of(body).learned
    return PastOfDeployment(load, None if learned is None else learned.startup_seconds)


def spec_policy(body: Body) -> tuple[RebalancePolicy, int]:
    """Return the bounds of a spec as they would be in Auto mode, and the replicas that it declares."""
    spec = parse_inference_deployment(body).spec
    return replace(policy_of(spec), mode=Mode.AUTO, idle_seconds=None), spec.fewest


def chosen_engine(body: Body) -> str | None:
    """Return the engine that runs where the planner chose it; None if the spec names it, or nothing is placed."""
    return engine_that_runs(parse_inference_deployment(body).spec.engine, record_of(body).pools)


def place_of(body: Body) -> Place | None:
    """Return the GPU type and split of a status; None if nothing is placed."""
    placed = whole_status(record_of(body)).placement
    return None if placed is None else (placed.gpu_type, split_of(placed))


def schedule_of(body: Body, begin: float) -> Schedule | None:
    """Return the scheduled minima by seconds since a beginning (POSIX seconds); None if the spec has none."""
    loop = parse_inference_deployment(body).spec.rebalancing
    if not loop.schedule:
        return None
    check_times(loop)
    minima = tuple(minima_of(loop))

    def at(now: float) -> tuple[ScheduledMinimum, ...]:
        found = scheduled_at(minima, begin + now)
        return tuple(
            replace(each, opening=replace(each.opening, opens_at=each.opening.opens_at - begin)) for each in found
        )

    return at
