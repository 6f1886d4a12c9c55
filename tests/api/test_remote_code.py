"""A model that needs code of its repository is refused until its author lets the engine run it."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request
from tests.support.planning import model

XVERSE, LLAMA = "xverse/XVERSE-7B", "meta-llama/Llama-3.1-8B-Instruct"


def asked(name: str, *arguments: str, **engine: Any) -> Request:
    spec = {"model": {"name": name}, "contextLength": 4096, "concurrency": 1}
    body = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "asked", "namespace": "default", "generation": 1},
        "spec": {**spec, "engine": {"extraArgs": list(arguments), **engine}},
    }
    return to_request(parse_inference_deployment(body), model(name))


def test_the_flag_is_asked_for_by_name_and_never_added() -> None:
    with pytest.raises(InvalidInput, match=r"spec.model: 'xverse/XVERSE-7B' .*pass --trust-remote-code \(spec.engine"):
        asked(XVERSE)
    with pytest.raises(InvalidInput, match="--trust-remote-code"):
        asked(XVERSE, "--no-trust-remote-code")
    assert asked(XVERSE, "--trust-remote-code").engine.trusts_code
    assert not asked(LLAMA).engine.trusts_code


def test_an_image_of_ones_own_may_have_the_code_and_stays_a_doubt() -> None:
    request = asked(XVERSE, image="registry.example/own:1")
    assert not request.engine.trusts_code
