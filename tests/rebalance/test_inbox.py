from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import from_rfc3339
from plimsoll.placement.demands.pools import Decision, PoolState, as_it_is
from plimsoll.rebalance.inbox import (
    AnsweredProposals,
    Board,
    PendingProposals,
    Posted,
    Standing,
    StandingRejection,
    Vote,
    VoteOutcome,
    board_of,
    proposal_id,
)
from plimsoll.rebalance.state.decisions import AddReplica, Change, DecisionReason, Move, Retune
from plimsoll.render.placement_proposals import Found, Owner, placement_proposal
from tests.support.planning import H100, L40S, fleet, node, pool, request
from tests.support.status_schema import most_items
from tests.support.work import counted_calls

GRACE_SECONDS = 900.0
LIFE_SECONDS = 24 * 3600.0
MOST_ANSWERED = 20
MOST_PROPOSALS = 4
MOST_REMEMBERED = 8

NOW = 1_700_000_000.0
PRESSURE = AddReplica(DecisionReason.SUSTAINED_KV_PRESSURE, (("pressure_percent", 91),))


def decision(*places: tuple[str, int], **changed: Any) -> Decision:
    pools = tuple(replace(as_it_is(pool(kind, replicas=replicas)), **changed) for kind, replicas in places)
    return Decision(request(replicas=sum(replicas for _, replicas in places)), pools)


def posted(name: str, ago: float = 60.0, **changed: Any) -> Posted:
    created = NOW - ago
    return replace(Posted(name, 1, created, created + LIFE_SECONDS), **changed)


def vote(proposal: str, *, approves: bool = True, ago: float = 10.0, **changed: Any) -> Vote:
    word = "yes" if approves else "no"
    made = Vote(f"{word}-{proposal}-{ago:.0f}", proposal, "alex", approves, "", NOW - ago)
    return replace(made, **changed)


def pending(*parts: Posted | Vote, generation: int = 1) -> PendingProposals:
    votes = sorted((part for part in parts if isinstance(part, Vote)), key=lambda each: each.created)
    return PendingProposals("uid", generation, tuple(part for part in parts if isinstance(part, Posted)), tuple(votes))


def identity(uid: str, generation: int, change: Change, after: Decision, before: Decision | None = None) -> str:
    return proposal_id(uid, generation, change, decision((L40S, 1)) if before is None else before, after)


def board(at: PendingProposals, made: str | None, **more: Any) -> Board:
    given: dict[str, Any] = {"answered": AnsweredProposals(), "last_made": {}, "acted": False, "now": NOW} | more
    return board_of(at, given.pop("answered"), made, given.pop("last_made"), **given)


# -- the id ------------------------------------------------------------------------------------------------------------


def test_an_id_is_twelve_hex_digits_and_the_figures_of_the_load_are_no_part_of_it() -> None:
    after = decision((L40S, 2))
    known = identity("uid", 1, PRESSURE, after)
    assert len(known) == 12
    assert int(known, 16) >= 0
    wobbled: Numbers = (("pressure_percent", 84),)
    assert identity("uid", 1, replace(PRESSURE, numbers=wobbled), after) == known


def test_an_id_changes_with_the_object_the_spec_the_change_the_reason_and_the_target() -> None:
    after = decision((L40S, 2))
    others = [
        identity("other", 1, PRESSURE, after),
        identity("uid", 2, PRESSURE, after),
        identity("uid", 1, Move(PRESSURE.reason), after),
        identity("uid", 1, Move(PRESSURE.reason, engine="sglang"), after),
        identity("uid", 1, replace(PRESSURE, reason=DecisionReason.SUSTAINED_QUEUE), after),
        identity("uid", 1, PRESSURE, decision((L40S, 3))),
        identity("uid", 1, PRESSURE, decision((H100, 2))),
        identity("uid", 1, PRESSURE, decision((L40S, 1), (H100, 1))),
        identity(
            "uid",
            1,
            PRESSURE,
            decision((L40S, 2), target=replace(after.pools[0].target, capacity=CapacityType.SPOT)),
        ),
    ]
    assert len({*others, identity("uid", 1, PRESSURE, after)}) == len(others) + 1


