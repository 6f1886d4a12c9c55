"""Options of an engine that change what a request holds in the cache: kept prefixes, and planning ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split
from plimsoll.domain.decisions.terms import DoubtKind
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from tests.support.planning import H100, gpu, request

STATES, WINDOWS, PLAIN = "Qwen/Qwen3.5-27B", "google/gemma-3-27b-it", "Qwen/Qwen3-8B"
V = EngineVersion


def figures(name: str, release: EngineVersion = V(0, 32), split: Split = Split(1), **engine: Any) -> MemoryEstimate:  # noqa: B008
    plain = request(name, context=32_768, concurrency=1)
    wanted = replace(
        plain, engine=replace(plain.engine, version=release, own_defaults=True, max_batched_tokens=2048, **engine)
    )
    return estimate(wanted, gpu(H100), split, engine_settings(wanted, gpu(H100), split))


def blocks(found: MemoryEstimate, of: MemoryEstimate) -> int:
    """The blocks that the first needs less than the second."""
    block = found.terms[2].derive().lines
    size = next(line for line in block if line.label == "null block").size_bytes
    assert size is not None
    return (of.kv_cache_bytes - found.kv_cache_bytes) // size


def test_states_are_held_once_where_prefixes_are_not_kept() -> None:
    """``MambaSpec.max_memory_usage_bytes``: two states with prefixes, a third one for a prefill, and one without."""
    usual, without = figures(STATES), figures(STATES, prefix_caching=False)
    groups = 3  # 48 layers with states next to 16 with attention
    assert blocks(without, usual) == groups * 1
    assert figures(STATES, prefix_caching=True).terms == usual.terms
    early = figures(STATES, V(0, 27))
    assert figures(STATES, V(0, 27), prefix_caching=False).terms == early.terms


@pytest.mark.parametrize(("name", "release", "doubted"), [
    (STATES, V(0, 27), True), (STATES, V(0, 28), False), (PLAIN, V(0, 27), False),
])  # fmt: skip
def test_prefixes_of_states_are_a_doubt_before_the_release_that_keeps_them(
    name: str,
    release: EngineVersion,
    doubted: bool,  # noqa: FBT001 - a row of a table
) -> None:
    kinds = [doubt.kind for doubt in figures(name, release, prefix_caching=True).doubts]
    assert (DoubtKind.UNFOLLOWED_OPTIONS in kinds) is doubted
    assert DoubtKind.UNFOLLOWED_OPTIONS not in [doubt.kind for doubt in figures(name, release).doubts]


@pytest.mark.parametrize("stages", [1, 2])
def test_a_window_reserves_for_one_step_less_without_planning_ahead(stages: int) -> None:
    """``max_concurrent_batches`` of ``config/vllm.py``: the stages, and one more with asynchronous scheduling."""
    split = Split(1, stages)
    usual, plain = figures(WINDOWS, split=split), figures(WINDOWS, split=split, plans_ahead=False)
    assert plain.kv_cache_bytes < usual.kv_cache_bytes
    early = [figures(WINDOWS, V(0, 25), split, plans_ahead=ahead).kv_cache_bytes for ahead in (True, False)]
    assert early[0] == early[1], "before 0.26 a window reserves for one step"
    assert figures(PLAIN, plans_ahead=False).kv_cache_bytes == figures(PLAIN).kv_cache_bytes
