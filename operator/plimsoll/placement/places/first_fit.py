"""Find a place where one replica fits for sure: the answer of :mod:`place`, without reasons for other candidates."""

from __future__ import annotations

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Fit, Option, Rejection
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate, candidates, splits_for
from plimsoll.placement.options.feasibility import hourly_price, judge, judge_load, may_fit
from plimsoll.placement.options.verdicts import Preference, preference, rank
from plimsoll.placement.places.place import room_basis, room_of


def first_that_fits(request: Request, fleet: Fleet, ledger: Ledger, memo: Memo | None = None) -> Option | None:
    """Return the choice of ``place`` for one replica among the options that fit for sure; None where none does.

    Candidates are judged in the order of preference, up to the first that fits and is fast enough. Candidates that
    have no room or cost more are not judged.
    """
    fast: Option | None = None
    slow: Option | None = None
    for candidate in _with_room_in_order(request, fleet, ledger):
        if fast is not None and _preference(candidate) > rank(fast):
            break  # an fp8 cache weighs more than its price, so a candidate that costs more may still come before it
        if memo is None and not _may_fit(request, candidate):
            continue
        verdict = judge(request, candidate, fleet, memo)
        if isinstance(verdict, Rejection) or verdict.estimate.fit_by_figures is not Fit.SURE:
            continue
        if verdict.is_slow:
            slow = _preferred(verdict, slow)
        else:
            fast = _preferred(verdict, fast)
    return fast or slow


def _preferred(option: Option, other: Option | None) -> Option:
    return option if other is None or rank(option) < rank(other) else other


def with_room(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[Candidate, ...]:
    """Return the candidates with free GPUs for one replica. They may be too small for the request.

    Requests that ask for the same room at the same candidates share the answer.
    """
    asked = candidates(request, fleet)
    about = (*room_basis(request, ledger), _cuts(request))
    return ledger.once(
        "with room",
        fleet.nodes,
        about,
        lambda: tuple(each for each in asked if room_of(request, each, fleet, ledger) > 0),
    )


def _with_room_in_order(request: Request, fleet: Fleet, ledger: Ledger) -> tuple[Candidate, ...]:
    roomy = with_room(request, fleet, ledger)
    about = (*room_basis(request, ledger), _cuts(request))
    return ledger.once("with room, in order", fleet.nodes, about, lambda: tuple(sorted(roomy, key=_preference)))


def _cuts(request: Request) -> tuple[object, ...]:
    return splits_for(request), request.constraints.restricts_capacity


def fits_for_sure(request: Request, candidate: Candidate, fleet: Fleet) -> bool:
    """Whether one candidate without a refusal fits for sure. Free GPUs are not checked."""
    if not _may_fit(request, candidate):
        return False
    verdict = judge_load(request, candidate, fleet, shows_speed=False)
    return isinstance(verdict, Option) and verdict.estimate.fit_by_figures is Fit.SURE


def _may_fit(request: Request, candidate: Candidate) -> bool:
    """Whether it is worthwhile to judge the candidate: its weights and cache are not larger than the whole budget."""
    try:
        return may_fit(request, candidate.gpu, candidate.split)
    except (PlimsollError, ValueError):
        return True  # the judgement says what is wrong, or rejects the split before it is estimated


def _preference(candidate: Candidate) -> Preference:
    return preference(candidate.gpu, candidate.split, hourly_price(candidate.gpu, candidate.split))
