"""Any JSON as a config.json: refused with an error of ours, or an estimate without absurd figures, and soon."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.placement.options.sizing import Sized, size_on
from tests.support.model_configs import config_of
from tests.support.planning import H100, L4, T4, gpu, request
from tests.support.tables import examples
from tests.support.work import measured_effort

MOST_BYTES = 10**15
LONGEST_REFUSAL = 2000
MOST_EFFORT = 300.0
"""Generous: the largest real configuration takes a few units."""

REAL = [
    "meta-llama__Llama-3.1-8B-Instruct",
    "deepseek-ai__DeepSeek-V3",
    "Qwen__Qwen3-Next-80B-A3B-Instruct",
    "google__gemma-3-27b-it",
    "openai__gpt-oss-20b",
    "Qwen__Qwen2.5-VL-7B-Instruct",
    "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    "zai-org__GLM-5.2-FP8",
    "ai21labs__AI21-Jamba-1.5-Mini",
    "Qwen__Qwen3.5-122B-A10B",
    "deepseek-ai__DeepSeek-V4-Flash",
    "moonshotai__Kimi-K2.5",
    "microsoft__Phi-3-mini-128k-instruct",
    "google__gemma-4-E2B-it",
]
NUMBERS = (0, -1, 1, 2, 3, 7, 10**9, 10**18, 10**400, -(10**30), 0.5, 1e308, float("nan"), float("inf"))
WORDS = ("", "x", "LlamaForCausalLM", "fp8", "auto", "0" * 300)
NESTED: tuple[Any, ...] = ([], {}, [None], [[]], {"a": {}}, [1, "x", None, {}])
NASTY = st.sampled_from([None, True, False, *NUMBERS, *WORDS, *NESTED])
LEAVES = st.one_of(NASTY, st.integers(), st.floats(), st.text(max_size=8), st.booleans(), st.none())
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
PATIENT = settings(
    max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def read(config: Any) -> ModelFacts | None:
    """The facts, or None where they are refused as they should be."""
    try:
        return read_model_facts("fuzz", config, revision=None, source=FactsSource.INLINE)
    except (InvalidInput, UnsupportedModel) as refusal:
        told = str(refusal)
    assert 0 < len(told) < LONGEST_REFUSAL
    return None


def check(config: Any) -> None:
    with measured_effort() as spent:
        facts = read(config)
        if facts is not None:
            for kind in (H100, L4, T4):
                for split in (Split(1), Split(4), Split(1, 2), Split(2, expert_parallel=True)):
                    check_estimate(facts, kind, split)
    assert spent.amount < MOST_EFFORT


def check_estimate(facts: ModelFacts, kind: str, split: Split) -> None:
    try:
        answer = size_on(request(facts), gpu(kind), split)
    except UnsupportedModel:
        return
    if isinstance(answer, Sized):
        check_figures(answer.figures)


def check_figures(figures: MemoryEstimate) -> None:
    terms = (
        figures.weights_bytes,
        figures.kv_cache_bytes,
        figures.activations_bytes,
        figures.cuda_graphs_bytes,
        figures.overhead_bytes,
        figures.margin_bytes,
        figures.slack_bytes,
        figures.kv_bytes_per_token,
    )
    assert all(isinstance(term, int) for term in terms)
    assert min(terms) >= 0
    assert figures.weights_bytes <= MOST_BYTES
    assert figures.kv_capacity_low_tokens <= figures.kv_capacity_tokens <= figures.kv_capacity_high_tokens


@PATIENT
@given(config=JSON)
@example(config={"architectures": ["LlamaForCausalLM"]})
@example(config={"architectures": [None], "model_type": {}})
def test_any_json_is_refused_or_estimated(config: Any) -> None:
    check(config)


def paths(node: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a configuration, outermost first."""
    inner = (
        list(node.items()) if isinstance(node, dict) else list(enumerate(node[:3])) if isinstance(node, list) else []
    )
    found = [(*prefix, key) for key, _ in inner]
    return found + [path for key, child in inner for path in paths(child, (*prefix, key))]


PATHS = {stem: paths(config_of(stem)) for stem in REAL}


def put(config: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The configuration with another value there; as it is where an earlier change took the place away."""
    changed = deepcopy(config)
    node = changed
    try:
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
    except (KeyError, IndexError, TypeError):
        return changed
    return changed


def drop(config: Any, path: tuple[Any, ...]) -> Any:
    changed = deepcopy(config)
    node = changed
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return changed


@PATIENT
@given(data=st.data(), stem=st.sampled_from(REAL))
def test_a_real_configuration_with_changed_values_is_refused_or_estimated(data: st.DataObject, stem: str) -> None:
    config = config_of(stem)
    for _ in range(data.draw(st.integers(1, 3))):
        config = put(config, data.draw(st.sampled_from(PATHS[stem])), data.draw(NASTY | JSON))
    check(config)


@PATIENT
@given(data=st.data(), stem=st.sampled_from(REAL))
def test_a_real_configuration_without_a_key_is_refused_or_estimated(data: st.DataObject, stem: str) -> None:
    check(drop(config_of(stem), data.draw(st.sampled_from(PATHS[stem]))))


def test_a_projector_that_merges_thousands_of_patches_is_refused_by_its_field() -> None:
    """Each field alone may be possible while their product is a mistake."""
    config = put(config_of("moonshotai__Kimi-K2.5"), ("vision_config", "merge_kernel_size", 0), 9701)
    with pytest.raises(InvalidInput, match="merge_kernel_size"):
        read_model_facts("fuzz", config, revision=None, source=FactsSource.INLINE)


def test_a_tower_larger_than_any_model_is_refused_by_its_section() -> None:
    config = put(config_of("Qwen__Qwen3.5-122B-A10B"), ("vision_config", "patch_size"), 268_925)
    with pytest.raises(InvalidInput, match="vision_config"):
        read_model_facts("fuzz", config, revision=None, source=FactsSource.INLINE)
