"""Speculative decoding: what arrives at the planner, what the engine loads, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.api.conversion.speculation import draft_model
from plimsoll.api.v1alpha1 import SecretKeyRef
from plimsoll.domain.engines.engine_choice import Drafting, DraftMethod, Speculation
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import LayerKind, ModelFacts
from tests.api.manifests import deployment
from tests.support.planning import model
from tests.support.speculation import EAGLE3_HEAD, EAGLE_HEAD, facts_of
from tests.support.tables import every_case

DRAFT = {"name": "meta-llama/Llama-3.2-1B-Instruct"}
HEAD = {"name": "org/head"}


def speculation(method: str, tokens: int = 3, **more: Any) -> dict[str, Any]:
    return {"speculation": {"method": method, "tokens": tokens, **more}}


def with_predictor(layers: int) -> ModelFacts:
    return replace(model(), predictor=(LayerKind((), ()),) * layers)


def planned(spec: dict[str, Any], facts: ModelFacts, draft: ModelFacts | None = None) -> Speculation:
    found = to_request(deployment(engine=spec), facts, draft=draft).engine.speculation
    assert found is not None
    return found


def test_nothing_is_drafted_unless_it_is_asked_for() -> None:
    assert to_request(deployment(), model()).engine.speculation is None


def test_a_prompt_drafts_without_weights() -> None:
    assert planned(speculation("Ngram", 5), model()) == Speculation(5)
    assert Speculation(5).drafting == Drafting(DraftMethod.NGRAM, 5)


def test_a_model_s_own_layers_draft() -> None:
    found = planned(speculation("Mtp", 2), with_predictor(1))
    assert (found, found.drafting) == (Speculation(2, uses_predictor=True), Drafting(DraftMethod.MTP, 2))


def test_a_small_model_drafts() -> None:
    small = model("meta-llama/Llama-3.2-1B-Instruct")
    found = planned(speculation("Draft", draftModel=DRAFT), model(), small)
    assert (found.draft, found.drafting.method) == (small, DraftMethod.DRAFT_MODEL)


@pytest.mark.parametrize(("config", "method"), [(EAGLE_HEAD, DraftMethod.EAGLE), (EAGLE3_HEAD, DraftMethod.EAGLE3)])
def test_a_head_drafts_by_the_method_of_its_generation(config: dict[str, Any], method: DraftMethod) -> None:
    found = planned(speculation("Eagle", draftModel=HEAD), model(), facts_of(config))
    assert found.drafting == Drafting(method, 3)
    assert found.draft is not None
    assert [weight.name for weight in found.draft.embedding] == ["fc"]


def test_prediction_layers_draft_in_whole_turns() -> None:
    assert planned(speculation("Mtp", 4), with_predictor(2)).tokens == 4
    assert planned(speculation("Mtp", 1), with_predictor(2)).tokens == 1


QWEN = model("Qwen/Qwen2.5-0.5B-Instruct")
METHOD, NAME = "spec.engine.speculation.method", "spec.engine.speculation.draftModel.name"
REFUSED: list[tuple[dict[str, Any], ModelFacts, ModelFacts | None, str, Any, str]] = [
    (speculation("Mtp"), model(), None, METHOD, "Mtp", "has no multi-token-prediction layers; write Ngram"),
    (
        speculation("Mtp", 3),
        with_predictor(2),
        None,
        "spec.engine.speculation.tokens",
        3,
        "has 2 prediction layers; write a multiple of 2",
    ),
    (speculation("Draft"), model(), None, METHOD, "Draft", "Name the head or the small model in draftModel"),
    (speculation("Eagle"), model(), None, METHOD, "Eagle", "Name the head or the small model in draftModel"),
    (speculation("Ngram", draftModel=DRAFT), model(), None, NAME, DRAFT["name"], "Remove draftModel"),
    (
        speculation("Draft", draftModel={"name": QWEN.name}),
        model(),
        QWEN,
        NAME,
        QWEN.name,
        "Its vocabulary has 151936 tokens, that of meta-llama/Llama-3.1-8B-Instruct 128256",
    ),
    (speculation("Eagle", draftModel={"name": QWEN.name}), model(), QWEN, NAME, QWEN.name, "is no EAGLE head"),
    (
        speculation("Eagle", draftModel=HEAD),
        model("meta-llama/Llama-3.1-70B-Instruct"),
        facts_of(EAGLE_HEAD),
        NAME,
        "org/head",
        "reads hidden states of width 4096, meta-llama/Llama-3.1-70B-Instruct has 8192",
    ),
]


@every_case(("engine", "facts", "draft", "field", "value", "fix"), REFUSED)
def test_what_the_engine_would_refuse_names_its_field_its_value_and_the_way_out(
    engine: dict[str, Any], facts: ModelFacts, draft: ModelFacts | None, field: str, value: Any, fix: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        to_request(deployment(engine=engine), facts, draft=draft)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert fix in caught.value.fix


def test_a_draft_too_many_or_too_few_is_refused_before_any_model_is_read() -> None:
    with pytest.raises(InvalidInput, match=r"speculation\.method"):
        check_without_model(deployment(engine=speculation("Eagle")).spec)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"method": "Medusa", "tokens": 3}, "spec.engine.speculation.method"),
        ({"method": "Ngram", "tokens": 33}, "spec.engine.speculation.tokens"),
        ({"method": "Ngram", "tokens": 0}, "spec.engine.speculation.tokens"),
        ({"method": "Ngram"}, "spec.engine.speculation.tokens"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        deployment(engine={"speculation": wrong})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("version", "engine", "known"),
    [
        ("0.13.0", speculation("Draft", draftModel=DRAFT), False),
        ("0.14.0", speculation("Draft", draftModel=DRAFT), True),
        ("0.10.2", speculation("Mtp"), False),
        ("0.11.0", speculation("Mtp"), True),
        ("0.9.0", speculation("Ngram"), True),
    ],
)
def test_a_release_that_does_not_know_the_method_is_named(version: str, engine: dict[str, Any], known: bool) -> None:  # noqa: FBT001
    spec = deployment(engine=engine | {"version": version}).spec
    if known:
        check_without_model(spec)
        return
    with pytest.raises(InvalidInput, match=rf"vLLM {version} does not support it: use 0\.1[14]\.0 or newer"):
        check_without_model(spec)


def test_a_draft_is_read_with_the_token_of_the_model() -> None:
    spec = deployment(
        model={"name": "a/b", "tokenSecretRef": {"name": "hf"}},
        engine=speculation("Draft", draftModel={"name": "a/small", "revision": "abc"}),
    ).spec
    found = draft_model(spec)
    assert found is not None
    assert (found.name, found.revision, found.token_secret_ref) == ("a/small", "abc", SecretKeyRef(name="hf"))


def test_the_engine_loads_the_draft_by_its_name_and_revision_or_from_its_path() -> None:
    def loaded(**draft: Any) -> tuple[str | None, str | None]:
        options = to_workload_options(deployment(engine=speculation("Draft", draftModel=draft)))
        return options.draft_source, options.draft_revision

    assert loaded(name="a/small", revision="abc") == ("a/small", "abc")
    assert loaded(name="house/small", revision="abc", path="/models/small") == ("/models/small", None)
    assert to_workload_options(deployment()).draft_source is None
