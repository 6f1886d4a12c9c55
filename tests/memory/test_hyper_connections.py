"""Residual streams of hyper-connections: what engines left for the cache of DeepSeek-V4-Flash, and GLM's own figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, Speculation
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.step.forward import hidden_copies, padded_heads_width
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.memory.kinds import residual_streams
from tests.memory.sums import activations_bytes, cuda_graphs_bytes
from tests.support.model_configs import facts_of
from tests.support.planning import gpu

FLASH = facts_of("deepseek-ai__DeepSeek-V4-Flash")
MADE = json.loads((Path(__file__).parent / "data" / "made_caches.json").read_text())
PERCENT = 95


GH200, H20, RTX_PRO, H200 = (
    gpu(name) for name in ("gh200-96gb", "h20-96gb", "rtx-pro-6000-bse-96gb", "h200-sxm-141gb")
)


def left_for_cache(
    card: GpuType, minor: int, *, tokens: int, sequences: int, context: int, expert_parallel: bool, predicted: int
) -> float:
    """GiB that the law leaves of 95 % of the card on either of two GPUs."""
    speculation = Speculation(predicted, uses_predictor=True) if predicted else None
    version = EngineVersion(0, minor)
    wanted = Request(
        key=ObjectKey("tests", "flash"),
        model=FLASH,
        precision=FLASH.checkpoint.precision,
        kv_precision=KvPrecision.FP8,
        shape=ServingShape(context_tokens=context, concurrency=1),
        engine=EngineChoice(
            version=version,
            gpu_memory_utilization_percent=PERCENT,
            max_batched_tokens=tokens,
            speculation=speculation,
        ),
    )
    settings = EngineSettings(context, sequences, tokens, PERCENT, "auto", None, "fp8", enforce_eager=False)
    found = estimate(wanted, card, Split(2, expert_parallel=expert_parallel), settings)
    return found.available_kv_bytes / GIB


@pytest.mark.parametrize(
    ("card", "minor", "tokens", "sequences", "context", "expert_parallel", "predicted", "logged"),
    [
        pytest.param(GH200, 22, 16_384, 1_024, 30_000, True, 0, 5.44, id="vLLM issue 44376"),
        pytest.param(H20, 26, 8_192, 32, 121_344, False, 1, 7.71, id="vLLM issue 51041"),
        pytest.param(H20, 26, 8_192, 32, 912_128, False, 1, 7.01, id="vLLM issue 51041, preview"),
        pytest.param(RTX_PRO, 25, 4_096, 64, 1_048_576, False, 2, 10.29, id="a public compose file with its log"),
    ],
)
def test_what_engines_left_for_the_cache(
    card: GpuType,
    minor: int,
    *,
    tokens: int,
    sequences: int,
    context: int,
    expert_parallel: bool,
    predicted: int,
    logged: float,
) -> None:
    found = left_for_cache(
        card,
        minor,
        tokens=tokens,
        sequences=sequences,
        context=context,
        expert_parallel=expert_parallel,
        predicted=predicted,
    )
    assert found == pytest.approx(logged, abs=0.5)


def glm() -> ModelFacts:
    config = next(made["config"] for made in MADE if made["name"] == "glm5next")
    return read_model_facts("glm", config, revision=None, source=FactsSource.INLINE)


def test_glm_s_checkpoint_spells_its_layers_otherwise_than_the_engine_s_defaults() -> None:
    """``layer_types`` as ``transformers_utils/configs/glm5_next.py`` documents them and checkpoints carry them."""
    config = json.dumps(next(made["config"] for made in MADE if made["name"] == "glm5next"))
    assert "indexed_attention" in config
    told = json.loads(config.replace("indexed_attention", "deepseek_sparse_attention"))
    assert read_model_facts("glm", told, revision=None, source=FactsSource.INLINE) == glm()


def test_glm_logs_its_activations_and_with_them_what_is_charged_for_graphs() -> None:
    """GLM-5.3-Flash on eight H200, a build of 0.28, 8,192 tokens and 512 sequences: 4.04 GiB of both."""
    law, split = law_for(EngineVersion(0, 28)), Split(8)
    activations = activations_bytes(
        glm(),
        split,
        law,
        H200,
        batched_tokens=8_192,
        sequences=512,
        context_tokens=131_072,
        precision=Precision.BF16,
    )
    graphs = cuda_graphs_bytes(glm(), split, law, H200, sequences=512, batched_tokens=8_192).estimated_bytes
    assert activations / GIB < 4.04 < (activations + graphs) / GIB


def test_only_attention_to_compressed_keys_pads_its_heads() -> None:
    """GLM's indexer has compressed keys, its attention has latents."""
    assert padded_heads_width(FLASH, Split(2)) == 2 * 64 * 512
    assert padded_heads_width(glm(), Split(8)) == 0


def test_streams_have_copies_of_their_own() -> None:
    assert (residual_streams(FLASH), hidden_copies(FLASH)) == (4, 10)
    assert hidden_copies(facts_of("Qwen__Qwen3-8B")) == 4
