"""Decide whether the live load needs another number of replicas or another placement.

A diagnosis says what is wrong, remedies answer it with changes, and each change must be within the bounds and have a
destination in the plan. So no order is given that cannot be carried out, and none is taken back.

From a change to an offer: first the bounds, then a destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from plimsoll.domain.decisions.proposals import Proposal, Share
from plimsoll.domain.public_words import LiveTrouble
from plimsoll.domain.units import format_price
from plimsoll.placement.demands.pools import Decision, PlannedPool, Tenant, active, serving
from plimsoll.placement.explain import nearest_sentence
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.diagnosis.diagnose import ABOUT_THE_PLACE, Diagnosis, DiagnosisKind, diagnose, diagnose_load
from plimsoll.rebalance.diagnosis.judging import Judged, judged, without_promise
from plimsoll.rebalance.diagnosis.trouble import trouble_of
from plimsoll.rebalance.guard import BOUND_REASONS, held_back, under_way
from plimsoll.rebalance.law.wishes import Wish
from plimsoll.rebalance.places.better import bill_of
from plimsoll.rebalance.places.elsewhere import elsewhere, on_other_engine
from plimsoll.rebalance.remedies import REMEDIES, Remedy
from plimsoll.rebalance.remedies.move import move_to_place
from plimsoll.rebalance.remedies.protocol import AtOthers, Offer
from plimsoll.rebalance.remedies.replace import with_one_off
from plimsoll.rebalance.state.additions import IN_VAIN, called_by, with_results
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    Change,
    DecisionReason,
    Keep,
    LoopDecision,
    Move,
    RemoveReplica,
    ReplaceReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import Called, ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import Situation

NO_BILL = "an unknown number of"
"""The words for a bill of which a price is not known."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks for one deployment in one situation. The solver is not asked for a change that a bound forbids."""

    situation: Situation
    what_if: WhatIf

    @property
    def tenant(self) -> Tenant:
        """The deployment as it is."""
        return self.what_if.tenant

    def __call__(self, change: Change, tenant: Tenant) -> Offer | Wait:
        """Return an offer with a destination, or a wait with the reason why there is none."""
        held = held_back(change, self.situation)
        if held is not None:
            return held
        answer = self.what_if.ask(self._with_the_others(change, tenant))
        if isinstance(change, ReplaceReplica) and _has_place(change, self.what_if.decision, answer.decision):
            answer = self.what_if.ask(self.tenant)  # there are no more replicas afterwards
        if _has_place(change, self.what_if.decision, answer.decision) or _wakes(change, self.situation):
            if (dear := self._too_dear(change, answer.decision)) is not None:
                return dear
            shares = shares_of(self.what_if.decision), shares_of(answer.decision)
            return Offer(change, Proposal(*shares, change.reason.value, change.numbers), answer)
        room = self._room(change, answer)
        if room is not None and (dear := self._too_dear(change, room.then)) is not None:
            return dear
        is_reported = self.situation.policy.mode is Mode.RECOMMEND and not _is_too_large(change, answer.decision)
        if room is not None or is_reported:
            return Offer(change, room=room)  # the reader may free GPUs, so the change is reported
        wanted = (("wanted", change.reason.value), ("nearest", nearest_sentence(answer.decision.rejections)))
        return Wait(DecisionReason.NO_PLACE_FOUND, wanted)

    def _too_dear(self, change: Change, then: Decision) -> Wait | None:
        """Return a wait if a change would raise the bill above the user's limit. A bill that is not known does."""
        limit, market = self.situation.policy.dollars_per_hour, self.what_if.market
        if limit is None or market is None or not isinstance(change, AddReplica | Move):
            return None
        if isinstance(change, AddReplica) and change.reason in BOUND_REASONS:
            return None
        bills = [bill_of(pools, market(), hourly_price) for pools in (self.what_if.decision.pools, then.pools)]
        before, after = bills
        if after is not None and (after <= limit or (before is not None and after <= before)):
            return None
        figures = (("dollars", NO_BILL if after is None else format_price(after)), ("bound", str(limit)))
        return Wait(DecisionReason.DOLLARS_PER_HOUR_SPENT, (("wanted", change.reason.value), *figures))

    def _room(self, change: Change, lacking: Answer) -> AtOthers | None:
        """Return the room that others could make for one more replica.

        A deployment that lacks a replica already waits for a place, and the plan says what would make room for it.
        """
        if (
            not isinstance(change, AddReplica)
            or change.count > 1
            or self.what_if.decision.missing
            or not lacking.decision.missing
        ):
            return None
        found = None if self.what_if.room is None else self.what_if.room(lacking)
        if found is None:
            return None
        seconds = round(found.seconds + self.situation.memory.expected_startup_seconds)
        by_loop = found.proposal.by_loop and self.tenant.request.total is None
        made = replace(found.proposal, numbers=(*found.proposal.numbers, ("seconds", seconds)), by_loop=by_loop)
        return AtOthers(change, made, found.then, lacking, found.is_open)

    def _with_the_others(self, change: Change, tenant: Tenant) -> Tenant:
        """Return the deployment with its new replicas where the others are, if it had to leave a place for a promise.

        A solver knows the place that was too slow by the performance model alone, and may find it fast and cheap.
        """
        slow = DecisionReason.PROMISE_OUT_OF_REACH.value
        has_left = any(mark.reason == slow for mark in self.situation.history.changes)
        places = {pool.place for pool in active(tenant.pools)}
        if not isinstance(change, AddReplica) or not has_left or len(places) != 1:
            return tenant
        return replace(tenant, goes_to=places.pop())


