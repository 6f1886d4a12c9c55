"""Proposals and approvals on a real API server: who may decide, what it brings, and what it leaves alone.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from testbed.approvals import install_kinds
from tests.support.approvals import Person, outcome_of, proposal_of
from tests.support.installed import CRD_NAME
from tests.support.live_loop import L4_POOL, L40S_POOL, PRESSURE, TIMING, Bench, bench_of, changes, stays

pytestmark = [pytest.mark.cluster, pytest.mark.story]

ADVICE = {key: value for key, value in TIMING.items() if key != "changesPerHour"}
MOVES = {"mode": "Auto", "moves": "Recommend", "maxReplicas": 3, **TIMING}
TOO_SMALL = {L4_POOL: 30_000}
NOBODYS = "0" * 12
QUIET_SECONDS = 15.0
NAMES = ("adds", "moves", "rejects", "neighbour")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """The operator may hear approvals, and the cluster does not have the kinds yet."""
    with bench_of("inbox", {"PLIMSOLL_APPROVALS": "true"}, knows=[CRD_NAME]) as running:
        yield running


@pytest.fixture(scope="module")
def deployed(bench: Bench) -> Bench:
    for name, gpus in {"adds": {"L4": 2}, "moves": {"L4": 1, "L40S": 1}}.items():
        bench.add_nodes(name, **gpus)
    for name in ("rejects", "neighbour"):
        bench.add_nodes(name, L4=2)
    for name in NAMES:
        bench.deploy(name, MOVES if name == "moves" else ADVICE, TOO_SMALL if name == "moves" else None)
    for name in ("adds", "rejects", "neighbour"):
        bench.view.wait_ready(name)
        bench.load(name, kv_tokens=PRESSURE)
    return bench


@pytest.fixture(scope="module")
def approver(deployed: Bench) -> Person:
    """May create approvals, read proposals and deployments, and approve, and nothing else."""
    person = Person(deployed.view, "approver")
    person.grant(
        {"resources": ["placementapprovals"], "verbs": ["create"]},
        {"resources": ["placementproposals"], "verbs": ["list"]},
        {"resources": ["inferencedeployments"], "verbs": ["get", "approve"]},
    )
    return person


@pytest.fixture(scope="module")
def stranger(deployed: Bench) -> Person:
    """May create approvals, read proposals, and approve one deployment only."""
    person = Person(deployed.view, "stranger")
    person.grant(
        {"resources": ["placementapprovals"], "verbs": ["create"]},
        {"resources": ["placementproposals"], "verbs": ["list"]},
        {"resources": ["inferencedeployments"], "verbs": ["approve"], "resourceNames": ["rejects"]},
    )
    return person


def test_without_the_kinds_everything_is_served_and_it_is_said_once(deployed: Bench, stranger: Person) -> None:
    deployed.wait_reason("adds", "SustainedKvPressure")
    assert "proposalId" not in deployed.rebalancing("adds")
    log = deployed.operator.log.read_text()
    assert log.count("placementproposals do not exist: proposals are in the status only") == 1
    install_kinds(deployed.view.control_plane)
    stranger.wait_bound()


def test_a_proposal_appears_with_everything_that_a_decision_needs(deployed: Bench) -> None:
    body = proposal_of(deployed.view, "adds")
    assert (body["deployment"], body["change"], body["reason"]) == ("adds", "AddReplica", "SustainedKvPressure")
    assert (body["summary"], body["metadata"]["name"]) == (
        "add 1 replica on l4-24gb x 1, +$0.42/h",
        f"adds-{body['id']}",
    )
    [before], [after] = body["from"], body["to"]
    assert (before["gpuType"], before["replicas"], after["replicas"]) == ("l4-24gb", 1, 2)
    assert after["settings"]["maxNumSeqs"] > 0
    assert float(body["bill"]["after"]) == pytest.approx(2 * float(body["bill"]["before"]), abs=0.02)
    assert {each["name"] for each in body["figures"]} >= {"kv_percent", "held_tokens"}
    [gpus] = body["gpus"]
    assert (gpus["gpuType"], gpus["before"], gpus["after"]) == ("l4-24gb", 1, 2)
    assert gpus["free"] >= 1, "there is room for the replica"
    assert body["message"].startswith("2 replicas are needed and 1 replica wanted so far: ")
    assert body["createdAt"] < body["expiresAt"]
    assert deployed.rebalancing("adds")["proposalId"] == body["id"]
    owner = deployed.view.get("adds")["metadata"]
    assert [each["uid"] for each in body["metadata"]["ownerReferences"]] == [owner["uid"]]


def test_kubectl_get_is_an_inbox(deployed: Bench) -> None:
    for name in NAMES:
        proposal_of(deployed.view, name)
    table = deployed.view.control_plane.kubectl("get", "pprop", "-A")
    head, *rows = table.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "DEPLOYMENT", "CHANGE", "REASON", "$/H", "STATE", "AGE"]
    assert len(rows) == len(NAMES)
    assert all("Open" in row and re.search(r"  (add|move) 1 replica .*, [+-]\$\d", row) for row in rows), table


def test_the_move_of_an_automatic_deployment_is_only_proposed(deployed: Bench) -> None:
    body = proposal_of(deployed.view, "moves")
    assert (body["change"], body["reason"]) == ("Move", "PlacementTooSmall")
    assert [each["gpuType"] for each in body["to"]] == ["l40s-48gb"]
    reported = deployed.rebalancing("moves")
    assert reported["proposal"].startswith("Set spec.rebalancing.moves to Auto to move. ")
    assert deployed.settled("moves") == {L4_POOL: 1}


def test_who_may_not_approve_is_refused(deployed: Bench, stranger: Person) -> None:
    status, said = stranger.runs("approve", "adds")
    assert status == 2
    assert f'spec.deployment is "adds", and "{stranger.user}" may not approve it' in said
    assert deployed.view.all("placementapprovals") == []


def test_nobody_approves_in_the_name_of_another(deployed: Bench, approver: Person, stranger: Person) -> None:
    known = proposal_of(deployed.view, "adds")["id"]
    said = approver.creates("forged", deployment="adds", proposal=known, by=stranger.user)
    assert f'spec.by is "{stranger.user}", and you are "{approver.user}"' in said
    assert deployed.view.all("placementapprovals") == []


def test_a_stale_id_changes_nothing_and_says_so(deployed: Bench, approver: Person) -> None:
    since = deployed.now()
    assert "created" in approver.creates("stale", deployment="neighbour", proposal=NOBODYS)
    reported = outcome_of(deployed.view, "stale")
    assert reported["state"] == "Stale"
    assert reported["message"].startswith(f"Nothing was changed: neighbour has no proposal {NOBODYS} any more.")
    assert changes(deployed.writes(since, "neighbour")) == []
    status, said = approver.runs("approve", "neighbour", "--proposal", NOBODYS)
    assert status == 2
    assert said.startswith(f"error: --proposal: '{NOBODYS}' cannot be used. Proposals of neighbour: ")


def test_an_approved_replica_is_added_and_its_approver_is_named(deployed: Bench, approver: Person) -> None:
    known = proposal_of(deployed.view, "adds")["id"]
    spec = deployed.view.get("adds")["spec"]
    status, said = approver.runs("approve", "adds", "--reason", "the launch is tomorrow")
    assert (status, said.split("\n")[0]) == (
        0,
        f"{approver.user} approved proposal {known} of adds ({_described(said)}).",
    )
    deployed.wait_settled("adds", {L4_POOL: 2})
    [made] = [each for each in deployed.view.all("placementapprovals") if each["spec"]["deployment"] == "adds"]
    assert made["spec"]["reason"] == "the launch is tomorrow"
    assert outcome_of(deployed.view, made["metadata"]["name"])["state"] == "CarriedOut"
    reported = deployed.rebalancing("adds")
    assert reported["lastChange"].endswith(f"Approved by {approver.user}.")
    assert (reported["baseReplicas"], reported["targetReplicas"], reported["approved"]) == (1, 2, True)
    assert deployed.view.get("adds")["spec"] == spec, "an approval changes no spec"
    deployed.view.wait(lambda: known not in _ids(deployed, "adds"), "the proposal withdrawn")


def _described(said: str) -> str:
    return said.split(" of adds (")[1].split(").\n", maxsplit=1)[0]


def _ids(bench: Bench, name: str) -> list[str]:
    return [body["id"] for body in bench.view.all("placementproposals", name)]


def _states(bench: Bench, name: str) -> dict[str, str]:
    """The state in the label of each proposal. It is written after the status of the deployment."""
    bodies = bench.view.all("placementproposals", name)
    return {body["id"]: body["metadata"]["labels"]["plimsoll.dev/state"] for body in bodies}


def test_an_approval_can_be_changed_by_nobody(deployed: Bench) -> None:
    """Not even by a cluster admin."""
    patch = json.dumps({"spec": {"deployment": "neighbour"}})
    words = ("patch", "placementapproval", "stale", "-n", "inbox", "--type=merge", "-p", patch)
    said = deployed.view.control_plane.kubectl(*words, check=False)
    assert "unchanged" in said or "no change" in said  # it named that deployment before
    patch = json.dumps({"spec": {"proposal": "1" * 12}})
    said = deployed.view.control_plane.kubectl(*words[:-1], patch, check=False)
    assert "spec of a PlacementApproval cannot be changed" in said


def test_the_content_of_a_proposal_can_be_changed_by_nobody(deployed: Bench) -> None:
    name = proposal_of(deployed.view, "neighbour")["metadata"]["name"]
    words = ("patch", "placementproposal", name, "-n", "inbox", "--type=merge", "-p")
    attempts: tuple[dict[str, Any], ...] = ({"summary": "nothing"}, {"latency": None}, {"to": []})
    for change in attempts:
        said = deployed.view.control_plane.kubectl(*words, json.dumps(change), check=False)
        assert "of a PlacementProposal cannot be changed" in said, change


def test_an_approved_move_is_made_new_before_old(deployed: Bench, approver: Person) -> None:
    known = proposal_of(deployed.view, "moves")["id"]
    assert "created" in approver.creates("move-it", deployment="moves", proposal=known)
    deployed.wait_settled("moves", {L40S_POOL: 1})
    assert outcome_of(deployed.view, "move-it")["state"] == "CarriedOut"
    assert deployed.rebalancing("moves")["lastChange"].endswith(f"Approved by {approver.user}.")


def test_a_rejected_proposal_is_shown_and_not_made_again(deployed: Bench, stranger: Person) -> None:
    known = proposal_of(deployed.view, "rejects")["id"]
    status, said = stranger.runs("reject", "rejects", "--reason", "no budget")
    assert (status, f"{stranger.user} rejected proposal {known} of rejects" in said) == (0, True)
    [made] = [each for each in deployed.view.all("placementapprovals") if each["spec"]["deployment"] == "rejects"]
    assert outcome_of(deployed.view, made["metadata"]["name"])["state"] == "Rejected"
    [shown] = deployed.rebalancing("rejects")["rejected"]
    assert (shown["proposal"], shown["by"], shown["reason"]) == (known, stranger.user, "no budget")
    deployed.view.wait(lambda: "proposal" not in deployed.rebalancing("rejects"), "no proposal in the status")
    deployed.view.wait(lambda: _states(deployed, "rejects") == {known: "Rejected"}, "the proposal marked as rejected")
    assert deployed.settled("rejects") == {L4_POOL: 1}
    status, said = stranger.runs("reject", "rejects")
    assert (status, "It has no open proposal in namespace inbox." in said) == (2, True)


def test_the_neighbour_is_untouched_and_a_settled_inbox_is_silent(deployed: Bench) -> None:
    known = proposal_of(deployed.view, "neighbour")
    since, uids = deployed.now(), deployed.view.pod_uids("neighbour")
    stays(lambda: deployed.settled("neighbour") == {L4_POOL: 1}, QUIET_SECONDS, "the neighbour changed")
    assert deployed.view.pod_uids("neighbour") == uids
    assert proposal_of(deployed.view, "neighbour")["metadata"]["uid"] == known["metadata"]["uid"]
    written = [event for event in deployed.writes(since) if event.resource.startswith("placement")]
    assert written == []


FULL = {"deployment": "neighbour", "decision": "acknowledge", "finding": "KvBound", "generation": 1}


def _ahead(**time: int) -> str:
    return (datetime.now(UTC) + timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("until", ["2020-01-01T00:00:00Z", _ahead(days=31)], ids=["over", "too far ahead"])
def test_an_end_that_cannot_be_is_refused(approver: Person, until: str) -> None:
    said = approver.creates("badly-ending", **FULL, until=until)
    assert f'spec.until is "{until}": a finding rests for 30 days at most. Write a time between ' in said


def test_half_an_answer_is_refused(approver: Person) -> None:
    assert "decision acknowledge needs finding, generation and until" in approver.creates("half", **FULL)
    both = {"deployment": "neighbour", "proposal": NOBODYS, "finding": "KvBound"}
    assert "decision approve or reject needs proposal" in approver.creates("both", **both)


def test_what_is_not_wrong_cannot_be_acknowledged(deployed: Bench, approver: Person, stranger: Person) -> None:
    deployed.view.wait(lambda: _troubled(deployed) == "KvBound", "a full KV cache in the status")
    assert "created" in approver.creates("wrong", **{**FULL, "finding": "NoGpuFits"}, until=_ahead(hours=1))
    answered = outcome_of(deployed.view, "wrong")
    assert answered["state"] == "Refused"
    assert answered["message"].startswith("spec.finding: NoGpuFits is not what is wrong. Write KvBound: ")
    said = stranger.creates("of-a-stranger", **FULL, until=_ahead(hours=1))
    assert 'spec.deployment is "neighbour"' in said


def _troubled(bench: Bench) -> str:
    conditions = {each["type"]: each["reason"] for each in bench.view.get("neighbour")["status"]["conditions"]}
    return str(conditions.get("Troubled", ""))


def test_a_finding_is_acknowledged_with_name_end_and_reason(deployed: Bench, approver: Person) -> None:
    status, said = approver.runs("acknowledge", "neighbour", "--until", "2h", "--reason", "a new node comes")
    assert (status, said.startswith(f"{approver.user} acknowledged KvBound of neighbour until 20")) == (0, True)
    [shown] = deployed.view.wait(
        lambda: deployed.view.get("neighbour")["status"].get("acknowledged"), "it in the status"
    )
    assert (shown["finding"], shown["generation"], shown["severity"], shown["serves"]) == (
        "KvBound",
        1,
        "trouble",
        True,
    )
    assert (shown["by"], shown["reason"]) == (approver.user, "a new node comes")
    [made] = [each for each in deployed.view.all("placementapprovals") if each["metadata"]["uid"] == shown["approval"]]
    assert outcome_of(deployed.view, made["metadata"]["name"])["state"] == "Acknowledged"
    words = (f"KvBound is acknowledged by {approver.user} until {shown['until']}: a new node comes.",)
    assert all(each in " ".join(approver.runs("explain", "neighbour")[1].split()) for each in words)


def test_a_changed_spec_ends_the_acknowledgement_too(deployed: Bench) -> None:
    deployed.view.patch("neighbour", {"rebalancing": {"windowSeconds": 10}})
    deployed.view.wait(lambda: "acknowledged" not in deployed.view.get("neighbour")["status"], "nothing acknowledged")

    def answers() -> list[str]:
        found = deployed.view.all("placementapprovals")
        return [each["status"]["state"] for each in found if each["spec"].get("finding") == "KvBound"]

    deployed.view.wait(lambda: answers() == ["Stale"], "the answer is stale")


def test_a_changed_spec_withdraws_the_proposal(deployed: Bench) -> None:
    known = proposal_of(deployed.view, "neighbour")["id"]
    deployed.view.patch("neighbour", {"rebalancing": {"windowSeconds": 9}})
    deployed.view.wait(lambda: known not in _ids(deployed, "neighbour"), "the proposal of the old spec withdrawn")
    assert proposal_of(deployed.view, "neighbour")["generation"] == 3


def test_an_approval_of_a_deployment_that_does_not_exist_is_stale(deployed: Bench, approver: Person) -> None:
    assert "created" in approver.creates("lost", deployment="nobody", proposal=NOBODYS)
    reported = outcome_of(deployed.view, "lost")
    assert reported["state"] == "Stale"
    assert reported["message"].startswith("Nothing was changed: namespace inbox has no InferenceDeployment nobody.")


def test_proposals_and_answers_of_the_command_end_with_their_deployment(deployed: Bench) -> None:
    assert _ids(deployed, "rejects")
    deployed.view.delete("inferencedeployments", "rejects")
    deployed.view.wait(lambda: not _ids(deployed, "rejects"), "no proposal of a deleted deployment", 90)
    deployed.view.wait(lambda: "rejects" not in _answered(deployed), "no answer to its proposals", 90)
    assert {"adds", "moves", "neighbour"} <= {body["metadata"]["name"] for body in _all(deployed)}


def _answered(bench: Bench) -> set[str]:
    return {body["spec"]["deployment"] for body in bench.view.all("placementapprovals")}


def _all(bench: Bench) -> list[dict[str, Any]]:
    return bench.view.all("inferencedeployments")
