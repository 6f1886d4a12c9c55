"""Events of a pass: one for each decision, none for what stays as it is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from plimsoll.app.plan.rendered import Desired
from plimsoll.app.write.executor import Note
from plimsoll.app.write.notes import notes_of, warning
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import ConditionReason, EventReason
from plimsoll.placement.demands.pools import Decision, Pool
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.explain import estimate_sentence
from plimsoll.placement.plan import plan
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    DecisionReason,
    LoopDecision,
    Move,
    RemoveReplica,
    ReplaceReplica,
    Retune,
)
from plimsoll.status.record.report import DeploymentProblem, Report
from tests.support.bodies import inference_deployment_body
from tests.support.outcomes import deployment_of, desired_of, outcome_of
from tests.support.planning import H100, L4, fleet, node, pool, request, tenant

if TYPE_CHECKING:
    from plimsoll.decision.turns import LoopTurn

PLACED = plan([tenant(request(replicas=2))], fleet(node("h", H100)))[0]
BLOCKED = {"type": "Planned", "status": "False", "reason": "NoGpuFits", "message": "", "lastTransitionTime": "t"}


def case_of(
    decision: Decision | None,
    *earlier: dict[str, str],
    pools: tuple[Pool, ...] = (),
    problem: DeploymentProblem | None = None,
    turn: LoopTurn | None = None,
) -> Desired:
    """An object with its decision, and the conditions of its status."""
    body = inference_deployment_body("chat") | {"status": {"conditions": list(earlier)}}
    given = deployment_of(body, pools=pools)
    report = None if decision is None else Report("chat", 1, 2, decision)
    return desired_of(outcome_of(given, decision=decision, problem=problem, turn=turn), body, report=report)


def test_an_object_without_a_decision_and_one_that_stays_as_it_is_have_no_events() -> None:
    assert notes_of(case_of(None)) == []
    assert notes_of(case_of(PLACED, pools=(pool(H100, replicas=2),))) == []


def test_a_new_pool_is_announced_with_its_price_and_an_old_one_with_its_end() -> None:
    moved = case_of(PLACED, pools=(pool(L4),))
    price = PLACED.pools[0].choice
    assert price is not None
    fits = f"It fits: {estimate_sentence(price.estimate)}."
    assert notes_of(moved) == [
        Note(
            EventReason.PLACEMENT_DECIDED,
            f"2 replicas on {H100}, tensor parallel 1 at ${price.hourly_price}/h each. {fits}",
        ),
        Note(EventReason.PLACEMENT_RETIRED, "Pool l4-24gb-tp1 is gone: its replicas are in h100-sxm-80gb-tp1."),
    ]


def test_a_pool_that_goes_without_a_successor_says_so() -> None:
    [note] = notes_of(case_of(replace(PLACED, pools=()), pools=(pool(L4),)))
    assert note.message == "Pool l4-24gb-tp1 is gone: no replica is wanted any more."


@pytest.mark.parametrize(
    ("what_is_wrong", "message"),
    [
        ({"missing": 1}, "1 of 2 replicas has no place."),
        ({"missing": 2}, "2 of 2 replicas have no place."),
        ({"change_blocked": True}, "The last change has no place yet. The previous placement keeps serving."),
    ],
    ids=str,
)
def test_a_placement_that_becomes_impossible_is_announced_once(what_is_wrong: dict[str, Any], message: str) -> None:
    case = case_of(replace(PLACED, pools=(), **what_is_wrong))
    [note] = notes_of(case)
    assert (note.reason, note.warning) == (EventReason.PLACEMENT_IMPOSSIBLE, True)
    assert note.message.startswith(message)
    assert "What helps: " in note.message
    fine = BLOCKED | {"status": "True"}
    assert notes_of(case_of(case.outcome.decision, fine)) == [note]
    assert notes_of(case_of(case.outcome.decision, BLOCKED)) == []


@pytest.mark.parametrize("kind", ["Troubled", "Stalled"])
def test_a_finding_is_a_warning_when_it_begins_and_when_its_reason_changes(kind: str) -> None:
    """Each status has it as long as it lasts: the events are about what has changed."""
    finding = {"type": kind, "reason": "KvBound", "status": "True", "message": "Full. What helps: more."}
    runs, said = (pool(H100, replicas=2),), Note("KvBound", "Full. What helps: more.", warning=True, pause_seconds=3600)

    def notes(*earlier: dict[str, str]) -> list[Note]:
        return notes_of(replace(case_of(PLACED, *earlier, pools=runs), new_status={"conditions": [finding]}))

    assert notes() == notes({**BLOCKED, **finding, "reason": "QueueBound"}) == [said]
    assert notes({**BLOCKED, **finding, "message": "Fuller."}) == []


@pytest.mark.parametrize("permanent", [True, False])
def test_only_a_problem_that_does_not_end_by_itself_is_an_event(permanent: bool) -> None:  # noqa: FBT001
    case = case_of(PLACED, problem=DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.model", permanent=permanent))
    said = [warning(ConditionReason.INVALID_SPEC, "spec.model")]
    assert said[0].message.startswith("spec.model. What helps: correct the field")
    assert notes_of(case) == (said if permanent else [])


@pytest.mark.parametrize("change", [AddReplica, RemoveReplica, Retune, Move, ReplaceReplica])
def test_a_change_of_the_live_loop_is_an_event_of_its_own_with_its_sentence(change: type[AddReplica]) -> None:
    decision: LoopDecision = change(DecisionReason.SUSTAINED_QUEUE)
    runs = (pool(H100, replicas=2),)
    standing = SimpleNamespace(last_change="03:00: one replica more")
    acted = cast("LoopTurn", SimpleNamespace(acted=True, decision=decision, standing=standing, given_up="", cleared=()))
    [note] = notes_of(case_of(PLACED, pools=runs, turn=acted))
    assert (note.reason, note.message) == (f"Rebalanced{change.__name__}", "03:00: one replica more")
    offered = cast(
        "LoopTurn", SimpleNamespace(acted=False, decision=decision, standing=standing, given_up="", cleared=())
    )
    assert notes_of(case_of(PLACED, pools=runs, turn=offered)) == []


def test_a_change_says_of_a_node_that_it_is_left_only_if_it_is() -> None:
    """Not if it is used again in the same pass, because the change found no other room."""
    known = Rehoming(L4, Split(1), "ReplicaSlow", "known", at=1_700_000_000.0)
    turn = SimpleNamespace(
        acted=True,
        decision=AddReplica(DecisionReason.SUSTAINED_QUEUE),
        standing=SimpleNamespace(last_change="03:00: one replica more."),
        given_up="",
        cleared=(),
    )
    case = case_of(PLACED, pools=(pool(H100, replicas=2),), turn=cast("LoopTurn", turn))
    placed = replace(case.outcome.deployment.placed, left=(known,))
    outcome = replace(case.outcome, deployment=replace(case.outcome.deployment, placed=placed))
    for now, said in (
        (replace(known, used_again=True), ""),
        (known, ""),
        (
            replace(known, node="new"),
            " Replicas are added on node new before 2023-11-14T23:13:20Z only if no other has room.",
        ),
    ):
        report = Report("chat", 1, 2, PLACED, rehomings=(now,))
        [note] = notes_of(replace(case, outcome=outcome, report=report))
        assert note.message == f"03:00: one replica more.{said}"


def test_a_replacement_that_is_given_up_is_an_event_with_its_cause() -> None:
    ended = cast(
        "LoopTurn",
        SimpleNamespace(acted=False, given_up="Pod a is not replaced: it is like the others again.", cleared=()),
    )
    [note] = notes_of(case_of(PLACED, pools=(pool(H100, replicas=2),), turn=ended))
    assert (note.reason, note.message) == (EventReason.REPLACEMENT_ENDED, ended.given_up)
