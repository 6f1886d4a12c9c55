"""Does the real engine start with what is rendered for models that pool, and do their parts lie where we say?"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from testbed.engine.server import EngineServer
from testbed.engine.tiny_model import TINY_CONFIG
from testbed.fleet import gpu_node
from testbed.ports import PortReservation
from tests.support.rendered import container_arguments, example, fleet_of, plan_one

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

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


def _served(
    config: Mapping[str, Any], engine: Mapping[str, Any], tiny_model: Path, ports: PortReservation, folder: Path
) -> EngineServer:
    directory = folder / "model"
    shutil.copytree(tiny_model, directory)
    (directory / "config.json").write_text(json.dumps(config))
    body = example("01-minimal", {"contextLength": 1024, "engine": dict(engine)})
    body["spec"]["model"] = {"name": "testbed/tiny", "path": str(directory), "config": dict(config)}
    arguments = container_arguments(plan_one(body, fleet_of(gpu_node("l4-0", "L4", 1))))
    return EngineServer(arguments, model_dir=directory, port=ports.take(), log=folder / "vllm.log")


@pytest.mark.parametrize(
    ("config", "engine", "keeps_cache"),
    [(ENCODER, {}, False), (TINY_CONFIG, {"runner": "Pooling"}, True)],
    ids=["an encoder", "a class that generates"],
)
def test_the_engine_starts_with_what_is_rendered_and_answers_with_an_embedding(
    config: Mapping[str, Any],
    engine: Mapping[str, Any],
    keeps_cache: bool,  # noqa: FBT001 - a parameter of the test
    tiny_model: Path,
    ports: PortReservation,
    tmp_path: Path,
) -> None:
    with _served(config, engine, tiny_model, ports, tmp_path) as server:
        assert server.is_healthy()
        assert len(server.embed("The load line")) == config["hidden_size"]
        assert server.arguments[server.arguments.index("--runner") + 1] == "pooling"
        usage = re.findall(r"^vllm:kv_cache_usage_perc\{.*\} (\S+)$", server.metrics(), re.MULTILINE)
        assert [float(each) for each in usage] == [0.0]
        assert (
            bool(re.search(r"GPU KV cache size|CPU KV cache size|KV cache size", server.log.read_text())) is keeps_cache
        )