def test_settings_that_are_learned_meanwhile_are_no_part_of_the_id_unless_only_they_change() -> None:
    after = decision((L40S, 2))
    for learned in (
        decision((L40S, 2), limits_before=StepLimits(sequences=7)),
        decision((L40S, 2), narrow_before=True),
    ):
        assert identity("uid", 1, PRESSURE, learned) == identity("uid", 1, PRESSURE, after)
        assert identity("uid", 1, PRESSURE, learned, before=after) != identity("uid", 1, PRESSURE, after, before=after)


def test_another_step_is_another_proposal_and_another_limit_keeps_its_id() -> None:
    after = decision((L40S, 2))
    steps = [Retune(DecisionReason.PROMPT_STEP_TOO_LARGE, limits=StepLimits(tokens)) for tokens in (512, 1024)]
    assert len({identity("uid", 1, each, after, before=after) for each in steps}) == 2
    limits = [Retune(DecisionReason.BATCH_LIMIT_BINDS, limits=StepLimits(sequences=each)) for each in (32, 64)]
    assert len({identity("uid", 1, each, after, before=after) for each in limits}) == 1


def test_the_order_of_pools_and_pools_on_their_way_out_are_no_part_of_the_id() -> None:
    one = decision((L40S, 1), (H100, 1))
    [first, second] = one.pools
    leaving = replace(first, name="old", state=PoolState.RETIRING)
    other = replace(one, pools=(leaving, second, first))
    assert identity("uid", 1, PRESSURE, other) == identity("uid", 1, PRESSURE, one)


# -- which approvals count ---------------------------------------------------------------------------------------------


def test_an_approval_of_a_proposal_that_stands_counts_once() -> None:
    approval = vote("a")
    at = pending(posted("a"), approval)
    assert at.approval(AnsweredProposals(), "a", NOW) == approval
    answered = AnsweredProposals().with_carried_out(approval)
    assert at.approval(answered, "a", NOW) is None
    assert at.outcome(approval, answered, NOW) is VoteOutcome.CARRIED_OUT


@pytest.mark.parametrize(
    ("parts", "generation", "outcome"),
    [
        ((), 1, VoteOutcome.STALE),
        ((posted("b"),), 1, VoteOutcome.STALE),
        ((posted("a"),), 2, VoteOutcome.STALE),
        ((posted("a", ago=LIFE_SECONDS),), 1, VoteOutcome.EXPIRED),
        ((posted("a"), vote("a", approves=False, ago=5.0)), 1, VoteOutcome.WAITING),
    ],
    ids=["no such proposal", "another proposal", "an older spec", "expired", "rejected later"],
)
def test_an_approval_does_not_count_for_what_cannot_be_decided(
    parts: tuple[Posted | Vote, ...], generation: int, outcome: VoteOutcome
) -> None:
    approval = vote("a")
    at = pending(*parts, approval, generation=generation)
    assert at.approval(AnsweredProposals(), "a", NOW) is None
    assert at.outcome(approval, AnsweredProposals(), NOW) is outcome


@pytest.mark.parametrize("outcome", ["CarriedOut", "Stale", "Expired", "Rejected"])
def test_an_answered_approval_does_not_count_again(outcome: str) -> None:
    assert pending(posted("a"), vote("a", outcome=outcome)).approval(AnsweredProposals(), "a", NOW) is None
    assert pending(posted("a"), vote("a", outcome="Waiting")).approval(AnsweredProposals(), "a", NOW) is not None


def test_an_approval_of_something_else_does_not_count() -> None:
    assert pending(posted("a"), posted("b"), vote("b")).approval(AnsweredProposals(), "a", NOW) is None


def test_the_oldest_approval_is_the_one_that_is_named() -> None:
    at = pending(posted("a"), vote("a", ago=5.0, by="late"), vote("a", ago=50.0, by="early"))
    counting = at.approval(AnsweredProposals(), "a", NOW)
    assert counting is not None
    assert counting.by == "early"


# -- rejections --------------------------------------------------------------------------------------------------------


def test_a_rejection_holds_until_the_proposal_would_have_ended() -> None:
    stands = posted("a")
    at = pending(stands, vote("a", approves=False, reason="no budget"))
    answered = at.heard(AnsweredProposals(), NOW)
    assert answered.refusals == (StandingRejection("a", "alex", "no budget", stands.expires, 1),)
    assert answered.refuses("a")
    assert not answered.refuses("b")
    assert at.outcome(at.votes[0], answered, NOW) is VoteOutcome.REJECTED
    later = pending().heard(answered, stands.expires - 1)
    assert later.refuses("a")
    assert not pending().heard(answered, stands.expires).refuses("a")


