"""``plimsoll approve`` and ``reject``, with a cluster that remembers what was asked of it."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass, field
from typing import Any, Self, cast

import pytest
from click.testing import CliRunner, Result

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, Listing, ObjectKind
from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec
from plimsoll.cli.cluster import live
from plimsoll.cli.main import cli
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import from_rfc3339

FIRST, SECOND = "4f0c8a1d92be", "91b27c03aa54"


def proposal(name: str, state: str = "Open") -> dict[str, Any]:
    owner = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "name": "chat", "uid": "uid-chat"}
    return {
        "metadata": {
            "name": f"chat-{name}",
            "labels": {"plimsoll.dev/state": state},
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "deployment": "chat",
        "id": name,
        "summary": "1 on l4-24gb x 1 -> 2 on l4-24gb x 1",
        "reason": "SustainedKvPressure",
        "bill": {"summary": "0.70 -> 1.40"},
    }


@dataclass
class FakeCluster:
    """The objects of the cluster, the person it sees, and the objects that were created."""

    proposals: list[dict[str, Any]]
    refusals: dict[str, ClusterRefused] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str | None, str | None]] = field(default_factory=list)
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def list(self, kind: ObjectKind, *, labels: str | None, namespace: str | None) -> Listing:
        assert kind.kind == "PlacementProposal"
        self.asked.append((labels, namespace))
        self._refuse("list")
        return Listing(self.proposals)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> dict[str, Any] | None:
        assert (kind.kind, key.namespace) == ("InferenceDeployment", "ml")
        return self.deployments.get(key.name)

    async def user_name(self) -> str:
        return "alex"

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self._refuse("create")
        self.created.append(body)
        return {**body, "metadata": {**body["metadata"], "name": "chat-x7k2p", "uid": "1"}}

    def _refuse(self, action: str) -> None:
        if action in self.refusals:
            raise self.refusals[action]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster([proposal(FIRST)])
    monkeypatch.setattr(live, "Cluster", lambda *_, **__: cast("Cluster", fake))
    monkeypatch.setattr(live, "default_namespace", lambda *_: "ml")
    return fake


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def refused(*words: str) -> str:
    ran = run(*words)
    assert isinstance(ran.exception, PlimsollError), ran.output
    return str(ran.exception)


def test_the_only_open_proposal_is_approved_in_the_own_name(cluster: FakeCluster) -> None:
    said = run("approve", "chat", "--reason", "launch").output
    [made] = cluster.created
    assert cluster.asked == [("plimsoll.dev/deployment=chat", "ml")]
    spec = PlacementApprovalSpec.model_validate(made["spec"], strict=False, by_alias=True, by_name=False)
    assert (spec.deployment, spec.proposal, spec.decision, spec.by, spec.reason) == (
        "chat",
        FIRST,
        "approve",
        "alex",
        "launch",
    )
    assert (made["metadata"]["namespace"], made["metadata"]["generateName"]) == ("ml", "chat-")
    assert [set(each) for each in made["metadata"]["ownerReferences"]] == [{"apiVersion", "kind", "name", "uid"}]
    assert said == (
        f"alex approved proposal {FIRST} of chat (1 on l4-24gb x 1 -> 2 on l4-24gb x 1, SustainedKvPressure, "
        "$/h 0.70 -> 1.40).\nTo see the outcome: kubectl get placementapprovals chat-x7k2p -n ml -o wide\n"
    )


def test_a_named_proposal_of_a_named_namespace_is_rejected(cluster: FakeCluster) -> None:
    cluster.proposals.append(proposal(SECOND))
    said = run("reject", "chat", "--proposal", SECOND, "-n", "team").output
    [made] = cluster.created
    assert (made["spec"]["decision"], made["spec"]["proposal"], "reason" in made["spec"]) == ("reject", SECOND, False)
    assert cluster.asked == [("plimsoll.dev/deployment=chat", "team")]
    assert said.startswith(f"alex rejected proposal {SECOND} of chat (")


def test_a_rejected_proposal_counts_only_where_it_is_named(cluster: FakeCluster) -> None:
    cluster.proposals.append(proposal(SECOND, "Rejected"))
    run("approve", "chat")
    run("approve", "chat", "--proposal", SECOND)
    assert [each["spec"]["proposal"] for each in cluster.created] == [FIRST, SECOND]


def test_several_open_proposals_are_listed_and_none_is_guessed(cluster: FakeCluster) -> None:
    cluster.proposals.append(proposal(SECOND))
    said = refused("approve", "chat")
    assert said.startswith(f"NAME: 'chat' cannot be used. It has several. Proposals of chat: {FIRST} (1 on ")
    assert said.endswith("Add --proposal with one of these ids.")
    assert cluster.created == []


@pytest.mark.parametrize("proposals", [[], [proposal(FIRST, "Rejected")]], ids=["none", "rejected"])
def test_nothing_to_decide_is_said_with_the_place_to_look(
    cluster: FakeCluster, proposals: list[dict[str, Any]]
) -> None:
    cluster.proposals = proposals
    assert refused("approve", "chat") == (
        "NAME: 'chat' cannot be used. It has no open proposal in namespace ml. "
        "Look for others with kubectl get placementproposals -n ml, or name another -n."
    )


def test_an_id_that_does_not_stand_is_named_with_those_that_do(cluster: FakeCluster) -> None:
    said = refused("approve", "chat", "--proposal", SECOND)
    assert said.startswith(f"--proposal: '{SECOND}' cannot be used. Proposals of chat: {FIRST} (")
    cluster.proposals = []
    assert "chat has no proposal." in refused("approve", "chat", "--proposal", SECOND)
    assert cluster.created == []


def test_a_cluster_without_the_kinds_is_told_from_one_that_refuses(cluster: FakeCluster) -> None:
    cluster.refusals["list"] = ClusterRefused("list placementproposals", 404, "not found")
    assert refused("approve", "chat") == (
        "the cluster has no PlacementProposals. Upgrade Plimsoll's chart with its CRDs, "
        "and leave its value approvals true."
    )
    cluster.refusals["list"] = ClusterRefused("list placementproposals", 403, "forbidden")
    assert refused("approve", "chat") == "list placementproposals: 403 forbidden"


def test_the_words_of_the_policy_are_passed_on(cluster: FakeCluster) -> None:
    cluster.refusals["create"] = ClusterRefused("create placementapprovals", 403, 'you may not approve "chat"')
    assert refused("approve", "chat") == 'create placementapprovals: 403 you may not approve "chat"'


class Large:
    """An answer that takes long to format, and counts how often somebody does."""

    formatted = 0

    def __repr__(self) -> str:
        self.formatted += 1
        return "Large()"


def test_an_answer_of_the_cluster_is_returned_and_never_formatted() -> None:
    async def ask() -> Large:
        return Large()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert asyncio.run(ask()).formatted > 0  # if this fails, Python does no such thing any more: use asyncio.run
        assert live.answered(ask()).formatted == 0
    finally:
        signal.signal(signal.SIGINT, before)


# -- findings ----------------------------------------------------------------------------------------------------------

NOW = from_rfc3339("2026-01-30T08:00:00Z") or 0.0


def _in_trouble(*conditions: dict[str, str]) -> dict[str, Any]:
    head = {"name": "chat", "namespace": "ml", "uid": "uid-chat", "generation": 3}
    since = {"message": "m", "lastTransitionTime": "2026-01-30T07:00:00Z"}
    return {"metadata": head, "status": {"conditions": [since | each for each in conditions]}}


WAITS = {"type": "Ready", "status": "False", "reason": "WaitingForGpus"}
SERVES = {"type": "Ready", "status": "True", "reason": "Serving"}


@pytest.fixture
def waiting(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster.deployments = {"chat": _in_trouble(WAITS), "fine": _in_trouble(SERVES)}
    monkeypatch.setattr("plimsoll.cli.cluster.live.time.time", lambda: NOW)
    return cluster


@pytest.mark.parametrize(
    ("until", "end"),
    [("30m", "2026-01-30T08:30:00Z"), ("4h", "2026-01-30T12:00:00Z"), ("30d", "2026-03-01T08:00:00Z"),
     ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z")],
)  # fmt: skip
def test_what_is_wrong_is_acknowledged_in_the_own_name(waiting: FakeCluster, until: str, end: str) -> None:
    said = run("acknowledge", "chat", "--until", until, "--reason", "a node comes").output
    [made] = waiting.created
    assert made["spec"] == {
        "deployment": "chat", "decision": "acknowledge", "finding": "WaitingForGpus", "generation": 3, "until": end,
        "by": "alex", "reason": "a node comes",
    }  # fmt: skip
    PlacementApprovalSpec.model_validate(made["spec"], strict=False, by_alias=True, by_name=False)
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == ["uid-chat"]
    assert said == (
        f"alex acknowledged WaitingForGpus of chat until {end}.\n"
        "To see the outcome: kubectl get placementapprovals chat-x7k2p -n ml -o wide\n"
        "To end it: kubectl delete placementapprovals chat-x7k2p -n ml\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chat", "--until", "soon"), "--until: 'soon' cannot be used. Write how long (30m, 4h or 3d) or a time ("),
        (("chat", "--until", "2026-01-29T08:00:00Z"), "--until: '2026-01-29T08:00:00Z' cannot be used. 2026-01-29T08:"),
        (("chat", "--until", "31d"), "2026-03-02T08:00:00Z is more than 30 days ahead. Write a time before 2026-03-01"),
        (("chat", "--until", "4h", "--finding", "NoGpuFits"),
         "NoGpuFits is not what is wrong. Write WaitingForGpus: its state is waits for GPUs."),
        (("fine", "--until", "4h"), "NAME: 'fine' cannot be used. The state is serving, so there is nothing to ack"),
        (("gone", "--until", "4h"), "NAME: 'gone' cannot be used. There is no InferenceDeployment ml/gone: name "),
    ],
)  # fmt: skip
def test_what_cannot_be_acknowledged_is_refused_with_field_value_and_fix(
    waiting: FakeCluster, words: tuple[str, ...], said: str
) -> None:
    assert said in refused("acknowledge", *words)
    assert waiting.created == []


def test_an_acknowledgement_is_data_as_well(waiting: FakeCluster) -> None:
    found = json.loads(run("acknowledge", "chat", "--until", "4h", "-o", "json").output)
    assert (found["formatVersion"], found["finding"], found["approval"]) == (1, "WaitingForGpus", "chat-x7k2p")
    assert waiting.created
