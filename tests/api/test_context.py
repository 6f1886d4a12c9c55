"""Requests that are longer than the model's positions: the engine refuses to start, so the object is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.api.conversion.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.positions import names_context
from plimsoll.placement.places.warnings import model_warnings

LLAMA_2 = "meta-llama/Llama-2-7b-hf"
POSITIONS = 4096
TRUSTING = {"extraArgs": ["--trust-remote-code"]}
"""Some catalogued models bring code of their own, which is asked about elsewhere."""


def asked(name: str, context: int, **spec: Any) -> Request:
    facts = load_model_facts(name)
    assert facts is not None
    body = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "asked", "namespace": "default", "generation": 1},
        "spec": {"model": {"name": name}, "contextLength": context, "concurrency": 1, "engine": TRUSTING, **spec},
    }
    return to_request(parse_inference_deployment(body), facts)


@given(st.sampled_from(sorted(catalogued_models())), st.integers(1, 5000))
def test_the_models_own_length_is_taken_and_more_is_refused_with_the_figure(name: str, more: int) -> None:
    facts = load_model_facts(name)
    assert facts is not None
    most = facts.max_context_tokens
    assert asked(name, most).shape.context_tokens == most
    if not facts.names_context:
        assert asked(name, most + more).shape.context_tokens == most + more
        return
    with pytest.raises(InvalidInput, match=f"spec.contextLength: {most + more} .*write at most {most}"):
        asked(name, most + more)


@pytest.mark.parametrize(
    "spec",
    [
        {"engine": {"extraArgs": ['--hf-overrides={"rope_parameters": {"rope_type": "linear", "factor": 4.0}}']}},
        {"engine": {"extraArgs": ["--hf_overrides", "{}"]}},
        {"podTemplate": {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]}},
        {"podTemplate": {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": " True"}]}},
        {"engine": {"image": "registry.example/own:1"}},
    ],
)
def test_whoever_scales_the_positions_or_brings_an_engine_is_warned(spec: dict[str, Any]) -> None:
    request = asked(LLAMA_2, 2 * POSITIONS, **spec)
    assert any("exceeds the 4096 tokens" in warning for warning in model_warnings(request))


@pytest.mark.parametrize(
    "spec",
    [
        {"podTemplate": {"env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "0"}]}},
        {"engine": {"extraArgs": ["--seed=7"]}},
    ],
)
def test_nothing_else_turns_the_check_off(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="hf-overrides"):
        asked(LLAMA_2, 2 * POSITIONS, **spec)


def test_a_configuration_without_a_length_bounds_nothing() -> None:
    assert names_context(Fields({"n_positions": 2048}, "config.json"))
    assert not names_context(Fields({"hidden_size": 2048}, "config.json"))
