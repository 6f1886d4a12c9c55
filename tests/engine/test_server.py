"""Does the engine start with the rendered arguments, serve, and report its load under the names we read?"""

from __future__ import annotations

import pytest

from plimsoll.engines.vllm.metrics import (
    BLOCK_SIZE_LABEL,
    CACHE_CONFIG_INFO,
    CACHE_CONFIG_LABELS,
    ENGINE_METRICS,
    KV_CACHE_SIZE_TOKENS_LABEL,
    KV_CACHE_USAGE_BEFORE_0_12,
    NUM_GPU_BLOCKS_LABEL,
)
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.engine.server import EngineServer
from tests.engine.conftest import KV_BLOCKS, MakeServer
from tests.engine.exposition import labels, samples

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_only_the_address_and_the_machine_differ_from_what_is_rendered(
    engine_server: EngineServer, rendered_arguments: list[str]
) -> None:
    kept = list(rendered_arguments)
    port = kept.index("--port")
    del kept[port : port + 2]
    assert engine_server.arguments[: len(kept)] == kept
    assert [line.partition(":")[0].split(" ")[:2] for line in engine_server.replacements] == [
        ["--port", "8000"],
        ["added", "--host"],
        ["added", "--load-format"],
        ["added", "--enforce-eager"],
        ["added", "--num-gpu-blocks-override"],
    ]


def test_it_is_healthy_where_the_probes_ask(engine_server: EngineServer) -> None:
    assert engine_server.is_healthy()


def test_it_answers_under_the_rendered_name(engine_server: EngineServer, rendered_arguments: list[str]) -> None:
    answer = engine_server.complete("The load line", max_tokens=16)
    assert answer["model"] == _rendered(rendered_arguments, "--served-model-name")
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["choices"][0]["text"]


def test_it_serves_the_rendered_length(engine_server: EngineServer, rendered_arguments: list[str]) -> None:
    (model,) = engine_server.models()["data"]
    assert model["id"] == _rendered(rendered_arguments, "--served-model-name")
    assert model["max_model_len"] == int(_rendered(rendered_arguments, "--max-model-len"))


def test_it_exports_every_metric_the_operator_reads(engine_server: EngineServer) -> None:
    exported = {sample.name for sample in samples(engine_server)}
    assert set(ENGINE_METRICS) - exported == set()
    # The old name is for old engines only; seen here, the adapter would count the same load twice.
    assert KV_CACHE_USAGE_BEFORE_0_12 not in exported


def test_the_cache_information_tells_the_size_of_the_kv_cache(engine_server: EngineServer) -> None:
    information = labels(engine_server, CACHE_CONFIG_INFO)
    assert set(CACHE_CONFIG_LABELS) - set(information) == set()
    assert information[NUM_GPU_BLOCKS_LABEL] == str(KV_BLOCKS)
    assert information[BLOCK_SIZE_LABEL] == str(CPU_BLOCK_TOKENS)
    # The engine counts its null block, which no request can have.
    assert information[KV_CACHE_SIZE_TOKENS_LABEL] == str(KV_BLOCKS * CPU_BLOCK_TOKENS)


@pytest.mark.parametrize(
    ("unwanted", "words"),
    [
        (["--max-num-sequences", "3"], "unrecognized arguments: --max-num-sequences 3"),
        (["--num-gpu-blocks-override", "3"], "To serve at least one request with the model's max seq len"),
    ],
    ids=["its parser refuses an option", "its KV cache is too small for one request"],
)
def test_an_engine_that_cannot_start_is_reported_with_its_own_words(
    make_server: MakeServer, rendered_arguments: list[str], unwanted: list[str], words: str
) -> None:
    server = make_server([*rendered_arguments, *unwanted])
    with pytest.raises(RuntimeError, match="the engine ended before it was ready"):
        server.start()
    assert words in server.log.read_text()


def _rendered(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]
