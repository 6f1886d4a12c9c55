"""The bounds of the live loop: what must be true before a change may be made."""

from __future__ import annotations

import math

from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.rehoming import MAX_REHOMINGS_PER_HOUR
from plimsoll.rebalance.signals.forecast import STEP_SECONDS
from plimsoll.rebalance.state.additions import added_within_hour, braked
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    Change,
    DecisionReason,
    Move,
    RemoveReplica,
    ReplaceReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import (
    HOUR_SECONDS,
    REPLACE_AGAIN_SECONDS,
    STEP_AGAIN_SECONDS,
    STEP_REASONS,
    ChangeKind,
)
from plimsoll.rebalance.state.room import last_failure
from plimsoll.rebalance.state.situation import Situation

BOUND_REASONS = (DecisionReason.BELOW_MIN_REPLICAS, DecisionReason.ABOVE_MAX_REPLICAS)
"""The user's bounds are carried out at once."""

RESTARTS = (ChangeKind.RETUNE, ChangeKind.MOVE, ChangeKind.ROLL_BACK)
"""Changes that start engines anew, or end those that were to replace others."""


ONE_STEP_SECONDS = 24 * HOUR_SECONDS
"""The shortest time between two changes of the engines' step. All engines restart for one, and loads that take turns
within a day would else have them restarted again and again."""


MOST_REPLACED_PER_HOUR = MAX_REHOMINGS_PER_HOUR
"""The most slow or silent replicas that are replaced in any hour. Each lets the deployment keep off one node."""


def may_change_step(reason: DecisionReason, situation: Situation) -> bool:
    """Whether the engines may get another step for this reason, which says in which direction.

    Not within a day of the last change, and not twice in the same direction within a week: if the first one did not
    help, the next one would not either.
    """
    known = situation.history.clamped(situation.now)
    last = {each: known.only(each.value).last(ChangeKind.RETUNE) for each in STEP_REASONS}
    newest, same = max((at for at in last.values() if at is not None), default=None), last[reason]
    if newest is None:
        return True
    is_again = same == newest and situation.now - newest < STEP_AGAIN_SECONDS
    return situation.now - newest >= ONE_STEP_SECONDS and not is_again


def under_way(situation: Situation) -> Wait | None:
    """Return a wait while a move is under way: the signals describe the old and the new pool, and decide nothing."""
    placement = situation.placement
    return Wait(DecisionReason.MOVE_UNDER_WAY, placement.numbers) if placement.moving else None


def held_back(change: Change, situation: Situation) -> Wait | None:
    """Return a wait for the first bound that forbids the change; the bound that lasts longest is checked first.

    An addition is held back by the user's limits, and if earlier ones were in vain. Its effect is known before it
    serves, because replicas that start count as supply. Maintenance windows and the fleet's budget hold back moves and
    changes of settings that nobody has approved: whoever approves a change has chosen the time.
    """
    placement, policy = situation.placement, situation.policy
    wanted: Numbers = (("wanted", change.reason.value),)
    if isinstance(change, AddReplica | RemoveReplica) and (held := _scaled_by_others(situation, wanted)):
        return held
    if isinstance(change, AddReplica):
        if placement.replicas >= policy.max_replicas:
            return Wait(DecisionReason.AT_MAX_REPLICAS, (*wanted, ("max", policy.max_replicas)))
        if change.reason in BOUND_REASONS:
            return None
        in_vain = braked(change, situation) if placement.replicas else None
        return in_vain or _additions_spent(change, situation, wanted)
    if isinstance(change, RemoveReplica):
        return _removal_held_back(change, situation, wanted)
    if isinstance(change, ReplaceReplica):
        return _replacement_held_back(change, situation, wanted)
    return _restart_held_back(change, situation, wanted)


def _additions_spent(change: AddReplica, situation: Situation, wanted: Numbers) -> Wait | None:
    bound, added = situation.policy.additions_per_hour, added_within_hour(situation.history, situation.now)
    if bound is None or added + change.count <= bound:
        return None
    return Wait(DecisionReason.ADDITIONS_PER_HOUR_SPENT, (*wanted, ("added", added), ("bound", bound)))


