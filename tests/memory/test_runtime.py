"""Activations, graphs, CUDA and NCCL: what each depends on, and which release charges what."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, MediaUse
from plimsoll.domain.models.model import Evidence, ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.kv_cache.kv_law import CHANGES as KV_CHANGES
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.laws import CHANGES, OLDEST_VERSION, law_for
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphMemory, captured_sizes
from plimsoll.engines.vllm.memory.outside.non_torch import outside_bytes
from plimsoll.engines.vllm.memory.outside.outside_budget import outside_budget
from plimsoll.engines.vllm.memory.step.libraries import workspace_bytes
from plimsoll.engines.vllm.memory.weights.loaded import served_model
from plimsoll.facts.models.generic import WEIGHTS_ERROR
from tests.memory.overhead_rows import ROWS
from tests.memory.sums import activations_bytes, band, cuda_graphs_bytes, non_torch_bytes, width_bytes
from tests.support import planning
from tests.support.model_configs import facts_of
from tests.support.tables import every_case


def facts(name: str) -> ModelFacts:
    """The model of that name in the measured rows."""
    return next(row.facts for row in ROWS if row.model == name)


def card(
    name: str = "NVIDIA H100", gib: float = 79.19, capability: tuple[int, int] | None = (9, 0), *, pcie: bool = False
) -> GpuType:
    link = Interconnect.PCIE if pcie else Interconnect.NVLINK
    vendor, gfx = (Vendor.NVIDIA, None) if capability else (Vendor.AMD, "gfx942")
    return GpuType(name, vendor, (), int(gib * GIB), int(gib * GIB), capability, gfx, link, 8, 3350)


H100, A100, L40S = card(), card("NVIDIA A100", 79.25, (8, 0)), card("NVIDIA L40S", 44.42, (8, 9), pcie=True)
MI300X = card("AMD Instinct MI300X", 191.69, None)
R9700 = planning.gpu("r9700-32gb")
LLAMA, MOE, GEMMA = facts("Llama-3.1-8B"), facts("Qwen3-30B"), facts("gemma-3-12b")
ALONE = Split(1)
SPARSE, HYBRID = facts("GLM-5.2"), facts("Qwen3.6-27B")


def law(minor: int) -> EngineLaw:
    return law_for(EngineVersion(0, minor))


def text_alone(model: ModelFacts) -> ModelFacts:
    return served_model(model, MediaUse(text_only=True))


def activations(
    model: ModelFacts,
    minor: int = 19,
    split: Split = ALONE,
    *,
    sequences: int = 1024,
    tokens: int = 8192,
    gpu: GpuType | None = H100,
    last_stage: bool = True,
    context: int | None = None,
    compiles: bool = False,
) -> int:
    return activations_bytes(
        model,
        split,
        law(minor),
        gpu,
        batched_tokens=tokens,
        sequences=sequences,
        last_stage=last_stage,
        context_tokens=context,
        compiles=compiles,
    )


@given(
    sequences=st.integers(1, 2048), tokens=st.integers(256, 16384), more=st.integers(1, 4096), minor=st.integers(8, 40)
)
def test_more_sequences_or_tokens_never_take_less(sequences: int, tokens: int, more: int, minor: int) -> None:
    for model in (LLAMA, MOE, HYBRID, SPARSE):
        base = activations(model, minor, sequences=sequences, tokens=tokens)
        assert base <= activations(model, minor, sequences=sequences + more, tokens=tokens)
        assert activations(LLAMA, minor, sequences=sequences, tokens=tokens) <= activations(
            LLAMA, minor, sequences=sequences, tokens=tokens + more
        )


def test_the_sampler_does_not_shrink_with_tensor_parallelism() -> None:
    """1.89 GiB at TP1, 2 and 4 (vLLM 0.19.0, H100)."""
    sizes = {activations(LLAMA, split=Split(tp)) for tp in (1, 2, 4)}
    assert len(sizes) == 1
    assert sizes.pop() / GIB == pytest.approx(1.89, abs=0.01)


@pytest.mark.parametrize(("minor", "copies"), [(19, 5.5 - 3.5), (26, 5.5 - 3.5), (10, 0.0)])
def test_the_first_runner_profiles_the_rejection_of_one_drafted_token(minor: int, copies: float) -> None:
    """As ``_dummy_sampler_run`` of 0.19 to 0.26 does, however many are drafted; before 0.17 the sort is the peak."""
    none, one, many = (
        activations_bytes(
            MOE, ALONE, law(minor), H100, batched_tokens=8192, sequences=1024, speculative_tokens=tokens, compiles=False
        )
        for tokens in (0, 1, 5)
    )
    assert one == many
    assert one - none == pytest.approx(copies * 1024 * MOE.vocabulary * 4, abs=2)


def test_the_second_runner_samples_the_raw_logits_and_those_of_drafted_tokens() -> None:
    """vllm#48641: Qwen3-8B with 7 drafted tokens on H100 peaks at 3.04 GiB, 2.32 of them logits in 16 bits."""
    qwen = facts("Qwen3-8B")
    drafting = activations_bytes(
        qwen, ALONE, law(27), H100, batched_tokens=8192, sequences=1024, speculative_tokens=7, compiles=False
    )
    assert drafting == 8192 * qwen.vocabulary * 2 + 2 * 8192 * qwen.hidden * 2 + 32 * MIB
    assert activations(qwen, 27) < drafting / 2
    assert activations(text_alone(HYBRID), 32, Split(2), tokens=1024) > activations(text_alone(HYBRID), 32, tokens=1024)