def test_a_rejection_ends_with_the_spec_that_it_was_about() -> None:
    answered = AnsweredProposals((StandingRejection("a", "alex", "", NOW + 60, 1),))
    assert pending().heard(answered, NOW).refuses("a")
    assert not pending(generation=2).heard(answered, NOW).refuses("a")


@pytest.mark.parametrize("stands", [None, posted("a", ago=LIFE_SECONDS), posted("a", generation=9)])
def test_a_rejection_of_what_does_not_stand_is_not_recorded(stands: Posted | None) -> None:
    at = pending(*([] if stands is None else [stands]), vote("a", approves=False))
    assert at.heard(AnsweredProposals(), NOW) == AnsweredProposals()


def test_a_rejection_at_the_same_time_or_later_overrules_an_approval_for_good() -> None:
    approval, rejection = vote("a", ago=10.0), vote("a", approves=False, ago=10.0)
    at = pending(posted("a"), approval, rejection)
    answered = at.heard(AnsweredProposals(), NOW)
    assert at.approval(answered, "a", NOW) is None
    assert at.outcome(approval, answered, NOW) is VoteOutcome.REJECTED
    later = pending(posted("a"), approval, replace(rejection, outcome="Rejected"))
    assert later.approval(answered, "a", NOW) is None


@pytest.mark.parametrize(
    ("approves", "rejected_ago", "is_refused", "expected"),
    [
        (True, None, False, VoteOutcome.WAITING),
        (True, 20.0, True, VoteOutcome.WAITING),
        (True, 10.0, True, VoteOutcome.REJECTED),
        (True, 10.0, False, VoteOutcome.WAITING),
        (False, None, False, VoteOutcome.WAITING),
        (False, None, True, VoteOutcome.REJECTED),
    ],
)
def test_an_answer_waits_until_a_rejection_that_is_as_late_is_in_force(
    approves: bool,  # noqa: FBT001 - a column
    rejected_ago: float | None,
    is_refused: bool,  # noqa: FBT001 - a column
    expected: VoteOutcome,
) -> None:
    answer = vote("a", approves=approves)
    others = () if rejected_ago is None else (vote("a", approves=False, ago=rejected_ago),)
    refusal = StandingRejection("a", "alex", "", NOW + 60.0, 1)
    answered = AnsweredProposals((refusal,) if is_refused else ())
    assert pending(posted("a"), answer, *others).outcome(answer, answered, NOW) is expected


def test_the_work_for_each_answer_does_not_grow_with_their_number() -> None:
    """A thousand people approve, and one rejects: each question about one answer looks at no other."""

    def work(number: int) -> float:
        crowd = [vote("a", ago=1000.0 + each) for each in range(number)]
        at = pending(posted("a"), *crowd, vote("a", approves=False, ago=2000.0 + number))
        with counted_calls() as done:
            outcomes = {at.outcome(each, AnsweredProposals(), NOW) for each in at.votes}
            assert at.approval(AnsweredProposals(), "a", NOW) is not None
        assert outcomes == {VoteOutcome.WAITING}
        return done.amount / number

    assert work(1000) < 1.5 * work(100)


def test_a_later_approval_lifts_the_rejection() -> None:
    approval = vote("a", ago=1.0)
    at = pending(posted("a"), vote("a", approves=False, ago=10.0, outcome="Rejected"), approval)
    answered = AnsweredProposals((StandingRejection("a", "alex", "", NOW + 60, 1),))
    assert at.approval(answered, "a", NOW) == approval
    assert answered.with_carried_out(approval) == AnsweredProposals((), (approval.uid,))


def test_what_is_remembered_is_bounded() -> None:
    many = [posted(str(index)) for index in range(20)]
    answered = pending(*many, *(vote(each.id, approves=False) for each in many)).heard(AnsweredProposals(), NOW)
    assert len(answered.refusals) == MOST_REMEMBERED == most_items("rebalancing", "rejected")
    for index in range(20):
        answered = answered.with_carried_out(vote("a", uid=str(index)))
    assert answered.carried_out == tuple(map(str, range(20 - MOST_REMEMBERED, 20)))
    assert len(answered.carried_out) == most_items("rebalancing", "carriedOut")