def shares_of(decision: Decision) -> tuple[Share, ...]:
    """Return what a decision wants to serve, by target."""
    return tuple(Share(pool.target, pool.replicas) for pool in serving(decision.pools))


def _has_place(change: Change, now: Decision, then: Decision) -> bool:
    """Whether a change is carried out whole.

    Removing a replica needs no place: replicas that are missing now were missing before. A move has none if
    everything would stay where it is, with the settings that it has. Other settings need room for the new engines
    next to the old ones.
    """
    if isinstance(change, RemoveReplica):
        return True
    if isinstance(change, Retune):
        return _is_tuned(change, then)
    if isinstance(change, Move) and _what_runs(then) == _what_runs(now):
        return False
    return then.missing == 0 and not then.change_blocked


def _wakes(change: Change, situation: Situation) -> bool:
    """Whether a change wants the first replica. Without a place it waits for one, as a new deployment does."""
    return isinstance(change, AddReplica) and change.count == 1 and situation.placement.replicas == 0


def _is_tuned(change: Retune, then: Decision) -> bool:
    """Whether every engine gets the setting, and one more replica has room, so that none ends before its successor."""
    pools = serving(then.pools)
    fits = bool(pools) and not _is_too_large(change, then)
    return fits and all(pool.surge and pool.choice and _has_setting(pool, change) for pool in pools)


def _has_setting(pool: PlannedPool, change: Retune) -> bool:
    limits, wanted = pool.limits.of_replica(pool.split.data_parallel), change.limits
    return limits.step_tokens == wanted.step_tokens if wanted.step_tokens else limits.sequences >= wanted.sequences


def _is_too_large(change: Change, then: Decision) -> bool:
    """Whether engines with another setting would not fit any more where they are. No free GPU helps then."""
    return isinstance(change, Retune) and then.outgrown is not None


def _what_runs(decision: Decision) -> list[PlannedPool]:
    """Return the pools without what depends on the GPUs of others."""
    return [replace(pool, surge=False) for pool in decision.pools]


