"""Does the real engine start with what is rendered for models that pool, and do their parts lie where we say?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from testbed.engine.tiny_model import TINY_CONFIG
from testbed.fleet import gpu_node
from tests.engine.recording import Recording
from tests.engine.serving import TINY_MODEL, Servers, embed
from tests.support.rendered import container_arguments, example, fleet_of, plan_one

ENCODER: Final[dict[str, Any]] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 256,
    "intermediate_size": 512,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 1024,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "torch_dtype": "bfloat16",
    "type_vocab_size": 2,
    "vocab_size": 258,
}


def _rendered(config: Mapping[str, Any], engine: Mapping[str, Any]) -> list[str]:
    body = example("01-minimal", {"contextLength": 1024, "engine": dict(engine)})
    body["spec"]["model"] = {"name": "testbed/tiny", "path": str(TINY_MODEL), "config": dict(config)}
    return container_arguments(plan_one(body, fleet_of(gpu_node("l4-0", "L4", 1))))


@pytest.mark.parametrize(
    ("config", "engine", "keeps_cache"),
    [(ENCODER, {}, False), (TINY_CONFIG, {"runner": "Pooling"}, True)],
    ids=["an encoder", "a class that generates"],
)
def test_the_engine_starts_with_what_is_rendered_and_answers_with_an_embedding(
    config: Mapping[str, Any],
    engine: Mapping[str, Any],
    keeps_cache: bool,  # noqa: FBT001 - a parameter of the test
    recording: Recording,
    servers: Servers,
) -> None:
    arguments = _rendered(config, engine)
    assert arguments[arguments.index("--runner") + 1] == "pooling"
    pooled = embed(recording, servers, arguments, config)
    assert pooled.width == config["hidden_size"]
    usage = re.findall(r"^vllm:kv_cache_usage_perc\{.*\} (\S+)$", pooled.page, re.MULTILINE)
    assert [float(each) for each in usage] == [0.0]
    assert any("KV cache size" in line for line in pooled.log) is keeps_cache
