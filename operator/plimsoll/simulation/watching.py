"""Moments of a run, made from its replicas and requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from plimsoll.simulation.decoding import BLOCK_TOKENS
from plimsoll.simulation.fleet import Fleet
from plimsoll.simulation.gateway import Gateway
from plimsoll.simulation.kind import Limits
from plimsoll.simulation.replica import Replica, Stage
from plimsoll.simulation.request import Request
from plimsoll.simulation.result import Moment, Spread, Totals
from plimsoll.simulation.values import Fate, Obstacle

_HIGH = 0.95


@dataclass(slots=True)
class Watching:
    """The counts up to the last moment, so that each request is counted once."""

    fleet: Fleet[Limits]
    gateway: Gateway
    _preemptions: int = field(default=0, init=False)
    _begun: set[Request] = field(default_factory=set, init=False)
    _open: dict[Request, None] = field(default_factory=dict, init=False)
    _seen: int = field(default=0, init=False)
    _lost: int = field(default=0, init=False)

    def moment(self, now: float, wanted: int) -> Moment:
        """Return the state now."""
        serving = [each for each in self.fleet.replicas if each.stage in (Stage.READY, Stage.DRAINING)]
        for each in serving:
            each.engine.sample(now)  # it takes the steps that have ended
        ready = [each for each in serving if each.stage is Stage.READY]
        self._look()
        ended = [each for each in self._open if each.fate is not None]
        first = [each for each in self._open if each not in self._begun and _has_first_token(each, now)]
        self._begun.update(first)
        self._lost = sum(each.fate is Fate.LOST for each in ended)
        for request in ended:
            del self._open[request]
            self._begun.discard(request)
        return Moment(
            at=now,
            held_tokens=sum(each.engine.used_blocks for each in serving) * BLOCK_TOKENS,
            hold_tokens=sum(each.engine.total_blocks for each in serving) * BLOCK_TOKENS,
            fullest=max((each.engine.used_blocks / each.engine.total_blocks for each in serving), default=0.0),
            running=sum(each.engine.running for each in serving),
            berths=sum(each.engine.most_running for each in serving),
            waiting=sum(each.engine.waiting for each in serving) + self.gateway.held,
            preemptions=self._new_preemptions(),
            gave_up=sum(each.fate is Fate.GAVE_UP for each in ended),
            wanted=wanted,
            ready=len(ready),
            starting=sum(each.stage is Stage.STARTING for each in self.fleet.shown),
            ttft=spread_of(_ttfts(first)),
            tpot=spread_of(_tpots(ended)),
        )

    def lost(self) -> int:
        """Return the requests that the moment before has found lost with their replica."""
        return self._lost

    def obstacles(self) -> dict[Obstacle, Replica]:
        """Return why requests wait now, each with the first replica where they do."""
        found: dict[Obstacle, Replica] = {}
        for each in self.fleet.ready():
            obstacle = each.engine.obstacle
            if obstacle is not None:
                found.setdefault(obstacle, each)
        return found

    def totals(self, seconds: float) -> Totals:
        """Return what became of all requests of a run of so many seconds."""
        requests = self.gateway.requests
        fates = [each.fate for each in requests]
        return Totals(
            arrived=len(requests),
            served=fates.count(Fate.SERVED),
            gave_up=fates.count(Fate.GAVE_UP),
            lost=fates.count(Fate.LOST),
            under_way=fates.count(None),
            preemptions=self._all_preemptions(),
            replica_seconds=self.fleet.replica_seconds(seconds),
            ttft=spread_of(_ttfts(requests)),
            tpot=spread_of(_tpots(requests)),
        )

    def _look(self) -> None:
        new = self.gateway.requests[self._seen :]
        self._open.update(dict.fromkeys(new))
        self._seen += len(new)

    def _all_preemptions(self) -> int:
        return sum(each.engine.totals.preemptions for each in self.fleet.replicas)

    def _new_preemptions(self) -> int:
        before, self._preemptions = self._preemptions, self._all_preemptions()
        return self._preemptions - before


def spread_of(seconds: Sequence[float]) -> Spread | None:
    """Return the middle and the 95th percentile of times; None where there are none."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Spread(ordered[ceil(len(ordered) / 2) - 1], ordered[ceil(_HIGH * len(ordered)) - 1])


def _has_first_token(request: Request, now: float) -> bool:
    return request.first_token_at is not None and request.first_token_at <= now


def _ttfts(requests: Iterable[Request]) -> list[float]:
    return [each.first_token_at - each.arrival.at for each in requests if each.first_token_at is not None]


def _tpots(requests: Iterable[Request]) -> list[float]:
    done = (each.answered.tpot_seconds for each in requests if each.fate is Fate.SERVED)
    return [seconds for seconds in done if seconds is not None]
