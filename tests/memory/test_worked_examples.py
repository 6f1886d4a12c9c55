"""Figures that people quote, computed anew. ``docs/faq-memory.md`` tells them to readers, with the commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from plimsoll.cli.main import cli
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.precision import KvPrecision, Precision, Storage
from plimsoll.domain.requests.serving import ServingShape
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.weights import weights_bytes
from plimsoll.performance.decode_time import decode_floor
from plimsoll.placement.options.sizing import Sized, size_on
from tests.support.model_configs import facts_of
from tests.support.planning import H100, LLAMA_8B, LLAMA_70B, gpu, model, request

GB = 10**9
LLAMA_2_7B = "meta-llama__Llama-2-7b-hf"
LLAMA_3_70B = "meta-llama__Meta-Llama-3-70B"
H200 = "h200-sxm-141gb"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "faq-memory.md"
COMMANDS = re.findall(r"^    plimsoll (estimate .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def cache(stem: str, context: int, concurrency: int, precision: KvPrecision = KvPrecision.FP16) -> int:
    """Bytes of KV cache on all ranks together, without the one block that the engine keeps unused."""
    wanted = request(facts_of(stem), shape=ServingShape(context, concurrency), kv_precision=precision)
    figures = estimate(wanted, gpu(H100), Split(1), engine_settings(wanted, gpu(H100), Split(1)))
    return figures.kv_cache_bytes - figures.kv_block_tokens * figures.kv_bytes_per_token


def test_llama_2_7b_keeps_half_a_mebibyte_a_token() -> None:
    # NVIDIA, "Mastering LLM Techniques: Inference Optimization" (2023): 2 x 32 layers x 32 heads x 128 x 2 bytes; a
    # batch of 1 at 4,096 tokens is about 2 GB.
    assert cache(LLAMA_2_7B, 16, 1) == 16 * MIB // 2
    assert cache(LLAMA_2_7B, 4096, 1) == 2 * GIB


@pytest.mark.parametrize(
    ("concurrency", "context", "precision", "gigabytes"),
    [
        # Widely quoted for Llama-3-70B: 2 x 80 layers x 8 KV heads x 128 x 2 bytes = 320 KiB a token.
        (8, 8192, KvPrecision.FP16, 21.5),
        (8, 32_768, KvPrecision.FP16, 85.9),
        (16, 16_384, KvPrecision.FP8, 43.0),
        # One sequence of 32 Ki tokens. An article that circulates says 3.3 GB: no Llama-3-70B has that.
        (1, 32_768, KvPrecision.FP16, 10.7),
    ],
)
def test_llama_3_70b_caches(concurrency: int, context: int, precision: KvPrecision, gigabytes: float) -> None:
    assert cache(LLAMA_3_70B, context, concurrency, precision) / GB == pytest.approx(gigabytes, abs=0.06)


def on_one(kind: str, context: int) -> MemoryEstimate:
    """The view of the articles: weights in 4 bits on one GPU, and this cache beside them."""
    wanted = request("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", shape=ServingShape(context, 16))
    answer = size_on(replace(wanted, kv_precision=KvPrecision.FP8), gpu(kind), Split(1))
    assert isinstance(answer, Sized)
    return answer.figures


def test_43_gigabytes_of_cache_beside_8_bit_weights_need_an_h200() -> None:
    # Read so: 16 requests of 16,384 tokens with an FP8 cache on one GPU. 43 GB beside 70 GB of FP8 weights are 113 GB:
    # within an H200's 141 GB, not within an H100's 80.
    h100, h200 = on_one(H100, 16_384), on_one(H200, 16_384)
    assert h100.kv_cache_bytes == h200.kv_cache_bytes == pytest.approx(43.0 * GB, rel=0.01)
    assert h200.fit is Fit.SURE
    assert h100.expected_bytes > h100.usable_bytes


def test_llama_3_1_8b_takes_half_a_gibibyte_for_4096_tokens_and_25_for_fifty_users() -> None:
    # 2 x 32 layers x 8 KV heads x 128 x 2 bytes = 128 KiB a token (Hugging Face, "Llama 3.1" (2024), and others).
    stem = "meta-llama__Llama-3.1-8B-Instruct"
    assert cache(stem, 4096, 1) == 512 * MIB
    assert cache(stem, 4096, 50) == 25 * GIB


def test_70b_in_16_bits_are_141_gigabytes() -> None:
    # 70.55 billion parameters at 2 bytes each (model card).
    facts = model(LLAMA_70B)
    weights = weights_bytes(facts, Precision.FP16, Split(1)) - facts.rotary_bytes
    assert weights / GB == pytest.approx(141.1, abs=0.1)


def test_70b_in_4_bits_is_35_gigabytes_on_paper_and_40_on_a_gpu() -> None:
    # Half a byte for each of 70 billion parameters; embeddings and projection stay in 16 bits, and groups have scales.
    facts = facts_of(LLAMA_3_70B)
    int4 = Storage(Precision.GPTQ, 4, scale_bytes=2, group_inputs=128, zero_point_bits=4)
    kinds = tuple(
        replace(kind, weights=tuple(replace(each, storage=int4) if each.linear else each for each in kind.weights))
        for kind in facts.kinds
    )
    quantized = replace(facts, kinds=kinds)
    assert pytest.approx(35, abs=0.5) == 70.55e9 / 2 / GB
    assert 38 < weights_bytes(quantized, Precision.BF16, Split(1)) / GB < 45


def test_a_token_of_a_70b_takes_42_milliseconds_at_the_least() -> None:
    # 141 GB over an H100's 3.35 TB/s: 42 ms. Without the table of embeddings, of which one row is read: 41.5.
    floor = decode_floor(model(LLAMA_70B), Precision.FP16, gpu(H100), Split(1))
    assert pytest.approx(42.1, abs=0.1) == 141.1 / 3350 * 1000
    assert 1000 * floor.seconds == pytest.approx(42.1 - 2.1 / 3.35, abs=0.2)
    eight = decode_floor(model(LLAMA_8B), Precision.BF16, gpu(H100), Split(1))
    assert 1000 * eight.seconds == pytest.approx(4.5, abs=0.1)


def in_release(minor: int, ranks: int = 1, *, concurrency: int = 1024) -> MemoryEstimate:
    plain = request(context=64, concurrency=concurrency)
    wanted = replace(plain, engine=replace(plain.engine, version=EngineVersion(0, minor)))
    split = Split(ranks)
    return estimate(wanted, gpu(H100), split, engine_settings(wanted, gpu(H100), split))


def test_the_sampler_of_many_sequences_is_the_peak_of_activations() -> None:
    assert in_release(19).activations_bytes / GIB == pytest.approx(1.9, abs=0.05)


def test_graphs_and_overhead_follow_release_sequences_and_ranks() -> None:
    assert in_release(21).cuda_graphs_bytes / GIB == pytest.approx(0.84, abs=0.005)
    assert in_release(21, concurrency=16).cuda_graphs_bytes / GIB == pytest.approx(0.12, abs=0.005)
    assert in_release(21).overhead_bytes / GIB == pytest.approx(0.25, abs=0.005)
    assert in_release(21, 2).overhead_bytes / GIB == pytest.approx(2.09, abs=0.005)


def test_the_page_tells_every_figure_with_its_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for figure in (
        "0.5 MiB",
        "2 GiB",
        "21.5 GB",
        "85.9 GB",
        "43 GB",
        "512 MiB",
        "25 GiB",
        "141 GB",
        "10.7 GB",
        "3.3 GB",
    ):
        assert figure in page, figure
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_work_without_network(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = CliRunner().invoke(cli, command.split())
    assert result.exit_code == 0, result.output
    assert "NEED/MAY GiB" in result.output
