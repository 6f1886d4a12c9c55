"""Whether the promised times can be kept by replicas at their place, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.public_words import Numbers
from plimsoll.rebalance.law.capacity import (
    FIRST_TOKEN_SHARE,
    TOKEN_SHARE,
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

_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Figure:
    """A time that is measured and promised, in seconds. ``name`` is ``ttft`` or ``tpot``."""

    name: str
    measured: float
    promised: float

    def of(self, times: Times) -> float:
        """Return this time of both."""
        return times.first_token if self.name == "ttft" else times.token

    @property
    def numbers(self) -> Numbers:
        """Both in milliseconds."""
        return (
            ("figure", self.name),
            ("measured_ms", round(_MILLISECONDS * self.measured)),
            ("promised_ms", round(_MILLISECONDS * self.promised)),
        )


def missed_figures(traffic: Traffic, slo: Slo) -> tuple[Figure, ...]:
    """Return the measured times that miss their promises."""
    return tuple(each for each in _figures(traffic, slo) if each.measured > each.promised)


def is_strained(traffic: Traffic, slo: Slo) -> bool:
    """Whether tokens take longer than a replica's capacity allows for: some requests miss their promise already."""
    measured, promised = traffic.token_seconds, slo.tpot_seconds
    return measured is not None and promised is not None and measured > TOKEN_SHARE * promised


def unreachable(replica: ReplicaModel, lengths: Lengths, traffic: Traffic) -> Figure | None:
    """Return a missed time that more replicas of this kind would not mend; None if there is none.

    That is so if one request alone takes too long, or if a replica keeps the promise with hardly any of the
    requests that it could run.
    """
    alone = times_of(replica, lengths, 1.0)
    capacity = capacity_of(replica, lengths)
    for each in missed_figures(traffic, replica.slo):
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
    return (slo.tpot_seconds is None or alone.token <= TOKEN_SHARE * slo.tpot_seconds) and (
        slo.ttft_seconds is None or alone.first_token <= FIRST_TOKEN_SHARE * slo.ttft_seconds
    )


def _figures(traffic: Traffic, slo: Slo) -> Iterator[Figure]:
    pairs = (("ttft", traffic.ttft_seconds, slo.ttft_seconds), ("tpot", traffic.token_seconds, slo.tpot_seconds))
    for name, measured, promised in pairs:
        if measured is not None and promised is not None:
            yield Figure(name, measured, promised)
