"""The worth of speed in dollars: what the time that users wait adds to the price of a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.decisions.latency import UNMEASURED, Objective, Performance, Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.performance.slo import INTERACTIVE, READER_TPOT_SECONDS, READER_TTFT_SECONDS, upper_quarter


@dataclass(frozen=True, slots=True)
class Scale:
    """What the time of users costs, in US dollars an hour for each request at the same time.

    Attributes:
        each: for every millisecond per token.
        missed: in addition, for a limit that is missed by its own size: 200 ms per token if 100 are the limit.
    """

    each: float
    missed: float


SCALES: Mapping[Objective, Scale] = {
    Objective.INTERACTIVE: Scale(each=0.0125, missed=5.0),
    Objective.BALANCED: Scale(each=0.00025, missed=2.0),
    Objective.BATCH: Scale(each=0.0, missed=0.0),
}
"""The scale of each objective: a choice of this project and not a measurement. It is set so that the choices of
experienced engineers come out (``tests/placement/test_signed_choices.py``).

With eight requests at the same time, twenty milliseconds a token are worth 4 cents an hour if ``Balanced``, and 2
dollars if ``Interactive``. The usual limit of 100 ms, missed by twenty, costs $3.20 and $8.00 an hour in addition. So
a small error of an estimate decides nothing, and a slow place is taken only if it saves more than that.
"""

ANSWER_TOKENS = 211
"""The time to the first token is waited for once in an answer, and the time per token as often as it has tokens. In the
Azure conversation trace of 2023 the mean answer has 211."""

PER_PART = Decimal("0.01")
"""The part of the price that each further stage or engine of a replica counts if anybody waits, because its requests
are not always shared evenly. A choice: among near equals, the one with fewer parts comes first."""

FIRST_STARTUP_SECONDS = 300.0
"""The start-up that is assumed before one was seen. llm-d reports 278 s for one start, with the image, the download
and the graphs (guides/gke-pod-snapshots)."""

INTERRUPTIONS_PER_DAY = 1
"""How often a cloud takes a spot node back. A cautious choice of this project: nobody has counted it."""

_MILLISECONDS = 1000
_PARTS = 10_000
"""Prices have four digits after the point."""


def parts_charge(objective: Objective, split: Split, price: Decimal | None) -> Decimal:
    """Return US dollars an hour for the stages and engines of a replica, given its price; 0 if nobody waits."""
    parts = split.pipeline_parallel * split.data_parallel
    if price is None or parts == 1 or objective is Objective.BATCH:
        return Decimal(0)
    return price * (parts - 1) * PER_PART


def interruption_charge(objective: Objective, requests: float, price: Decimal | None) -> Decimal:
    """Return US dollars an hour for the interruptions of a replica on spot nodes.

    A start is paid and serves nobody, and the requests of the replica miss their limit by its own size meanwhile.

    Args:
        objective: the user's.
        requests: those that the replica serves at the same time.
        price: US dollars an hour of the replica; None: not known.
    """
    hours = INTERRUPTIONS_PER_DAY / 24 * FIRST_STARTUP_SECONDS / 3600
    cost = hours * (float(price or 0) + requests * SCALES[objective].missed)
    return Decimal(round(cost * _PARTS)) / _PARTS


def delay_cost(objective: Objective, requests: float, found: Performance | None, slo: Slo | None) -> Decimal:
    """Return US dollars an hour for the time that the users of one replica wait.

    Args:
        objective: the user's.
        requests: those that the replica serves at the same time.
        found: its speed. One that is not known counts as just at the usual limit. One on a card without measured rows
            counts as the upper quarter of its band.
        slo: the user's promise; None: the usual limit for people who read along.
    """
    scale = SCALES[objective]
    limits = INTERACTIVE if slo is None else slo
    if found is None:
        ttft, tpot = READER_TTFT_SECONDS, READER_TPOT_SECONDS
    elif found.trust == UNMEASURED:
        ttft, tpot = upper_quarter(found)
    else:
        ttft, tpot = found.typical_ttft_seconds, found.tpot_seconds
    cost = scale.each * _MILLISECONDS * (tpot + ttft / ANSWER_TOKENS)
    if limits.tpot_seconds is not None and tpot > limits.tpot_seconds:
        cost += scale.missed * (tpot / limits.tpot_seconds - 1)
    if limits.ttft_seconds is not None and ttft > limits.ttft_seconds:
        cost += scale.missed * (ttft / limits.ttft_seconds - 1)
    return Decimal(round(requests * cost * _PARTS)) / _PARTS
