"""What speculative decoding adds: a draft model, an EAGLE head, or the model's own predictor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import Speculation
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.drafts import as_engine_head
from plimsoll.memory.draft import draft_caches, draft_tokens, draft_weights
from plimsoll.memory.stages import stage_caches
from plimsoll.memory.weights import weights_bytes
from tests.support.model_configs import config_of, facts_of
from tests.support.planning import H100, LLAMA_8B, gpu, model, request

ONE = Split(1)


def with_speculation(wanted: Request, speculation: Speculation) -> Request:
    return replace(wanted, engine=replace(wanted.engine, speculation=speculation))


def head_of(**changes: object) -> ModelFacts:
    """An EAGLE head of Llama-3.1-8B: one of its layers."""
    config = {**config_of("meta-llama__Llama-3.1-8B-Instruct"), "num_hidden_layers": 1, **changes}
    return read_model_facts("head", config, revision=None, source=FactsSource.INLINE)


def test_without_speculation_nothing_is_added() -> None:
    plain = request()
    assert (draft_weights(plain, ONE), draft_caches(plain), draft_tokens(plain)) == (0, (), 0)


def test_n_grams_cost_tokens_of_a_step_and_no_memory_of_their_own() -> None:
    wanted = with_speculation(request(), Speculation(5))
    assert (draft_weights(wanted, ONE), draft_caches(wanted), draft_tokens(wanted)) == (0, (), 5)


@pytest.mark.parametrize("degree", [1, 4])
def test_a_draft_model_is_loaded_whole_and_cut_as_its_target(degree: int) -> None:
    small = facts_of("meta-llama__Llama-3.2-1B-Instruct")
    wanted = with_speculation(request(), Speculation(3, small))
    assert draft_weights(wanted, Split(degree)) == weights_bytes(small, small.checkpoint.precision, Split(degree))
    assert draft_caches(wanted) == stage_caches(small, 0, 1)


def test_an_eagle_head_has_its_layer_and_what_joins_it_to_the_target() -> None:
    found = as_engine_head(head_of())
    assert found is not None
    _, head = found
    # One layer of Llama-3.1-8B without its first norm, and fc of 4,096 x 8,192; tables are the target's.
    layer = 4096 * 4096 * 2 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 4096
    wanted = with_speculation(request(), Speculation(3, head))
    assert draft_weights(wanted, ONE) - head.rotary_bytes == 2 * (layer + 4096 * 8192)
    assert draft_caches(wanted) == stage_caches(model(LLAMA_8B), 0, 32)


def test_an_eagle_3_head_reads_three_states_and_has_a_small_projection_of_its_own() -> None:
    head = head_of(architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=32_000)
    wanted = with_speculation(request(), Speculation(3, head))
    attention = 4096 * 4096 + 2 * 4096 * (4096 + 2 * 1024)
    own = attention + 3 * 14336 * 4096 + 3 * 4096 * 4096 + 32_000 * 4096
    # Norms are what is left.
    assert draft_weights(wanted, ONE) - head.rotary_bytes == pytest.approx(2 * own, rel=1e-4)


PREDICTORS = [
    # DeepSeek-V3 technical report and model card: 11.5 billion parameters of its own in FP8 (0.9 of them shared).
    ("deepseek-ai__DeepSeek-V3", 11.5e9, 0.03),
]


@pytest.mark.parametrize(("stem", "published_bytes", "within"), PREDICTORS)
def test_the_predictor_of_a_model_is_as_large_as_published(stem: str, published_bytes: float, within: float) -> None:
    wanted = with_speculation(request(facts_of(stem)), Speculation(1, uses_predictor=True))
    assert draft_weights(wanted, ONE) == pytest.approx(published_bytes, rel=within)


@pytest.mark.parametrize("stem", ["deepseek-ai__DeepSeek-V3", "Qwen__Qwen3-Next-80B-A3B-Instruct"])
def test_a_predictor_is_a_layer_more_and_has_a_cache_of_its_own(stem: str) -> None:
    facts = facts_of(stem)
    wanted = with_speculation(request(facts), Speculation(2, uses_predictor=True))
    ((cache, layers),) = draft_caches(wanted)
    assert cache in facts.kinds[facts.order[-1]].caches
    assert layers == len(facts.predictor) == 1
    assert draft_weights(wanted, Split(8)) < draft_weights(wanted, ONE)


def test_on_another_stage_than_the_embeddings_a_predictor_loads_its_own() -> None:
    facts = facts_of("Qwen__Qwen3-Next-80B-A3B-Instruct")
    wanted = with_speculation(request(facts), Speculation(2, uses_predictor=True))
    table = 2 * facts.vocabulary * facts.hidden
    assert draft_weights(wanted, Split(1, 2)) - draft_weights(wanted, ONE) == table


def test_the_estimate_charges_a_draft_for_weights_and_for_every_token_of_cache() -> None:
    small = facts_of("meta-llama__Llama-3.2-1B-Instruct")
    plain = request()
    wanted = with_speculation(plain, Speculation(3, small))
    before, after = (estimate(each, gpu(H100), ONE, engine_settings(each, gpu(H100), ONE)) for each in (plain, wanted))
    assert after.weights_bytes - before.weights_bytes == draft_weights(wanted, ONE)
    assert after.kv_bytes_per_token > before.kv_bytes_per_token
    assert after.kv_capacity_tokens < before.kv_capacity_tokens
