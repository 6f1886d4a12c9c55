"""Towers of images or sound: a degree that the engine would refuse is no candidate, with the ways out by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection, Split
from plimsoll.domain.engines.engine_choice import EngineVersion, MediaUse
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import engine_of
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.candidates import candidate_on
from plimsoll.placement.options.divisibility import divides, replica_refusal, split_refusal
from plimsoll.placement.options.feasibility import judge, may_fit
from plimsoll.placement.places.place import first_that_fits, place
from tests.support.model_configs import config_of
from tests.support.planning import ENGINE, H100, L4, fleet, node, request
from tests.support.tables import every_case

_DATA = Path(__file__).parents[1] / "facts" / "data"


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((_DATA / name).read_text(encoding="utf-8"))["rows"]
    return rows


_CONFIGS = {row["name"]: row["config"] for row in _rows("engine_composites.json")}
_ASKED = [
    pytest.param(row["name"], degree, verdict == "made", id=f"{row['name']}-tp{degree}")
    for row in _rows("tower_degrees.json")
    for verdict in ("made", "refused")
    for degree in row[verdict]
]


def facts(name: str) -> ModelFacts:
    config = _CONFIGS.get(name) or config_of(name)
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE)


def served(name: str, media: MediaUse | None = None, *, version: tuple[int, int] = (0, 32)) -> Request:
    """A request for a model as an engine of a release loads it."""
    engine = replace(ENGINE, media=media or MediaUse(), version=EngineVersion(*version))
    return request(engine_of(engine.name).loaded(facts(name), engine), engine=engine)


def sentence(wanted: Request, degree: int) -> str | None:
    refused = replica_refusal(wanted, H100, Split(degree))
    return None if refused is None else rejection_sentence(refused)


@every_case(("name", "degree", "is_made"), _ASKED)
def test_a_degree_is_refused_where_the_engine_s_own_modules_refuse_it(name: str, degree: int, *, is_made: bool) -> None:
    model = facts(name)
    assert (split_refusal(model, model.checkpoint.precision, H100, Split(degree)) is None) is is_made


@every_case(
    ("name", "heads", "works", "refused"),
    [
        ("Qwen/Qwen3.5-0.8B", 12, 4, 8),
        ("glm-4.5v", 12, 4, 8),
        ("glm-4.1v-9b", 12, 4, 8),
        ("voxtral-mini-3b", 20, 4, 8),
        ("ultravox-v0.5-llama-3.2-1b", 20, 4, 8),
        ("google/gemma-3-27b-it", 16, 16, 32),
        ("step3", 16, 16, 32),
        ("minimax-m3-vl-defaults", 16, 16, 32),
    ],
)
def test_the_rejection_names_the_tower_s_heads_and_the_next_degree(
    name: str, heads: int, works: int, refused: int
) -> None:
    said = replica_refusal(served(name), H100, Split(refused))
    assert said is not None
    assert (said.reason, said.number("size"), said.number("next_degree")) == (Reason.TOWER_NOT_DIVISIBLE, heads, works)
    assert replica_refusal(served(name), H100, Split(works)) is None


@every_case(
    ("name", "degree"),
    [
        ("internvl2-26b", 2),  # 25 heads: the class holds the attention whole
        ("internvl2-26b", 8),
        ("qwen3-omni-30b", 8),  # 20 heads of the audio tower
        ("Qwen/Qwen2-Audio-7B-Instruct", 8),  # never shared
        ("google/gemma-4-26B-A4B", 8),
        ("moonshotai/Kimi-K2.5", 32),
        ("muse-glimmer-defaults", 32),
    ],
)
def test_a_class_that_copies_its_tower_takes_every_degree(name: str, degree: int) -> None:
    model = facts(name)
    assert model.encoder is not None
    assert divides(model, model.checkpoint.precision, None, Split(degree))


def test_the_width_of_a_layer_counts_as_heads_do() -> None:
    """3,420 channels over eight ranks, as Qwen2.5-VL-3B has them; Qwen2.5-VL-72B was published with 3,456 for that."""
    refused = replica_refusal(served("exaone4.5-defaults"), H100, Split(8))
    assert refused is not None
    assert (refused.reason, refused.number("size")) == (Reason.TOWER_NOT_DIVISIBLE, 3420)
    assert "the 3420 channels of the tower's visual.blocks.mlp.gate_proj do not divide; 4 works" in rejection_sentence(
        refused
    )


def test_a_copied_tower_and_a_model_without_its_tower_take_the_degree() -> None:
    assert sentence(served("glm-4.5v"), 8) == (
        "the tower's 12 attention heads do not divide; 4 works; "
        "spec.engine.multimodal.encoderParallelism: Data gives every GPU a whole tower, "
        "and spec.engine.textOnly serves without it"
    )
    assert sentence(served("glm-4.5v", MediaUse(copies_encoder=True)), 8) is None
    assert sentence(served("glm-4.5v", MediaUse(text_only=True)), 8) is None


def test_only_the_ways_out_that_class_and_release_have_are_named() -> None:
    assert sentence(served("voxtral-mini-3b"), 8) == (
        "the tower's 20 attention heads do not divide; 4 works; spec.engine.textOnly serves without it"
    )
    older = sentence(served("glm-4.5v", version=(0, 11)), 8)
    assert older is not None
    assert older.endswith("4 works; spec.engine.multimodal.encoderParallelism: Data gives every GPU a whole tower")
    oldest = sentence(served("glm-4.5v", version=(0, 10)), 8)
    assert oldest == "the tower's 12 attention heads do not divide; 4 works"


def test_the_language_model_s_own_heads_come_first() -> None:
    refused = replica_refusal(served("Qwen/Qwen3.5-0.8B"), H100, Split(16))
    assert refused is not None
    assert refused.reason is Reason.HEADS_NOT_DIVISIBLE


def test_a_degree_does_not_divide_the_vocabulary_with_its_padding() -> None:
    """49,280 tokens of SmolVLM; nine heads divide by three."""
    refused = replica_refusal(served("smolvlm-256m"), H100, Split(3))
    assert refused is not None
    assert (refused.reason, refused.number("width")) == (Reason.WIDTH_NOT_DIVISIBLE, 49280)


@pytest.mark.parametrize(("media", "is_there"), [(MediaUse(), False), (MediaUse(copies_encoder=True), True)])
def test_eight_gpus_are_an_option_only_where_the_tower_allows_it(media: MediaUse, *, is_there: bool) -> None:
    where = fleet(node("h", H100, 8))
    wanted = served("glm-4.5v", media)
    verdict = judge(wanted, candidate_on(where.of_type(H100)[0].gpu, Split(8), where, restricted=False), where)
    assert isinstance(verdict, Option) is is_there
    if isinstance(verdict, Rejection):
        assert verdict.reason is Reason.TOWER_NOT_DIVISIBLE


@pytest.mark.parametrize("media", [MediaUse(), MediaUse(text_only=True)])
def test_the_quick_answers_agree_with_the_judgement(media: MediaUse) -> None:
    """``may_fit`` looks at bytes alone; the refusal of the split must still come before what it lets pass."""
    where = fleet(node("l", L4, 8))
    wanted = replace(served("voxtral-mini-3b", media), overrides=Overrides(tensor_parallel=8))
    assert may_fit(wanted, where.of_type(L4)[0].gpu, Split(8))
    found, outcome = first_that_fits(wanted, where, Ledger.of(where)), place(wanted, where)
    assert (found is not None) is isinstance(outcome, Placed) is media.text_only
    if isinstance(outcome, Placed):
        assert found == outcome.choice


@pytest.mark.parametrize("ago", [0, 1])
def test_a_way_out_is_named_from_the_release_on_that_has_it(ago: int) -> None:
    engine, model = engine_of(), facts("glm-4.5v")
    for since, words in (
        (engine.since[Feature.TEXT_ONLY], "spec.engine.textOnly"),
        (engine.copies_encoder_since[model.architecture], "encoderParallelism"),
    ):
        release = since if not ago else since._replace(minor=since.minor - 1, patch=99)
        wanted = replace(request(model), engine=replace(ENGINE, version=release))
        said = sentence(wanted, 8)
        assert said is not None
        assert (words in said) is (ago == 0)
