"""Two engines at the same time, while one takes over from the other: who is read how, and what is rendered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.decision.observing import measured_speeds, observe
from plimsoll.decision.results.reports import report_of
from plimsoll.decision.surroundings import memory_failure
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.engines.failures import read_failure
from plimsoll.engines.registry import ENGINES, started_by
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.sglang.metrics import METRICS as OF_SGLANG
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.engines.vllm.metrics import METRICS as OF_VLLM
from plimsoll.placement.memo import Memo
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.memory import Learned
from tests.render.workloads import container
from tests.support.desk import Desk
from tests.support.engine_course import H100, L40S, NOW, Course, command_of, serves
from tests.support.planning import fleet, node, pool
from tests.support.toy_engine import ABACUS

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


def test_the_pods_of_an_object_whose_spec_cannot_be_read_are_read_as_before(desk: Desk) -> None:
    course = Course(desk, NAMED_SGLANG)
    course.edit(NAMED_SGLANG, contextLength="long")
    assert course.status()["conditions"][0]["reason"] == "InvalidSpec"
    assert read_as(course) == engines(course) == {f"chat-{H100}-tp1-7d9-0": "sglang"}
    assert set(read_as(course, "usual").values()) == {"vllm"}


def test_the_old_pods_teach_nothing_of_the_engine_that_takes_over_and_nothing_is_decided_by_both(desk: Desk) -> None:
    """The old pod reports a third of the cache: by it, the new engine would be far too small."""
    loop = {"rebalancing": {"mode": "Auto"}, "replicas": 2}
    course = Course(desk, NAMED_VLLM, **loop)
    assert course.status()["rebalancing"]["reason"] != "MoveUnderWay"
    course.edit(NAMED_SGLANG, **loop)
    course.replace_pods()
    deployment, there = course.of("chat").outcome.deployment, fleet(node("h", H100, 8))
    named = {engine: pod for pod, engine in engines(course).items()}
    assert deployment.placed.of_other_engines == {named["vllm"]}
    assert course.status()["rebalancing"]["reason"] == "MoveUnderWay"

    def reported(**tokens: int) -> dict[str, int]:
        samples = {
            name: PodSignals(name, (EngineSample(at=NOW, kv_usage=0.1, waiting=0, kv_capacity_tokens=tokens[engine]),))
            for engine, name in named.items()
            if engine in tokens
        }
        return dict(observe(deployment, Reading(samples), there, Memo()).reported)

    assert reported(vllm=100_000, sglang=300_000) == reported(sglang=300_000) != {}
    assert reported(vllm=100_000) == {}
    assert observe(deployment, None, there, Memo()).reported == {}, "without metrics nothing is known of either"
    course.replace_pods()
    assert course.status()["rebalancing"]["reason"] != "MoveUnderWay"


def test_what_the_engine_before_reported_is_not_written_for_the_new_one(desk: Desk) -> None:
    """The first pass after the edit still knows the report of the engine that serves until then."""
    course = Course(desk, NAMED_VLLM)
    outcome = course.of("chat").outcome
    decision = outcome.decision
    assert decision is not None
    known = replace(outcome, observed=replace(outcome.observed, reported={f"{H100}-tp1": 100_000}))
    switched = replace(decision, pools=tuple(replace(each, engine="sglang") for each in decision.pools))
    for planned, expected in ((decision, 100_000), (switched, None)):
        report = report_of(replace(known, decision=planned), course.at)
        assert [report.reported_tokens(each) for each in planned.pools] == [expected]


def test_memory_that_ran_out_under_the_engine_before_is_not_the_new_ones(desk: Desk) -> None:
    course = Course(desk, NAMED_SGLANG)
    (pod,) = course.of("chat").outcome.deployment.placed.around.pods[f"{H100}-tp1"]
    failed = replace(pod, ready=False, failure=read_failure("torch.OutOfMemoryError: CUDA out of memory."))
    assert memory_failure(pool(H100, engine="sglang"), [failed]) == failed.failure
    assert memory_failure(pool(H100, engine="vllm"), [failed]) is None
    unseen = replace(failed, command=None)
    assert memory_failure(pool(H100, engine="vllm"), [unseen]) == failed.failure, "its pool is all that is known of it"


def test_the_speed_of_one_engine_is_no_speed_of_the_other_at_the_same_place(desk: Desk) -> None:
    course = Course(desk, NAMED_VLLM)
    deployment = course.of("chat").outcome.deployment
    seen = Learned(f"{H100}-tp1", slowness=2.0)
    of_vllm = replace(deployment, record=replace(deployment.record, learned=seen))
    of_sglang = replace(deployment, record=replace(deployment.record, learned=replace(seen, engine="sglang")))
    assert [each.kind.engine for each in measured_speeds(of_vllm)] == ["vllm"]
    assert measured_speeds(of_sglang) == ()


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
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert labels.get("inference.networking.k8s.io/engine-type", "vllm") == found
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
            if step[:2] == ("edit", {"name": "auto"}) and len(set(served.values())) == 1:
                assert {by_pool[pool["name"]] for pool in course.status()["pools"] if pool["state"] == "Active"} == {
                    *served.values()
                }, "what runs stays on its engine"
            if step[0] in ("edit", "wait"):
                assert not served or engines(course), "nothing that serves ends before its successor"
            assert course.workloads("usual") == neighbour
            assert set(read_as(course, "usual").values()) == {"vllm"}
        await desk.book.close()

    asyncio.run(walk())


def test_an_engine_is_known_by_its_command_and_only_if_no_other_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert started_by(()) is ENGINES["vllm"]
    assert started_by(("sglang", "serve")) is ENGINES["sglang"]
    assert started_by(("/bin/wrapped", "sglang", "serve")) is started_by(None) is None
    monkeypatch.setitem(ENGINES, "abacus", replace(ABACUS, command=()))
    assert started_by(()) is None
    monkeypatch.setitem(ENGINES, "abacus", ABACUS)
    assert [started_by(command) for command in ((), ("abacus", "serve"))] == [ENGINES["vllm"], ABACUS]