def test_few_sequences_make_the_forward_pass_the_peak_and_that_is_divided() -> None:
    alone = activations(LLAMA, sequences=8)
    assert alone == 8192 * 2 * (4 * LLAMA.hidden + 3 * LLAMA.intermediate)
    assert activations(LLAMA, split=Split(2), sequences=8) < alone


def test_a_stage_that_does_not_sample_takes_less() -> None:
    """1.10 GiB on the first stage where one GPU takes 1.89 (vLLM 0.19.0, PP2)."""
    first = activations(LLAMA, split=Split(1, 2), last_stage=False)
    assert first / GIB == pytest.approx(1.10, abs=0.08)
    assert activations(LLAMA, split=Split(1, 2)) == activations(LLAMA)


def test_workspaces_of_experts_stay_under_the_sampler_since_0_14() -> None:
    dense = replace(MOE, experts=None)
    assert activations(MOE, 12) == activations(dense, 12)
    kept = activations(MOE, 15) - activations(dense, 15)
    assert kept == 8192 * 8 * 2 * (2048 + 2048)


def test_experts_in_nvfp4_copy_their_rows_where_cutlass_runs_them() -> None:
    """Qwen3.6-35B-A3B on RTX 5090 and GB10 (0.20): 176 and 214 KiB a token of the step."""
    fp4 = facts_of("nvidia__Qwen3.5-122B-A10B-NVFP4")
    assert fp4.experts is not None
    there, here = (card(capability=capability) for capability in ((9, 0), (12, 0)))

    def taken(model: ModelFacts, gpu: GpuType) -> int:
        return activations(text_alone(model), 20, gpu=gpu, sequences=1, tokens=65_536)

    copies = 65_536 * 4 * fp4.experts.experts_per_token * fp4.hidden * 2
    assert 0.6 * copies < taken(fp4, here) - taken(fp4, there) <= copies
    assert taken(MOE, here) == taken(MOE, there)


def test_expert_parallelism_keeps_experts_whole_and_sees_the_tokens_of_every_rank() -> None:
    wide = replace(SPARSE, hidden=1024)
    by_width, whole = (activations(wide, split=Split(4, expert_parallel=ep), context=1) for ep in (False, True))
    assert whole > by_width
    assert activations(wide, split=Split(4, 1, 2, expert_parallel=True), context=1) > whole


