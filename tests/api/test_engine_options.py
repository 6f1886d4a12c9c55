"""Adapters and weights in host memory: what arrives, and what is refused with field, value and fix."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.engines.engine_choice import CpuOffload, LoraSlots, WeightStreaming
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB, MIB
from tests.api.manifests import deployment
from tests.support.model_configs import facts_of
from tests.support.planning import model


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ({"cpuOffload": "8Gi"}, CpuOffload(8 * GIB)),
        ({"cpuOffload": "0.5Gi"}, CpuOffload(512 * MIB)),
        ({"weightStreaming": {"group": 8}}, WeightStreaming(8, 1, 1)),
        ({"weightStreaming": {"group": 8, "layers": 8, "prefetch": 3}}, WeightStreaming(8, 8, 3)),
        ({}, None),
    ],
)
def test_where_weights_live_arrives(engine: dict[str, Any], expected: object) -> None:
    assert to_request(deployment(engine=engine), model()).engine.residency == expected


def test_slots_arrive_with_their_defaults() -> None:
    assert to_request(deployment(engine={"lora": {}}), model()).engine.lora == LoraSlots(1, 16)
    assert to_request(deployment(engine={"textOnly": True}), model()).engine.media.text_only


@pytest.mark.parametrize(
    ("engine", "field", "fix"),
    [
        ({"lora": {"maxRank": 24}}, "spec.engine.lora.maxRank", "Write one of 1, 8, 16, 32"),
        (
            {"cpuOffload": "1Gi", "weightStreaming": {"group": 2}},
            "spec.engine.cpuOffload",
            "Remove it, or weightStreaming.",
        ),
        (
            {"weightStreaming": {"group": 2, "layers": 3}},
            "spec.engine.weightStreaming.layers",
            "Write at most the group's 2.",
        ),
        (
            {"weightStreaming": {"group": 2}, "version": "0.16.0"},
            "spec.engine.weightStreaming",
            "vLLM 0.16.0 does not support it: use 0.17.0 or newer.",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(engine: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        to_request(deployment(engine=engine), model())
    assert refused.value.field == field
    assert fix in refused.value.fix


def test_adapters_are_refused_where_the_engine_knows_none() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.engine\.lora: 'StableLmForCausalLM' cannot be used"):
        to_request(deployment(engine={"lora": {}}), facts_of("stabilityai__stablelm-3b"))
