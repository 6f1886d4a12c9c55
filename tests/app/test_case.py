"""What a case says of its object: which part of the spec bears on an engine's memory."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app.case import Case, is_passing
from plimsoll.app.objects import Surroundings
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.render.report import Problem
from tests.support.bodies import inference_deployment_body


def digest(**changed: Any) -> str:
    body = inference_deployment_body("chat")
    body["spec"] = {"model": {"name": "a/b"}, "contextLength": 4096, **changed}
    return Case(body, ObjectKey("ns", "chat"), Surroundings({}, {})).spec_digest


@pytest.mark.parametrize("changed", [{"replicas": 7}, {"suspend": True}, {"gpu": {"deny": ["t4-16gb"]}}], ids=str)
def test_how_many_and_where_does_not_bear_on_memory(changed: dict[str, Any]) -> None:
    assert digest(**changed) == digest()


@pytest.mark.parametrize("changed", [{"contextLength": 9}, {"engine": {"enforceEager": True}}], ids=str)
def test_how_an_engine_is_run_does(changed: dict[str, Any]) -> None:
    assert digest(**changed) != digest()


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Serving",
    "message": "1 of 1 replicas serve.",
    "lastTransitionTime": "2026-11-21T03:00:00Z",
    "observedGeneration": 1,
}
POOL = {
    "name": "h100-sxm-80gb-tp1",
    "gpuType": "h100-sxm-80gb",
    "tensorParallel": 1,
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "resource": "nvidia.com/gpu",
    "state": "Active",
    "generation": 1,
    "replicas": 1,
    "readyReplicas": 0,
}


def said(problem: Problem, **status: Any) -> bool:
    """Whether a problem comes into a status that says something already."""
    body = inference_deployment_body("chat")
    body["status"] = {"conditions": [READY], **status}
    return not is_passing(Case(body, ObjectKey("ns", "chat"), Surroundings({}, {}), problem=problem))


@pytest.mark.parametrize("reason", [ConditionReason.TOKEN_SECRET_MISSING, ConditionReason.MODEL_SOURCE_UNAVAILABLE])
def test_what_an_object_without_a_placement_waits_for_is_said_at_once(reason: ConditionReason) -> None:
    waiting = Problem(reason, "Secret ns/hf does not exist yet.", permanent=False)
    assert said(waiting)
    assert said(waiting, pools=[POOL], observedGeneration=0)
    assert not said(waiting, pools=[POOL], observedGeneration=1)


def test_a_first_look_up_does_not_replace_an_earlier_word() -> None:
    assert not said(Problem(ConditionReason.RESOLVING_MODEL, "Reading.", permanent=False))


def test_what_somebody_must_mend_is_said_even_of_what_serves() -> None:
    refused = Problem(ConditionReason.TOKEN_SECRET_UNREADABLE, "Grant it.", permanent=True)
    assert said(refused, pools=[POOL], observedGeneration=1)
