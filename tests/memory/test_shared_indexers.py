"""Indexers of layers that use another's choice: made until 0.23, left out since."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import IndexerCache
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.kv_cache import kv_layout
from plimsoll.engines.vllm.memory.weights.loaded import with_loaded_indexers
from plimsoll.memory.stages import stage_caches
from plimsoll.memory.weights import weights_bytes
from tests.support.model_configs import facts_of

GLM = facts_of("zai-org__GLM-5.2-FP8")
OLD, NEW = EngineVersion(0, 23), EngineVersion(0, 24)
LAYERS, OWN = 78, 21


def _token_bytes(version: EngineVersion) -> int:
    model = with_loaded_indexers(GLM, version)
    layout = kv_layout(
        stage_caches(model, 0, 1),
        KvPrecision.FP8,
        Split(8),
        batched_tokens=8192,
        dtype_bytes=2,
        model=model.name,
    )
    return layout.bytes_per_token


@pytest.mark.parametrize(("version", "indexers"), [(OLD, LAYERS), (NEW, OWN)])
def test_a_token_takes_a_key_of_every_indexer(version: EngineVersion, indexers: int) -> None:
    """GLM-5.2-FP8 on eight H20 with 0.23.0: 28.74 GiB held 502,016 tokens, 61,470 B each."""
    assert _token_bytes(version) == LAYERS * 656 + indexers * 132
    assert version != OLD or _token_bytes(version) == pytest.approx(28.74 * GIB / 502_016, rel=0.001)


def test_indexers_that_nobody_asks_weigh_too() -> None:
    old, new = (
        weights_bytes(with_loaded_indexers(GLM, version), GLM.checkpoint.precision, Split(8)) for version in (OLD, NEW)
    )
    assert 0.4 * GIB < old - new < 0.6 * GIB


def test_models_that_share_nothing_stay_as_they_are() -> None:
    for stem in ("zai-org__GLM-5", "Qwen__Qwen3-8B"):
        assert with_loaded_indexers(facts_of(stem), OLD) == facts_of(stem)


def test_the_predictor_picks_its_keys_itself() -> None:
    """The same with five drafted tokens: 24.26 GiB held 418,368 tokens, 62,264 B each, a layer more of both."""
    (predictor,) = GLM.predictor
    assert any(isinstance(cache, IndexerCache) for cache in predictor.caches)
    assert _token_bytes(OLD) + 656 + 132 == pytest.approx(24.26 * GIB / 418_368, rel=0.001)
