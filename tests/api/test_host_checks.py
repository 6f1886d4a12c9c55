"""A pod that gets less memory than the engine keeps in it is refused by its field; every other figure is taken."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.domain.cluster.host import USUAL_HOST
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB
from tests.api.manifests import deployment
from tests.support.planning import LLAMA_70B_FP8, model
from tests.support.tables import every_case

OFFLOADED: dict[str, Any] = {"engine": {"cpuOffload": "50Gi"}}
CACHED: dict[str, Any] = {"engine": {"extraArgs": ["--kv-offloading-size", "30"]}}


def memory(**parts: str) -> dict[str, Any]:
    return {"podTemplate": {"resources": {part: {"memory": size} for part, size in parts.items()}}}


@pytest.mark.parametrize(
    ("engine", "resources", "field", "value", "least"),
    [
        (OFFLOADED, memory(requests="8Gi"), "requests", "8Gi", "51Gi"),
        (OFFLOADED, memory(limits="8Gi"), "limits", "8Gi", "51Gi"),
        (OFFLOADED, memory(limits="50Gi"), "limits", "50Gi", "51Gi"),
        (OFFLOADED, memory(requests="20G", limits="80Gi"), "requests", "20G", "51Gi"),
        (CACHED, memory(limits="16Gi"), "limits", "16Gi", "31Gi"),
    ],
    ids=str,
)
def test_less_memory_than_the_engine_keeps_there_is_refused(
    engine: dict[str, Any], resources: dict[str, Any], field: str, value: str, least: str
) -> None:
    expected = rf"spec\.podTemplate\.resources\.{field}\.memory: '{value}' cannot be used\. .*write at least {least}"
    with pytest.raises(InvalidInput, match=expected):
        to_request(deployment(**engine, **resources), model(LLAMA_70B_FP8))


@every_case(
    ("engine", "resources"),
    [
        (OFFLOADED, {}),
        (OFFLOADED, memory(requests="51Gi", limits="51Gi")),
        (CACHED, memory(limits="31Gi")),
        ({}, memory(limits="1Gi")),
        ({"engine": {"cpuOffload": "0Gi"}}, memory(limits="1Gi")),
        (
            {"engine": {"extraArgs": ["--kv-offloading-size=30", "--kv-offloading-backend=lmcache"]}},
            memory(limits="1Gi"),
        ),
    ],
    ids=str,
)
def test_memory_that_may_do_is_taken(engine: dict[str, Any], resources: dict[str, Any]) -> None:
    assert to_request(deployment(**engine, **resources), model(LLAMA_70B_FP8)).key.name == "llama"


def test_no_more_counts_than_the_model_has() -> None:
    small = deployment(engine={"cpuOffload": "80Gi"}, **memory(limits="20Gi"))
    assert to_request(small, model()).memory_limit_bytes == 20 * GIB


def test_a_limit_below_the_need_becomes_the_request() -> None:
    wanted = to_request(deployment(podTemplate={"resources": {"limits": {"memory": "6Gi", "cpu": "1"}}}), model())
    need = wanted.host_need(USUAL_HOST)
    assert (need.cpu_millis, need.memory_bytes) == (1000, 6 * GIB)


def test_an_argument_that_cannot_be_read_is_named_before_the_model_is_looked_up() -> None:
    spec = deployment(engine={"extraArgs": ["--seed=1", "--kv-offloading-size=lots"]}).spec
    with pytest.raises(InvalidInput, match=r"spec\.engine\.extraArgs\[1\]: 'lots'"):
        check_without_model(spec)
