"""Whose GPU is the cheapest for a use: an API's, one's own that always runs, or one's own that goes to zero replicas.

All money is in US dollars. Requests come one by one at random (a Poisson process) in the hours of use of a day, and
none comes in the other hours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

IDLE_SECONDS = 1800
"""Seconds without a request before the last replicas go, unless a deployment says otherwise: a choice of this project.
The cost of a start is minutes, and a change that is taken back within half an hour is a flip."""

LEAST_SAVING = 0.1
"""The share of the next best bill that scaling to zero must save to be advised, because requests wait for its starts.
A choice of this project."""

_MILLION = 1_000_000
_HOUR_SECONDS, _DAY_HOURS = 3600.0, 24.0
_ROUNDING = 1e-9


class Way(StrEnum):
    """The ways to serve. They are the words of ``cheapest`` in ``-o json``: words are added, and never renamed."""

    API = "Api"
    """An API that is paid by the token."""
    SCALE_TO_ZERO = "ScaleToZero"
    """Replicas of one's own that go while no request comes, and start for the next one."""
    DEDICATED = "Dedicated"
    """Replicas of one's own that always run."""


@dataclass(frozen=True, slots=True)
class ApiPrice:
    """The price of a million tokens of prompts and of outputs at an API."""

    prompt: float
    output: float

    def of_request(self, prompt_tokens: float, output_tokens: float) -> float:
        """Return the price of one request. Discounts for prompts that the API has cached are not in it."""
        return (self.prompt * prompt_tokens + self.output * output_tokens) / _MILLION


@dataclass(frozen=True, slots=True)
class Use:
    """A day: ``requests``, one at least, come in ``hours`` of it (more than 0, 24 at most)."""

    requests: float
    hours: float = _DAY_HOURS

    @property
    def seconds(self) -> float:
        """The seconds in which requests come."""
        return self.hours * _HOUR_SECONDS

    @property
    def per_second(self) -> float:
        """The mean rate in these hours."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class OwnReplica:
    """One replica.

    Attributes:
        usd_per_hour: the price of all of its GPUs.
        per_second: the requests that it finishes in a second at its full load.
        request_seconds: how long it works on one request.
        startup_seconds: from the decision to start it until it serves.
        idle_seconds: how long no request may have come before it goes.
    """

    usd_per_hour: float
    per_second: float
    request_seconds: float
    startup_seconds: float
    idle_seconds: float

    def needed(self, use: Use) -> int:
        """Return how many such replicas carry the mean rate."""
        return max(1, math.ceil(use.per_second / self.per_second - _ROUNDING))

    def most_requests(self, hours: float) -> float:
        """Return the requests that one replica serves in these hours at its full load."""
        return self.per_second * hours * _HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class AtZero:
    """A day of replicas that go to zero: the bill, the starts, and the share 0..1 of requests that wait for one."""

    usd: float
    starts: float
    waiting: float


def dedicated_usd(replica: OwnReplica, use: Use) -> float:
    """Return the bill of a day of replicas that always run, as many as the mean rate needs."""
    return replica.needed(use) * _DAY_HOURS * replica.usd_per_hour


def at_zero(replica: OwnReplica, use: Use) -> AtZero:
    """Return a day of replicas that go after ``idle_seconds`` without a request and start for the next one.

    A replica stays for D seconds after each request: its time and the idle time. So it is there for a busy period of a
    queue with random arrivals at rate r, equal times D and a server for each (M/D/infinity), of mean (exp(r D) - 1) / r
    (Takacs 1962, "Introduction to the Theory of Queues"), after a start-up U, and away for 1 / r. It is paid for the
    share 1 - q / (1 + r U q) of all time, with q = exp(-r D). At the end of the hours of use it stays for D more, and
    the first request of the next day starts it again. Replicas beyond the first come and go with it.
    """
    rate, start = use.per_second, replica.startup_seconds
    stays = replica.request_seconds + replica.idle_seconds
    none_came = math.exp(-rate * stays)
    cycle = 1 + rate * start * none_came
    is_on = 1 - none_came / cycle
    pause = (_DAY_HOURS - use.hours) * _HOUR_SECONDS
    starts = use.seconds * rate * none_came / cycle + (is_on if pause > stays else 0.0)
    paid = is_on * (use.seconds + min(stays, pause))
    waiting = (1 + rate * start) * starts / use.requests
    return AtZero(replica.needed(use) * paid / _HOUR_SECONDS * replica.usd_per_hour, starts, min(1.0, waiting))


def least_requests(replica: OwnReplica, usd_per_request: float, hours: float, way: Way) -> int | None:
    """Return the requests a day from which one's own replica costs less than the API.

    The bill of a request falls with the number of requests until one replica is full, so there is one such number.
    None: the API is cheaper even for a full replica.
    """
    most = int(replica.most_requests(hours))

    def is_cheaper(requests: int) -> bool:
        use = Use(requests, hours)
        own = dedicated_usd(replica, use) if way is Way.DEDICATED else at_zero(replica, use).usd
        return own <= requests * usd_per_request

    if most < 1 or not is_cheaper(most):
        return None
    below, least = 0, most
    while least - below > 1:
        middle = (below + least) // 2
        below, least = (below, middle) if is_cheaper(middle) else (middle, least)
    return least


def cheapest(usd: Mapping[Way, float]) -> Way:
    """Return the way to choose by the bills of a day; scaling to zero only if it saves :data:`LEAST_SAVING`."""
    plain = without_starts(usd)
    return Way.SCALE_TO_ZERO if usd[Way.SCALE_TO_ZERO] < (1 - LEAST_SAVING) * usd[plain] else plain


def without_starts(usd: Mapping[Way, float]) -> Way:
    """Return the cheapest way in which no request waits for a start."""
    return min((Way.API, Way.DEDICATED), key=lambda way: usd[way])
