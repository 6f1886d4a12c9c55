"""What PyTorch's allocator adds to the weights, held against what engines logged when a model was loaded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.weights.allocator import (
    ROCM_LIBRARY_BYTES,
    loading_bytes,
    step_buffer_bytes,
)
from plimsoll.engines.vllm.memory.weights.layout import relaid_bytes
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.quantization.formats import FP8_TENSOR
from plimsoll.memory.blocks import block_end_bytes, block_ends_bytes
from plimsoll.memory.weights import weights_bytes
from tests.support.model_configs import config_of, facts_of
from tests.support.planning import A100, H100, gpu
from tests.support.tables import every_case

LOGGED = [
    ("Qwen__Qwen2.5-14B", EngineVersion(0, 9, 2), 4, 32_768, 6.9461, 0.05),
    ("Qwen__Qwen3-32B", EngineVersion(0, 11), 2, 40_960, 30.59, 0.06),
    ("Qwen__Qwen2.5-32B", EngineVersion(0, 18, 1), 4, 32_768, 15.39, 0.12),
    ("Qwen__Qwen2.5-7B-Instruct", EngineVersion(0, 19, 1), 1, 32_768, 14.25, 0.05),
    ("Qwen__Qwen2.5-7B-Instruct", EngineVersion(0, 22), 1, 32_768, 14.29, 0.09),
]
"""Model, release, tensor parallelism, positions (some configurations kept are of the base, which has more), GiB of
"Model loading took", and what tensors alone would miss of it. Source: records of ``benchmarks/accuracy/data``."""


def _loaded(model: ModelFacts, version: EngineVersion, split: Split) -> tuple[float, float]:
    precision = model.checkpoint.precision
    tensors = weights_bytes(model, precision, split)
    return tensors / GIB, (tensors + loading_bytes(model, precision, None, split, law_for(version))) / GIB


@pytest.mark.parametrize(("stem", "version", "degree", "positions", "logged", "missing"), LOGGED)
def test_weights_are_what_the_engine_logged(
    stem: str, version: EngineVersion, degree: int, positions: int, logged: float, missing: float
) -> None:
    config = config_of(stem) | {"max_position_embeddings": positions}
    model = read_model_facts(stem, config, revision=None, source=FactsSource.INLINE)
    tensors, loaded = _loaded(model, version, Split(degree))
    assert loaded == pytest.approx(logged, abs=0.006)
    assert logged - tensors >= missing


@every_case(
    ("mebibytes", "splits_large", "end"),
    [
        (9.5, True, 0),  # shares a segment
        (12, True, 0),
        (12.5, True, 0),  # 1.5 MiB are split off
        (12.5, False, 0),  # ... below 20 MiB always
        (13, True, 1),  # exactly 1 MiB is not
        (67.5, True, 0.5),
        (24.5, True, 0),
        (24.5, False, 1.5),
    ],
)
def test_ends_that_are_not_split_off(mebibytes: float, splits_large: bool, end: float) -> None:  # noqa: FBT001 - drawn
    assert block_end_bytes(int(mebibytes * MIB), splits_large=splits_large) == end * MIB


@given(size=st.integers(0, 2**40), splits_large=st.booleans())
def test_an_end_is_never_as_large_as_a_step(size: int, splits_large: bool) -> None:  # noqa: FBT001 - drawn
    assert 0 <= block_end_bytes(size, splits_large=splits_large) < 2 * MIB


def test_stages_share_what_one_rank_would_have() -> None:
    model = facts_of("Qwen__Qwen2.5-32B")
    one = block_ends_bytes(model, model.checkpoint.precision, Split(4))
    two = sum(block_ends_bytes(model, model.checkpoint.precision, Split(4, 2), stage) for stage in (0, 1))
    assert one == two > 100 * MIB


@pytest.mark.parametrize(("tokens", "degree", "gib"), [(8192, 1, 0.094), (2048, 4, 0.0234)])
def test_inputs_of_deepstack_layers_wait_on_every_rank(tokens: int, degree: int, gib: float) -> None:
    """Qwen3-VL-30B-A3B logged 0.10 GiB (0.13, H100) and 0.03 GiB (0.11, four 3090) beside its tensors."""
    whole = facts_of("Qwen__Qwen3-VL-8B-Instruct")
    assert whole.encoder is not None
    narrow = replace(whole, encoder=replace(whole.encoder, step_values=3 * 2048))
    law, precision = law_for(EngineVersion(0, 32)), whole.checkpoint.precision
    here, none = (
        loading_bytes(model, precision, None, Split(degree), law, batched_tokens=tokens)
        - loading_bytes(model, precision, None, Split(degree), law)
        for model in (narrow, replace(narrow, encoder=None))
    )
    assert here / GIB == pytest.approx(gib, abs=0.001)
    assert none == 0


def test_what_an_indexer_picks_has_a_buffer() -> None:
    model = facts_of("zai-org__GLM-5.2")
    assert step_buffer_bytes(model, 8192) == 8192 * 2048 * 4
    assert step_buffer_bytes(facts_of("Qwen__Qwen3-8B"), 8192) == 0


@every_case("kind", ["r9700-32gb", "mi300x-192gb"])
@every_case(("minor", "share"), [(12, ROCM_LIBRARY_BYTES), (19, ROCM_LIBRARY_BYTES), (20, 0), (28, 0)])
def test_amd_s_gpus_have_a_library_s_share_until_0_19(kind: str, minor: int, share: int) -> None:
    model = facts_of("meta-llama__Llama-3.1-8B-Instruct")
    law, precision = law_for(EngineVersion(0, minor)), model.checkpoint.precision
    here, there = (loading_bytes(model, precision, gpu(name), Split(1), law) for name in (H100, kind))
    assert there - here == share


@every_case(
    ("kind", "minor", "gib"),
    [
        (H100, 14, 64.38),
        (H100, 10, 65.97),
        (H100, 19, 65.97),
        (H100, 25, 61.29),
        (A100, 14, 65.97),
        (A100, 25, 65.97),
        ("b200-sxm-180gb", 20, 68.65),
    ],
)
def test_gpt_oss_lies_in_memory_as_its_kernels_ask(kind: str, minor: int, gib: float) -> None:
    """64.38 GiB logged by 0.14.1 on H100, 65.97 by 0.10.1, 61.29 by 0.25.1; the others are what the sources say."""
    model = facts_of("openai__gpt-oss-120b")
    precision, law = model.checkpoint.precision, law_for(EngineVersion(0, minor))
    loaded = weights_bytes(model, precision, Split(1)) + loading_bytes(model, precision, gpu(kind), Split(1), law)
    assert loaded / GIB == pytest.approx(gib, rel=0.005)


@pytest.mark.parametrize(("kind", "minor", "more"), [(H100, 16, 0), (H100, 17, 0.943), (A100, 17, 0)])
def test_ungated_fp8_experts_are_padded_for_flashinfer(kind: str, minor: int, more: float) -> None:
    """Nemotron 3 Nano in FP8 logged 30.52 GiB on 0.14.1 and 31.40 on 0.19 (H200)."""
    nano = facts_of("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4")
    layers = tuple(
        replace(
            kind_,
            weights=tuple(replace(each, storage=FP8_TENSOR) if each.count > 1 else each for each in kind_.weights),
        )
        for kind_ in nano.kinds
    )
    fp8, split, law = replace(nano, kinds=layers), Split(1), law_for(EngineVersion(0, minor))
    assert relaid_bytes(fp8, gpu(kind), split, law, 0) / GIB == pytest.approx(more, abs=0.01)
