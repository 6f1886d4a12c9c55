"""Two engines at the same time, while one takes over from the other: who is read how, and what is rendered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.sglang.metrics import METRICS as OF_SGLANG
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.engines.vllm.metrics import METRICS as OF_VLLM
from tests.render.workloads import container
from tests.support.desk import Desk
from tests.support.engine_course import H100, L40S, Course, command_of, serves

NAMED_VLLM, NAMED_SGLANG = {"name": "vllm"}, {"name": "sglang"}
ON_L40S = {"gpu": {"allow": [L40S]}}
IMAGES = {"vllm": VLLM.image(Vendor.NVIDIA, "0.32.0"), "sglang": SGLANG.image(Vendor.NVIDIA, "0.5.23")}
FLAGS = {"vllm": "--max-model-len", "sglang": "--context-length"}
PROBES = {"vllm": "/health", "sglang": "/ready"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    await made.settle("usual")
    yield made
    await made.book.close()


def started(command: tuple[str, ...]) -> str:
    """The engine that a pod with a command was started with."""
    return "sglang" if command == ("sglang", "serve") else "vllm"


def engines(course: Course) -> dict[str, str]:
    """The engine of each pod that serves."""
    pods = (pod for pod in course.pods() if serves(pod))
    return {pod["metadata"]["name"]: started(command_of(pod["spec"]["containers"][0])) for pod in pods}


def read_as(course: Course, name: str = "chat") -> dict[str, str]:
    """The engine in whose words each pod of an object is read."""
    words = {id(OF_VLLM): "vllm", id(OF_SGLANG): "sglang"}
    wanted = [what for key, what in course.desk.passes.live.wanted.items() if key.name == name]
    return {pod: words[id(what.of_pods.get(pod, what.metrics))] for what in wanted for pod in what.pods}


def pools(course: Course) -> dict[tuple[str, str], str]:
    """The engine of each pool in the status, by its GPU type and state."""
    return {(pool["gpuType"], pool["state"]): pool.get("engine", "vllm") for pool in course.status().get("pools") or ()}


def test_while_a_pool_gets_another_engine_each_pod_is_read_in_its_own_words(desk: Desk) -> None:
    course = Course(desk, NAMED_VLLM, replicas=2)
    assert set(read_as(course).values()) == {"vllm"}
    course.edit(NAMED_SGLANG, replicas=2)
    assert pools(course) == {(H100, "Active"): "sglang"}
    assert read_as(course) == engines(course)
    assert set(read_as(course).values()) == {"vllm"}, "the old pod serves on"
    course.comes_up = False
    course.replace_pods()
    assert sorted(read_as(course).values()) == ["vllm", "vllm"]
    course.comes_up = True
    course.replace_pods()
    assert set(read_as(course).values()) == {"vllm", "sglang"}
    assert read_as(course) == engines(course)
    course.replace_pods()
    assert sorted(read_as(course).values()) == ["sglang", "sglang"]
    assert set(read_as(course, "usual").values()) == {"vllm"}


def test_pools_of_two_engines_are_read_each_in_its_own_words(desk: Desk) -> None:
    course = Course(desk, NAMED_VLLM)
    course.with_l40s()
    course.comes_up = False
    course.edit(NAMED_SGLANG, **ON_L40S)
    assert pools(course) == {(L40S, "Active"): "sglang", (H100, "Retiring"): "vllm"}
    assert set(read_as(course).values()) == {"vllm"}
    images = {container(each)["image"] for each in course.workloads()}
    assert images == {*IMAGES.values()}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("edit"),
            st.sampled_from([NAMED_VLLM, NAMED_SGLANG, {"name": "auto"}, {"name": "auto", "cpuOffload": "1Gi"}]),
            st.sampled_from([{}, ON_L40S, {"gpu": {"allow": [H100]}}]),
        ),
        st.tuples(st.sampled_from(["comes up", "fails", "replace", "kill", "wait"])),
    ),
    min_size=1,
    max_size=7,
)


def take(course: Course, step: tuple[Any, ...]) -> None:
    match step:
        case ("edit", engine, spec):
            course.edit(engine, **spec)
        case ("comes up",):
            course.comes_up = True
        case ("fails",):
            course.comes_up = False
        case ("replace",):
            course.replace_pods()
        case ("kill",):
            course.kill()
        case _:
            course.waits()


def whole_of(workload: dict[str, Any]) -> str:
    """The engine of a Deployment, of which image, command, arguments and probes must be."""
    engine = container(workload)
    found = "sglang" if command_of(engine) else "vllm"
    assert engine["image"] == IMAGES[found]
    assert [flag for flag in FLAGS.values() if flag in engine["args"]] == [FLAGS[found]]
    assert engine["readinessProbe"]["httpGet"]["path"] == PROBES[found]
    return found


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_each_pool_is_of_one_engine_and_each_pod_is_read_as_it_was_started(
    steps: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def walk() -> None:
        desk = Desk(tmp_path_factory.getbasetemp())
        await desk.settle("usual")
        course = Course(desk, NAMED_VLLM)
        course.with_l40s()
        neighbour = course.workloads("usual")
        for step in steps:
            served = engines(course)
            take(course, step)
            assert desk.faults.latest("uid-chat", course.generation) is None
            by_pool = {pool["name"]: pool.get("engine", "vllm") for pool in course.status().get("pools") or ()}
            for workload in course.workloads():
                assert by_pool[workload["metadata"]["labels"]["plimsoll.dev/pool"]] == whole_of(workload)
            assert read_as(course) == {pod: started(course.commands[pod]) for pod in read_as(course)}
            if step[0] in ("edit", "wait"):
                assert not served or engines(course), "nothing that serves ends before its successor"
            assert course.workloads("usual") == neighbour
            assert set(read_as(course, "usual").values()) == {"vllm"}
        await desk.book.close()

    asyncio.run(walk())
