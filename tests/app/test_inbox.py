"""Proposals as objects: what a pass writes about them, and what an answer to one brings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import APPROVALS, PROPOSALS, NotLeading
from plimsoll.adapters.series import OF_STATES
from plimsoll.api.v1alpha1.inbox import PlacementApprovalStatus, ProposalContent
from plimsoll.app.plan.inbox import MOST_ORPHANS, ProposalInbox
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339
from plimsoll.rebalance.inbox import GRACE_SECONDS, LIFE_SECONDS, MOST_ANSWERED
from tests.support.live_passes import AUTO, EASY, L4, L40S, PRESSURE, Open, live_part, pools
from tests.support.proposal_passes import ProposalPasses
from tests.support.work import counted_calls

ADVICE = AUTO | {"mode": "Recommend"}
MOVES = AUTO | {"moves": "Recommend"}


async def under_pressure(opened: Open, *names: str, rebalancing: dict[str, Any] | None = None) -> ProposalPasses:
    """Deployments on L40S that want one replica more; by default one that only advises."""
    there = opened(l40s=8)
    for name in names or ("asks",):
        there.put(name, L40S, rebalancing=ADVICE if rebalancing is None else rebalancing)
    room = ProposalPasses.open(there)
    await there.settle()
    for case in there.make().values():
        there.load(case, PRESSURE)
    return room


async def too_small(opened: Open, rebalancing: dict[str, Any]) -> ProposalPasses:
    """A deployment whose engine got too little KV cache on its L4."""
    there = opened(l4=1, l40s=1)
    there.put("asks", L4, L40S, rebalancing=rebalancing)
    room = ProposalPasses.open(there)
    await there.settle()
    there.load(there.make()["asks"], EASY, capacity=1000)
    return room


# -- proposals ---------------------------------------------------------------------------------------------------------


async def test_a_proposal_is_written_once_and_then_nothing(opened: Open) -> None:
    room = await under_pressure(opened)
    case = (await room.turn())["asks"]
    [body] = room.proposals()
    assert room.box.calls == [f"apply asks-{body['id']}"]
    assert live_part(case)["proposalId"] == body["id"]
    room.there.load((await room.turn())["asks"], 0.97)
    assert [each["id"] for each in room.proposals()] == [body["id"]], "the load wobbles, the proposal does not"
    assert len(room.box.calls) == 1
    assert room.there.make()["asks"].outbox.is_empty


async def test_a_proposal_has_everything_that_a_decision_needs_and_the_api_takes_it(opened: Open) -> None:
    room = await under_pressure(opened)
    case = (await room.turn())["asks"]
    [body] = room.proposals()
    content = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    read = ProposalContent.model_validate(content, strict=True, by_alias=True, by_name=False)
    assert (read.deployment, read.generation, read.change, read.reason) == (
        "asks",
        1,
        "AddReplica",
        "SustainedKvPressure",
    )
    assert read.summary == "add 1 replica on l40s-48gb x 1, +$1.15/h"
    assert [(each.gpu_type, each.replicas) for each in (*read.from_, *read.to)] == [(L40S, 1), (L40S, 2)]
    assert read.to[0].settings is not None
    assert case.outcome.decision is not None
    assert case.outcome.decision.choice is not None
    assert read.to[0].settings.max_num_seqs == case.outcome.decision.choice.settings.max_num_seqs
    assert read.bill.before is not None
    assert read.bill.after is not None
    assert float(read.bill.after) == pytest.approx(2 * float(read.bill.before), abs=0.02)
    gpus = [(each.gpu_type, each.before, each.after, each.free) for each in read.gpus]
    assert gpus == [(L40S, 1, 2, 7)], "its own replica holds one of the eight"
    assert read.latency is not None
    assert read.latency.after is not None
    assert read.latency.after.tpot_milliseconds
    places = [(each.gpu_type, each.tensor_parallel, each.pipeline_parallel, each.reason) for each in read.alternatives]
    assert (L40S, 2, None, "CostsMore") in places
    assert len(set(places)) == len(places)
    head = body["metadata"]
    assert head["labels"]["plimsoll.dev/state"] == "Open"
    assert [(each["uid"], each["controller"]) for each in head["ownerReferences"]] == [("uid-asks", True)]


async def test_automatic_scaling_proposes_nothing(opened: Open) -> None:
    room = await under_pressure(opened, rebalancing=AUTO)
    case = (await room.turn())["asks"]
    assert (pools(case), room.proposals()) == ({(L40S, "Active"): 2}, [])
    assert "approved" not in live_part(case)


async def test_moves_of_an_automatic_deployment_can_be_left_to_people(opened: Open) -> None:
    room = await too_small(opened, MOVES)
    case = (await room.turn())["asks"]
    assert pools(case) == {(L4, "Active"): 1}
    assert live_part(case)["proposal"].startswith("Set spec.rebalancing.moves to Auto to move. ")
    [body] = room.proposals()
    assert (body["change"], [each["gpuType"] for each in body["to"]]) == ("Move", [L40S])
    scales = await under_pressure(opened, rebalancing=MOVES)
    assert pools((await scales.turn())["asks"]) == {(L40S, "Active"): 2}, "scaling is carried out"


async def test_without_the_kinds_there_is_the_sentence_in_the_status_and_nothing_else(opened: Open) -> None:
    room = await under_pressure(opened)
    room.there.passes.inbox = ProposalInbox(lambda: False)
    case = (await room.turn())["asks"]
    assert (case.outcome.deployment.people.pending, room.box.calls) == (None, [])
    assert live_part(case)["proposal"].startswith("Set spec.replicas to 2. ")
    assert "proposalId" not in live_part(case)


async def test_a_proposal_that_is_not_made_any_more_goes_after_some_minutes(opened: Open) -> None:
    room = await under_pressure(opened)
    case = (await room.turn())["asks"]
    [body] = room.proposals()
    for after, stands in ((0.0, True), (GRACE_SECONDS - 1, True), (2.0, False)):
        room.there.now += after
        room.there.load(case, EASY)
        await room.turn()
        assert [each["id"] for each in room.proposals()] == ([body["id"]] if stands else [])


async def test_a_proposal_that_expires_while_it_stands_is_made_anew(opened: Open) -> None:
    room = await under_pressure(opened)
    case = (await room.turn())["asks"]
    [first] = room.proposals()
    room.there.now += LIFE_SECONDS
    for expected in (0, 1):
        room.there.load(case, PRESSURE)
        await room.turn()
        assert len(room.proposals()) == expected
    [second] = room.proposals()
    assert second["id"] == first["id"]
    assert second["createdAt"] == first["expiresAt"]


async def test_a_changed_spec_withdraws_what_was_proposed_for_the_old_one(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [first] = room.proposals()
    room.there.change("asks", rebalancing=ADVICE | {"windowSeconds": 21})
    room.there.load((await room.turn())["asks"], PRESSURE)
    await room.turn()
    assert first["id"] not in {each["id"] for each in room.proposals()}


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_an_approved_replica_is_added_as_in_auto_mode_and_stays(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    answer = room.answer(body["id"])
    case = (await room.turn())["asks"]
    reported = live_part(case)
    assert (pools(case), reported["decision"]) == ({(L40S, "Active"): 2}, "AddReplica")
    assert (reported["baseReplicas"], reported["targetReplicas"], reported["approved"]) == (1, 2, True)
    assert (len(reported["changes"]), reported["lastChange"].endswith(" Approved by alex.")) == (1, True)
    assert "proposal" not in reported
    assert (room.outcome(answer), room.proposals()) == ("CarriedOut", [])
    room.there.load((await room.turn())["asks"], EASY)
    after = (await room.turn())["asks"]
    assert (pools(after), live_part(after)["targetReplicas"]) == ({(L40S, "Active"): 2}, 2)
    assert room.there.make()["asks"].outbox.is_empty


async def test_an_approved_move_is_made_and_another_one_is_not(opened: Open) -> None:
    room = await too_small(opened, MOVES)
    await room.turn()
    [body] = room.proposals()
    room.answer(body["id"])
    case = (await room.turn())["asks"]
    assert (pools(case), live_part(case)["decision"]) == ({(L40S, "Active"): 1, (L4, "Retiring"): 1}, "Move")
    assert "approved" not in live_part(case), "the target of an automatic deployment is its own"


async def test_an_approved_move_of_a_deployment_that_only_advises_leaves_the_number_to_its_user(opened: Open) -> None:
    room = await too_small(opened, ADVICE)
    await room.turn()
    [body] = room.proposals()
    room.answer(body["id"])
    case = (await room.turn())["asks"]
    assert (pools(case), "approved" in live_part(case)) == ({(L40S, "Active"): 1, (L4, "Retiring"): 1}, False)


async def test_an_approval_is_carried_out_once_even_if_its_answer_was_not_written(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    room.there.now += 1
    answer = room.answer(body["id"])
    room.box.refused = {answer: 500, body["metadata"]["name"]: 500}
    case = (await room.turn())["asks"]
    assert pools(case) == {(L40S, "Active"): 2}
    assert room.outcome(answer) == ""
    assert len(room.proposals()) == 1, "it could not be withdrawn"
    room.box.refused = {}
    room.proposal_writer.backoff.succeeded(case.uid)
    room.there.now += 60
    room.there.load((await room.turn())["asks"], EASY)
    after = (await room.turn())["asks"]
    assert (pools(after), len(live_part(after)["changes"])) == ({(L40S, "Active"): 2}, 1)
    assert (room.outcome(answer), room.proposals()) == ("CarriedOut", [])


async def test_a_stale_id_changes_nothing_and_says_so(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    answer = room.answer("0" * 12)
    case = (await room.turn())["asks"]
    assert (pools(case), room.outcome(answer)) == ({(L40S, "Active"): 1}, "Stale")
    body = room.there.store.get(APPROVALS, ObjectKey("ns", answer))
    assert body is not None
    status = PlacementApprovalStatus.model_validate(body["status"], strict=True, by_alias=True, by_name=False)
    assert status.message.startswith(f"Nothing was changed: asks has no proposal {'0' * 12} any more.")
    assert room.there.make()["asks"].outbox.is_empty


async def test_an_id_that_was_never_shown_cannot_be_approved_in_advance(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    room.there.store.observe(PROPOSALS, "DELETED", body)
    answer = room.answer(body["id"])
    case = (await room.turn())["asks"]
    assert (pools(case), room.outcome(answer)) == ({(L40S, "Active"): 1}, "Stale")


async def test_the_proposal_of_a_neighbour_is_none_of_ones_own(opened: Open) -> None:
    room = await under_pressure(opened, "asks", "honest")
    await room.turn()
    ids = {each["deployment"]: each["id"] for each in room.proposals()}
    wrong, right = room.answer(ids["honest"]), room.answer(ids["asks"])
    cases = await room.turn()
    assert (room.outcome(wrong), room.outcome(right)) == ("Stale", "CarriedOut")
    assert (pools(cases["asks"]), pools(cases["honest"])) == ({(L40S, "Active"): 2}, {(L40S, "Active"): 1})
    assert [each["id"] for each in room.proposals()] == [ids["honest"]]


async def test_answers_that_are_replayed_or_about_another_move_nothing_and_the_neighbours_is_heard(
    opened: Open,
) -> None:
    room = await under_pressure(opened, "asks", "honest")
    await room.turn()
    ids = {each["deployment"]: each["id"] for each in room.proposals()}
    first = room.answer(ids["asks"])
    room.there.load((await room.turn())["asks"], EASY)
    assert room.outcome(first) == "CarriedOut"
    replayed, of_another = room.answer(ids["asks"]), room.answer(ids["honest"])
    room.answer(ids["honest"], deployment="honest", namespace="foreign")
    cases = await room.turn()
    assert (pools(cases["asks"]), pools(cases["honest"])) == ({(L40S, "Active"): 2}, {(L40S, "Active"): 1})
    assert (room.outcome(replayed), room.outcome(of_another)) == ("Stale", "Stale")
    right = room.answer(ids["honest"], deployment="honest")
    cases = await room.turn()
    assert (pools(cases["asks"]), pools(cases["honest"])) == ({(L40S, "Active"): 2}, {(L40S, "Active"): 2})
    assert room.outcome(right) == "CarriedOut"


async def test_an_approval_of_a_deployment_that_does_not_exist_is_answered_once(opened: Open) -> None:
    room = await under_pressure(opened)
    wrong, right = room.answer("0" * 12, deployment="nobody"), room.answer("0" * 12)
    orphans = room.there.result().orphans
    room.proposal_writer.answer(orphans)
    room.proposal_writer.answer(orphans)  # the first answers are still being written
    await asyncio.sleep(0)
    await room.turn()
    assert (room.outcome(wrong), room.outcome(right)) == ("Stale", "Stale")
    assert [call for call in room.box.calls if wrong in call] == [f"status {wrong} Stale"]
    body = room.there.store.get(APPROVALS, ObjectKey("ns", wrong))
    assert body is not None
    assert body["status"]["message"].startswith("Nothing was changed: namespace ns has no InferenceDeployment nobody.")
    assert room.there.result().orphans.is_empty


async def test_approvals_of_a_crowd_that_name_no_deployment_delay_no_answer_to_a_neighbour(opened: Open) -> None:
    room = await under_pressure(opened)
    for _ in range(3 * MOST_ORPHANS):
        room.answer("0" * 12, deployment="nobody", namespace="crowd")
    wrong = room.answer("0" * 12, deployment="nobody")
    answered = [body["metadata"]["name"] for body, _ in room.there.result().orphans.answered]
    assert wrong in answered
    assert len(answered) == MOST_ORPHANS


CROWD = 400
"""Approvals of one deployment. The work for each of them shows as well as with thousands."""

MOST_CALLS = 70
"""Calls that a pass makes for one approval that stays as it is."""


async def test_a_pass_does_little_for_each_of_many_approvals_and_hears_the_neighbour(opened: Open) -> None:
    """All of them approve a proposal that stands and is not made any more, so they wait from pass to pass."""
    room = await under_pressure(opened, "asks", "honest")
    await room.turn()
    ids = {each["deployment"]: each["id"] for each in room.proposals()}
    cases = room.there.make()
    room.there.load(cases["asks"], EASY)
    with counted_calls() as alone:
        room.there.make()
    for _ in range(CROWD):
        room.answer(ids["asks"])
    await room.turn()
    with counted_calls() as crowded:
        room.there.make()
    assert (crowded.amount - alone.amount) / CROWD < MOST_CALLS
    right = room.answer(ids["honest"], deployment="honest")
    cases = await room.turn()
    assert room.outcome(right) == "CarriedOut"
    assert (pools(cases["asks"]), pools(cases["honest"])) == ({(L40S, "Active"): 1}, {(L40S, "Active"): 2})


async def test_the_end_of_the_process_while_an_approval_is_answered_is_no_fault(opened: Open) -> None:
    room = await under_pressure(opened)
    wrong = room.answer("0" * 12, deployment="nobody")
    room.proposal_writer.answer(room.there.result().orphans)
    await room.proposal_writer.close()
    assert not room.outcome(wrong), "the next process answers it"


async def test_an_approval_of_what_is_not_proposed_at_the_moment_waits_and_then_counts(opened: Open) -> None:
    room = await under_pressure(opened)
    case = (await room.turn())["asks"]
    [body] = room.proposals()
    room.there.load(case, EASY)
    answer = room.answer(body["id"])
    waiting = (await room.turn())["asks"]
    assert (pools(waiting), room.outcome(answer)) == ({(L40S, "Active"): 1}, "Waiting")
    assert room.proposals()[0]["metadata"]["labels"]["plimsoll.dev/state"] == "Approved"
    room.there.load(waiting, PRESSURE)
    assert pools((await room.turn())["asks"]) == {(L40S, "Active"): 2}
    assert room.outcome(answer) == "CarriedOut"


async def test_a_rejected_proposal_is_shown_as_such_and_not_made_until_it_would_have_ended(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    answer = room.answer(body["id"], decision="reject", reason="no budget")
    reported = live_part((await room.turn())["asks"])
    assert "proposal" not in reported
    [shown] = reported["rejected"]
    assert (shown["proposal"], shown["by"], shown["reason"], shown["until"]) == (
        body["id"],
        "alex",
        "no budget",
        body["expiresAt"],
    )
    assert room.outcome(answer) == "Rejected"
    assert f"not made again before {body['expiresAt']}" in room.message_of(answer)
    assert room.proposals()[0]["metadata"]["labels"]["plimsoll.dev/state"] == "Rejected"
    assert room.there.make()["asks"].outbox.is_empty
    room.there.now += LIFE_SECONDS
    for _ in range(2):
        room.there.load(room.there.make()["asks"], PRESSURE)
        reported = live_part((await room.turn())["asks"])
    assert ("rejected" in reported, "proposal" in reported) == (False, True)


async def test_a_later_approval_lifts_a_rejection(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    room.answer(body["id"], decision="reject")
    await room.turn()
    room.answer(body["id"])
    case = (await room.turn())["asks"]
    assert pools(case) == {(L40S, "Active"): 2}
    assert "rejected" not in live_part(case)


# -- faults ------------------------------------------------------------------------------------------------------------


async def test_a_proposal_that_cannot_be_written_harms_nobody_and_is_tried_again_later(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    room = await under_pressure(opened, "asks", "honest")
    refused = room.there.make()["asks"].outbox.posted[0]["metadata"]["name"]
    room.box.refused = {refused: 403}
    cases = await room.turn()
    assert [each["deployment"] for each in room.proposals()] == ["honest"]
    assert "a proposal or an approval was not written" in caplog.text
    assert cases["asks"].new_status is not None
    calls = len(room.box.calls)
    await room.turn()
    assert len(room.box.calls) == calls, "the pause has begun"
    room.box.refused = {}
    room.proposal_writer.backoff.succeeded(cases["asks"].uid)
    await room.turn()
    assert [each["deployment"] for each in room.proposals()] == ["asks", "honest"]


async def test_who_lost_the_lease_writes_nothing_more(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    room = await under_pressure(opened)
    case = room.there.make()["asks"]

    async def fenced(_: object) -> None:
        raise NotLeading

    monkeypatch.setattr(room.box, "apply", fenced)
    with pytest.raises(NotLeading):
        await room.proposal_writer.deliver(case)
    assert room.proposals() == []


async def test_an_approval_that_was_deleted_meanwhile_is_no_failure(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    name = room.answer("0" * 12)
    room.box.refused = {name: 404}
    case = (await room.turn())["asks"]
    assert room.there.store.get(APPROVALS, ObjectKey("ns", name)) is None
    assert room.proposal_writer.backoff.is_due(case.uid)


async def test_answered_approvals_are_bounded(opened: Open) -> None:
    room = await under_pressure(opened)
    names = [room.answer("0" * 12) for _ in range(MOST_ANSWERED + 2)]
    for _ in range(2):
        await room.turn()
    left = {body["metadata"]["name"] for body in room.there.store.all(APPROVALS)}
    assert left == set(names[2:]), "the oldest go first"


async def test_one_refused_write_does_not_stop_the_others(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    bad, good = room.answer("1" * 12), room.answer("2" * 12)
    room.box.refused = {bad: 422}
    await room.turn()
    assert (room.outcome(bad), room.outcome(good)) == ("", "Stale")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PROPOSALS, {"id": 7}),
        (PROPOSALS, {"deployment": "asks", "id": "x"}),
        (APPROVALS, {"spec": None}),
        (APPROVALS, {"spec": {"deployment": "asks", "proposal": "x", "decision": "perhaps", "by": ""}}),
        (APPROVALS, {"spec": {"deployment": ["asks"]}}),
    ],
)
async def test_an_object_that_cannot_be_read_is_ignored_and_said_once(
    opened: Open, kind: Any, body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    room = await under_pressure(opened)
    owner = [{"uid": "uid-asks", "controller": True}]
    head = {"name": "odd", "namespace": "ns", "uid": "odd", "resourceVersion": "1", "ownerReferences": owner}
    room.there.store.observe(kind, "ADDED", {"kind": kind.kind, "metadata": head, **body})
    await room.turn()
    await room.turn()
    assert [each["deployment"] for each in room.proposals() if each["metadata"]["name"] != "odd"] == ["asks"]
    assert caplog.text.count("odd is ignored") <= 1


async def test_a_proposal_of_a_deleted_namesake_is_none_of_ones_own(opened: Open) -> None:
    room = await under_pressure(opened)
    await room.turn()
    [body] = room.proposals()
    forged = {**body, "metadata": {**body["metadata"], "name": "forged", "uid": "forged", "resourceVersion": "1"}}
    forged["metadata"]["ownerReferences"] = [{"uid": "uid-other", "controller": True}]
    room.there.store.observe(PROPOSALS, "ADDED", {**forged, "id": "1" * 12})
    answer = room.answer("1" * 12)
    await room.turn()
    assert room.outcome(answer) == "Stale"


async def test_an_inbox_that_raises_leaves_the_plan_as_it_is(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    room = await under_pressure(opened)

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ProposalInbox, "outbox", fails)
    monkeypatch.setattr(ProposalInbox, "of", fails)
    case = (await room.turn())["asks"]
    assert (case.outcome.is_faulty, pools(case)) == (False, {(L40S, "Active"): 1})
    assert live_part(case)["proposal"].startswith("Set spec.replicas to 2. ")


# -- findings ----------------------------------------------------------------------------------------------------------


def _acknowledged(room: ProposalPasses, **more: Any) -> str:
    until = to_rfc3339(room.there.now + 3600)
    spec: dict[str, Any] = {
        "finding": "WaitingForGpus",
        "generation": 1,
        "until": until,
        "reason": "a node comes",
    } | more
    return room.answer(None, decision="acknowledge", deployment="waits", **spec)


async def _waiting(opened: Open) -> ProposalPasses:
    there = opened(l4=1)
    there.put("waits", L4, rebalancing=AUTO, replicas=2)
    room = ProposalPasses.open(there)
    await there.settle()
    return room


async def test_a_finding_rests_with_name_and_end_and_counts_again_without_its_approval(opened: Open) -> None:
    room = await _waiting(opened)
    name = _acknowledged(room)
    case = (await room.turn())["waits"]
    assert case.new_status is not None
    [shown] = case.new_status["acknowledged"]
    assert (shown["finding"], shown["by"], shown["reason"]) == ("WaitingForGpus", "alex", "a node comes")
    assert room.outcome(name) == "Acknowledged"
    assert case.judged is not None
    assert case.judged.known is not None
    values = {each.name: each.values(case.judged) for each in OF_STATES}
    assert values["plimsoll_deployment_acknowledged_until_seconds"] == {
        ("WaitingForGpus", "alex"): case.judged.known.until
    }
    written = len(room.box.calls)
    again = (await room.turn())["waits"]
    assert (again.new_status, len(room.box.calls)) == (case.new_status, written), "it is written once"
    known = room.there.store.get(APPROVALS, ObjectKey("ns", name))
    assert known is not None
    room.there.store.observe(APPROVALS, "DELETED", known)
    assert "acknowledged" not in (room.there.make()["waits"].new_status or {})


async def test_a_finding_counts_again_at_its_end_and_a_wrong_word_is_refused(opened: Open) -> None:
    room = await _waiting(opened)
    wrong, name = _acknowledged(room, finding="NoGpuFits"), _acknowledged(room)
    await room.turn()
    assert (room.outcome(wrong), room.outcome(name)) == ("Refused", "Acknowledged")
    assert room.message_of(wrong).startswith("spec.finding: NoGpuFits is not what is wrong. Write WaitingForGpus: ")
    room.there.now += 3600
    assert "acknowledged" not in ((await room.turn())["waits"].new_status or {})
    assert room.outcome(name) == "Expired"
