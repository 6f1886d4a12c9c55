"""Does the engine start with the rendered arguments, serve, and report its load under the names we read?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from plimsoll.rebalance.engine_metrics import (
    BLOCK_SIZE_LABEL,
    CACHE_CONFIG_INFO,
    CACHE_CONFIG_LABELS,
    ENGINE_METRICS,
    KV_CACHE_SIZE_TOKENS_LABEL,
    KV_CACHE_USAGE,
    KV_CACHE_USAGE_BEFORE_0_12,
    NUM_GPU_BLOCKS_LABEL,
)
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.engine.server import EngineServer
from tests.engine.conftest import KV_BLOCKS

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

REQUESTS = 16
PROMPT_BYTES = 120
OUTPUT_TOKENS = 600
"""16 requests of 720 tokens want 11,520 tokens of a KV cache that has 8,192."""


def test_it_answers_under_the_rendered_name(engine_server: EngineServer, rendered_arguments: list[str]) -> None:
    answer = engine_server.complete("The load line", max_tokens=16)
    assert answer["model"] == rendered_arguments[rendered_arguments.index("--served-model-name") + 1]
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["choices"][0]["text"]


def test_it_exports_every_metric_the_operator_reads(engine_server: EngineServer) -> None:
    exported = {sample.name for sample in _samples(engine_server)}
    assert set(ENGINE_METRICS) - exported == set()
    # The old name is for old engines only; seen here, the adapter would count the same load twice.
    assert KV_CACHE_USAGE_BEFORE_0_12 not in exported


def test_the_cache_information_tells_the_size_of_the_kv_cache(engine_server: EngineServer) -> None:
    (information,) = [sample for sample in _samples(engine_server) if sample.name == CACHE_CONFIG_INFO]
    assert set(CACHE_CONFIG_LABELS) - set(information.labels) == set()
    assert information.labels[NUM_GPU_BLOCKS_LABEL] == str(KV_BLOCKS)
    assert information.labels[BLOCK_SIZE_LABEL] == str(CPU_BLOCK_TOKENS)
    assert information.labels[KV_CACHE_SIZE_TOKENS_LABEL] == str(KV_BLOCKS * CPU_BLOCK_TOKENS)


def test_the_kv_cache_fills_under_load(engine_server: EngineServer) -> None:
    highest = 0.0
    with ThreadPoolExecutor(REQUESTS) as clients:
        # Different from the first byte on, so that no request reuses another's blocks.
        prompts = [chr(ord("a") + number) * PROMPT_BYTES for number in range(REQUESTS)]
        answers = [clients.submit(engine_server.complete, prompt, OUTPUT_TOKENS) for prompt in prompts]
        while wait(answers, timeout=0.1).not_done:
            highest = max(highest, _kv_cache_usage(engine_server))
    assert [answer.result()["usage"]["completion_tokens"] for answer in answers] == [OUTPUT_TOKENS] * REQUESTS
    assert 0.3 < highest <= 1.0


@pytest.mark.parametrize(
    ("unwanted", "words"),
    [
        (["--max-num-sequences", "3"], "unrecognized arguments: --max-num-sequences 3"),
        (["--num-gpu-blocks-override", "3"], "To serve at least one request with the model's max seq len"),
    ],
    ids=["its parser refuses an option", "its KV cache is too small for one request"],
)
def test_an_engine_that_cannot_start_is_reported_with_its_own_words(
    make_server: Callable[..., EngineServer], unwanted: list[str], words: str
) -> None:
    server = make_server(*unwanted)
    with pytest.raises(RuntimeError, match="the engine ended before it was ready"):
        server.start()
    assert words in server.log.read_text()


def _samples(server: EngineServer) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(server.metrics()) for sample in family.samples]


def _kv_cache_usage(server: EngineServer) -> float:
    (usage,) = [sample.value for sample in _samples(server) if sample.name == KV_CACHE_USAGE]
    return usage