@dataclass(frozen=True, slots=True)
class LoopResult:
    """A decision, and its destination if it is a change: ``proposal`` for people, ``answer`` for the plan.

    A change without a destination is decided in Recommend mode only, in which nothing is carried out. ``room`` is what
    others could do for it; then ``proposal`` is that. ``memory`` is to be given to the next turn. ``kind``, ``cause``
    and ``wish`` are what the decision comes from; no ``cause``: nothing was diagnosed. ``history`` has the results of
    earlier additions, and ``called`` is the figure that calls for one.
    """

    decision: LoopDecision
    proposal: Proposal | None = None
    answer: Answer | None = None
    memory: LoopMemory = field(default_factory=LoopMemory)
    kind: DiagnosisKind = DiagnosisKind.NOT_DIAGNOSED
    wish: Wish | None = None
    room: AtOthers | None = None
    cause: DecisionReason | None = None
    history: ChangeHistory = field(default_factory=ChangeHistory)
    called: Called | None = None

    @property
    def trouble(self) -> LiveTrouble | None:
        """The trouble that was diagnosed; None: there is none, or nothing was diagnosed."""
        return None if self.cause is None else trouble_of(self.kind, self.cause)

    def recorded(self, now: float, replicas: int) -> ChangeHistory:
        """Return the history with the change of the decision, after which so many replicas are wanted."""
        change = self.decision
        if not isinstance(change, Change):
            return self.history
        mark = ChangeRecord(now, kind_of(change), change.reason.value, replicas)
        if isinstance(change, AddReplica):
            mark = replace(mark, added=change.count, called=self.called)
        if isinstance(change, Move):
            mark = replace(mark, engine=change.engine)
        return self.history.recorded(mark)

    def about(self, diagnosis: Diagnosis) -> LoopResult:
        """The same, coming from a diagnosis."""
        return replace(self, kind=diagnosis.kind, cause=diagnosis.reason)


def decide(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy] = REMEDIES) -> LoopResult:
    """Decide once. The same arguments always give the same decision.

    The first remedy with an offer decides. A wait for a bound or for a place is reported only when a change would have
    been made otherwise. While a move is only proposed or held back, the number of replicas follows the load. While the
    cluster's switch is set, the load is looked at and learned from, and nothing is decided. A caller that makes the
    change takes the history of :meth:`LoopResult.recorded`, else the result's own.
    """
    situation = replace(situation, history=with_results(situation))
    decided = replace(_allowed(situation, what_if, remedies), history=situation.history)
    if not isinstance(decided.decision, AddReplica):
        return decided
    return replace(decided, called=called_by(decided.decision.reason, situation))


def _allowed(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy]) -> LoopResult:
    if situation.allowance.suspended and situation.policy.mode is not Mode.OFF:
        return replace(_decided(situation, what_if, ()), decision=Wait(DecisionReason.SUSPENDED_FOR_CLUSTER))
    return _with_room_for_others(_decided(situation, what_if, remedies), situation, what_if)


def _with_room_for_others(found: LoopResult, situation: Situation, what_if: WhatIf) -> LoopResult:
    """Return the change that makes room for another deployment, unless this one has a change of its own to make.

    It needs a load that is known, and a deployment that lets the loop move it without asking anybody.
    """
    asked, policy, tenant = situation.asked, situation.policy, what_if.tenant
    lets = policy.carries_out(Move(DecisionReason.MAKES_ROOM)) and situation.replacement is None
    if asked is None or not lets or found.kind is DiagnosisKind.NOT_DIAGNOSED or _is_made(found, situation):
        return found
    numbers = (("pod", asked.pod), ("node", asked.node), ("whom", asked.whom))
    ask = Asking(replace(situation, memory=found.memory), what_if)
    if asked.ends:
        fewer = replace(tenant, request=replace(tenant.request, replicas=tenant.request.replicas - 1))
        offer = ask(RemoveReplica(DecisionReason.GIVES_WAY, numbers, pod=asked.pod, node=asked.node), fewer)
    else:
        change = ReplaceReplica(DecisionReason.MAKES_ROOM, numbers, asked.pod, asked.node)
        offer = ask(change, with_one_off(tenant, change))
    return _offered(found, offer, policy) if isinstance(offer, Offer) and offer.answer is not None else found


def _decided(situation: Situation, what_if: WhatIf, remedies: Sequence[Remedy]) -> LoopResult:
    if situation.policy.mode is Mode.OFF:
        return LoopResult(Keep(DecisionReason.MODE_OFF), memory=situation.memory)
    moving = under_way(situation)
    if moving is not None:
        return LoopResult(moving, memory=situation.memory)
    look = judged(situation)
    situation = replace(situation, memory=look.memory)
    usual = diagnose(situation, look)
    diagnosis, memory = elsewhere(usual, situation, look, what_if)
    wait = Wait(diagnosis.reason, diagnosis.numbers)
    found = LoopResult(wait, None, None, memory, wish=look.wish).about(diagnosis)
    ask, is_known = Asking(situation, what_if), diagnosis.kind is not DiagnosisKind.NOT_DIAGNOSED
    treated = _treated(found, diagnosis, ask, remedies) if is_known else found
    if treated.answer is None and remedies:
        treated = _on_another_engine(found, diagnosis, ask) or treated
    if not is_known:
        return treated
    if diagnosis.kind is DiagnosisKind.CHEAPER_ELSEWHERE and treated.answer is None:
        return _treated(found.about(usual), usual, ask, remedies)
    if diagnosis.kind not in ABOUT_THE_PLACE or _is_made(treated, situation):
        return treated
    return _scaled(found, _about_the_load(diagnosis, situation, look), ask, remedies) or treated


