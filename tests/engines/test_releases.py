"""The releases that serve a class, as their own registries have it; spot checks were read in the sources by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, CrossCache, LatentCache
from plimsoll.domain.models.model import EncoderFacts, ExpertFacts, LayerKind, ModelFacts
from plimsoll.engines.vllm.releases.support import (
    NEWEST_READ,
    Gap,
    _classes,
    changes_of,
    class_gap,
    gap,
    may_load,
    method_gap,
)
from plimsoll.engines.vllm.releases.table import RELEASES
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.composites import COMPOSITES
from tests.support.planning import model
from tests.support.tables import every_case

V = EngineVersion
NEWEST = V(0, 32)

NOT_IN_A_REGISTRY = {
    "BioGptForCausalLM",
    "BitNetForCausalLM",
    "CodeGenForCausalLM",
    "HeliumForCausalLM",
    "MiniMaxM3ForCausalLM",
    "MinistralForCausalLM",
    "NanoChatForCausalLM",
    "PhimoeForCausalLM",
    "Step3p7FlashForCausalLM",
}
"""Rows of the language models of composites, and of classes that only the generic backend loads."""


def first_release(name: str) -> EngineVersion | None:
    return next(iter(_classes().get(name, ())), None)


def is_draft(name: str) -> bool:
    return "Eagle" in name


@every_case("name", sorted({*ARCHITECTURES, *COMPOSITES}))
def test_every_class_with_a_row_has_a_first_release(name: str) -> None:
    assert (first_release(name) is None) == (name in NOT_IN_A_REGISTRY or is_draft(name))


@every_case(
    ("name", "first"),
    [
        ("LlamaForCausalLM", V(0, 8)),
        ("Qwen3ForCausalLM", V(0, 8, 4)),
        ("GptOssForCausalLM", V(0, 10, 1)),
        ("Qwen3NextForCausalLM", V(0, 10, 2)),
        ("Qwen3VLMoeForConditionalGeneration", V(0, 11)),
        ("KimiLinearForCausalLM", V(0, 11, 1)),
        ("Step3p5ForCausalLM", V(0, 15, 1)),
        ("Qwen3_5ForConditionalGeneration", V(0, 17)),
        ("DeepseekV4ForCausalLM", V(0, 20)),
        ("Qwen4ExpForConditionalGeneration", V(0, 29)),
    ],
)
def test_a_class_is_served_from_its_first_release_on_and_not_before(name: str, first: EngineVersion) -> None:
    assert first_release(name) == first
    assert class_gap(name, first) is None
    assert class_gap(name, NEWEST) is None
    before = V(first.major, first.minor, first.patch - 1) if first.patch else V(first.major, first.minor - 1, 9)
    if first > V(0, 8):
        assert class_gap(name, before) == Gap(first, None)


def test_a_class_that_is_gone_has_the_release_that_removed_it() -> None:
    assert class_gap("BaichuanForCausalLM", V(0, 24)) is None
    missing = class_gap("BaichuanForCausalLM", V(0, 25))
    assert missing == Gap(None, V(0, 25))
    assert missing.advice == "a release before 0.25.0"


def test_a_class_that_came_back_has_both() -> None:
    missing = class_gap("Llama4ForCausalLM", V(0, 9))
    assert missing == Gap(V(0, 10, 1), V(0, 8, 4))
    assert missing.advice == "0.10.1 or newer or a release before 0.8.4"
    assert class_gap("Llama4ForCausalLM", V(0, 8, 3)) is None
    assert class_gap("Llama4ForCausalLM", V(0, 10, 1)) is None


def test_only_a_plugin_serves_is_not_served() -> None:
    assert class_gap("BartForConditionalGeneration", V(0, 10, 2)) is None
    assert class_gap("BartForConditionalGeneration", NEWEST) == Gap(None, V(0, 11))


def test_a_class_that_only_drafts_and_a_class_of_no_registry_have_no_gap() -> None:
    assert class_gap("EagleLlamaForCausalLM", V(0, 8)) is None
    assert class_gap("NotAClassForCausalLM", V(0, 8)) is None


def test_a_classifier_is_served_where_its_language_model_is() -> None:
    assert class_gap("Qwen3ForSequenceClassification", NEWEST) is None
    assert class_gap("Qwen3ForSequenceClassification", V(0, 8, 3)) == Gap(V(0, 8, 4), None)
    assert class_gap("BertForSequenceClassification", NEWEST) is None


def test_newer_and_older_releases_than_any_that_was_read_have_what_the_nearest_one_has() -> None:
    assert str(NEWEST_READ) == RELEASES.split()[-1]
    assert class_gap("GptOssForCausalLM", V(9, 9, 9)) is None
    assert class_gap("LlamaForCausalLM", V(0, 7)) is None
    assert class_gap("BaichuanForCausalLM", V(9, 9, 9)) == Gap(None, V(0, 25))


@every_case(
    ("method", "release", "missing"),
    [
        ("fp8", V(0, 8), None),
        ("mxfp4", V(0, 10), Gap(V(0, 10, 1), None)),
        ("mxfp4", V(0, 10, 1), None),
        ("gguf", V(0, 23), None),
        ("gguf", V(0, 24), Gap(None, V(0, 24))),
        ("bitsandbytes", V(0, 27, 1), None),
        ("bitsandbytes", V(0, 28), Gap(None, V(0, 28))),
        ("modelopt_mixed", V(0, 16), Gap(V(0, 17), None)),
        ("auto-round", V(0, 8, 5), Gap(V(0, 9), None)),
        ("auto-round", V(0, 32), None),
        ("not a method", V(0, 8), None),
    ],
)
def test_quantization_methods(method: str, release: EngineVersion, missing: Gap | None) -> None:
    assert method_gap(method, release) == missing


def test_changes_are_read_from_two_texts() -> None:
    changes = changes_of("1.0.0: a b\n    c\n1.2.0: a\n", "1.1.0: a\n")
    assert changes == {"a": (V(1, 0), V(1, 1), V(1, 2)), "b": (V(1, 0),), "c": (V(1, 0),)}
    assert [gap(changes["a"], V(1, minor)) is None for minor in range(3)] == [True, False, True]


def with_cache(*caches: AttentionCache | CrossCache | LatentCache) -> ModelFacts:
    facts = model()
    return replace(facts, kinds=(LayerKind(facts.kinds[0].weights, caches),))


PLAIN = AttentionCache(8, 128, 128)
TOWER = EncoderFacts(weights=(), layers=1, hidden=8, intermediate=8, item_tokens=1, output_tokens=1)


@every_case(
    ("facts", "since"),
    [
        (with_cache(PLAIN), V(0, 8)),
        (with_cache(PLAIN, replace(PLAIN, window_tokens=1024)), V(0, 9)),
        (replace(with_cache(PLAIN), encoder=TOWER), V(0, 10)),
        (replace(with_cache(PLAIN), experts=ExpertFacts(1, 8, 2, 64)), V(0, 19, 1)),
        (with_cache(LatentCache(512, 64)), V(0, 28)),
        (with_cache(LatentCache(512, 64, sparse=True)), None),
        (with_cache(replace(PLAIN, chunk_tokens=8192)), None),
        (with_cache(PLAIN, CrossCache(8, 64, 1500)), None),
        (replace(with_cache(PLAIN), host_bytes=1), None),
    ],
)
def test_the_generic_backend_by_the_parts_of_a_model(facts: ModelFacts, since: EngineVersion | None) -> None:
    releases = [V(*(int(part) for part in text.split("."))) for text in RELEASES.split()]
    assert [release for release in releases if may_load(facts, release)] == [
        release for release in releases if since is not None and release >= since
    ]


@pytest.mark.parametrize("name", ["Qwen/Qwen3.5-27B", "deepseek-ai/DeepSeek-V4-Flash"])
def test_recurrent_models_and_own_caches_are_never_loaded_by_it(name: str) -> None:
    assert not may_load(model(name), NEWEST)
