"""The changes of vLLM 0.33, as its wheel has them: no start of this release is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.engines.engine_choice import DraftMethod, EngineChoice, EngineVersion, Speculation
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import MIB
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from plimsoll.engines.vllm.memory.laws.engine_law import GUMBEL_SAMPLER
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.outside.outside_budget import outside_budget
from plimsoll.engines.vllm.memory.step.libraries import multiprocessors
from plimsoll.engines.vllm.memory.step.sampler import sampling
from plimsoll.engines.vllm.refusals import draft_refusal
from plimsoll.engines.vllm.releases.options import default_sequences, default_step
from plimsoll.engines.vllm.settings import engine_settings, most_sequences
from plimsoll.placement.options.feasibility import sized
from tests.api.manifests import deployment
from tests.memory.sums import activation_parts
from tests.support.model_configs import facts_from, facts_of
from tests.support.planning import gpu, model, request
from tests.support.speculation import EAGLE_HEAD
from tests.support.tables import every_case

BEFORE, SINCE = EngineVersion(0, 32, 9), EngineVersion(0, 33)
ALONE = Split(1)
QWEN, LLAMA, HYBRID = model("Qwen/Qwen3-8B"), model("meta-llama/Llama-3.1-8B-Instruct"), model("Qwen/Qwen3.5-27B")
H100, MI300X, A100, B200 = (gpu(name) for name in ("h100-sxm-80gb", "mi300x-192gb", "a100-sxm-80gb", "b200-sxm-180gb"))
GB10 = gpu("gb10-128gb")
NGRAM_MODELS = Path(__file__).parent / "data" / "ngram_models.json"


def sampled(
    facts: ModelFacts, release: EngineVersion, card: GpuType = H100, *, sequences: int = 1024, drafted: int = 0
) -> int:
    """The bytes of the sampler while the engine measures a step of 8,192 tokens."""
    law = law_for(release)
    parts = activation_parts(
        facts, ALONE, law, card, batched_tokens=8192, sequences=sequences, speculative_tokens=drafted, compiles=False
    )
    return parts.sampling


def asked(facts: ModelFacts | str, release: EngineVersion, **changes: Any) -> Request:
    return request(facts, engine=EngineChoice(release), **changes)


def layout(facts: ModelFacts, release: EngineVersion, card: GpuType) -> KvLayout:
    wanted = asked(facts, release)
    return rank_layout(wanted, card, ALONE, engine_settings(wanted, card, ALONE), 0)


# The sampler


def test_a_second_pass_with_every_option_on_holds_seven_times_the_logits() -> None:
    """16-bit logits, their copy, and FlashInfer's masked logits and probabilities; 2.03 GiB for 152k words."""
    row, hidden = QWEN.vocabulary * 4, QWEN.hidden * 2
    assert sampled(QWEN, SINCE) == 1024 * (row * 7 // 2 + hidden) + 32 * MIB
    assert sampled(QWEN, BEFORE) == 1024 * (row // 2 + hidden) + 32 * MIB


def test_amds_gpus_mask_the_copy_in_place_with_a_row_for_each_program() -> None:
    row, hidden = QWEN.vocabulary * 4, QWEN.hidden * 2
    units = multiprocessors(MI300X)
    assert sampled(QWEN, SINCE, MI300X) == 1024 * (row * 3 // 2 + hidden) + units * row
    assert sampled(QWEN, BEFORE, MI300X) == 1024 * (row // 2 + hidden)


def test_drafted_tokens_have_no_row_in_that_pass() -> None:
    assert sampled(QWEN, SINCE, drafted=3) == sampled(QWEN, SINCE)
    since, before = (sampled(QWEN, each, sequences=512, drafted=15) for each in (SINCE, BEFORE))
    assert since == before > sampled(QWEN, SINCE, sequences=512)


@given(sequences=st.integers(1, 9000), drafted=st.integers(0, 15), card=st.sampled_from([H100, MI300X, A100]))
def test_no_sampler_takes_less_than_before_or_more_than_all_of_it(sequences: int, drafted: int, card: GpuType) -> None:
    before, since = (sampled(QWEN, each, card, sequences=sequences, drafted=drafted) for each in (BEFORE, SINCE))
    rows = min(sequences, 8192)
    processed = sampling(replace(GUMBEL_SAMPLER, copies=3.5), vocabulary=QWEN.vocabulary, hidden=QWEN.hidden, gpu=card)
    buffered = (rows and multiprocessors(card)) * QWEN.vocabulary * 4
    assert before <= since <= max(before, processed.peak_bytes(rows) + buffered)


def test_the_first_runner_and_models_that_pool_make_no_such_pass() -> None:
    older = model("deepseek-ai/DeepSeek-V4-Flash")
    assert not law_for(SINCE).runs_v2(older, MI300X)
    assert sampled(older, SINCE, MI300X) == sampled(older, BEFORE, MI300X)
    pooling = replace(QWEN, task=Task.POOL)
    assert sampled(pooling, SINCE) == sampled(pooling, BEFORE)


def test_the_line_of_the_sampler_says_which_pass_it_is() -> None:
    wanted = asked("Qwen/Qwen3-0.6B", SINCE, concurrency=1024, context=512)
    figures = sized(wanted, H100, ALONE)[1]
    (activations,) = (term for term in figures.summands if term.name.key == "activations")
    (line,) = (each for each in activations.derive().lines if each.label == "sampler")
    assert "1,024 rows" in line.formula
    assert "x 3.5 copies" in line.formula


def test_fewer_tokens_are_promised_where_the_sampler_is_the_peak_and_never_for_sure() -> None:
    before, since = (
        sized(asked(QWEN, each, concurrency=1024, context=256), H100, ALONE)[1] for each in (BEFORE, SINCE)
    )
    assert since.kv_capacity_tokens < before.kv_capacity_tokens
    assert (before.fit, since.fit) == (Fit.SURE, Fit.PROBABLE)


# Matrix products


@every_case(("card", "workspace"), [(H100, 32 * MIB), (A100, 8 * MIB + 128 * 1024), (MI300X, 0)])
def test_handles_and_workspace_of_matrix_products_are_outside_the_budget(card: GpuType, workspace: int) -> None:
    before, since = (outside_budget(QWEN, card, ALONE, law_for(each)).fixed_bytes for each in (BEFORE, SINCE))
    assert since - before == workspace + 64 * MIB


# Recurrent states


@every_case(("card", "states"), [(H100, 3), (B200, 3), (A100, 2), (MI300X, 2)])
def test_gated_delta_networks_keep_a_state_more_where_flashinfer_runs_them(card: GpuType, states: int) -> None:
    before, since = (layout(HYBRID, each, card) for each in (BEFORE, SINCE))
    held = {group.fixed_blocks for group in since.groups if group.fixed_blocks is not None}
    assert held == {states}
    assert {group.fixed_blocks for group in before.groups if group.fixed_blocks is not None} == {2}
    assert (before == since) == (states == 2)
    assert since.block_tokens >= before.block_tokens
    assert states == 2 or since.block_tokens % 64 == 0


def test_every_state_of_a_model_with_n_grams_is_saved_or_none() -> None:
    """``Qwen4ExpPLELayer`` saves its window where the gated delta networks save their states."""
    config = json.loads(NGRAM_MODELS.read_text(encoding="utf-8"))["configs"]["qwen4-exp"]
    ngrams = facts_from("qwen4-exp", config)
    counts = [{group.fixed_blocks for group in layout(ngrams, SINCE, card).groups} for card in (H100, A100)]
    assert counts == [{None, 1, 3}, {None, 1, 2}], "rings of 1 block do not change"


def test_other_recurrent_layers_keep_what_they_had() -> None:
    own = replace(HYBRID, architecture="OlmoHybridForCausalLM")
    for facts in (own, facts_of("ai21labs__AI21-Jamba-1.5-Mini"), LLAMA):
        assert layout(facts, SINCE, H100) == layout(facts, BEFORE, H100)


# Defaults


def test_a_gb10_has_the_defaults_of_a_small_card() -> None:
    for card, sizes in ((GB10, [(1024, 8192), (256, 2048)]), (H100, [(1024, 8192)] * 2)):
        assert [(default_sequences(each, card), default_step(each, card)) for each in (BEFORE, SINCE)] == sizes
        steps = [engine_settings(asked(LLAMA, each), card, ALONE).max_num_batched_tokens for each in (BEFORE, SINCE)]
        assert steps == [step for _, step in sizes] * (len(steps) // len(sizes))
    assert [most_sequences(asked(LLAMA, each), GB10) for each in (BEFORE, SINCE)] == [512, 256]
    assert [most_sequences(asked(LLAMA, each), H100) for each in (BEFORE, SINCE)] == [512, 512]


# Refusals


def refusal(
    version: str = "0.33.0", facts: ModelFacts = LLAMA, draft: ModelFacts | None = None, **spec: Any
) -> str | None:
    engine = {"version": version, **spec.pop("engine", {})}
    try:
        to_request(deployment(engine=engine, **spec), facts, draft=draft)
    except InvalidInput as refused:
        return f"{refused.field} {refused.value}: {refused.fix}"
    return None


FP16 = replace(LLAMA, checkpoint=replace(LLAMA.checkpoint, precision=Precision.FP16, dtype=Precision.FP16))


@every_case(
    ("facts", "precision", "cache"),
    [
        (LLAMA, "auto", "fp16"),
        (LLAMA, "fp16", "bf16"),
        (FP16, "auto", "bf16"),
        (FP16, "bf16", "fp16"),
        (LLAMA, "fp8", "fp16"),
    ],
)
def test_a_16_bit_cache_of_another_type_than_the_model_is_refused(
    facts: ModelFacts, precision: str, cache: str
) -> None:
    spec: dict[str, Any] = {"precision": precision, "kvCache": {"precision": cache}}
    said = str(refusal("0.33.0", facts, **spec))
    assert said.startswith(f"spec.kvCache.precision {cache}: Since 0.33.0 vLLM refuses to start")
    assert "write auto" in said
    assert refusal("0.32.0", facts, **spec) is None
    assert refusal("0.33.0", facts, engine={"image": "registry/own:1"}, **spec) is None


@every_case(
    ("facts", "precision", "cache"),
    [
        (LLAMA, "auto", "bf16"),
        (LLAMA, "fp16", "fp16"),
        (LLAMA, "fp16", "auto"),
        (FP16, "auto", "auto"),
        (FP16, "auto", "fp8"),
        (LLAMA, "fp8", "bf16"),
    ],
)
def test_any_other_cache_is_taken(facts: ModelFacts, precision: str, cache: str) -> None:
    assert refusal("0.33.0", facts, precision=precision, kvCache={"precision": cache}) is None


def test_a_checkpoint_with_a_cache_of_its_own_may_keep_it_or_take_the_type_of_the_model() -> None:
    own = replace(LLAMA, checkpoint=replace(LLAMA.checkpoint, kv_precision=KvPrecision.FP8))
    for cache, is_refused in (("auto", False), ("bf16", False), ("fp16", True)):
        assert (refusal("0.33.0", own, kvCache={"precision": cache}) is not None) == is_refused


SMALL = replace(model("meta-llama/Llama-3.2-1B-Instruct"), max_context_tokens=2048)
DRAFTING = {"method": "Draft", "tokens": 3, "draftModel": {"name": "org/small"}}


@every_case(("version", "context"), [("0.33.0", 4096), ("0.33.0", 2049), ("0.34.0", 2049)])
def test_requests_longer_than_a_draft_are_refused_before_the_engine_shortens_them(version: str, context: int) -> None:
    said = str(refusal(version, draft=SMALL, engine={"speculation": DRAFTING}, contextLength=context))
    assert said.startswith(f"spec.contextLength {context}: Since 0.33.0 vLLM serves no longer requests")
    assert "write at most 2048" in said


@every_case(
    ("draft", "context", "engine"),
    [
        (SMALL, 2048, {"version": "0.33.0"}),
        (SMALL, 4096, {"version": "0.32.0"}),
        (SMALL, 4096, {"version": "0.33.0", "image": "registry/own:1"}),
        (replace(SMALL, names_context=False), 4096, {"version": "0.33.0"}),
    ],
)
def test_other_drafts_shorten_nothing(draft: ModelFacts, context: int, engine: dict[str, Any]) -> None:
    wanted = {"speculation": DRAFTING} | engine
    assert refusal(draft=draft, engine=wanted, contextLength=context) is None


def test_positions_of_a_head_are_raised_to_those_of_its_model() -> None:
    head = replace(facts_from("org/head", EAGLE_HEAD), max_context_tokens=2048)
    drafting = {**DRAFTING, "method": "Eagle"}
    assert refusal("0.33.0", draft=head, engine={"speculation": drafting}, contextLength=4096) is None
    drafts = Speculation(3, SMALL), Speculation(3, SMALL, head=DraftMethod.EAGLE), Speculation(3)
    assert [draft_refusal(each, 4096, SINCE) is None for each in drafts] == [False, True, True]


@pytest.mark.parametrize("method", ["Medusa", "medusa", "mlp_speculator"])
def test_methods_that_0_33_removed_are_none_of_ours(method: str) -> None:
    """No field names them in any release, and the flags that do are the operator's."""
    assert "spec.engine.extraArgs[0]" in str(refusal("0.33.0", engine={"extraArgs": [f"--spec-method={method}"]}))