def _on_another_engine(found: LoopResult, diagnosis: Diagnosis, ask: Asking) -> LoopResult | None:
    """Return a move to another engine, if replicas have no place on the one that runs; None: there is none to offer."""
    now, market = ask.what_if.decision, ask.what_if.market
    lacks_place = bool(ask.tenant.pools) and (now.waits_for_place or bool(now.stranded_by))
    if market is None or not (lacks_place or diagnosis.kind is DiagnosisKind.OUTGROWN):
        return None
    there = on_other_engine(ask.tenant, market()) if ask.tenant.request.alternatives else None
    offer = None if there is None else move_to_place(there, ask)
    if not isinstance(offer, Offer) or offer.answer is None:
        return None
    return _offered(found, offer, ask.situation.policy)


def _is_made(decided: LoopResult, situation: Situation) -> bool:
    """Whether a change is carried out now, and not only proposed or held back."""
    return decided.answer is not None and situation.policy.carries_out(decided.decision)


def _about_the_load(diagnosis: Diagnosis, situation: Situation, look: Judged) -> Diagnosis:
    """Diagnose the load next to a wrong place. A promise that another place keeps asks for no replicas at this one."""
    if diagnosis.kind is DiagnosisKind.TOO_SLOW and diagnosis.place is not None:
        look = without_promise(look, situation, str(dict(diagnosis.numbers)["figure"]))
    return diagnose_load(situation, look)


def _scaled(found: LoopResult, diagnosis: Diagnosis, ask: Asking, remedies: Sequence[Remedy]) -> LoopResult | None:
    """Return another number of replicas if the load asks for it and it has a place; None if nothing is changed.

    It comes before a move that waits for people or for a bound: requests wait while nobody decides.
    """
    if diagnosis.kind is DiagnosisKind.NOT_DIAGNOSED:
        return None
    scaled = _treated(found.about(diagnosis), diagnosis, ask, remedies)
    is_found = isinstance(scaled.decision, AddReplica | RemoveReplica) and scaled.answer is not None
    return scaled if is_found else None


def _treated(found: LoopResult, diagnosis: Diagnosis, ask: Asking, remedies: Sequence[Remedy]) -> LoopResult:
    """Return the first offer; else the first wait; else nothing is to be done."""
    waits: list[Wait] = []
    for remedy in remedies:
        answered = remedy(diagnosis, ask.situation, ask)
        if isinstance(answered, Offer):
            return _offered(found, answered, ask.situation.policy)
        if answered is not None:
            waits.append(answered)
    return replace(found, decision=waits[0] if waits else Keep(diagnosis.reason, diagnosis.numbers))


def _offered(found: LoopResult, offer: Offer, policy: RebalancePolicy) -> LoopResult:
    """Return the decision for an offer. What would be carried out now waits if only others could make room."""
    if offer.room is None:
        return replace(found, decision=offer.change, proposal=offer.proposal, answer=offer.answer)
    decision: LoopDecision = offer.change
    if policy.carries_out(decision):
        decision = Wait(DecisionReason.OTHERS_CAN_MAKE_ROOM, offer.room.numbers)
    return replace(found, decision=decision, proposal=offer.room.proposal, room=offer.room)


_KINDS = {
    AddReplica: ChangeKind.ADD,
    RemoveReplica: ChangeKind.REMOVE,
    Retune: ChangeKind.RETUNE,
    ReplaceReplica: ChangeKind.REPLACE,
    Move: ChangeKind.MOVE,
}


def kind_of(change: Change) -> ChangeKind:
    """Return the kind under which a change is recorded."""
    return ChangeKind.TAKE_BACK if change.reason in IN_VAIN.values() else _KINDS[type(change)]
