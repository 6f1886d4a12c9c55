"""What a case says of its object: which part of the spec bears on an engine's memory."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.app.case import Case
from plimsoll.app.objects import Surroundings
from plimsoll.domain.keys import ObjectKey
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
