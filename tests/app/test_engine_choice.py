"""``spec.engine.name: auto`` in the operator: the choice, its record, and that what runs stays on its engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning.pictures import carry_out
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.reading import deployments
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM
from tests.render.workloads import container
from tests.support.bodies import inference_deployment_body
from tests.support.desk import Desk

NOW = 1_700_000_000.0
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SPEC: dict[str, Any] = {"model": {"name": LLAMA}, "contextLength": 4096, "concurrency": 6}
AUTO = {"name": "auto"}
SGLANG_FIRST = {"name": "auto", "prefer": ["sglang"]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An open choice, and a neighbour that names no engine."""
    made = Desk(tmp_path)
    await made.settle("usual")
    yield made
    await made.book.close()


class Course:
    """Passes over two objects. After each pass everything is carried out, and every pod serves."""

    def __init__(self, desk: Desk, engine: Mapping[str, Any]) -> None:
        self.desk, self.version, self.at = desk, 5, NOW
        usual = inference_deployment_body("usual", uid="uid-usual", spec=SPEC)
        self.desk.store.replace(INFERENCE_DEPLOYMENTS, [self._body(engine, 1), usual])
        self.passes(2)

    @staticmethod
    def _body(engine: Mapping[str, Any], generation: int) -> dict[str, Any]:
        body = inference_deployment_body("chat", uid="uid-chat", spec=SPEC | {"engine": engine})
        return {**body, "metadata": {**body["metadata"], "generation": generation}}

    def passes(self, number: int) -> None:
        for _ in range(number):
            self.at += 30.0
            self.desired = self.desk.passes.make(self.desk.store.picture(), {}, self.at).desired
            self.version += 1
            carry_out(self.desk.store, self.desired, self.version)

    def edit(self, engine: Mapping[str, Any]) -> None:
        """The user writes another engine, and nothing else."""
        now = self.desk.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "chat"))
        assert now is not None
        generation = now["metadata"]["generation"] + 1
        self.version += 1
        body = self._body(engine, generation)
        head = {**body["metadata"], "resourceVersion": str(self.version)}
        written = {**body, "metadata": head, "status": now["status"]}
        self.desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
        self.passes(2)

    def rewrite_engine(self, **changed: str) -> None:
        """The status says something else of the engine, as an earlier release left it."""
        now = self.desk.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "chat"))
        assert now is not None
        self.version += 1
        head = {**now["metadata"], "resourceVersion": str(self.version)}
        status = {**now["status"], "engine": {**now["status"]["engine"], **changed}}
        self.desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**now, "metadata": head, "status": status})

    def of(self, name: str) -> Desired:
        return next(each for each in self.desired if each.body["metadata"]["name"] == name)

    def status(self, name: str = "chat") -> dict[str, Any]:
        return dict(self.of(name).new_status or {})

    def image(self, name: str = "chat") -> str:
        found = [each for each in self.desk.store.all(DEPLOYMENTS) if each["metadata"]["name"].startswith(f"{name}-")]
        (workload,) = found
        return str(container(dict(workload))["image"])


OF_VLLM, OF_SGLANG = VLLM.image(Vendor.NVIDIA, "0.32.0"), SGLANG.image(Vendor.NVIDIA, "0.5.23")


