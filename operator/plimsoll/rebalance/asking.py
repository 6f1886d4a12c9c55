"""From a change to an offer: first the bounds, then a destination."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.domain.proposals import Proposal, Share
from plimsoll.placement.answers import Answer
from plimsoll.placement.explain import nearest_sentence
from plimsoll.placement.hypothesis import WhatIf
from plimsoll.placement.pools import Decision, PlannedPool, PoolState, Tenant
from plimsoll.rebalance.guard import held_back
from plimsoll.rebalance.remedies.protocol import AtOthers, Offer
from plimsoll.rebalance.state.decisions import AddReplica, Change, DecisionReason, Move, RemoveReplica, Retune, Wait
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks for one deployment in one situation. The solver is not asked for a change that a bound forbids."""

    situation: Situation
    what_if: WhatIf

    @property
    def tenant(self) -> Tenant:
        """The deployment as it is."""
        return self.what_if.tenant

    @property
    def decision(self) -> Decision:
        """The plan's decision for it without any change."""
        return self.what_if.decision

    def __call__(self, change: Change, tenant: Tenant) -> Offer | Wait:
        """Return an offer with a destination, or a wait with the reason why there is none."""
        held = held_back(change, self.situation)
        if held is not None:
            return held
        answer = self.what_if.ask(self._with_the_others(change, tenant))
        if _has_place(change, self.decision, answer.decision) or _wakes(change, self.situation):
            shares = shares_of(self.decision), shares_of(answer.decision)
            return Offer(change, Proposal(*shares, change.reason.value, change.numbers), answer)
        room = self._room(change, answer)
        is_reported = self.situation.policy.mode is Mode.RECOMMEND and not _is_too_large(change, answer.decision)
        if room is not None or is_reported:
            return Offer(change, room=room)  # the reader may free GPUs, so the change is reported
        wanted = (("wanted", change.reason.value), ("nearest", nearest_sentence(answer.decision.rejections)))
        return Wait(DecisionReason.NO_PLACE_FOUND, wanted)

    def _room(self, change: Change, lacking: Answer) -> AtOthers | None:
        """Return the room that others could make for one more replica.

        A deployment that lacks a replica already waits for a place, and the plan says what would make room for it.
        """
        if (
            not isinstance(change, AddReplica)
            or change.count > 1
            or self.decision.missing
            or not lacking.decision.missing
        ):
            return None
        found = None if self.what_if.room is None else self.what_if.room(lacking)
        if found is None:
            return None
        seconds = round(found.seconds + self.situation.memory.expected_startup_seconds)
        numbers = (*found.proposal.numbers, ("seconds", seconds))
        return AtOthers(change, replace(found.proposal, numbers=numbers), found.then)

    def _with_the_others(self, change: Change, tenant: Tenant) -> Tenant:
        """Return the deployment with its new replicas where the others are, if it had to leave a place for a promise.

        A solver knows the place that was too slow by the performance model alone, and may find it fast and cheap.
        """
        slow = DecisionReason.PROMISE_OUT_OF_REACH.value
        has_left = any(mark.reason == slow for mark in self.situation.history.changes)
        places = {pool.target.place for pool in tenant.pools if pool.state is PoolState.ACTIVE}
        if not isinstance(change, AddReplica) or not has_left or len(places) != 1:
            return tenant
        return replace(tenant, goes_to=places.pop())


def shares_of(decision: Decision) -> tuple[Share, ...]:
    """Return what a decision wants to serve, by target."""
    active = (pool for pool in decision.pools if pool.state is PoolState.ACTIVE)
    return tuple(Share(pool.target, pool.replicas) for pool in active if pool.replicas > 0)


def _has_place(change: Change, now: Decision, then: Decision) -> bool:
    """Whether a change is carried out whole.

    Removing a replica needs no place: replicas that are missing now were missing before. A move has none where
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
    active = [pool for pool in then.pools if pool.state is PoolState.ACTIVE and pool.replicas > 0]
    fits = bool(active) and not _is_too_large(change, then)
    return fits and all(pool.surge and pool.choice and _has_setting(pool, change) for pool in active)


def _has_setting(pool: PlannedPool, change: Retune) -> bool:
    if change.step_tokens:
        return pool.step_tokens == change.step_tokens
    return pool.sequences is not None and pool.sequences * pool.split.data_parallel >= change.sequences


def _is_too_large(change: Change, then: Decision) -> bool:
    """Whether engines with another setting would not fit any more where they are. No free GPU helps then."""
    return isinstance(change, Retune) and then.outgrown is not None


def _what_runs(decision: Decision) -> list[PlannedPool]:
    """Return the pools without what depends on the GPUs of others."""
    return [replace(pool, surge=False) for pool in decision.pools]
