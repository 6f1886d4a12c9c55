"""The queue of a gateway: requests that wait there, and have not arrived in any engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.tracks import TimeSeries
from plimsoll.rebalance.signals.traffic import Rate, Traffic


@dataclass(frozen=True, slots=True)
class GatewayQueue:
    """The requests that wait at the gateway of one deployment.

    Attributes:
        state: FRESH if the whole queue is known. Any other state means that a part of it is unknown, never that it is
            empty.
        lines: the queue of each process of the gateway that is known, over time.
        error: the reason for another state than FRESH, as text for people.
    """

    state: SignalState = SignalState.MISSING
    lines: tuple[TimeSeries, ...] = ()
    error: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the whole queue is known."""
        return self.state is SignalState.FRESH

    @property
    def waiting(self) -> float:
        """The requests that are known to wait now."""
        return sum(line.values[-1] for line in self.lines)

    @property
    def known_until(self) -> float:
        """The last moment at which every process was scraped; infinite if the queue was empty all the time.

        Engines and gateway are scraped at different moments. Requests that an engine has begun and the gateway still
        shows would count twice.
        """
        held = [line for line in self.lines if any(line.values)]
        return min((line.times[-1] for line in held), default=math.inf)

    def risen(self, start: float, end: float) -> float:
        """Return by how much the queue grew between two moments."""
        return sum(line.at(end) - line.at(start) for line in self.lines)


def with_queue(traffic: Traffic, queue: GatewayQueue) -> Traffic:
    """Return the traffic with the requests that wait at the gateway, and those that arrived there.

    A gateway that hands over what it held makes no arrivals: its queue falls by what the engines begin. The last scrape
    of each engine alone does not show that, so the latest rate is the recent one.

    Args:
        traffic: the load of the engines, up to :attr:`GatewayQueue.known_until`.
        queue: the gateway's queue.
    """
    if not math.isfinite(queue.known_until):
        return traffic
    recent = _with_arrivals(traffic.recent, queue, traffic.end)
    return replace(
        traffic,
        waiting=traffic.waiting + queue.waiting,
        at_gateway=queue.waiting,
        steady=_with_arrivals(traffic.steady, queue, traffic.end),
        middle=_with_arrivals(traffic.middle, queue, traffic.end),
        recent=recent,
        latest=recent,
    )


def _with_arrivals(rate: Rate, queue: GatewayQueue, end: float) -> Rate:
    rise = queue.risen(end - rate.seconds, end) / rate.seconds
    return replace(rate, per_second=max(0.0, rate.per_second + rise))
