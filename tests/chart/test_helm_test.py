"""`helm test`: a plan by the operator's image and a request to every engine that serves, with rights to list alone."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.api.v1alpha1 import InferenceDeployment
from tests.support.documented import Written, understood
from tests.support.helm import CHART, Body, of_helm_test, pod_of

pytestmark = pytest.mark.helm

SOURCE = CHART / "checks" / "serving.py"


def pods(*options: str) -> dict[str, Body]:
    """The pod specs by the name of their container."""
    found = (each["spec"] for each in of_helm_test(*options) if each["kind"] == "Pod")
    return {spec["containers"][0]["name"]: spec for spec in found}


def of(kind: str, *options: str) -> list[Body]:
    return [each for each in of_helm_test(*options) if each["kind"] == kind]


def environment(pod: Body) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["containers"][0]["env"]}


def data() -> dict[str, str]:
    (config,) = of("ConfigMap")
    found: dict[str, str] = config["data"]
    return found


def test_everything_of_it_is_there_for_the_test_alone_and_rights_come_first() -> None:
    for each in of_helm_test():
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test", each["metadata"]["name"]
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        assert (int(annotations.get("helm.sh/hook-weight", "0")) < 0) == (each["kind"] != "Pod")


def test_both_pods_are_the_operators_image_under_an_account_of_their_own() -> None:
    operator = pod_of("plimsoll")
    assert list(pods()) == ["plan", "serving"]
    for pod in pods().values():
        (container,) = pod["containers"]
        assert container["image"] == operator["containers"][0]["image"]
        assert container["securityContext"] == operator["containers"][0]["securityContext"]
        assert pod["securityContext"] == operator["securityContext"]
        assert (
            pod["serviceAccountName"] == of("ServiceAccount")[0]["metadata"]["name"] != operator["serviceAccountName"]
        )


def test_no_selector_of_the_operator_finds_its_pods() -> None:
    labels = {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in of_helm_test()}
    assert labels == {"plimsoll-test"}


@pytest.mark.parametrize(
    "options", [(), ("--set", "watchNamespaces={one,two},fleet.readPods=true,fleet.readNodePools=true")], ids=str
)
def test_its_account_may_list_and_read_one_configmap(options: tuple[str, ...]) -> None:
    rules = [rule for each in (*of("ClusterRole", *options), *of("Role", *options)) for rule in each["rules"]]
    assert [rule for rule in rules if set(rule["verbs"]) - {"list"}] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["plimsoll-prices"], "verbs": ["get"]}
    ]
    assert not any("secrets" in rule["resources"] for rule in rules)
    subjects = [each["subjects"] for kind in ("ClusterRoleBinding", "RoleBinding") for each in of(kind, *options)]
    assert {(one["name"], one["namespace"]) for some in subjects for one in some} == {
        ("plimsoll-test", "plimsoll-system")
    }


def test_with_namespaces_to_serve_it_reads_those_and_no_other() -> None:
    options = ("--set", "watchNamespaces={one,two}")
    assert {rule["resources"][0] for rule in of("ClusterRole", *options)[0]["rules"]} == {
        "nodes", "resourceslices", "priorityclasses",
    }  # fmt: skip
    assert {each["metadata"]["namespace"] for each in of("Role", *options)} == {"one", "two", "plimsoll-system"}
    for pod in pods(*options).values():
        assert environment(pod)["PLIMSOLL_WATCH_NAMESPACES"] == "one,two"
    assert "PLIMSOLL_WATCH_NAMESPACES" not in environment(pods()["plan"])


def test_without_roles_of_the_chart_it_brings_none() -> None:
    kinds = {each["kind"] for each in of_helm_test("--set", "rbac.create=false")}
    assert kinds == {"ServiceAccount", "ConfigMap", "Pod"}


def test_a_fleet_file_is_the_operators() -> None:
    pod = pods("--set", "fleet.readNodes=false,fleet.configMap=nodes")["plan"]
    path = environment(pod)["PLIMSOLL_FLEET_FILE"]
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if path.startswith(each["mountPath"]))
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
    assert volume["configMap"] == {"name": "nodes"}


def test_the_plan_is_a_command_that_exists_about_a_manifest_that_any_gpu_holds_without_the_hub() -> None:
    shell, flag, line = pods()["plan"]["containers"][0]["command"]
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(line.partition("||")[0])
    assert words[0] == "plimsoll"
    understood(Written("helm test", tuple(words[1:]), is_whole=True))
    manifest = yaml.safe_load(data()["deployment.yaml"])
    assert words[words.index("-f") + 1] == "/checks/deployment.yaml"
    InferenceDeployment.model_validate(manifest)
    assert manifest["spec"]["model"]["name"] in catalogued_models()
    assert (
        min(each.usable_bytes for each in load_gpu_types()) > 3 * 2**30
    )  # 0.5e9 parameters of 2 bytes, and their cache


@pytest.mark.parametrize(("status", "passes"), [(0, True), (1, True), (2, False), (127, False)])
def test_a_full_cluster_is_no_failure_and_a_plan_that_cannot_be_made_is(status: int, passes: bool) -> None:  # noqa: FBT001
    *shell, line = pods()["plan"]["containers"][0]["command"]
    ran = subprocess.run([*shell, f"plimsoll() {{ return {status}; }}; {line}"], check=False)  # noqa: S603
    assert (ran.returncode == 0) is passes


def test_the_script_is_in_the_configmap_as_it_is() -> None:
    assert data()["serving.py"].strip() == SOURCE.read_text(encoding="utf-8").strip()
    assert pods()["serving"]["containers"][0]["command"] == ["python", "/checks/serving.py"]


# What the script says


def serving() -> Any:
    spec = importlib.util.spec_from_file_location("serving_check", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def deployment(name: str, replicas: int = 1) -> Body:
    status = {"readyReplicas": replicas, "url": f"http://{name}.chat:8000/v1"}
    return {"metadata": {"name": name, "namespace": "chat"}, "status": status}


def said(
    capsys: pytest.CaptureFixture[str], found: list[Body], models: Mapping[str, Any], path: str = "inferencedeployments"
) -> tuple[int, list[str]]:
    def ask(address: str) -> Any:
        if address == f"/apis/plimsoll.dev/v1alpha1/{path}":
            return {"items": found}
        if address not in models:
            raise ConnectionRefusedError("connection refused")
        return models[address]

    status = serving().main(ask)
    return status, capsys.readouterr().out.splitlines()


def test_an_engine_that_answers_for_its_model_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    served = {"http://qwen.chat:8000/v1/models": {"data": [{"id": "qwen"}]}}
    assert said(capsys, [deployment("qwen")], served) == (0, ["chat/qwen: http://qwen.chat:8000/v1 serves qwen"])


def test_one_that_does_not_answer_fails_with_its_address_and_what_may_be_the_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    served = {"http://qwen.chat:8000/v1/models": {"data": [{"id": "qwen"}]}}
    status, lines = said(capsys, [deployment("qwen"), deployment("llama")], served)
    assert (status, len(lines)) == (1, 2)
    assert lines[1].startswith("chat/llama: http://llama.chat:8000/v1 does not answer this pod (connection refused)")


@pytest.mark.parametrize(
    "answer", [{"data": [{"id": "other"}]}, {"data": []}, {"error": 1}, [], {"data": [{}]}], ids=json.dumps
)
def test_another_answer_fails(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = said(capsys, [deployment("qwen")], {"http://qwen.chat:8000/v1/models": answer})
    assert status == 1


def test_nothing_is_asked_of_what_does_not_serve(capsys: pytest.CaptureFixture[str]) -> None:
    starting = {"metadata": {"name": "new", "namespace": "chat"}}
    status, lines = said(capsys, [deployment("idle", 0), starting], {})
    assert status == 0
    assert all("no replica serves" in line for line in lines)
    assert said(capsys, [], {})[0] == 0


def test_it_lists_the_namespaces_that_the_operator_serves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIMSOLL_WATCH_NAMESPACES", "chat")
    assert said(capsys, [], {}, "namespaces/chat/inferencedeployments")[0] == 0