def test_sparse_attention_costs_by_the_context() -> None:
    """GLM-5.2 at 819,200 tokens on 4 GPUs: 6.31 GiB logged."""
    split = Split(4, expert_parallel=True)
    assert activations(SPARSE, 24, split, context=819_200) / GIB == pytest.approx(6.31, abs=0.05)
    assert activations(SPARSE, 32, split, context=819_200) < activations(SPARSE, 24, split, context=819_200)
    assert activations(LLAMA, context=819_200) == activations(LLAMA, context=1024)


def test_an_encoders_inputs_and_outputs_stay_while_the_decoder_runs() -> None:
    text = activations(text_alone(GEMMA))
    assert 0.1 < (activations(GEMMA) - text) / GIB < 0.3
    assert activations(replace(GEMMA, encoder=None)) == text


def test_a_large_image_makes_the_encoder_the_peak() -> None:
    """Qwen3.5-27B with one sequence at TP4 (vLLM 0.19.0): 1.11 GiB in all, where the decoder explains a third."""
    with_image = activations(HYBRID, split=Split(4), sequences=1, tokens=2048)
    assert with_image / GIB == pytest.approx(1.02, abs=0.02)
    assert activations(text_alone(HYBRID), split=Split(4), sequences=1, tokens=2048) < with_image / 3


@pytest.mark.parametrize(("minor", "everywhere"), [(19, True), (24, True), (29, False), (32, False)])
def test_the_first_stage_runs_the_encoder_and_under_the_first_runner_all_do(minor: int, *, everywhere: bool) -> None:
    """``profile_run``: ``v1/worker/gpu_model_runner.py`` does not ask for the stage, ``v1/worker/gpu`` does."""
    split, plain = Split(1, 2), text_alone(GEMMA)
    first, last = (
        activations(GEMMA, minor, split=split, last_stage=last)
        - activations(plain, minor, split=split, last_stage=last)
        for last in (False, True)
    )
    assert first > 0
    assert (last > 0) is everywhere


def test_amd_samples_as_others_do_until_the_second_runner_leaves_it_out() -> None:
    """MI300X logs 5.59 GiB with 1,024 sequences of Qwen3's vocabulary on a build of early 2026; 0.17 fused it."""
    qwen = facts("Qwen3-8B")
    assert activations(qwen, 16, gpu=MI300X) / GIB == pytest.approx(5.6, abs=0.05)
    assert activations(qwen, 17, gpu=MI300X) < activations(qwen, 16, gpu=MI300X) / 2
    workspace = workspace_bytes(H100)
    for minor in (16, 24, 32):
        assert 0 <= activations(qwen, minor, gpu=H100) - activations(qwen, minor, gpu=MI300X) <= workspace
    left = replace(MOE, architecture="DeepseekV4ForCausalLM")
    assert activations(left, 29, gpu=MI300X) > activations(left, 29, gpu=H100)
    assert 0 <= activations(MOE, 29, gpu=H100) - activations(MOE, 29, gpu=MI300X) <= workspace


@every_case(
    ("largest", "count"), [(1, 1), (2, 2), (4, 3), (8, 4), (16, 5), (255, 34), (256, 35), (512, 51), (1024, 83)]
)
def test_captured_sizes_follow_the_engines_list(largest: int, count: int) -> None:
    """1, 2, 4, then 8 to 248 in steps of 8, then 256 in steps of 16 (``vllm/config/vllm.py``); 51 and 83 are logged."""
    listed = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest]
    assert captured_sizes(largest) == len(listed) == count


def test_graphs_grow_with_the_batch_until_the_engines_largest_capture() -> None:
    sizes = [
        cuda_graphs_bytes(LLAMA, Split(1), law(19), sequences=each, batched_tokens=8192).actual_bytes
        for each in (1, 8, 64, 256, 1024)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] == sizes[-2]
    assert cuda_graphs_bytes(LLAMA, Split(1), law(24), sequences=64, batched_tokens=8192, enforce_eager=True) == (0, 0)


