"""One InferenceDeployment from apply to delete, on a real API server with the chart's rights and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import USER, OperatorProcess
from tests.support.installed import (
    LLAMA_8B,
    View,
    condition,
    inference_deployment,
    install,
    on_gpu,
    operator_writes,
)
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

OWNED = {"inferencedeployments/status", "deployments", "services", "poddisruptionbudgets", "events"}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane(mixed_fleet()) as running:
        install(running)
        with OperatorProcess(running):
            yield running


def test_apply_brings_estimate_placement_pods_service_and_budget(here: View) -> None:
    since = AuditLog(here.control_plane.audit_log).offset()
    here.apply("llama-8b")
    here.wait(lambda: operator_writes(here.control_plane, since, here.namespace), "the first write")
    body = here.wait_ready("llama-8b")

    first = operator_writes(here.control_plane, since, here.namespace)[0]
    assert (first.resource, first.name) == ("inferencedeployments/status", "llama-8b")
    assert body["status"]["placement"]["gpuType"] == "l4-24gb"
    assert body["status"]["estimate"]["computedBytes"] <= body["status"]["estimate"]["budgetBytes"]
    assert body["status"]["replicasSummary"] == "1/1"
    assert {entry["type"]: entry["status"] for entry in body["status"]["conditions"]} == {
        "Ready": "True",
        "Planned": "True",
        "Placed": "True",
        "Available": "True",
    }
    assert here.nodes_of("llama-8b") == ["l4-0"]
    [service], [budget] = here.all("services", "llama-8b"), here.all("poddisruptionbudgets", "llama-8b")
    assert service["spec"]["selector"] == {"plimsoll.dev/deployment": "llama-8b"}
    assert budget["spec"]["maxUnavailable"] == 1
    [note] = here.wait(
        lambda: [event["note"] for event in here.all("events") if event["reason"] == "PlacementDecided"], "the event"
    )
    assert note.startswith("1 replica on l4-24gb, tensor parallel 1 at $0.418/h each. It fits: weights 14.99 GiB + ")


def test_kubectl_wait_and_the_printer_columns_work(here: View) -> None:
    here.apply("llama-8b", **on_gpu("h100-sxm-80gb"))
    where = ("--namespace", here.namespace)
    here.control_plane.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "infd/llama-8b", *where)
    [header, row] = here.control_plane.kubectl("get", "infd", *where).splitlines()

    assert header.split()[0] == "NAME"
    assert "h100-sxm-80gb" in row
    assert "1/1" in row


def test_the_users_object_is_never_written_but_for_its_status(here: View) -> None:
    manifest = inference_deployment("mine", here.namespace, **on_gpu("h100-sxm-80gb"))
    manifest["metadata"] |= {"labels": {"team": "search"}, "annotations": {"note": "keep"}}
    here.control_plane.apply([manifest])
    here.wait_ready("mine")
    here.patch("mine", {"contextLength": 8192})
    body = here.wait_ready("mine")

    assert body["metadata"]["labels"] == {"team": "search"}
    assert body["metadata"]["annotations"] == {"note": "keep"}
    assert "finalizers" not in body["metadata"]
    own = [entry for entry in body["metadata"]["managedFields"] if entry["manager"] == "plimsoll"]
    assert [(entry["subresource"], list(entry["fieldsV1"])) for entry in own] == [("status", ["f:status"])]
    written = operator_writes(here.control_plane, namespace=here.namespace)
    assert {event.resource for event in written} <= OWNED
    assert all(event.status < 400 for event in written), [event for event in written if event.status >= 400]


def test_a_longer_context_that_still_fits_is_rolled_out_in_place(here: View) -> None:
    here.apply("grows", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("grows")
    [before] = here.pods("grows")
    here.patch("grows", {"contextLength": 8192})

    def replaced() -> bool:
        return [pod["metadata"]["uid"] for pod in here.pods("grows")] not in ([], [before["metadata"]["uid"]]) and len(
            here.pods("grows")
        ) == 1

    here.wait(replaced, "the new pod alone")
    body = here.wait_ready("grows")

    [pod] = here.pods("grows")
    arguments = pod["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--max-model-len") + 1] == "8192"
    assert here.workloads("grows") == ["grows-h100-sxm-80gb-tp1"]
    assert [pool["generation"] for pool in body["status"]["pools"]] == [2]


def test_a_permitted_fp8_cache_is_used_where_16_bits_do_not_fit_and_nowhere_else(here: View) -> None:
    one_gpu = {"gpu": {"allow": ["h100-sxm-80gb"], "maxPerReplica": 1}, "kvCache": {"allowFp8": True}}
    here.apply("large", **one_gpu, contextLength=131072, concurrency=6)
    here.apply("small", **one_gpu)
    large, small = here.wait_ready("large"), here.wait_ready("small")
    caches = {}
    for name in ("large", "small"):
        [pod] = here.pods(name)
        arguments = pod["spec"]["containers"][0]["args"]
        caches[name] = arguments[arguments.index("--kv-cache-dtype") + 1]
    assert caches == {"large": "fp8", "small": "auto"}
    assert [body["status"]["model"]["kvPrecision"] for body in (large, small)] == ["fp8", "bf16"]
    assert "spec.kvCache.allowFp8 permits" in large["status"]["placement"]["warnings"][0]
    assert "warnings" not in small["status"]["placement"]


def test_a_change_that_needs_another_gpu_makes_before_it_breaks(here: View) -> None:
    here.apply("moves")
    here.wait_ready("moves")
    since = AuditLog(here.control_plane.audit_log).offset()
    here.patch("moves", {"contextLength": 8192})
    serving: list[int] = []

    def moved() -> bool:
        pods = here.all("pods", "moves")
        serving.append(sum(1 for pod in pods if condition(pod, "Ready").get("status") == "True"))
        return here.workloads("moves") == ["moves-l40s-48gb-tp1"] and here.nodes_of("moves") == ["l40s-0"]

    here.wait(moved, "the new pool alone")
    body = here.wait_ready("moves")

    assert min(serving) >= 1
    events = AuditLog(here.control_plane.audit_log).events(since)
    became_ready = next(
        index
        for index, event in enumerate(events)
        if event.resource == "pods/status"
        and "l40s" in event.name
        and '"AllReady"' not in json.dumps(event.body)
        and any(entry["type"] == "Ready" and entry["status"] == "True" for entry in _sent_conditions(event.body))
    )
    deleted = next(
        index
        for index, event in enumerate(events)
        if event.user == USER and (event.verb, event.resource) == ("delete", "deployments")
    )
    assert became_ready < deleted
    assert [pool["state"] for pool in body["status"]["pools"]] == ["Active"]
    assert {"PlacementDecided", "PlacementRetired"} <= {event["reason"] for event in here.all("events")}


def _sent_conditions(body: object) -> list[dict[str, str]]:
    if not isinstance(body, dict):
        return []
    return list((body.get("status") or {}).get("conditions") or [])


def test_scale_goes_up_to_zero_and_back(here: View) -> None:
    where = ("--namespace", here.namespace)
    here.apply("scales", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("scales")
    here.control_plane.kubectl("scale", "infd/scales", "--replicas=3", *where)
    body = here.wait_ready("scales")
    assert body["status"]["replicasSummary"] == "3/3"
    assert here.nodes_of("scales") == ["h100-0"] * 3
    assert json.loads(here.control_plane.kubectl("get", "infd/scales", "--subresource=scale", "-o", "json", *where))[
        "status"
    ] == {"replicas": 3, "selector": "plimsoll.dev/deployment=scales"}

    here.control_plane.kubectl("scale", "infd/scales", "--replicas=0", *where)
    here.wait_condition("scales", "Ready", "True", "ScaledToZero")
    here.wait(lambda: not here.all("pods", "scales"), "no pod left")
    assert here.workloads("scales") == ["scales-h100-sxm-80gb-tp1"]

    here.control_plane.kubectl("scale", "infd/scales", "--replicas=1", *where)
    assert here.wait_ready("scales")["status"]["replicasSummary"] == "1/1"


def test_suspend_leaves_everything_as_it_is_until_it_ends(here: View) -> None:
    here.apply("rests", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("rests")
    here.patch("rests", {"suspend": True, "replicas": 2})
    here.wait_condition("rests", "Ready", "True", "Suspended")
    [workload] = here.all("deployments", "rests")
    assert workload["spec"]["replicas"] == 1
    here.patch("rests", {"suspend": False})
    assert here.wait_ready("rests")["status"]["replicasSummary"] == "2/2"


def test_replicas_that_one_gpu_type_cannot_hold_spill_over_to_a_second(here: View) -> None:
    here.apply("wide", replicas=10, gpu={"allow": ["h100-sxm-80gb", "l40s-48gb"]})
    body = here.wait_ready("wide", timeout=60)
    # The cheaper GPUs are all taken, and the dearer ones as far as needed.
    assert {pool["gpuType"]: pool["replicas"] for pool in body["status"]["pools"]} == {
        "h100-sxm-80gb": 6,
        "l40s-48gb": 4,
    }
    assert sorted(set(here.nodes_of("wide"))) == ["h100-0", "l40s-0"]
    assert len(here.nodes_of("wide")) == 10
    assert len(here.all("services", "wide")) == 1


def test_delete_takes_everything_along(here: View) -> None:
    here.apply("goes", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("goes")
    here.delete("inferencedeployments", "goes")
    for plural in ("deployments", "replicasets", "pods", "services", "poddisruptionbudgets"):
        here.wait(lambda plural=plural: not here.all(plural, "goes"), f"no {plural} left")  # type: ignore[misc]


def test_drift_is_repaired_and_foreign_labels_stay(here: View) -> None:
    here.apply("drifts", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("drifts")
    name = "drifts-h100-sxm-80gb-tp1"
    here.patch_object("deployments", name, {"metadata": {"labels": {"cost-centre": "42"}}})
    rendered = here.read("deployments", name)["spec"]["template"]["spec"]["containers"][0]["args"]
    container = {"name": "engine", "args": ["--help"]}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    here.control_plane.kubectl(
        "patch",
        "deployment",
        name,
        "--namespace",
        here.namespace,
        "--type=strategic",
        f"--patch={json.dumps(template)}",
    )
    here.patch_object("services", "drifts", {"spec": {"selector": {"plimsoll.dev/deployment": "nobody"}}})

    def repaired() -> bool:
        workload = here.read("deployments", name)
        return bool(workload["spec"]["template"]["spec"]["containers"][0]["args"] == rendered)

    here.wait(repaired, "the arguments restored")
    here.wait(
        lambda: here.read("services", "drifts")["spec"]["selector"] == {"plimsoll.dev/deployment": "drifts"},
        "the selector restored",
    )
    assert here.read("deployments", name)["metadata"]["labels"]["cost-centre"] == "42"

    old = here.read("services", "drifts")["metadata"]["uid"]
    here.delete("services", "drifts")
    here.delete("poddisruptionbudgets", "drifts")
    here.wait(
        lambda: here.read("services", "drifts").get("metadata", {}).get("uid") not in (None, old), "a new Service"
    )
    here.wait(lambda: here.read("poddisruptionbudgets", "drifts"), "a new budget")


def test_a_foreign_service_of_the_same_name_is_left_alone_and_named(here: View) -> None:
    ports = [{"port": 80}]
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken", "namespace": here.namespace},
        "spec": {"selector": {"app": "other"}, "ports": ports},
    }
    here.control_plane.apply([foreign])
    before = here.read("services", "taken")
    here.apply("taken", **on_gpu("h100-sxm-80gb"))
    body = here.wait_condition("taken", "Stalled", "True", "NameConflict")
    assert f"{here.namespace}/taken" in condition(body, "Stalled")["message"]
    since = AuditLog(here.control_plane.audit_log).offset()
    here.apply("other", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("other")

    assert here.read("services", "taken")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert here.workloads("taken") == []
    about_it = [event for event in operator_writes(here.control_plane, since) if event.name == "taken"]
    assert {event.resource for event in about_it} <= {"inferencedeployments/status"}, "it fights for the name"
    assert {condition(event.body or {}, "Stalled")["reason"] for event in about_it} <= {"NameConflict"}, "it wavers"
    # The conflict itself, which may reach the log after its watchers, and once what the live loop waits for.
    assert len(about_it) <= 2, "it does not come to rest"

    here.delete("services", "taken")
    here.wait_ready("taken")


def test_a_quota_that_refuses_pods_is_told(here: View) -> None:
    # The operator reads no quota on local storage, so it promises a place, and the API server refuses the pod.
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": here.namespace},
        "spec": {"hard": {"requests.ephemeral-storage": "1Gi"}},
    }
    here.control_plane.apply([quota])
    here.wait(
        lambda: (
            "hard"
            in here.control_plane.kubectl("get", "quota", "none", "-n", here.namespace, "-o", "jsonpath={.status}")
        ),
        "the quota counted",
    )
    storage = {"podTemplate": {"resources": {"requests": {"ephemeral-storage": "2Gi"}}}}
    here.apply("refused", **on_gpu("h100-sxm-80gb"), **storage)
    body = here.wait_condition("refused", "Ready", "False", "PodsNotCreated")
    assert "exceeded quota: none" in condition(body, "Placed")["message"]


def test_what_cannot_be_used_says_so_and_holds_nobody_up(here: View) -> None:
    inline = {"architectures": ["RwkvForCausalLM"], "model_type": "rwkv", "ssm_cfg": {}}
    here.apply("unsupported", model={"name": "house/odd", "config": inline})
    here.apply("contradictory", model={"name": LLAMA_8B}, precision="awq")
    here.apply("fine", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("fine")

    odd = here.wait_condition("unsupported", "Stalled", "True")
    assert condition(odd, "Stalled")["reason"] == "UnsupportedModel"
    assert "ssm_cfg" in condition(odd, "Stalled")["message"]
    wrong = here.wait_condition("contradictory", "Stalled", "True", "InvalidSpec")
    assert "spec.precision" in condition(wrong, "Ready")["message"]
    assert "awq" in condition(wrong, "Ready")["message"]
    assert here.workloads("unsupported") == here.workloads("contradictory") == []
    here.patch("contradictory", {"precision": "auto", **on_gpu("h100-sxm-80gb")})
    here.wait_ready("contradictory")
