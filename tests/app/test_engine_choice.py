"""``spec.engine.name: auto`` in the operator: the choice, its record, and that what runs stays on its engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app.reading import deployments
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.vllm.engine import VLLM
from tests.support.bodies import inference_deployment_body
from tests.support.desk import Desk
from tests.support.engine_course import SPEC, Course, serves

AUTO = {"name": "auto"}
SGLANG_FIRST = {"name": "auto", "prefer": ["sglang"]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An open choice, and a neighbour that names no engine."""
    made = Desk(tmp_path)
    await made.settle("usual")
    yield made
    await made.book.close()


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


def test_an_edit_that_is_taken_back_before_the_other_engine_serves_leaves_what_serves_alone(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    names = [pod["metadata"]["name"] for pod in course.pods()]
    course.comes_up = False
    course.edit(SGLANG_FIRST | {"cpuOffload": "1Gi"})
    course.replace_pods()
    assert course.image() == OF_VLLM
    course.edit(SGLANG_FIRST)
    assert course.image() == OF_SGLANG
    assert course.status()["pools"][0]["engine"] == "sglang"
    assert [pod["metadata"]["name"] for pod in course.pods() if serves(pod)] == names
    assert course.image("usual") == OF_VLLM


def test_a_status_that_names_another_engine_than_the_pods_run_changes_nothing(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST)
    course.rewrite_pools(engine=None)
    course.passes(2)
    assert course.image() == OF_SGLANG
    assert course.status()["pools"][0]["engine"] == "sglang"


def test_arguments_of_the_engine_that_runs_are_its_own_when_the_choice_is_opened(desk: Desk) -> None:
    flags = {"extraArgs": ["--load-format=auto"]}
    course = Course(desk, {"name": "sglang"} | flags)
    assert course.image() == OF_SGLANG
    course.edit(AUTO | flags)
    course.passes(2)
    assert course.image() == OF_SGLANG
    assert course.status()["engine"]["reason"] == "EngineKept"
    assert course.image("usual") == OF_VLLM


def test_arguments_leave_the_engines_that_are_known_to_take_each_of_them(desk: Desk) -> None:
    course = Course(desk, SGLANG_FIRST | {"extraArgs": ["--seed=1"]})
    assert course.image() == OF_VLLM
    engine = course.status()["engine"]
    assert (engine["name"], engine["reason"]) == ("vllm", "OnlyEngine")
    (other,) = engine["others"]
    assert (other["name"], other["reason"]) == ("sglang", "FieldRefused")
    assert other["message"] == (
        "SGLang does not take spec.engine.extraArgs[0]: '--seed=1'. Which flags SGLang takes is not known here: write "
        "spec.engine.name: sglang to give it some."
    )
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