@every_case(
    ("architecture", "first"),
    [
        ("Qwen3ForCausalLM", 22),
        ("LlamaForCausalLM", 23),
        ("Qwen2ForCausalLM", 25),
        ("DeepseekV2ForCausalLM", 24),
        ("Qwen3MoeForCausalLM", 29),
        ("GptOssForCausalLM", 29),
    ],
)
def test_the_second_runner_came_class_by_class(architecture: str, first: int) -> None:
    """``config/vllm.py`` of each release."""
    has_experts = architecture in ("DeepseekV2ForCausalLM", "Qwen3MoeForCausalLM", "GptOssForCausalLM")
    model = replace(MOE if has_experts else LLAMA, architecture=architecture)
    assert [minor for minor in range(20, 33) if law(minor).runs_v2(model, H100)] == list(range(first, 33))
    quantized = replace(model, checkpoint=replace(model.checkpoint, precision=Precision.FP8))
    assert not law(23).runs_v2(quantized, H100)
    assert law(24).runs_v2(quantized, H100) == (first <= 24)


def test_a_cold_compilation_copies_the_embeddings_since_0_26() -> None:
    """RTX 4090 (0.27.1): Qwen3-8B logged 1.18 GiB of activations cold and 0.19 warm."""
    qwen, consumer = facts("Qwen3-8B"), card(capability=(12, 0))
    cold, warm = (activations(qwen, 27, sequences=256, tokens=2048, compiles=each) for each in (True, False))
    assert cold / GIB == pytest.approx(1.18, abs=0.02)
    assert warm / GIB < 0.3
    assert activations(qwen, 25, sequences=256, tokens=2048, compiles=True) < cold
    assert activations(qwen, 27, Split(4), sequences=256, tokens=2048, compiles=True) < cold / 3
    assert activations(qwen, 27, sequences=256, tokens=2048, gpu=consumer, compiles=True) > 1.9 * cold
    assert activations(MOE, 27, compiles=True) == activations(MOE, 27)


def test_recurrent_layers_change_nothing_of_that() -> None:
    """Qwen3.8-27B on an RTX 3090 Ti (0.27.1, 32 sequences): 2.84 GiB beside weights and cache cold, 0.76 warm."""
    geforce = card("NVIDIA GeForce RTX 3090 Ti", 23.56, (8, 6), pcie=True)
    cold, warm = (
        activations(text_alone(HYBRID), 27, sequences=32, tokens=2048, gpu=geforce, compiles=each) / GIB
        for each in (True, False)
    )
    assert cold == pytest.approx(2.39, abs=0.01)
    assert cold - warm == pytest.approx(2.84 - 0.76, abs=0.15)


def test_recurrent_models_stay_with_the_first_runner_until_all_go() -> None:
    assert [minor for minor in range(20, 33) if law(minor).runs_v2(HYBRID, H100)] == [29, 30, 31, 32]


def test_the_second_runner_copies_logits_until_0_27_and_sends_nothing_through_towers() -> None:
    copied, raw = (activations(LLAMA, minor, tokens=1024) for minor in (26, 27))
    assert copied - raw == 1024 * LLAMA.vocabulary * 4
    assert activations(GEMMA, 26) == activations(text_alone(GEMMA), 26)
    assert activations(GEMMA, 27) > activations(text_alone(GEMMA), 27)


