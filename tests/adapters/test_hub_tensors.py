"""Tensors from a hub: read for unknown classes alone, from the heads of files, and never a reason to fail."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.hub.hub import HubModels
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import Evidence
from tests.adapters.fake_hub import FakeHub, Shapes

NAME = "org/tiny"
CONFIG: dict[str, Any] = {
    "architectures": ["UnseenForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 1024,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "torch_dtype": "bfloat16",
    "vocab_size": 256,
}
PARAMETERS = 2 * (4 * 64 * 64 + 3 * 128 * 64) + 2 * 256 * 64


def _layer(number: int) -> Shapes:
    attention = {f"self_attn.{name}_proj": [64, 64] for name in "qkvo"}
    mlp = {"mlp.gate_proj": [128, 64], "mlp.up_proj": [128, 64], "mlp.down_proj": [64, 128]}
    return {f"model.layers.{number}.{name}.weight": ("BF16", shape) for name, shape in {**attention, **mlp}.items()}


OUTSIDE: Shapes = {"model.embed_tokens.weight": ("BF16", [256, 64]), "lm_head.weight": ("BF16", [256, 64])}
SHARDS = {
    "model-00001-of-00002.safetensors": {**OUTSIDE, **_layer(0)},
    "model-00002-of-00002.safetensors": _layer(1),
}
SINGLE = {"model.safetensors": {**OUTSIDE, **_layer(0), **_layer(1)}}


@pytest.mark.parametrize("files", [SINGLE, SHARDS], ids=["single", "sharded"])
def test_an_unknown_class_has_the_weights_of_its_checkpoint(
    hub: FakeHub,
    models: HubModels,
    files: dict[str, Shapes],
) -> None:
    hub.publish(NAME, CONFIG)
    hub.publish_tensors(NAME, files)
    facts = models.facts(NAME, None, None)
    assert (facts.evidence, facts.parameters) == (Evidence.TENSORS, PARAMETERS)


def test_heads_are_read_once_and_nothing_of_the_values(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.publish_tensors(NAME, SHARDS, blob_bytes=3_000_000)
    models.facts(NAME, None, None)
    asked = len(hub.requests)
    models.facts(NAME, None, None)
    assert len(hub.requests) == asked
    assert hub.sent_bytes < 300_000


def test_a_long_header_takes_a_second_request(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    norms: Shapes = {f"model.layers.0.a_rather_long_name_{number}.norm.weight": ("BF16", [1]) for number in range(3000)}
    hub.publish_tensors(NAME, {"model.safetensors": {**SINGLE["model.safetensors"], **norms}})
    assert models.facts(NAME, None, None).parameters == PARAMETERS + 3000
    assert sum(request.startswith("GET") and request.endswith("model.safetensors") for request in hub.requests) == 2


def test_a_hub_that_knows_no_ranges_is_read_as_well(hub: FakeHub, models: HubModels) -> None:
    hub.ranges = False
    hub.publish(NAME, CONFIG)
    hub.publish_tensors(NAME, SHARDS)
    assert models.facts(NAME, None, None).parameters == PARAMETERS


def test_a_known_class_costs_no_more_requests(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, {**CONFIG, "architectures": ["LlamaForCausalLM"]})
    hub.publish_tensors(NAME, SHARDS)
    assert models.facts(NAME, None, None).evidence is Evidence.KNOWN
    assert not [request for request in hub.requests if "safetensors" in request]


def test_the_token_reads_the_tensors_too(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_mine",))
    hub.publish_tensors(NAME, SHARDS)
    assert models.facts(NAME, None, "hf_mine").evidence is Evidence.TENSORS


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        (10).to_bytes(8, "little") + b"not a json",
        (2).to_bytes(8, "little") + b"[]",
        (30).to_bytes(8, "little") + b"{}",
        (52).to_bytes(8, "little") + b'{"model.layers.1.w": {"dtype": "BF16", "shape": 42}}',
        (54).to_bytes(8, "little") + b'{"model.layers.1.w": {"dtype": "BF16", "shape": [-1]}}',
    ],
)
def test_a_file_that_is_none_leaves_the_configuration_s_weights(
    hub: FakeHub,
    models: HubModels,
    broken: bytes,
) -> None:
    hub.publish(NAME, CONFIG)
    hub.publish_tensors(NAME, SHARDS)
    hub.models[NAME].files["model-00002-of-00002.safetensors"] = broken
    assert models.facts(NAME, None, None).evidence is Evidence.GENERIC


@pytest.mark.parametrize(
    "index",
    [b"{", b"[]", b"{}", b'{"weight_map": {"a": "../../config.json"}}', b'{"weight_map": {"a": "gone.safetensors"}}'],
)
def test_an_index_that_is_none_leaves_the_configuration_s_weights(
    hub: FakeHub,
    models: HubModels,
    index: bytes,
) -> None:
    hub.publish(NAME, CONFIG).files["model.safetensors.index.json"] = index
    assert models.facts(NAME, None, None).evidence is Evidence.GENERIC
    assert not [request for request in hub.requests if ".." in request]


def test_without_tensors_the_configuration_s_weights_stand(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    assert models.facts(NAME, None, None).evidence is Evidence.GENERIC


def test_an_unknown_tower_is_refused_without_its_tensors_and_read_with_them(
    hub: FakeHub,
    models: HubModels,
) -> None:
    inner = {key: value for key, value in CONFIG.items() if key != "architectures"}
    composite = {"architectures": ["UnseenForConditionalGeneration"], "text_config": inner, "vision_config": {}}
    hub.publish(NAME, composite)
    with pytest.raises(UnsupportedModel, match="its tower is unknown"):
        models.facts(NAME, None, None)
    tower: Shapes = {"vision_tower.layers.0.fc1.weight": ("BF16", [64, 32])}
    hub.publish_tensors(NAME, {**SHARDS, "model-tower.safetensors": tower})
    encoder = models.facts(NAME, None, None).encoder
    assert encoder is not None
    assert [weight.parameters for weight in encoder.weights] == [64 * 32]