def test_answered_votes_that_are_too_many_are_spent_the_oldest_first() -> None:
    answered = [vote(str(index), ago=float(index), outcome="Stale") for index in range(MOST_ANSWERED + 2)]
    assert pending(*answered[:MOST_ANSWERED], vote("open", ago=999.0)).spent() == ()
    assert pending(*answered).spent() == (answered[-1], answered[-2])


# -- which proposals stand ---------------------------------------------------------------------------------------------


def test_a_proposal_can_be_decided_for_a_day() -> None:
    adds = AddReplica(DecisionReason.BELOW_MIN_REPLICAS, (("replicas", 1), ("min", 2)))
    found = Found("a" * 12, adds, decision((L40S, 1)), decision((L40S, 2)))
    body = placement_proposal(Owner(ObjectKey("ml", "chat"), "uid", 1), found, fleet(node("l", L40S, 2)), NOW)
    created, expires = (from_rfc3339(body[name]) for name in ("createdAt", "expiresAt"))
    assert (created, expires) == (NOW, NOW + 86_400)


def test_a_new_proposal_is_posted_and_one_that_stands_stays_as_it_is() -> None:
    assert board(pending(), "a") == Board(new="a")
    assert board(pending(posted("a")), "a") == Board(kept=(("a", Standing.OPEN),))
    assert board(pending(), None) == Board()


def test_a_proposal_that_comes_and_goes_is_kept_for_some_minutes() -> None:
    at = pending(posted("a", ago=4000.0))
    assert board(at, None, last_made={"a": NOW - GRACE_SECONDS + 1}).withdrawn == ()
    assert board(at, None, last_made={"a": NOW - GRACE_SECONDS}).withdrawn == ("a",)
    assert board(at, "b", last_made={"a": NOW - 60}) == Board(kept=(("a", Standing.OPEN),), new="b")


@pytest.mark.parametrize("stands", [posted("a", ago=LIFE_SECONDS), posted("a", generation=9)], ids=["expired", "older"])
def test_what_cannot_be_decided_any_more_is_withdrawn_first_and_made_again_in_the_next_pass(stands: Posted) -> None:
    assert board(pending(stands), "a") == Board(withdrawn=("a",))
    assert board(pending(), "a") == Board(new="a")


def test_after_a_change_nothing_stands_that_was_proposed_before_it() -> None:
    assert board(pending(posted("a"), posted("b")), None, acted=True) == Board(withdrawn=("a", "b"))


def test_what_was_proposed_before_the_last_change_is_withdrawn_also_by_another_process() -> None:
    at = pending(posted("older", ago=61.0), posted("newer", ago=60.0))
    assert board(at, "older", changed_at=NOW - 60) == Board(kept=(("newer", Standing.OPEN),), withdrawn=("older",))
    assert board(at, None, changed_at=None).withdrawn == ()


def test_a_rejected_proposal_is_not_made_again_and_shows_its_state() -> None:
    answered = AnsweredProposals((StandingRejection("a", "alex", "", NOW + 60, 1),))
    assert board(pending(), "a", answered=answered) == Board()
    assert board(pending(posted("a")), "a", answered=answered).kept == (("a", Standing.REJECTED),)


def test_an_approved_proposal_that_is_not_made_now_shows_its_state() -> None:
    at = pending(posted("a"), vote("a"))
    assert board(at, None, last_made={"a": NOW - 60}).kept == (("a", Standing.APPROVED),)


def test_the_number_of_proposals_is_bounded_and_the_one_that_is_made_now_stays() -> None:
    many = [posted(str(index), ago=100.0 - index) for index in range(MOST_PROPOSALS + 2)]
    full = board(pending(*many), "0")
    assert [name for name, _ in full.kept] == ["0", "3", "4", "5"]
    assert full.withdrawn == ("1", "2")
    with_new = board(pending(*many), "new")
    assert (len(with_new.kept), with_new.new) == (MOST_PROPOSALS - 1, "new")
    assert ("0" in with_new.withdrawn, "5" in with_new.withdrawn) == (True, False)