def _restart_held_back(change: Move | Retune, situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait of a change that restarts all engines.

    No settings are changed while a change of the spec rolls out: if engines failed then, nobody could say for which.
    """
    is_automatic = situation.policy.carries_out(change)
    closed = _outside_windows(situation, wanted) if is_automatic else None
    if closed is not None:
        return closed
    placement = situation.placement
    if placement.retuning or (placement.rolling and isinstance(change, Retune)):
        return Wait(DecisionReason.MOVE_UNDER_WAY, (*wanted, *placement.numbers))
    serving = min(placement.ready, placement.replicas - placement.new_replicas)
    if serving < placement.replicas and change.reason is not DecisionReason.OTHER_ENGINE_FITS:
        ready: Numbers = (("replicas", placement.replicas), ("ready", serving))
        return Wait(DecisionReason.REPLICAS_STARTING, (*ready, *wanted))
    return (
        _budget_spent(situation, wanted)
        or (_fleet_budget_spent(situation, wanted) if is_automatic else None)
        or _cooling_down(situation, wanted, *RESTARTS)
    )


def _replacement_held_back(change: ReplaceReplica, situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait of the replacement of one replica: an earlier one did not help, or others are under way.

    If a new replica was slow or silent as well, it is not the node, and none is replaced for a day.
    """
    placement, known = situation.placement, situation.history.clamped(situation.now)
    if change.reason is DecisionReason.MAKES_ROOM:
        return _room_held_back(situation, wanted)
    if _has_not_helped(change, situation):
        return Wait(DecisionReason.REPLACING_DOES_NOT_HELP, (*wanted, *change.numbers))
    if placement.updating or placement.rolling or placement.retuning:
        return Wait(DecisionReason.MOVE_UNDER_WAY, (*wanted, *placement.numbers))
    late = known.only(DecisionReason.REPLICAS_STUCK.value).last(ChangeKind.ROLL_BACK)
    return (
        _budget_spent(situation, wanted)
        or _replacements_spent(situation, wanted)
        or _waiting_since(late, HOUR_SECONDS, situation, wanted)
    )


def _replacements_spent(situation: Situation, wanted: Numbers) -> Wait | None:
    done = situation.history.replaced_within_hour(situation.now)
    if done < MOST_REPLACED_PER_HOUR:
        return None
    figures: Numbers = (("changes", done), ("bound", MOST_REPLACED_PER_HOUR))
    return Wait(DecisionReason.HOURLY_BUDGET_SPENT, (*wanted, *figures))


def _room_held_back(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait of a replica that is to make room for others: it keeps the bounds of a move of its own."""
    placement = situation.placement
    if placement.updating or placement.rolling or placement.retuning:
        return Wait(DecisionReason.MOVE_UNDER_WAY, (*wanted, *placement.numbers))
    if min(placement.ready, placement.replicas - placement.new_replicas) < placement.replicas:
        return Wait(DecisionReason.REPLICAS_STARTING, (*placement.numbers, *wanted))
    return (
        _outside_windows(situation, wanted)
        or _budget_spent(situation, wanted)
        or _waiting_since(*last_failure(situation.history.clamped(situation.now)), situation, wanted)
    )


def _has_not_helped(change: ReplaceReplica, situation: Situation) -> bool:
    """Whether a replacement of the last day was taken back, or made the replica that is to be replaced now.

    A new replica on a node that was left shows nothing: Kubernetes may put it there, and then it may be the node.
    """
    known = situation.history.clamped(situation.now).only(change.reason.value)
    times = known.last(ChangeKind.ROLL_BACK), known.last(ChangeKind.REPLACE)
    back, done = (at if at is not None and situation.now - at < REPLACE_AGAIN_SECONDS else None for at in times)
    is_left = any(each.node == change.node for each in situation.left)
    since = next((each.since for each in situation.placement.serving if each.pod == change.pod), None)
    return back is not None or (done is not None and since is not None and since > done and not is_left)


def relief_at(situation: Situation) -> float | None:
    """Return when a replica was added against an uneven load within the last day, in POSIX seconds; None: none was."""
    known = situation.history.clamped(situation.now).only(DecisionReason.LOAD_IMBALANCED.value)
    at = known.last(ChangeKind.ADD)
    return at if at is not None and situation.now - at < REPLACE_AGAIN_SECONDS else None


def _outside_windows(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait until a maintenance window opens. The minutes are rounded up."""
    opening = situation.allowance.opening
    if opening.is_open:
        return None
    minutes = math.ceil((opening.opens_at - situation.now) / 60)
    figures: Numbers = (("opens", to_rfc3339(opening.opens_at)), ("minutes", minutes))
    return Wait(DecisionReason.OUTSIDE_MAINTENANCE_WINDOW, (*wanted, *figures))


def _fleet_budget_spent(situation: Situation, wanted: Numbers) -> Wait | None:
    spent = situation.allowance.spent
    if spent is None:
        return None
    figures: Numbers = (("moves", spent.changes), ("bound", spent.bound), ("scope", spent.scope.value))
    return Wait(DecisionReason.FLEET_BUDGET_SPENT, (*wanted, *figures))


def _scaled_by_others(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait if the number of replicas is another controller's: two that write it would fight.

    If nothing runs, a request that waits still starts the first replica.
    """
    if not situation.policy.scales:
        return Wait(DecisionReason.SCALED_EXTERNALLY, wanted)
    is_contested = situation.policy.contested and situation.placement.replicas > 0
    return Wait(DecisionReason.SCALE_CONTESTED, wanted) if is_contested else None


def _removal_held_back(change: RemoveReplica, situation: Situation, wanted: Numbers) -> Wait | None:
    policy = situation.policy
    if situation.placement.replicas <= policy.min_replicas:
        by: Numbers = () if policy.scheduled is None else (("scheduled", policy.scheduled.replicas),)
        return Wait(DecisionReason.AT_MIN_REPLICAS, (*wanted, ("min", policy.min_replicas), *by))
    if change.reason in (*BOUND_REASONS, DecisionReason.ADDITIONS_DO_NOT_SERVE):
        return None
    placement = situation.placement
    if change.reason is DecisionReason.GIVES_WAY:
        least = max(1, policy.min_replicas)
        if min(placement.ready, placement.replicas) <= least:
            return Wait(DecisionReason.AT_MIN_REPLICAS, (*wanted, ("min", least)))
        return _room_held_back(situation, wanted)
    if placement.updating:
        return Wait(DecisionReason.MOVE_UNDER_WAY, (*wanted, *placement.numbers))
    if change.reason is DecisionReason.ADDITIONS_DO_NOT_HELP:
        return _budget_spent(situation, wanted)
    return (
        _budget_spent(situation, wanted)
        or _reversals_spent(situation, wanted)
        or _cooling_down(situation, wanted, ChangeKind.ADD, *RESTARTS)
        or _forecast_open(situation, wanted)
        or _settling(situation, wanted)
    )


def _budget_spent(situation: Situation, wanted: Numbers) -> Wait | None:
    done, bound = situation.history.budget_spent(situation.now), situation.policy.changes_per_hour
    if done < bound:
        return None
    return Wait(DecisionReason.HOURLY_BUDGET_SPENT, (*wanted, ("changes", done), ("bound", bound)))


def _reversals_spent(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait if another removal could be one that is taken back too often."""
    done, bound = situation.history.reversals(situation.now), situation.policy.reversals_per_hour
    if done < bound:
        return None
    return Wait(DecisionReason.REVERSALS_SPENT, (*wanted, ("reversals", done), ("bound", bound)))


def _settling(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait until the remaining replicas have been seen with the load of those that were removed last."""
    last = situation.history.clamped(situation.now).last(ChangeKind.REMOVE, ChangeKind.TAKE_BACK)
    return _waiting_since(last, situation.policy.window_seconds, situation, wanted)


def _cooling_down(situation: Situation, wanted: Numbers, *kinds: ChangeKind) -> Wait | None:
    """Return a wait if the last change of these kinds is too recent. A reversal makes it longer.

    What a forecast added is no news of the load, so it has a wait of its own.
    """
    last = situation.history.clamped(situation.now).without(DecisionReason.RISE_EXPECTED.value).last(*kinds)
    return _waiting_since(last, cooldown_seconds(situation), situation, wanted)


def _forecast_open(situation: Situation, wanted: Numbers) -> Wait | None:
    """Return a wait until the arrivals should have come for which a forecast added replicas."""
    reason, bound = DecisionReason.RISE_EXPECTED.value, situation.memory.expected_startup_seconds + STEP_SECONDS
    last = situation.history.clamped(situation.now).only(reason).last(ChangeKind.ADD)
    return _waiting_since(last, min(bound, cooldown_seconds(situation)), situation, wanted)


def _waiting_since(last: float | None, bound: float, situation: Situation, wanted: Numbers) -> Wait | None:
    if last is None or situation.now - last >= bound:
        return None
    since = int(situation.now - last)
    return Wait(DecisionReason.COOLING_DOWN, (*wanted, ("seconds", since), ("bound_seconds", int(bound))))


def cooldown_seconds(situation: Situation) -> float:
    """Return how long to wait: the configured time, and half of it more for each reversal of the last hour."""
    reversals = situation.history.reversals(situation.now)
    return situation.policy.cooldown_seconds * (1 + reversals / 2)
