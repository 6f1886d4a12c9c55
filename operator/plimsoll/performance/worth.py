"""The worth of speed in dollars: what the time that users wait adds to the price of a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.decisions.latency import UNMEASURED, Objective, Performance, Slo
from plimsoll.performance.slo import INTERACTIVE, upper_quarter


@dataclass(frozen=True, slots=True)
class Scale:
    """What a millisecond of the time per token costs, in US dollars an hour for each request at the same time.

    Attributes:
        each: for every millisecond.
        late: in addition, for every millisecond above the limit of :func:`delay_cost`.
    """

    each: float
    late: float


SCALES: Mapping[Objective, Scale] = {
    Objective.INTERACTIVE: Scale(each=0.0125, late=0.05),
    Objective.BALANCED: Scale(each=0.00025, late=0.02),
    Objective.BATCH: Scale(each=0.0, late=0.0),
}
"""The scale of each objective: a choice of this project and not a measurement. It is set so that the choices of
experienced engineers come out (``tests/placement/test_signed_choices.py``).

With eight requests at the same time, twenty milliseconds a token are worth 4 cents an hour if ``Balanced``, and 2
dollars if ``Interactive``. A limit that is missed by twenty milliseconds costs $3.20 and $8.00 an hour in addition. So
a slow place is not ruled out by a hair of an estimate, and is taken only if it saves more than that.
"""

ANSWER_TOKENS = 211
"""The time to the first token is waited for once in an answer, and the time per token as often as it has tokens. In the
Azure conversation trace of 2023 the mean answer has 211."""

_MILLISECONDS = 1000
_PARTS = 10_000
"""Prices have four digits after the point."""


def delay_cost(objective: Objective, requests: float, found: Performance | None, slo: Slo | None) -> Decimal:
    """Return US dollars an hour for the time that the users of one replica wait.

    Args:
        objective: the user's.
        requests: those that the replica serves at the same time.
        found: its speed. One that is not known counts as just at the usual limit. One on a card without measured rows
            counts as the upper quarter of its band.
        slo: the user's promise; None: late is what is above the usual limit.
    """
    scale = SCALES[objective]
    limits = INTERACTIVE if slo is None else slo
    if found is None:
        ttft, tpot = INTERACTIVE.ttft_seconds or 0.0, INTERACTIVE.tpot_seconds or 0.0
    elif found.trust == UNMEASURED:
        ttft, tpot = upper_quarter(found)
    else:
        ttft, tpot = found.typical_ttft_seconds, found.tpot_seconds
    cost = scale.each * (tpot + ttft / ANSWER_TOKENS)
    if limits.tpot_seconds is not None and tpot > limits.tpot_seconds:
        cost += scale.late * (tpot - limits.tpot_seconds)
    if limits.ttft_seconds is not None and ttft > limits.ttft_seconds:
        cost += scale.late * (ttft - limits.ttft_seconds) / ANSWER_TOKENS
    return Decimal(round(requests * _MILLISECONDS * cost * _PARTS)) / _PARTS
