"""A plan that does not ask the API server: the rules of the CRD alone, and a note that says so."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import pytest

from plimsoll.adapters.cluster.client import Cluster, ClusterRefused
from plimsoll.app.review.admission import admitted, checked_here
from plimsoll.app.review.looking import ClusterLook
from plimsoll.app.review.values import DeploymentWish
from plimsoll.app.watch.store import Picture
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.support.bodies import inference_deployment_body

SPEC: dict[str, Any] = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 8}
AGAINST_A_RULE = {"rebalancing": {"mode": "Auto"}}
NOT_ASKED = "The API server was not asked whether it would accept the objects. Admission rules may refuse them."


def wish(name: str, **spec: Any) -> DeploymentWish:
    body = inference_deployment_body(name, spec=SPEC | spec)
    body["metadata"] = {"name": name, "namespace": "ns"}
    return DeploymentWish(f"a.yaml, InferenceDeployment {name}", body)


def seen(*live: dict[str, Any]) -> ClusterLook:
    keys = (ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"]) for body in live)
    return ClusterLook(cast("Picture", None), dict(zip(keys, live, strict=True)))


class Refusing:
    """An API server that counts what it is asked, and refuses it."""

    def __init__(self, status: int = 403, says: str = 'User "a" cannot create resource "x"') -> None:
        self.refusal, self.asked = ClusterRefused("create", status, says), 0

    async def checked(self, *_: object) -> NoReturn:
        self.asked += 1
        raise self.refusal


def test_an_object_that_keeps_the_rules_is_stored_and_the_note_says_that_nobody_was_asked() -> None:
    found = checked_here([wish("a"), wish("b")], seen(), 0.0)
    assert [key.name for key in found.bodies] == ["a", "b"]
    assert found.bodies[ObjectKey("ns", "a")]["spec"]["replicas"] == 1
    assert (found.problems, found.notes) == ([], [NOT_ASKED])


def test_an_object_against_a_rule_is_a_problem_with_its_place_and_its_neighbour_is_planned() -> None:
    found = checked_here([wish("bad", **AGAINST_A_RULE), wish("good")], seen(), 0.0)
    assert [key.name for key in found.bodies] == ["good"]
    (problem,) = found.problems
    assert problem.startswith("a.yaml, InferenceDeployment bad: ")
    assert "rebalancing.mode Auto needs rebalancing.maxReplicas" in problem
    assert found.notes == [NOT_ASKED]


def test_without_a_planned_object_there_is_no_note() -> None:
    assert checked_here([wish("bad", **AGAINST_A_RULE)], seen(), 0.0).notes == []
    assert checked_here([], seen(), 0.0).notes == []


def test_what_runs_keeps_its_identity_and_an_equal_spec_its_generation() -> None:
    (first,) = checked_here([wish("a")], seen(), 0.0).bodies.values()
    live = {**first, "metadata": {**first["metadata"], "uid": "u1"}}
    same = checked_here([wish("a")], seen(live), 0.0).bodies[ObjectKey("ns", "a")]
    other = checked_here([wish("a", contextLength=8192)], seen(live), 0.0).bodies[ObjectKey("ns", "a")]
    assert (same["metadata"]["uid"], same["metadata"]["generation"]) == ("u1", 1)
    assert (other["metadata"]["uid"], other["metadata"]["generation"]) == ("u1", 2)


@pytest.mark.parametrize("spec", [{}, AGAINST_A_RULE], ids=["keeps the rules", "against a rule"])
async def test_whoever_may_not_ask_gets_the_same_answer_with_another_note(spec: dict[str, Any]) -> None:
    cluster, wishes = Refusing(), [wish("a", **spec)]
    asked = await admitted(cast("Cluster", cluster), wishes, seen(), 0.0)
    here = checked_here(wishes, seen(), 0.0)
    assert cluster.asked == 1
    assert (asked.bodies, asked.problems) == (here.bodies, here.problems)
    assert asked.notes != here.notes or not here.bodies


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (422, 'InferenceDeployment "a" is invalid'),
        (403, 'admission webhook "w" denied the request: a tenant cannot use this model'),
        (403, "exceeded quota: objects"),
    ],
)
async def test_an_answer_about_the_object_is_a_problem_whatever_its_code(status: int, says: str) -> None:
    found = await admitted(cast("Cluster", Refusing(status, says)), [wish("a")], seen(), 0.0)
    assert (found.bodies, found.notes) == ({}, [])
    assert found.problems == [f"a.yaml, InferenceDeployment a: The API server would refuse it: {says}"]


async def test_an_object_of_a_namespace_that_is_still_to_come_is_checked_here() -> None:
    found = await admitted(cast("Cluster", Refusing(404, 'namespaces "ns" not found')), [wish("a")], seen(), 0.0)
    assert [key.name for key in found.bodies] == ["a"]
    assert len(found.notes) == 1
