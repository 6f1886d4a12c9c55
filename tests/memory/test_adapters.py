"""LoRA slots against the tensors that the engine makes for them."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import LoraSlots
from plimsoll.engines.vllm.memory.weights.adapters import adapters_bytes, adapters_refusal
from tests.support.model_configs import facts_of
from tests.support.planning import LLAMA_8B, model
from tests.support.tables import every_case

ENGINE = [
    ("CohereForAI__aya-23-8B", 1, 1, 16, 92_209_152),
    ("HuggingFaceTB__SmolLM2-135M", 1, 1, 16, 12_951_552),
    ("LGAI-EXAONE__EXAONE-4.0-32B", 4, 1, 16, 128_647_168),
    ("MiniMaxAI__MiniMax-M2.7", 4, 1, 16, 5_304_041_472),
    ("Qwen__Qwen1.5-MoE-A2.7B", 1, 1, 16, 511_227_648),
    ("Qwen__Qwen2-7B-Instruct", 1, 2, 16, 161_480_704),
    ("Qwen__Qwen2-7B-Instruct", 2, 2, 16, 103_219_200),
    ("Qwen__Qwen2-VL-7B-Instruct", 1, 1, 16, 80_740_352),
    ("Qwen__Qwen2.5-0.5B", 1, 1, 16, 17_596_416),
    ("Qwen__Qwen2.5-VL-7B-Instruct", 1, 1, 16, 80_740_352),
    ("Qwen__Qwen3-0.6B", 1, 1, 16, 29_974_528),
    ("Qwen__Qwen3-30B-A3B-FP8", 1, 2, 16, 3_401_760_768),
    ("Qwen__Qwen3-30B-A3B-FP8", 4, 2, 16, 2_701_049_856),
    ("Qwen__Qwen3-8B", 2, 2, 32, 280_592_384),
    ("Qwen__Qwen3-8B", 8, 1, 16, 49_799_168),
    ("Qwen__Qwen3-Next-80B-A3B-Instruct", 2, 2, 16, 10_960_982_016),
    ("Qwen__Qwen3-Next-80B-A3B-Instruct", 8, 1, 16, 5_014_207_488),
    ("Qwen__Qwen3-VL-235B-A22B-Instruct", 8, 1, 16, 3_454_795_776),
    ("Qwen__Qwen3-VL-8B-Instruct", 1, 1, 16, 97_280_000),
    ("Qwen__Qwen3.5-122B-A10B", 4, 1, 16, 2_803_050_496),
    ("Qwen__Qwen3.5-27B", 2, 1, 16, 197_179_392),
    ("ai21labs__AI21-Jamba-1.5-Mini", 2, 1, 16, 333_291_008),
    ("allenai__Molmo-7B-D-0924", 1, 1, 16, 71_106_560),
    ("bigcode__starcoder2-7b", 1, 1, 16, 78_266_368),
    ("deepseek-ai__DeepSeek-V2-Lite", 1, 2, 16, 1_162_862_592),
    ("deepseek-ai__DeepSeek-V2-Lite", 4, 1, 16, 400_710_144),
    ("deepseek-ai__DeepSeek-V3", 8, 1, 16, 10_708_158_464),
    ("google__gemma-3-27b-it", 2, 1, 16, 150_847_488),
    ("google__gemma-4-26B-A4B", 1, 1, 16, 1_338_224_640),
    ("google__gemma-4-E2B-it", 1, 1, 16, 52_666_368),
    ("ibm-granite__granite-3.3-8b-instruct", 2, 1, 16, 71_238_080),
    ("ibm-granite__granite-4-8b-dense-hybrid", 1, 1, 16, 100_401_152),
    ("internlm__internlm2-7b", 1, 1, 16, 75_497_472),
    ("llava-hf__llava-1.5-7b-hf", 1, 1, 16, 82_268_160),
    ("meta-llama__Llama-3.1-70B", 8, 1, 64, 755_826_688),
    ("meta-llama__Meta-Llama-3.1-8B", 1, 1, 16, 92_356_608),
    ("meta-llama__Meta-Llama-3.1-8B", 4, 4, 64, 823_394_304),
    ("microsoft__Phi-3-mini-128k-instruct", 1, 1, 16, 52_580_352),
    ("microsoft__Phi-3-mini-128k-instruct", 2, 1, 16, 33_705_984),
    ("microsoft__phi-2", 1, 1, 16, 48_906_240),
    ("mistralai__Devstral-Small-2-24B-Instruct-2512", 1, 1, 16, 184_811_520),
    ("mistralai__Mistral-7B-v0.1", 1, 1, 16, 83_886_080),
    ("mistralai__Mixtral-8x7B-v0.1", 2, 1, 8, 152_678_400),
    ("mistralai__Mixtral-8x7B-v0.1", 8, 1, 16, 169_304_064),
    ("moonshotai__Kimi-K2-Instruct", 8, 1, 16, 16_537_962_496),
    ("nvidia__DeepSeek-V3.2-NVFP4", 8, 1, 16, 10_727_147_520),
    ("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 1, 1, 16, 904_878_720),
    ("nvidia__Nemotron-H-56B-Base-8K", 2, 1, 16, 256_160_000),
    ("openai__gpt-oss-20b", 1, 2, 16, 744_112_128),
    ("openai__gpt-oss-20b", 2, 2, 16, 524_697_600),
    ("openbmb__MiniCPM-V-2_6", 1, 1, 16, 80_740_352),
    ("zai-org__GLM-5", 8, 1, 16, 11_953_582_080),
    ("zai-org__glm-4-9b-chat", 1, 1, 16, 84_705_280),
]
"""Configuration, tensor parallelism, slots, rank, and bytes of ``lora_a_stacked`` and ``lora_b_stacked`` of one rank.

