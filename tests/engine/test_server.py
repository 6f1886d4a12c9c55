"""Does the engine start with the rendered arguments, serve, and report its load under the names we read?"""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.engines.vllm.metrics import (
    BLOCK_SIZE_LABEL,
    CACHE_CONFIG_INFO,
    KV_CACHE_SIZE_TOKENS_LABEL,
    KV_CACHE_USAGE_BEFORE_0_12,
    METRICS,
    NUM_GPU_BLOCKS_LABEL,
)
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS, for_cpu
from tests.engine.exposition import labels, samples
from tests.engine.recording import Recording
from tests.engine.serving import ANSWER_TOKENS, KV_BLOCKS, TINY_MODEL, Served, Servers, refuse


def test_only_the_address_and_the_machine_differ_from_what_is_rendered(container: dict[str, Any]) -> None:
    kept = list(container["args"])
    arguments, replacements = for_cpu(kept, model_dir=TINY_MODEL, port=9000, kv_blocks=KV_BLOCKS)
    port = kept.index("--port")
    del kept[port : port + 2]
    assert arguments[: len(kept)] == kept
    assert [line.partition(":")[0].split(" ")[:2] for line in replacements] == [
        ["--port", "8000"],
        ["added", "--host"],
        ["added", "--load-format"],
        ["added", "--enforce-eager"],
        ["added", "--num-gpu-blocks-override"],
    ]


def test_it_is_healthy_where_the_probes_ask(served: Served, container: dict[str, Any]) -> None:
    asked = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert served.statuses == dict.fromkeys(asked, 200)


def test_it_answers_under_the_rendered_name(served: Served, container: dict[str, Any]) -> None:
    answer = served.completion
    assert answer["model"] == _rendered(container, "--served-model-name")
    assert answer["usage"]["completion_tokens"] == ANSWER_TOKENS
    assert answer["choices"][0]["text"]


def test_it_serves_the_rendered_length(served: Served, container: dict[str, Any]) -> None:
    (model,) = served.models["data"]
    assert model["id"] == _rendered(container, "--served-model-name")
    assert model["max_model_len"] == int(_rendered(container, "--max-model-len"))


def test_it_exports_every_metric_the_operator_reads(served: Served) -> None:
    exported = {sample.name for sample in samples(served.page)}
    assert set(METRICS.names) - exported == set()
    # The old name is for old engines only; seen here, the adapter would count the same load twice.
    assert KV_CACHE_USAGE_BEFORE_0_12 not in exported


def test_the_cache_information_tells_the_size_of_the_kv_cache(served: Served) -> None:
    information = labels(served.page, CACHE_CONFIG_INFO)
    assert {NUM_GPU_BLOCKS_LABEL, BLOCK_SIZE_LABEL, KV_CACHE_SIZE_TOKENS_LABEL} <= set(information)
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
    recording: Recording, servers: Servers, container: dict[str, Any], unwanted: list[str], words: str
) -> None:
    log = refuse(recording, servers, [*container["args"], *unwanted])
    assert words in "\n".join(log)


def _rendered(container: dict[str, Any], option: str) -> str:
    arguments = container["args"]
    return str(arguments[arguments.index(option) + 1])
