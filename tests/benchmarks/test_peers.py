"""The peers' formulas on their publishers' own examples, and the peers that run in environments of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from benchmarks.accuracy.checkpoint import BYTES, Checkpoint
from benchmarks.accuracy.loading import Loaded
from benchmarks.accuracy.peers import aiconfigurator, gpustack, hf_mem, kaito, llm_d_planner
from benchmarks.accuracy.prediction import PeerUnavailable, Verdict
from benchmarks.accuracy.predictors import ask_all, peers_named
from plimsoll.domain.units import GIB
from tests.support.accuracy import LLAMA_8B, LLAMA_8B_ELEMENTS, setup

DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "n_routed_experts": 256,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("parameters", "claim"), [(494_032_768, 3.1), (3_085_938_688, 8.9), (7_615_616_512, 19.0), (72_706_203_648, 164.5)]
)
def test_gpustack_claims_what_its_description_gives_for_qwen(parameters: int, claim: float) -> None:
    assert gpustack.claim_gib(parameters * 2 / GIB) == pytest.approx(claim, abs=0.06)


def test_gpustack_judges_all_gpus_together() -> None:
    big = {"BF16": 70_553_706_496}
    small, large = setup(elements=big, tensor_parallel=2), setup(elements=big, tensor_parallel=4)
    found = gpustack.GpuStack().predict([small, large])
    assert [each.verdict for each in found] == [Verdict.NO, Verdict.SURE]
    assert found[0].kv_gib is None


def test_kaito_counts_bytes_of_a_token_as_its_guide_says() -> None:
    guide = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "max_position_embeddings": 4096}
    assert kaito.bytes_per_token(guide) == 2 * 32 * 32 * 128 * 2
    assert kaito.bytes_per_token({**guide, "multi_query": True}) == 2 * 32 * 1 * 128 * 2
    assert kaito.bytes_per_token(DEEPSEEK_V3) == 61 * 576 * 2


def test_kaito_leaves_for_the_cache_what_its_terms_leave() -> None:
    (found,) = kaito.Kaito().predict([setup()])
    weights = LLAMA_8B_ELEMENTS * 2 / GIB * 1.02
    assert found.weights_gib == pytest.approx(weights)
    assert found.kv_gib == pytest.approx(81559 / 1024 * 0.95 - weights * 1.05 - 2.3)
    assert found.kv_tokens == int((found.kv_gib or 0) * GIB / 131072)
    assert found.concurrency == pytest.approx((found.kv_tokens or 0) / 8192)


def test_kaito_keeps_latent_caches_whole_and_knows_no_states() -> None:
    (latent,) = kaito.Kaito().predict([setup(config=DEEPSEEK_V3, tensor_parallel=8)])
    assert latent.kv_tokens == int((latent.kv_gib or 0) * GIB / (61 * 576 * 2))
    (hybrid,) = kaito.Kaito().predict([setup(config={**LLAMA_8B, "layer_types": ["linear_attention"]})])
    assert (hybrid.kv_gib, hybrid.verdict, hybrid.note) == (None, None, "no term for recurrent states")


def test_planner_s_weights_are_those_it_printed_for_qwen3_0_6b() -> None:
    (found,) = llm_d_planner.LlmDPlanner().predict_weights([setup(elements={"BF16": 751_632_384})])
    assert found.weights_gib == pytest.approx(1.4000244140625)


def test_planner_takes_its_constants_off_the_nominal_memory() -> None:
    (one,) = llm_d_planner.LlmDPlanner().predict([setup()])
    weights = LLAMA_8B_ELEMENTS * 2 / GIB
    assert one.kv_gib == pytest.approx(80 * 0.95 - weights - 1.89 - 0.27)
    (two,) = llm_d_planner.LlmDPlanner().predict([setup(tensor_parallel=2)])
    assert two.kv_gib == pytest.approx((80 * 0.95 * 2 - weights - 1.89 - 2.10 * 2) / 2)
    assert two.kv_tokens == int((two.kv_gib or 0) * 2 * GIB / 131072)


def test_planner_s_constants_by_class_and_kind() -> None:
    assert llm_d_planner.activation_gib({"architectures": ["Gemma3ForCausalLM"]}) == 3.94
    assert llm_d_planner.activation_gib({"architectures": ["Unknown"]}) == 2.0
    assert llm_d_planner.activation_gib({"architectures": ["Unknown"], "num_experts_per_tok": 4}) == 2.5
    assert [llm_d_planner.non_torch_gib(*split) for split in ((1, 1), (1, 2), (2, 1))] == [0.27, 0.07, 2.10]
    assert llm_d_planner.bytes_per_token(DEEPSEEK_V3) == 61 * 576 * 2
    assert llm_d_planner.bytes_per_token({**LLAMA_8B, "torch_dtype": None, "quantization_config": {}}) == 65536


def test_peers_without_a_checkpoint_have_no_answer() -> None:
    bare = [setup(elements={})]
    assert bare[0].checkpoint == Checkpoint({"BF16": LLAMA_8B_ELEMENTS})
    assert Checkpoint({"I32": 8, "F16": 3}).bytes == 8 * BYTES["I32"] + 3 * BYTES["F16"]


def answering(answers: list[dict[str, Any]], asked: list[Mapping[str, Any]]) -> Any:
    def ask(_: str, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        asked.extend(questions)
        return answers

    return ask


def test_hf_mem_is_given_headers_and_its_bytes_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[str, Any]] = []
    monkeypatch.setattr(hf_mem, "ask", answering([{"weights": 16 * GIB, "kv": 2 * GIB}], asked))
    (found,) = hf_mem.HfMem().predict([setup(tensor_parallel=2, kv_cache_dtype="fp8")])
    assert (found.weights_gib, found.verdict, found.kv_gib) == (8.0, Verdict.SURE, None)
    assert asked[0]["elements"] == {"BF16": LLAMA_8B_ELEMENTS}
    assert asked[0]["kv_cache_dtype"] == "fp8"


def test_aiconfigurator_answers_for_the_cards_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[str, Any]] = []
    answer = {"kv_bytes": 56 * GIB, "tokens": 4096, "source": "native", "weights_bytes": 15 * GIB}
    monkeypatch.setattr(aiconfigurator, "ask", answering([answer], asked))
    unknown, known = aiconfigurator.AiConfigurator().predict([setup(gpu="RTX 3090"), setup()])
    assert unknown.note == "has no system for this card"
    assert (known.kv_gib, known.weights_gib, known.verdict) == (56.0, 15.0, Verdict.NO)
    assert (asked[0]["system"], asked[0]["max_num_batched_tokens"]) == ("h100_sxm", 8192)


def test_aiconfigurator_s_refusal_for_want_of_memory_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, verdict in (("no KV budget: full", Verdict.NO), ("unsupported model", None)):
        monkeypatch.setattr(aiconfigurator, "ask", answering([{"error": error}], []))
        (found,) = aiconfigurator.AiConfigurator().predict([setup()])
        assert (found.verdict, found.note) == (verdict, error)


def test_a_peer_that_cannot_run_costs_its_column_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise PeerUnavailable("no network")

    monkeypatch.setattr(hf_mem, "ask", refuse)
    ours, theirs, kept = ask_all(Loaded(), peers_named("hf-mem,KAITO"))
    assert (theirs.unavailable, theirs.cases) == ("no network", None)
    assert ours.cases == kept.cases == []


def test_an_unknown_peer_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'nobody' is no peer.*kaito"):
        peers_named("nobody")
