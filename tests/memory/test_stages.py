"""Which layers a pipeline stage holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import CheckpointFacts, FactsSource, LayerKind, ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate, estimate_of_stage
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.stages import other_caches, stage_caches, stage_layers
from tests.memory.measured import VISIBLE
from tests.support.planning import request
from tests.support.tables import every_case

FULL = AttentionCache(8, 128, 128)
SLIDING = AttentionCache(8, 128, 128, window_tokens=1024)

MODEL = ModelFacts(
    name="mixed",
    revision=None,
    architecture="Any",
    source=FactsSource.INLINE,
    hidden=1024,
    heads=8,
    vocabulary=1024,
    intermediate=4096,
    kinds=(LayerKind((), (SLIDING,)), LayerKind((), (FULL,)), LayerKind((), ())),
    order=(0, 0, 1, 0, 0, 1, 2),
    embedding=(),
    head=(),
    checkpoint=CheckpointFacts(Precision.BF16, Precision.BF16),
    max_context_tokens=4096,
)


@every_case(
    ("layers", "stages", "sizes"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        (61, 2, [31, 30]),
        (62, 4, [15, 16, 16, 15]),
        (61, 8, [7, 7, 8, 8, 8, 8, 8, 7]),
        (7, 4, [2, 2, 2, 1]),
    ],
)
def test_what_cannot_be_divided_goes_to_the_later_stages_but_the_last(
    layers: int, stages: int, sizes: list[int]
) -> None:
    cut = stage_layers(layers, stages)
    assert [len(stage) for stage in cut] == sizes
    assert [layer for stage in cut for layer in stage] == list(range(layers))


def test_no_stages_cannot_hold_layers() -> None:
    with pytest.raises(ValueError, match="stages: 0"):
        stage_layers(32, 0)


def test_a_stage_has_its_own_layers_caches_and_the_rest_is_the_others() -> None:
    """Four layers and three; the last layer keeps nothing, as where it reads another layer's cache."""
    assert stage_caches(MODEL, 0, 2) == ((SLIDING, 3), (FULL, 1))
    assert other_caches(MODEL, 0, 2) == stage_caches(MODEL, 1, 2) == ((SLIDING, 1), (FULL, 1))


def test_one_stage_has_everything() -> None:
    assert stage_caches(MODEL, 0, 1) == ((SLIDING, 4), (FULL, 2))
    assert other_caches(MODEL, 0, 1) == ()


STAGED = [(2, 66.54, 1_075_312), (4, 69.80, 2_257_264)]
"""Stages, GiB of KV cache in the first stage's log and tokens of all: Llama 3.1 8B on H100s, vLLM 0.19.0, 95 %, 1,024
sequences and 8,192 tokens a step (``benchmarks/accuracy/data/runs.json``)."""


@pytest.mark.parametrize(("stages", "first_gib", "tokens"), STAGED)
def test_each_stage_s_own_log_and_the_poorest_stage_s_tokens_are_foretold(
    stages: int, first_gib: float, tokens: int
) -> None:
    engine = EngineChoice(EngineVersion(0, 19), gpu_memory_utilization_percent=95, max_batched_tokens=8192)
    wanted, split = request(context=8192, engine=engine), Split(1, stages)
    settings = replace(engine_settings(wanted, VISIBLE, split), max_num_seqs=1024)
    first = estimate_of_stage(wanted, VISIBLE, split, settings, 0)
    assert first.available_kv_bytes / GIB == pytest.approx(first_gib, abs=0.1)
    assert estimate(wanted, VISIBLE, split, settings).kv_capacity_tokens == pytest.approx(tokens, rel=0.001)