@every_case(
    ("minor", "dense", "experts"),
    [(19, False, False), (20, True, True), (22, True, True), (23, False, True), (28, False, True), (29, True, True)],
)
def test_which_release_takes_graphs_out_of_its_budget(minor: int, *, dense: bool, experts: bool) -> None:
    """By default since 0.20; the second runner, for Llama since 0.23, estimated nothing until 0.29."""
    charged = [
        cuda_graphs_bytes(model, Split(1), law(minor), H100, sequences=64, batched_tokens=8192).estimated_bytes > 0
        for model in (LLAMA, MOE)
    ]
    assert charged == [dense, experts]
    assert cuda_graphs_bytes(HYBRID, Split(1), law(27), sequences=64, batched_tokens=8192).estimated_bytes > 0


QWEN3 = replace(LLAMA, architecture="Qwen3ForCausalLM")


def graphs(model: ModelFacts, minor: int, gpu: GpuType, split: Split = ALONE, *, adapters: bool = False) -> float:
    """GiB that a full set of graphs takes."""
    taken = cuda_graphs_bytes(
        model, split, law(minor), gpu, sequences=256, batched_tokens=8192, adapters=adapters
    ).actual_bytes
    return taken / GIB


@pytest.mark.parametrize(
    ("layers", "minor", "gib"), [(24, 27, 0.37), (28, 26, 0.48), (36, 27, 0.56), (40, 28, 0.52), (64, 28, 0.81)]
)
def test_graphs_of_the_second_runner_are_those_of_logs(layers: int, minor: int, gib: float) -> None:
    """Qwen2.5 0.5B and 7B, Qwen3 8B, 14B and 32B on GeForce cards."""
    model = replace(QWEN3, order=QWEN3.order[:1] * layers)
    assert graphs(model, minor, card("NVIDIA GeForce RTX 4090", 23.5, (8, 9), pcie=True)) == pytest.approx(
        gib, abs=0.07
    )
    assert graphs(model, 19, H100) > 1.5 * gib


def test_adapters_have_a_set_of_graphs_of_their_own() -> None:
    """Qwen3-4B with one adapter on an RTX 4090 (0.27.1): 1.28 GiB."""
    model = replace(QWEN3, order=QWEN3.order[:1] * 36)
    assert graphs(model, 27, L40S, adapters=True) == pytest.approx(2 * graphs(model, 27, L40S), abs=1e-6)
    assert graphs(model, 27, L40S, adapters=True) == pytest.approx(1.28, abs=0.3)
    assert graphs(model, 10, L40S, adapters=True) == graphs(model, 10, L40S)


@pytest.mark.parametrize(("gpu", "degree", "more"), [(L40S, 4, 0.9), (L40S, 2, 0.0), (H100, 4, 0.0), (L40S, 1, 0.0)])
def test_collectives_of_nccl_are_captured_between_many_gpus_on_pcie(gpu: GpuType, degree: int, more: float) -> None:
    """Qwen2.5-72B on four L40S (0.19.0) took 2.62 GiB, Llama-3.3-70B on four H200 0.96 and less."""
    assert graphs(LLAMA, 19, gpu, Split(degree)) - graphs(LLAMA, 19, gpu) == pytest.approx(more, abs=0.001)


@pytest.mark.parametrize(("tokens", "gib"), [(8192, 2.84), (4096, 2.42), (3072, 2.32), (2048, 2.21)])
def test_a_prefill_of_recurrent_layers_counts_as_graphs_since_0_26(tokens: int, gib: float) -> None:
    """vllm#52872: "peak activation" of a 27B hybrid with its vision tower on RTX 5090, few sequences (8 assumed).

    The slope was fitted to these four, the height was not.
    """
    rtx = card("NVIDIA GeForce RTX 5090", 31.36, (12, 0), pcie=True)
    graphs = cuda_graphs_bytes(HYBRID, ALONE, law(27), rtx, sequences=8, batched_tokens=tokens)
    computed = activations(HYBRID, 27, sequences=8, tokens=tokens, gpu=rtx) + graphs.estimated_bytes
    assert computed / GIB == pytest.approx(gib, abs=0.08)
    assert cuda_graphs_bytes(HYBRID, ALONE, law(25), rtx, sequences=8, batched_tokens=tokens) < graphs


