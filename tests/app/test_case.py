"""What a case says of its object: which part of the spec bears on an engine's memory."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app.case import Case, is_passing, report_of, wanted_signals
from plimsoll.app.live import CAPACITY_WINDOW_SECONDS, STALE_MEMORY_SECONDS
from plimsoll.app.objects import Surroundings
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.render.report import Problem
from tests.api.manifests import deployment
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


def test_the_window_is_that_of_the_loop_and_a_short_one_where_the_loop_is_off_or_the_spec_is_unread() -> None:
    def window(mode: str | None) -> int:
        body = inference_deployment_body("chat")
        case = Case(body, ObjectKey("ns", "chat"), Surroundings({}, {}))
        if mode is not None:
            case.resource = deployment(rebalancing={"mode": mode, "windowSeconds": 300})
        return wanted_signals(case).window_seconds

    assert (window(None), window("Off")) == (CAPACITY_WINDOW_SECONDS, CAPACITY_WINDOW_SECONDS)
    assert (window("Recommend"), window("Auto")) == (300 + STALE_MEMORY_SECONDS, 300 + STALE_MEMORY_SECONDS)


@pytest.mark.parametrize(("declared", "shown"), [(3, 3), ("many", 0), (None, 0)])
def test_an_object_that_cannot_be_read_shows_the_replicas_that_it_declares(declared: object, shown: int) -> None:
    body = inference_deployment_body("chat", spec={"replicas": declared})
    assert report_of(Case(body, ObjectKey("ns", "chat"), Surroundings({}, {})), 0.0).replicas == shown
