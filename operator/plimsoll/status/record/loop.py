"""The live loop's decision, its changes, and what it learned, as a status keeps them."""

from __future__ import annotations

from typing import Any

from plimsoll.api.v1alpha1.spec import LatencyPercentile
from plimsoll.api.v1alpha1.status import (
    AdditionResultStatus,
    CalledStatus,
    ChangeStatus,
    LearnedPercentileStatus,
    LearnedStatus,
    LeavingPodStatus,
    RebalancingStatus,
    RejectedProposalStatus,
    ReplacementStatus,
    RoomOrderStatus,
)
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.units import from_rfc3339, to_percent, to_rfc3339
from plimsoll.rebalance.inbox import AnsweredProposals, StandingRejection
from plimsoll.rebalance.law.dispersion import MOST_DISPERSION, USUAL_DISPERSION
from plimsoll.rebalance.law.spread import LEAST_RATIO, MOST_RATIO, NO_SPREAD, Spread
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.history import (
    REPLACE_REASONS,
    ROOM_REASONS,
    AdditionResult,
    Called,
    ChangeKind,
    ChangeRecord,
    Verdict,
)
from plimsoll.rebalance.state.memory import MOST_WRONG, Learned
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.rebalance.state.room import Leaving, RoomOrder
from plimsoll.status.record.forms import (
    Field,
    Form,
    Unusable,
    entries,
    listed,
    number,
    part,
    time,
    unless,
    word,
)
from plimsoll.status.record.places import MOST_REPLICAS
from plimsoll.status.record.report import RebalancingReport

MAX_CHANGES = 250
"""The most change times in a status. No hour may have more changes, so they suffice for the hourly budget."""


def _percent(slowness: float) -> int:
    return to_percent(slowness)


def _slowness(percent: int) -> float:
    """Return a slowness of the status, within what the live loop itself would learn."""
    if percent <= 0:
        raise Unusable(f"tokenTimePercent {percent} is no time")
    return min(MOST_WRONG, max(1 / MOST_WRONG, percent / 100))


def _figure(name: str, least: int) -> Field:
    """A figure that is written as a whole number; None if it is not known."""
    return Field(
        name,
        lambda value: None if value is None else round(value),
        lambda value: None if value is None or value < least else float(value),
    )


def _others(found: list[Any] | None) -> tuple[tuple[str, float], ...]:
    return tuple((each.pool, _slowness(each.token_time_percent)) for each in found or () if each.token_time_percent > 0)


def _spread_document(spread: Spread) -> dict[str, int] | None:
    ratios = {"first_token_percent": spread.first_token, "token_percent": spread.token}
    known = {name: _percent(ratio) for name, ratio in ratios.items() if ratio is not None}
    return None if spread.percentile is None or not known else {"percentile": spread.percentile, **known}


def _spread(found: LearnedPercentileStatus | None) -> Spread:
    """Return the ratios of the status, within what the live loop itself would learn; of no percentile, nothing."""
    if found is None or found.percentile not in {each.percent for each in LatencyPercentile}:
        return NO_SPREAD
    return Spread(found.percentile, _ratio(found.first_token_percent), _ratio(found.token_percent))


def _dispersion_document(index: float) -> int | None:
    return None if index == USUAL_DISPERSION else max(1, _percent(index))


def _dispersion(percent: int | None) -> float:
    """Return an index of dispersion of the status, within what the live loop itself would learn."""
    return USUAL_DISPERSION if percent is None or percent <= 0 else min(MOST_DISPERSION, percent / 100)


def _ratio(percent: int | None) -> float | None:
    return None if percent is None or percent <= 0 else min(MOST_RATIO, max(LEAST_RATIO, percent / 100))


CALLED = Form(
    Called,
    CalledStatus,
    value=number("before", 0),
    arrivals=number("arrivals_per_minute", 0),
    served=number("served_per_minute", 0),
    seconds=number("counted_seconds", 0, absent=0),
    read_tokens=number("read_tokens_per_minute", 0, absent=0),
)

RESULT = Form(
    AdditionResult,
    AdditionResultStatus,
    verdict=word("verdict", Verdict),
    at=time("at"),
    in_a_row=number("in_a_row", 0, MOST_REPLICAS, absent=0),
    value=number("after", 0),
    words=unless("message", ""),
)

MARK = Form(
    ChangeRecord,
    ChangeStatus,
    at=time("at"),
    kind=word("kind", ChangeKind),
    reason=unless("reason", ""),
    added=number("added", 0, MOST_REPLICAS, absent=0),
    called=part("called_by", CALLED),
    result=part("result", RESULT),
    engine=unless("engine", ""),
)

LEARNED = Form(
    Learned,
    LearnedStatus,
    engine=unless("engine", DEFAULT_ENGINE),
    slowness=Field("token_time_percent", _percent, _slowness),
    startup_seconds=_figure("startup_seconds", 0),
    most_work=_figure("most_work", 1),
    output_tokens=_figure("output_tokens", 1),
    spread=Field("percentile", _spread_document, _spread),
    dispersion=Field("dispersion_percent", _dispersion_document, _dispersion),
    others=Field(
        "elsewhere",
        lambda others: [{"pool": pool, "token_time_percent": _percent(slowness)} for pool, slowness in others],
        _others,
    ),
)

REPLACEMENT = Form(
    Replacement,
    ReplacementStatus,
    node=unless("node", ""),
    reason=word("reason", DecisionReason),
    began=time("began"),
    whom=unless("makes_room_for", ""),
    strays=listed("strays"),
    doubt=lambda found: (
        "" if found.reason in (*REPLACE_REASONS, *ROOM_REASONS) else f"reason {found.reason} replaces no replica"
    ),
)

LEAVING = Form(Leaving, LeavingPodStatus, ends=unless("ends", usual=False))

ROOM_ORDER = Form(
    RoomOrder,
    RoomOrderStatus,
    began=time("began"),
    leaving=entries("leaving", LEAVING),
    gone=Field("gone", lambda at: None if at is None else to_rfc3339(at), lambda text: from_rfc3339(text or "")),
)

REFUSAL = Form(StandingRejection, RejectedProposalStatus, reason=unless("reason", ""), until=time("until"))

ANSWERED = Form(AnsweredProposals, refusals=entries("rejected", REFUSAL), carried_out=listed("carried_out"))

REBALANCING = Form(
    RebalancingReport,
    RebalancingStatus,
    base_replicas=number("base_replicas", 0, MOST_REPLICAS),
    target_replicas=number("target_replicas", 0, MOST_REPLICAS),
    changes=entries("changes", MARK, most=MAX_CHANGES),
    learned=part("learned", LEARNED),
    replacing=part("replacing", REPLACEMENT),
    room=part("room", ROOM_ORDER),
    approved=unless("approved", usual=False),
    answered=ANSWERED,
    hints=listed("hints"),
    unkept=("trouble",),
)


def answered_proposals_of(entry: RebalancingStatus | None) -> AnsweredProposals:
    """People's answers to proposals; an entry whose time is none is left out."""
    return AnsweredProposals() if entry is None else ANSWERED.read(entry)