def test_communication_costs_by_what_reduces_it() -> None:
    """2.06 to 2.21 GiB at TP2 and 4 on H100, a tenth on A100 and over PCIe, nothing with pipeline stages alone."""
    split = Split(2)
    assert non_torch_bytes(H100, split, law(19)) / GIB == pytest.approx(2.1, abs=0.05)
    assert non_torch_bytes(H100, split, law(11)) / GIB == pytest.approx(0.55, abs=0.02)
    for gpu in (A100, L40S):
        extra = non_torch_bytes(gpu, split, law(19)) - non_torch_bytes(gpu, Split(1), law(19))
        assert 0 < extra < 0.1 * GIB
    assert non_torch_bytes(H100, Split(1, 2), law(19), last_stage=False) == int(0.07 * GIB)


@pytest.mark.parametrize(("minor", "captured"), [(17, 0.0), (18, 1.43), (26, 1.43), (27, 0.0), (31, 0.0)])
def test_a_capture_that_is_tried_while_measuring_costs_between_ranks(minor: int, captured: float) -> None:
    """GLM-5.1-FP8 ran eagerly on eight H200 (0.19.1, 0.20.1): 0.24 GiB less than computed, 1.19 more with captures."""
    with_graphs, eager = (
        non_torch_bytes(H100, Split(8), law(minor), captures=captures) / GIB for captures in (True, False)
    )
    assert with_graphs - eager == pytest.approx(captured, abs=0.001)
    assert eager - non_torch_bytes(H100, Split(1), law(minor)) / GIB == pytest.approx(0.41, abs=0.001)


def test_memory_shared_with_the_host_costs_and_widens() -> None:
    apart = card("NVIDIA GB10", 121.63, (12, 1), pcie=True)
    shared = replace(apart, unified_memory=True)
    assert non_torch_bytes(shared, Split(1), law(19)) > non_torch_bytes(apart, Split(1), law(19)) + GIB
    assert (
        width_bytes(band(LLAMA, shared, Split(1), law(19)))
        > width_bytes(band(LLAMA, apart, Split(1), law(19))) + 3 * GIB
    )


def test_what_lies_outside_the_budget_grows_with_the_group() -> None:
    assert outside_bytes(H100, Split(1)) < outside_bytes(L40S, Split(2))
    assert outside_bytes(L40S, Split(2)) < outside_bytes(H100, Split(2))
    assert outside_bytes(R9700, Split(1)) < outside_bytes(L40S, Split(1))
    assert outside_bytes(R9700, Split(1)) < outside_bytes(R9700, Split(2)) < outside_bytes(L40S, Split(2))


@pytest.mark.parametrize("name", ["rtx-3090-24gb", "rtx-4090-24gb", "rtx-5090-32gb", "h100-sxm-80gb"])
def test_mxfp4_experts_take_memory_outside_the_budget_for_each_sequence(name: str) -> None:
    """gpt-oss-20b died on an H100 with 1,024 sequences and 3.96 GiB outside; small cards ran 64 with 1.57."""
    outside = outside_budget(planning.model("openai/gpt-oss-20b"), planning.gpu(name), Split(1), law(12))
    no_graphs = GraphMemory(0, 0)
    assert outside.total_bytes(no_graphs, 64, 0) < 1.0 * GIB
    assert outside.total_bytes(no_graphs, 1024, 0) > 2.5 * GIB
    dense = outside_budget(planning.model("meta-llama/Llama-3.1-8B-Instruct"), planning.gpu(name), Split(1), law(12))
    assert dense.total_bytes(no_graphs, 1024, 0) == dense.total_bytes(no_graphs, 64, 0)


