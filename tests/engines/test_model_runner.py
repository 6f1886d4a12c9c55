"""Weights in host memory: the engine gets the model runner that keeps them there, and nobody is promised more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Option, Split, Target
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineChoice, EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request, fingerprint
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.engines.vllm.launch import launch
from plimsoll.engines.vllm.memory.laws.runners import SWITCH
from tests.render.workloads import options
from tests.support.planning import H100, gpu, model
from tests.support.tables import every_case

CPU_OFFLOAD = {"cpuOffload": "4Gi"}
RELEASES = ["0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.32.0"]
WITHOUT = RELEASES[1:7]
"""Releases whose second runner has no offloader."""


def asked(release: str, switch: str | None = None, **engine: Any) -> Request:
    pod = {} if switch is None else {"podTemplate": {"env": [{"name": SWITCH, "value": switch}]}}
    body = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "a", "namespace": "team"},
        "spec": {
            "model": {"name": "Qwen/Qwen3-8B"},
            "contextLength": 8192,
            "concurrency": 4,
            "engine": {"version": release, **engine},
            **pod,
        },
    }
    return to_request(parse_inference_deployment(body), model())


def environment(wanted: Request) -> dict[str, str]:
    settings = VLLM.settings(wanted, gpu(H100), Split(1))
    figures = VLLM.estimate(wanted, gpu(H100), Split(1), settings)
    choice = Option(gpu(H100), Target(H100, Split(1), ("", ""), "nvidia.com/gpu"), settings, figures)
    return dict(launch(options(engine_version=str(wanted.engine.version)), choice).environment)


def figures(wanted: Request) -> MemoryEstimate:
    return VLLM.estimate(wanted, gpu(H100), Split(1), VLLM.settings(wanted, gpu(H100), Split(1)))


def host_bytes(wanted: Request) -> int:
    return figures(wanted).host_bytes


def weights(wanted: Request) -> int:
    return figures(wanted).weights_bytes


@every_case("release", RELEASES)
def test_an_offload_gets_the_first_runner_where_the_second_has_none(release: str) -> None:
    wanted = asked(release, **CPU_OFFLOAD)
    assert wanted.engine.model_runner == (1 if release in WITHOUT else None)
    assert environment(wanted).get(SWITCH) == ("0" if release in WITHOUT else None)
    assert host_bytes(wanted) == 4 * GIB


@every_case("release", RELEASES)
def test_an_engine_without_an_offload_chooses_for_itself(release: str) -> None:
    assert asked(release).engine.model_runner is None
    assert SWITCH not in environment(asked(release))


@every_case("release", RELEASES)
def test_the_users_own_switch_counts(release: str) -> None:
    assert asked(release, "0", **CPU_OFFLOAD).engine.model_runner == 1
    assert asked(release, "1").engine.model_runner == 2
    assert asked(release, "maybe").engine.model_runner is None
    if release >= "0.28":
        assert host_bytes(asked(release, "1", **CPU_OFFLOAD)) == 4 * GIB
        return
    with pytest.raises(InvalidInput) as refused:
        asked(release, "1", **CPU_OFFLOAD)
    assert "spec.engine.cpuOffload" in str(refused.value)
    assert SWITCH in str(refused.value)


def test_an_image_of_the_users_own_may_offload_with_either() -> None:
    assert asked("0.25.1", "1", image="registry.example/own:1", **CPU_OFFLOAD).engine.model_runner == 2


def test_what_an_engine_does_that_nobody_told_is_known_by_its_release_and_model() -> None:
    """Qwen3-8B is served by the second runner from 0.22 on: its flags of an offload did nothing up to 0.27."""
    kept = EngineChoice(EngineVersion(0, 25, 1), residency=CpuOffload(4 * GIB))
    foreign = replace(asked("0.25.1"), engine=kept)
    assert host_bytes(foreign) == 0
    assert weights(foreign) == weights(replace(foreign, engine=replace(kept, residency=None)))
    older = replace(foreign, engine=replace(kept, version=EngineVersion(0, 21)))
    assert host_bytes(older) == 4 * GIB
    assert weights(older) < weights(foreign)


def test_engines_with_another_runner_learn_apart() -> None:
    free, first = asked("0.25.1"), asked("0.25.1", "0")
    assert fingerprint(free.model, free.engine) != fingerprint(first.model, first.engine)
