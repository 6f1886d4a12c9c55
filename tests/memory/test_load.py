"""How many tokens a declared load needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import ServingShape
from plimsoll.engines.vllm.memory.kv_cache import kv_layout
from plimsoll.memory.load import AtOnce, needed_blocks, needed_tokens, replica_tokens
from plimsoll.memory.stages import stage_caches
from tests.support.planning import model
from tests.support.tables import every_case

LAYOUT = kv_layout(stage_caches(model(), 0, 1), KvPrecision.BF16, Split(1), batched_tokens=2048)


@every_case(
    ("shape", "tokens"),
    [
        pytest.param(ServingShape(4096, 16), 65_536, id="guaranteed: every request at full length"),
        pytest.param(ServingShape(16_384, 16, 1_500, 500), 48_000, id="expected: one and a half times the mean"),
        pytest.param(ServingShape(32_768, 2, 100, 100), 32_768, id="floor: one request of full length"),
        pytest.param(ServingShape(4_096, 8, 3_000, 1_000), 32_768, id="cap: never more than guaranteed"),
        pytest.param(ServingShape(16_384, 2, 1_500, 500, guaranteed=True), 32_768, id="expected, but guaranteed"),
        pytest.param(ServingShape(4_096, 8, 3_000, None), 32_768, id="half an expectation is none"),
    ],
)
def test_tokens_needed(shape: ServingShape, tokens: int) -> None:
    assert needed_tokens(shape) == tokens
    assert needed_blocks(shape, LAYOUT) == tokens // 16


@every_case(
    ("shape", "at_once", "tokens"),
    [
        pytest.param(ServingShape(4096, 16), AtOnce(4096, 2048), 6144, id="a step and the request that is begun"),
        pytest.param(ServingShape(4096, 1), AtOnce(4096, 2048), 4096, id="a single request is never longer"),
        pytest.param(ServingShape(64, 16), AtOnce(64, 2048), 1024, id="few short requests fill no step"),
        pytest.param(ServingShape(2048, 16), AtOnce(0, 2048), 2048, id="nothing is begun"),
        pytest.param(ServingShape(4096, 16, 150, 50), AtOnce(4096, 2048), 4800, id="expected: less than a step"),
        pytest.param(ServingShape(4096, 16, 1500, 500), AtOnce(4096, 2048), 6144, id="expected: more than a step"),
        pytest.param(ServingShape(4096, 2, 10, 6), AtOnce(4096, 2048), 4096, id="floor: one request of full length"),
    ],
)
def test_tokens_needed_where_requests_end_with_the_step_that_reads_them(
    shape: ServingShape, at_once: AtOnce, tokens: int
) -> None:
    assert needed_tokens(shape, at_once) == tokens
    assert abs(needed_blocks(shape, LAYOUT, at_once) - tokens // 16) <= (shape.mean_tokens is not None) * 16
    assert replica_tokens(shape, Split(1, data_parallel=2), at_once) == 2 * needed_tokens(
        replace(shape, concurrency=-(-shape.concurrency // 2)), at_once
    )


def test_blocks_round_each_request_up() -> None:
    assert needed_blocks(ServingShape(17, 10), LAYOUT) == 20


def test_only_both_lengths_make_an_expectation() -> None:
    guaranteed = needed_tokens(ServingShape(4096, 2))
    assert needed_tokens(ServingShape(4096, 2, 10)) == guaranteed
    assert needed_tokens(ServingShape(4096, 2, 10, 10)) < guaranteed