def test_the_band_of_a_generic_reading_covers_its_own_error_of_the_weights() -> None:
    guessed = replace(LLAMA, evidence=Evidence.GENERIC)
    narrow, wide = (band(guessed, H100, Split(1), law(19), weights_bytes=weights * GIB) for weights in (0, 100))
    share = int(WEIGHTS_ERROR * 100 * GIB)
    assert wide.high_bytes - narrow.high_bytes == share
    assert 0.9 * share < narrow.low_bytes - wide.low_bytes <= share
    assert band(LLAMA, H100, Split(1), law(19), weights_bytes=100 * GIB) == band(LLAMA, H100, Split(1), law(19))


def test_the_band_widens_where_less_is_known() -> None:
    known = band(LLAMA, H100, Split(1), law(19))
    assert known.low_bytes < 0 < known.high_bytes
    guessed = replace(LLAMA, evidence=Evidence.GENERIC)
    assert width_bytes(band(guessed, H100, Split(1), law(19))) > width_bytes(known)
    for wider in (
        band(LLAMA, None, Split(1), law(19)),
        band(LLAMA, H100, Split(2), law(19)),
        band(LLAMA, H100, Split(1), law(22)),
        band(HYBRID, H100, Split(1), law(19)),
        band(LLAMA, H100, Split(1, 1, 2), law(19)),
    ):
        assert wider.low_bytes < known.low_bytes
        assert wider.high_bytes > known.high_bytes
    assert band(LLAMA, H100, Split(1), law(10)).low_bytes < band(LLAMA, H100, Split(1), law(11)).low_bytes


@every_case("minor", [10, 11, 19, 22])
@every_case("gib", [14.5, 23.6, 44.3, 79.2, 139.8, 178.3])
def test_an_ordinary_band_reaches_down_as_far_as_its_usual_width_allows(minor: int, gib: float) -> None:
    card = replace(A100, usable_bytes=int(gib * GIB))
    ordinary = band(LLAMA, card, Split(1), law(minor))
    assert width_bytes(ordinary) <= (1.0 + 0.015 * gib) * GIB
    assert ordinary.low_bytes <= -(0.30 + 0.006 * gib) * GIB, (
        "what Llama-70B in fp8 took less on an RTX PRO 6000 is inside"
    )


def test_graphs_on_amd_are_charged_since_0_26() -> None:
    charged = [law(minor).charges_graphs_of(HYBRID, MI300X) for minor in (19, 20, 25, 26, 32)]
    assert charged == [False, False, False, True, True]


@pytest.mark.parametrize(("changes", "law_of"), [(CHANGES, law_for), (KV_CHANGES, kv_law_for)], ids=["budget", "cache"])
def test_a_change_alters_what_it_names_from_its_release_on(changes: Any, law_of: Any) -> None:
    releases = [change.since for change in changes]
    assert releases == sorted(set(releases))
    for before, change in pairwise(changes):
        law, earlier = law_of(change.since), law_of(before.since)
        for name, value in change.fields.items():
            assert getattr(law, name) == value != getattr(earlier, name)
            assert type(value) is type(getattr(earlier, name)) or None in (value, getattr(earlier, name))
        untouched = {field.name for field in fields(law) if field.compare} - {"since", "release", *change.fields}
        assert all(getattr(law, name) == getattr(earlier, name) for name in untouched)
        assert change.source


def test_the_law_is_that_of_the_newest_change_known() -> None:
    assert law(15).since == law(14).since
    assert law(16).sampler.copies > 2 * law(17).sampler.copies
    assert law_for(EngineVersion(0, 16, 9)).since == law(14).since
    newer = [EngineVersion(0, 33, 1), EngineVersion(0, 34), EngineVersion(0, 40), EngineVersion(1, 0)]
    assert {law_for(each).since for each in newer} == {law(33).since}
    assert law_for(EngineVersion(0, 32, 9)).since == law(32).since


def test_older_releases_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"0\.7\.3 is older than 0\.8\.0"):
        law_for(EngineVersion(0, 7, 3))
    assert OLDEST_VERSION == (0, 8, 0)
