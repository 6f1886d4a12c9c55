"""Whether the promised times can be kept by replicas at their place, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_milliseconds
from plimsoll.rebalance.law.capacity import (
    ConcurrencyLimit,
    ReplicaCapacity,
    ReplicaModel,
    Times,
    capacity_of,
    times_of,
)
from plimsoll.rebalance.signals.traffic import Lengths, Traffic

LEAST_SHARE = 0.1
"""A replica that keeps its promises only with less than this part of the requests that it could run at the same time is
at the wrong place: ten times as many GPUs would be idle for nine tenths."""

_LIMITS = {"ttft": ConcurrencyLimit.FIRST_TOKEN_TIME, "tpot": ConcurrencyLimit.TOKEN_TIME}


@dataclass(frozen=True, slots=True)
class Figure:
    """A time that is measured and promised, in seconds. ``name`` is ``ttft`` or ``tpot``.

    ``percentile`` is that of both; None: it is the mean that is measured.
    """

    name: str
    measured: float
    promised: float
    percentile: int | None = None

    def of(self, times: Times) -> float:
        """Return this time of both."""
        return times.first_token if self.name == "ttft" else times.token

    @property
    def numbers(self) -> Numbers:
        """Both in milliseconds."""
        which: Numbers = () if self.percentile is None else (("percentile", self.percentile),)
        return (
            ("figure", self.name),
            *which,
            ("measured_ms", to_milliseconds(self.measured)),
            ("promised_ms", to_milliseconds(self.promised)),
        )


def missed_figures(traffic: Traffic, slo: Slo) -> tuple[Figure, ...]:
    """Return the measured times that miss their promises."""
    return tuple(each for each in _figures(traffic, slo) if each.measured > each.promised)


def is_strained(traffic: Traffic, replica: ReplicaModel) -> bool:
    """Whether tokens take longer than a replica's capacity allows for: some requests miss their promise already."""
    measured, promised = traffic.token_seconds, replica.slo.tpot_seconds
    return measured is not None and promised is not None and measured > replica.token_share * promised


def unreachable(replica: ReplicaModel, lengths: Lengths, traffic: Traffic) -> Figure | None:
    """Return a missed time that more replicas of this kind would not mend; None if there is none.

    That is so if one request alone takes too long, or if a replica keeps the promise with hardly any of the
    requests that it could run.
    """
    for each in missed_figures(traffic, replica.slo):
        alone, capacity = times_of(replica, lengths, 1.0), capacity_of(replica, lengths)
        is_wasted = capacity.limit is _LIMITS[each.name] and _is_wasted(capacity, replica, lengths)
        if each.of(alone) > each.promised or is_wasted:
            return each
    return None


def _is_wasted(capacity: ReplicaCapacity, replica: ReplicaModel, lengths: Lengths) -> bool:
    most = capacity_of(replica, lengths, promised=False)
    return capacity.running <= LEAST_SHARE * most.running


def keeps_promises(replica: ReplicaModel, lengths: Lengths) -> bool:
    """Whether one request alone is served in time, with the room that chance needs."""
    alone, slo = times_of(replica, lengths, 1.0), replica.slo
    return (slo.tpot_seconds is None or alone.token <= replica.token_share * slo.tpot_seconds) and (
        slo.ttft_seconds is None or alone.first_token <= replica.first_token_share * slo.ttft_seconds
    )


def _figures(traffic: Traffic, slo: Slo) -> Iterator[Figure]:
    """Yield the times that are measured and promised. A promised percentile that is not known is none of them."""
    figures = (
        ("ttft", traffic.ttft_seconds, traffic.ttft_percentile, slo.ttft_seconds),
        ("tpot", traffic.token_seconds, traffic.token_percentile, slo.tpot_seconds),
    )
    for name, mean, percentile, promised in figures:
        if promised is None:
            continue
        measured = mean
        if slo.percentile is not None:
            measured = None if percentile is None else percentile.over(promised)
        if measured is not None:
            yield Figure(name, measured, promised, slo.percentile)