def test_the_choice_is_rendered_and_recorded_and_the_neighbour_has_no_record(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    assert course.image() == OF_SGLANG
    engine = course.status()["engine"]
    assert (engine["name"], engine["version"], engine["reason"]) == ("sglang", "0.5.23", "Preferred")
    assert [(each["name"], each["version"], each["reason"]) for each in engine["others"]] == [
        ("vllm", "0.32.0", "LessPreferred")
    ]
    assert course.status()["pools"][0]["engine"] == "sglang"
    assert course.status()["placement"]["engine"]["version"] == "0.5.23"
    assert course.image("usual") == OF_VLLM
    assert "engine" not in course.status("usual")
    assert "engine" not in course.status("usual")["pools"][0]
    read = {key.name: what.metrics for key, what in desk.passes.live.wanted.items()}
    assert read == {"chat": SGLANG.metrics, "usual": VLLM.metrics}


def test_what_runs_stays_on_its_engine_whatever_the_list_says(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    (before,) = course.status()["pools"]
    course.edit({"name": "auto", "prefer": ["vllm"]})
    assert course.image() == OF_SGLANG
    (after,) = course.status()["pools"]
    assert after | {"generation": 1} == before | {"generation": 1}
    engine = course.status()["engine"]
    assert (engine["name"], engine["version"], engine["reason"]) == ("sglang", "0.5.23", "EngineKept")
    assert course.image("usual") == OF_VLLM


def test_the_release_that_runs_is_named_and_not_one_that_ran_before(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    course.rewrite_engine(version="0.5.20")
    course.passes(1)
    engine = course.status()["engine"]
    assert (engine["name"], engine["version"], engine["reason"]) == ("sglang", "0.5.23", "EngineKept")


def test_an_object_that_runs_keeps_its_engine_when_it_gets_an_open_choice(desk: Desk) -> None:
    course = Course(desk, {})
    assert course.image() == OF_VLLM
    course.edit(SGLANG_FIRST)
    assert course.image() == OF_VLLM
    engine = course.status()["engine"]
    assert (engine["name"], engine["reason"]) == ("vllm", "EngineKept")
    course.edit({"name": "sglang"})
    assert course.image() == OF_SGLANG
    assert "engine" not in course.status()


def test_a_field_that_the_running_engine_lacks_gives_it_to_the_other_one(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    course.edit(SGLANG_FIRST | {"cpuOffload": "1Gi"})
    assert course.image() == OF_VLLM
    engine = course.status()["engine"]
    assert (engine["name"], engine["reason"]) == ("vllm", "OnlyEngine")
    (other,) = engine["others"]
    assert (other["name"], other["reason"]) == ("sglang", "FieldRefused")
    assert other["message"].startswith("SGLang does not take spec.engine.cpuOffload: '1Gi'. ")
    course.passes(2)
    assert course.image() == OF_VLLM
    assert course.status()["engine"]["name"] == "vllm"
    assert course.image("usual") == OF_VLLM


def test_arguments_of_the_engine_that_runs_are_its_own_when_the_choice_is_opened(desk: Desk) -> None:
    flags = {"extraArgs": ["--load-format=auto"]}
    course = Course(desk, {"name": "sglang"} | flags)
    assert course.image() == OF_SGLANG
    course.edit(AUTO | flags)
    course.passes(2)
    assert course.image() == OF_SGLANG
    assert course.status()["engine"]["reason"] == "EngineKept"
    assert course.image("usual") == OF_VLLM


def test_a_refusal_that_the_user_has_not_caused_moves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new release of the operator refuses on SGLang what SGLang runs."""
    course = Course(desk, SGLANG_FIRST)

    def refuse(spec: InferenceDeploymentSpec) -> None:
        if spec.engine.name == "sglang":
            raise InvalidInput("spec.engine.name", "sglang", "Not in this release.")

    monkeypatch.setattr(deployments, "check_without_model", refuse)
    course.passes(3)
    assert course.image() == OF_SGLANG
    (ready, *_) = course.status()["conditions"]
    assert (ready["reason"], ready["message"].partition(" cannot")[0]) == ("InvalidSpec", "spec.engine.name: 'sglang'")
    assert course.image("usual") == OF_VLLM
    assert course.status("usual")["conditions"][0]["reason"] != "InvalidSpec"


def test_a_spec_that_no_engine_takes_is_refused_with_what_each_says(desk: Desk) -> None:
    course = Course(desk, AUTO | {"extraArgs": ["--max-model-len=5"]})
    (ready, *_) = course.status()["conditions"]
    assert ready["reason"] == "InvalidSpec"
    assert "spec.engine.name: 'auto' cannot be used. No engine takes all of the spec. vLLM: " in ready["message"]
    assert "SGLang: spec.engine.extraArgs[0]: '--max-model-len=5'" in ready["message"]
    assert course.image("usual") == OF_VLLM


def test_an_unplaced_choice_says_what_each_engine_lacks(desk: Desk) -> None:
    course = Course(desk, AUTO)
    course.desk.store.replace(INFERENCE_DEPLOYMENTS, [])
    body = inference_deployment_body(
        "chat", uid="uid-other", spec=SPEC | {"engine": AUTO, "concurrency": 4000, "contextLength": 100_000}
    )
    course.desk.store.replace(INFERENCE_DEPLOYMENTS, [body])
    course.passes(1)
    engine = course.status()["engine"]
    assert engine["reason"] == "NoPlace"
    assert [each["reason"] for each in engine["others"]] == ["NothingFits"]
    assert engine["others"][0]["message"].startswith("SGLang fits nowhere: h100-sxm-80gb x ")
    assert not course.status().get("pools")
