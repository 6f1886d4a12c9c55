"""A release that cannot load the model is refused by name; its neighbour, and an image of the user's own, are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.bounds import usual_release
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.api.crd.rules import with_defaults
from plimsoll.decision.spec_digests import digests_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.registry import ENGINES
from tests.api.manifests import deployment, manifest
from tests.support.planning import LLAMA_8B, model


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_without_a_release_is_one_of_its_usual_release(name: str) -> None:
    """Also next to an object in which an earlier API server wrote that release: nothing moves."""
    usual = usual_release(ENGINES[name])

    def read(**version: str) -> tuple[Any, ...]:
        engine = {"name": name, **version}
        parsed, body = deployment(engine=engine), with_defaults(manifest(engine=engine))
        return to_request(parsed, model(LLAMA_8B)), to_workload_options(parsed), digests_of(body["spec"])

    assert read() == read(version=str(usual))
    others = read(version=str(usual._replace(patch=usual.patch - 1 if usual.patch else 1)))
    assert not [one for one, other in zip(read(), others, strict=True) if one == other]


STARTS = [
    ("openai/gpt-oss-20b", "0.9.2", "GptOssForCausalLM", "0.10.1"),
    ("Qwen/Qwen3.5-27B", "0.10.2", "Qwen3_5ForConditionalGeneration", "0.17.0"),
    ("deepseek-ai/DeepSeek-V4-Flash", "0.11.0", "DeepseekV4ForCausalLM", "0.20.0"),
    ("Qwen/Qwen3-VL-235B-A22B-Instruct", "0.10.2", "Qwen3VLMoeForConditionalGeneration", "0.11.0"),
]
"""Models that were called sure with releases that do not have their class."""


def asked(name: str, version: str, **changes: Any) -> None:
    engine = {"version": version} | changes.pop("engine", {})
    to_request(deployment(model={"name": name}, engine=engine, **changes), model(name))


@pytest.mark.parametrize(("name", "version", "architecture", "since"), STARTS)
def test_a_class_before_its_first_release(name: str, version: str, architecture: str, since: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asked(name, version)
    assert (refused.value.field, refused.value.value) == ("spec.engine.version", version)
    assert f"vLLM {version} cannot load {name}, because it lacks the model class {architecture}" in refused.value.fix
    assert f"use {since} or newer" in refused.value.fix
    asked(name, since)


@pytest.mark.parametrize(("name", "version"), [start[:2] for start in STARTS])
def test_an_own_image_may_have_what_its_release_lacks(name: str, version: str) -> None:
    asked(name, version, engine={"image": "registry.example/vllm:mine"})


def test_a_class_that_the_generic_backend_may_load_is_not_refused() -> None:
    asked("Qwen/Qwen3-8B", "0.8.3")


def test_a_method_that_left_the_release() -> None:
    with pytest.raises(
        InvalidInput, match=r"lacks the quantization method bitsandbytes: use a release before 0\.28\.0"
    ):
        asked("Qwen/Qwen3-8B", "0.32.0", precision="bitsandbytes")
    asked("Qwen/Qwen3-8B", "0.27.1", precision="bitsandbytes")


def test_a_draft_model_needs_a_release_that_can_load_it_too() -> None:
    draft = replace(model(), checkpoint=replace(model().checkpoint, method="modelopt_mixed"))
    speculation = {"method": "Draft", "tokens": 3, "draftModel": {"name": draft.name}}

    def drafted(version: str) -> None:
        to_request(deployment(engine={"version": version, "speculation": speculation}), model(), draft=draft)

    with pytest.raises(InvalidInput, match=r"lacks the quantization method modelopt_mixed: use 0\.17\.0 or newer"):
        drafted("0.16.0")
    drafted("0.17.0")