Counted on vLLM 0.32.0 by building each model on the meta device and handing it to ``LoRAModelManager``.
"""


@every_case(("stem", "degree", "slots", "rank", "engine_bytes"), ENGINE)
def test_slots_take_what_the_engine_allocates(stem: str, degree: int, slots: int, rank: int, engine_bytes: int) -> None:
    assert adapters_bytes(facts_of(stem), LoraSlots(slots, rank), Split(degree)) == engine_bytes


def test_a_class_that_hides_another_is_counted_on_the_safe_side() -> None:
    # InternVL's language model keeps queries, keys and values in one matrix; its class does not say which model it is.
    counted = adapters_bytes(facts_of("OpenGVLab__InternVL2-2B"), LoraSlots(1, 16), Split(1))
    assert 31_457_280 < counted <= 1.1 * 31_457_280


def test_slots_and_ranks_multiply() -> None:
    one = adapters_bytes(model(LLAMA_8B), LoraSlots(1, 8), Split(2))
    assert adapters_bytes(model(LLAMA_8B), LoraSlots(3, 32), Split(2)) == 12 * one


def test_a_32_bit_model_keeps_adapters_in_32_bits() -> None:
    half = adapters_bytes(model(LLAMA_8B), LoraSlots(1, 8), Split(1))
    assert adapters_bytes(model(LLAMA_8B), LoraSlots(1, 8), Split(1), value_bytes=4) == 2 * half


def test_stages_share_the_layers_and_the_ends_hold_a_table_each() -> None:
    facts, slots = model(LLAMA_8B), LoraSlots(2, 16)
    stages = [adapters_bytes(facts, slots, Split(1, 4), stage) for stage in range(4)]
    assert sum(stages) == adapters_bytes(facts, slots, Split(1))
    table = 2 * 2 * 16 * (facts.hidden + facts.vocabulary)
    assert stages[0] - stages[1] == stages[3] - stages[2] == table
    assert stages[1] == stages[2]


def test_whole_experts_on_a_rank_cost_more_than_cut_ones() -> None:
    facts, slots = facts_of("Qwen__Qwen3-30B-A3B-FP8"), LoraSlots(1, 16)
    cut = adapters_bytes(facts, slots, Split(4))
    whole = adapters_bytes(facts, slots, Split(4, expert_parallel=True))
    # Cut, every expert's matrices over the hidden size lie on every rank; dealt out, a rank has a quarter of all.
    assert whole < cut


@pytest.mark.parametrize(("stem", "told"), [("moonshotai__Kimi-K2.5", "KimiK25"), ("Qwen__Qwen3-8B", None)])
def test_classes_without_adapters_are_told(stem: str, told: str | None) -> None:
    refusal = adapters_refusal(facts_of(stem))
    assert refusal is None if told is None else told in str(refusal)
