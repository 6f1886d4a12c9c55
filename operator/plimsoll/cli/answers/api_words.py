"""One's own replica against an API: from how many requests a day it pays, and what a day costs in each way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plimsoll.cli.answers.rows import AnswerRow
from plimsoll.cli.questions.asked import ApiQuestion, EstimateQuestion
from plimsoll.performance.break_even import (
    AtZero,
    OwnReplica,
    Use,
    Way,
    at_zero,
    cheapest,
    dedicated_usd,
    least_requests,
    without_starts,
)
from plimsoll.placement.options.speed import load_of

_NAMES = {Way.API: "the API", Way.SCALE_TO_ZERO: "scale to zero", Way.DEDICATED: "a replica that always runs"}


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """One GPU type against an API.

    Attributes:
        gpu: the name of the type.
        api: what is asked.
        replica: one replica on this type.
        usd_per_request: what the API asks for one request.
        pays_from: the requests a day from which a replica is cheaper, for both ways to run it; None: never.
    """

    gpu: str
    api: ApiQuestion
    replica: OwnReplica
    usd_per_request: float
    pays_from: dict[Way, int | None]

    @property
    def zero(self) -> AtZero | None:
        """A day of scaling to zero; None if no number of requests is asked about."""
        return None if self.api.requests is None else at_zero(self.replica, Use(self.api.requests, self.api.hours))

    @property
    def usd(self) -> dict[Way, float]:
        """The bill of a day in each way; empty if no number of requests is asked about."""
        requests, zero = self.api.requests, self.zero
        if requests is None or zero is None:
            return {}
        return {
            Way.API: requests * self.usd_per_request,
            Way.SCALE_TO_ZERO: zero.usd,
            Way.DEDICATED: dedicated_usd(self.replica, Use(requests, self.api.hours)),
        }

    def cells(self) -> tuple[str, ...]:
        """Return the requests from which both ways pay, the bill of each way, and the cheapest, for a table."""
        pays = ("never" if each is None else f"{each:,}" for each in self.pays_from.values())
        usd = self.usd
        return (*pays, *(f"{each:.2f}" for each in usd.values()), cheapest(usd).value) if usd else tuple(pays)

    @property
    def short(self) -> str:
        """A few words below the price of a row."""
        always, zero = (self.pays_from[way] for way in (Way.DEDICATED, Way.SCALE_TO_ZERO))
        pays = "never pays" if zero is None else f"pays from {zero:,} requests a day if it scales to zero"
        pays = pays if always is None else f"pays from {always:,} requests a day"
        return f"{pays}; cheapest: {_NAMES[cheapest(self.usd)]}" if self.usd else pays

    def sentences(self) -> Iterator[str]:
        """Yield a line for the number of requests that pays, and lines for the day that is asked about."""
        price, most = self.api.price, int(self.replica.most_requests(self.api.hours))
        yield (
            f"An API at ${price.prompt:g} and ${price.output:g} for a million tokens of prompts and outputs takes "
            f"${self.usd_per_request:.3g} a request. {self._pays(most)}"
        )
        zero, usd, requests = self.zero, self.usd, self.api.requests
        if zero is None or requests is None:
            return
        replicas = self.replica.needed(Use(requests, self.api.hours))
        starts = f"{zero.starts:.3g} starts of {self.api.startup_seconds:.0f} s"
        yield (
            f"{requests:,} requests a day in {self.api.hours:g} hours: ${usd[Way.API]:,.2f} a day at the API, "
            f"${usd[Way.SCALE_TO_ZERO]:,.2f} with scale to zero ({starts}, {100 * zero.waiting:.0f} % of the requests "
            f"wait for one), ${usd[Way.DEDICATED]:,.2f} for "
            f"{'a replica that always runs' if replicas == 1 else f'{replicas} replicas that always run'}."
        )
        way, plain = cheapest(usd), without_starts(usd)
        bearable = f", if that wait is bearable; else {_NAMES[plain]}" if way is Way.SCALE_TO_ZERO else ""
        yield f"Cheapest: {_NAMES[way]}{bearable}."

    def _pays(self, most: int) -> str:
        always, zero = (self.pays_from[way] for way in (Way.DEDICATED, Way.SCALE_TO_ZERO))
        if zero is None:  # it never costs more than one that always runs
            return f"A replica never pays: at its full load it serves {most:,} requests a day, for more than that."
        runs = "never pays" if always is None else f"pays from {always:,} requests a day"
        return (
            f"A replica that always runs {runs}, one that scales to zero pays from {zero:,} requests a day; at its "
            f"full load it serves {most:,}."
        )

    def document(self) -> dict[str, Any]:
        """Return the same as data: US dollars and seconds, nothing rounded."""
        usd, zero = self.usd, self.zero
        return {
            "usdPerRequest": self.usd_per_request,
            "mostRequestsPerDay": self.replica.most_requests(self.api.hours),
            "paysFromRequestsPerDay": {way.value: least for way, least in self.pays_from.items()},
            "startupSeconds": self.api.startup_seconds,
            "idleSeconds": self.api.idle_seconds,
            "usdPerDay": {way.value: each for way, each in usd.items()} or None,
            "startsPerDay": zero and zero.starts,
            "waitingShare": zero and zero.waiting,
            "cheapest": cheapest(usd).value if usd else None,
            "cheapestWithoutStarts": without_starts(usd).value if usd else None,
        }


def api_answer(question: EstimateQuestion, row: AnswerRow) -> ApiAnswer | None:
    """Return a row against the API; None if nothing is asked, or if the row's price or speed is not known."""
    api, speed = question.api, row.speed
    if api is None or speed is None or not row.price:
        return None
    load = load_of(question.request)
    replica = OwnReplica(
        usd_per_hour=float(row.price),
        per_second=speed.output_tokens_per_second / load.output_tokens,
        request_seconds=speed.typical_ttft_seconds + (load.output_tokens - 1) * speed.tpot_seconds,
        startup_seconds=api.startup_seconds,
        idle_seconds=api.idle_seconds,
    )
    usd = api.price.of_request(load.prompt_tokens, load.output_tokens)
    pays = {way: least_requests(replica, usd, api.hours, way) for way in (Way.DEDICATED, Way.SCALE_TO_ZERO)}
    return ApiAnswer(row.gpu.name, api, replica, usd, pays)
