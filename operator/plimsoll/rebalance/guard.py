"""The bounds of the live loop: what must be true before a change may be made."""

from __future__ import annotations

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.decisions import AddReplica, Change, DecisionReason, RemoveReplica, Wait
from plimsoll.rebalance.situation import Situation


def under_way(situation: Situation) -> Wait | None:
    """Return a wait while a move is under way: the signals describe the old and the new pool, and decide nothing."""
    placement = situation.placement
    if not placement.moving:
        return None
    return Wait(DecisionReason.MOVE_UNDER_WAY, (("replicas", placement.replicas), ("ready", placement.ready)))


def held_back(change: Change, situation: Situation) -> Wait | None:
    """Return a wait for the first bound that forbids the change; the bound that lasts longest is checked first.

    A deployment whose last replicas do not serve yet gets no more, and does not move: their effect is not seen yet.
    """
    placement, history, policy, now = situation.placement, situation.history, situation.policy, situation.now
    wanted: Numbers = (("wanted", change.reason.value),)
    if isinstance(change, AddReplica) and placement.replicas >= policy.max_replicas:
        return Wait(DecisionReason.AT_MAX_REPLICAS, (*wanted, ("max", policy.max_replicas)))
    if isinstance(change, RemoveReplica) and placement.replicas <= policy.min_replicas:
        return Wait(DecisionReason.AT_MIN_REPLICAS, (*wanted, ("min", policy.min_replicas)))
    serving = min(placement.ready, placement.replicas - placement.new_replicas)
    if not isinstance(change, RemoveReplica) and serving < placement.replicas:
        ready: Numbers = (("replicas", placement.replicas), ("ready", serving))
        return Wait(DecisionReason.REPLICAS_STARTING, (*ready, *wanted))
    done = history.within_last_hour(now)
    if done >= policy.changes_per_hour:
        return Wait(
            DecisionReason.HOURLY_BUDGET_SPENT, (*wanted, ("changes", done), ("bound", policy.changes_per_hour))
        )
    since = history.seconds_since_last(now)
    cooldown = policy.effective_cooldown_seconds(placement.startup_seconds)
    if since is not None and since < cooldown:
        return Wait(DecisionReason.COOLING_DOWN, (*wanted, ("seconds", int(since)), ("bound_seconds", int(cooldown))))
    return None
