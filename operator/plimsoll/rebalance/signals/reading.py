"""The result of one reading of live signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plimsoll.rebalance.signals.forecast import Point, Season
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.idle import Quiet
from plimsoll.rebalance.signals.metrics import GpuActivity, PodSignals, SignalState


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one reading.

    ``state`` is FRESH if the source answered, UNAVAILABLE otherwise, with the reason in ``error``. ``pods`` has an
    entry for each pod with at least one sample. ``clock_skew_seconds`` is how far the server's clock is ahead; it is 0
    if the difference could be the duration of the query. Sample times are corrected by it. ``gpus`` is how busy the
    pods' GPUs are, if the source knows it. ``gateway`` is the queue of the deployment's gateway; None if it names
    none. ``season`` is the usual course of the arrivals, if the source knows the days before, and ``season_error``
    is why it does not; empty if nothing is wrong, or nobody asked. ``quiet_before`` is
    when a request came last before this process began, if the source shows it and somebody asked. ``series`` is how
    many series were read for it. ``is_shared`` says of a failure that another object may be its cause, which was asked
    about by the same query.
    """

    pods: Mapping[str, PodSignals] = field(default_factory=dict)
    state: SignalState = SignalState.FRESH
    error: str = ""
    clock_skew_seconds: float = 0.0
    gpus: GpuActivity | None = None
    gateway: GatewayQueue | None = None
    season: Season | None = None
    quiet_before: Quiet | None = None
    season_error: str = ""
    series: int = field(default=0, compare=False, repr=False)
    is_shared: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PastReading:
    """The arrivals of days before, or why they are not known. ``error`` is empty if the source answered."""

    points: tuple[Point, ...] = ()
    error: str = ""
