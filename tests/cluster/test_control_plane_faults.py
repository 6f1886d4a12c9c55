"""A control plane that loses rights, kinds, data, disk space or its store: it comes back, and so do we."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from tests.support.faulty import IMPATIENT
from tests.support.honest import Honest
from tests.support.installed import (
    CRD,
    CRD_NAME,
    View,
    condition,
    namespace_of,
    on_gpu,
    operator_writes,
)

pytestmark = pytest.mark.cluster

MINUTE = 60.0
QUICK = {"PLIMSOLL_RELIST_SECONDS": "1", "PLIMSOLL_LEASE_SECONDS": "8", "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS": "7"}
"""A list every second, and a lease that is lost within seconds of a store that fails."""


@pytest.fixture(scope="module")
def started(control_plane: ControlPlane) -> Iterator[OperatorProcess]:
    with OperatorProcess(control_plane, environment=IMPATIENT | QUICK, restarts=False) as operator:
        yield operator


@pytest.fixture
def operator(started: OperatorProcess) -> OperatorProcess:
    """The operator, running."""
    started.start_if_ended()
    return started.wait_healthy()


@pytest.fixture
def honest(control_plane: ControlPlane, operator: OperatorProcess) -> Iterator[Honest]:
    """A tenant next door. Fresh for every test: some of these lose everything that was there."""
    assert operator.is_running
    with namespace_of(control_plane, f"honest-{uuid.uuid4().hex[:6]}") as view:
        yield Honest(view)


def served_in_the_end(operator: OperatorProcess, view: View, name: str) -> None:
    """Wait for an object, and start the operator again where it ended, as the kubelet does."""

    def is_served() -> bool:
        operator.start_if_ended()
        body = view.get(name)
        ready = condition(body, "Ready")
        is_current = bool(body) and ready.get("observedGeneration") == body["metadata"]["generation"]
        return is_current and ready["reason"] == "Serving"

    view.wait(is_served, f"{name} served", 2 * MINUTE)


def test_rights_that_are_taken_away_are_told_and_taken_up_again(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest, here: View
) -> None:
    bindings = json.loads(control_plane.kubectl("get", "clusterrolebindings", "-o", "json"))["items"]
    [ours] = [item for item in bindings if item["roleRef"]["name"] == "plimsoll"]
    with honest.standing():
        control_plane.kubectl("delete", "clusterrolebinding", ours["metadata"]["name"])
        here.apply("waits", **on_gpu("h100-sxm-80gb"))
        here.wait(lambda: "forbidden" in "\n".join(operator.log_lines()[-200:]), "a word about the rights", MINUTE)
        assert here.workloads("waits") == []
        head = {key: ours["metadata"][key] for key in ("name", "labels") if key in ours["metadata"]}
        control_plane.apply([ours | {"metadata": head}])
        served_in_the_end(operator, here, "waits")


def test_a_webhook_that_is_down_stops_its_own_namespace_and_no_other(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest, here: View
) -> None:
    with webhook_to_nobody(control_plane, here.namespace):
        here.apply("hooked", **on_gpu("h100-sxm-80gb"))
        body = here.wait_condition("hooked", "Ready", "False", "PodsNotCreated")
        assert "failed calling webhook" in condition(body, "Ready")["message"]
        honest.assert_served()
    here.wait_ready("hooked", timeout=2 * MINUTE)
    assert operator.healthy()


def dry_run(control_plane: ControlPlane, namespace: str) -> str:
    """Return the Deployment that the API server would store, or its refusal. New admission rules take a moment."""
    options = ("--image=registry.example/web:1", "--dry-run=server", "--output=json", "--namespace", namespace)
    return control_plane.kubectl("create", "deployment", "probe", *options, check=False)


@contextmanager
def webhook_to_nobody(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """An admission webhook for the Deployments of one namespace that must be asked and never answers."""
    webhook = {
        "name": "nobody.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"], "operations": ["CREATE"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    control_plane.apply([kind | {"metadata": {"name": "nobody"}, "webhooks": [webhook]}])
    try:
        control_plane.wait_until(
            lambda: "failed calling webhook" in dry_run(control_plane, namespace), 60, "the webhook in force"
        )
        yield
    finally:
        control_plane.kubectl("delete", "validatingwebhookconfiguration", "nobody")


def test_what_a_mutating_policy_adds_to_our_objects_is_left_there(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest, here: View
) -> None:
    with sidecars_added(control_plane, here.namespace):
        here.apply("injected", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("injected")
        [workload] = here.all("deployments", "injected")
        assert [c["name"] for c in workload["spec"]["template"]["spec"]["containers"]][-1] == "mesh"
        since = AuditLog(control_plane.audit_log).offset()
        honest.assert_served()
        fought = [e for e in operator_writes(control_plane, since, here.namespace) if e.resource == "deployments"]
        assert fought == []
        here.patch("injected", {"contextLength": 8192})
        here.wait_ready("injected")
    assert operator.healthy()


@contextmanager
def sidecars_added(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """A policy that puts a container and a label into every Deployment of one namespace, as a service mesh does."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "mesh"}}
    mutations = [
        {"op": "add", "path": "/spec/template/metadata/labels/mesh", "value": '"on"'},
        {
            "op": "add",
            "path": "/spec/template/spec/containers/-",
            "value": 'Object.spec.template.spec.containers{name: "mesh", image: "registry.example/mesh:1"}',
        },
    ]
    patches = ", ".join(f'JSONPatch{{op: "{m["op"]}", path: "{m["path"]}", value: {m["value"]}}}' for m in mutations)
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "resources": ["deployments"],
                    "operations": ["CREATE", "UPDATE"],
                }
            ],
        },
        "matchConditions": [
            {"name": "bare", "expression": '!object.spec.template.spec.containers.exists(c, c.name == "mesh")'}
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{patches}]"}}],
    }
    control_plane.apply(
        [
            kind | {"kind": "MutatingAdmissionPolicy", "spec": policy},
            kind | {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "mesh"}},
        ]
    )
    try:
        control_plane.wait_until(lambda: "mesh:1" in dry_run(control_plane, namespace), 60, "the policy in force")
        yield
    finally:
        control_plane.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "mesh")


def test_a_store_that_is_killed_stands_still_or_has_no_space_changes_nothing(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest, here: View
) -> None:
    here.apply("stays", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("stays")
    before, since = here.pod_uids("stays"), AuditLog(control_plane.audit_log).offset()
    etcd = control_plane.process("etcd")
    with honest.standing():
        etcd.kill()
        here.wait(lambda: not is_ready(control_plane), "the API server without its store")
        etcd.start()
        here.wait(lambda: is_ready(control_plane), "the API server ready")

        wait_leading(operator)
        etcd.pause()
        try:
            wait_lease_lost(operator)
        finally:
            etcd.resume()
        here.wait(lambda: is_ready(control_plane), "the API server ready")

        wait_leading(operator)
        control_plane.set_storage_alarm(on=True)
        try:
            wait_lease_lost(operator)
        finally:
            control_plane.set_storage_alarm(on=False)
        here.apply("afterwards", **on_gpu("h100-sxm-80gb"))
        served_in_the_end(operator, here, "afterwards")
    served_in_the_end(operator, here, "stays")
    assert here.pod_uids("stays") == before
    ours = [e for e in operator_writes(control_plane, since, here.namespace) if "afterwards" not in e.name]
    assert [e for e in ours if e.status < 300 and e.verb in ("create", "delete") and e.resource != "events"] == []


def is_ready(control_plane: ControlPlane) -> bool:
    """Whether the API server says so."""
    return control_plane.kubectl("get", "--raw", "/readyz", check=False) == "ok"


def wait_leading(operator: OperatorProcess) -> None:
    """Start it again where it ended, and wait until it holds the lease."""

    def is_leading() -> bool:
        operator.start_if_ended()
        status, body = operator.probe("/readyz")
        return status == 200 and "leading" in body

    wait_until(is_leading, 2 * MINUTE, "the operator leading")


def wait_lease_lost(operator: OperatorProcess) -> None:
    """A process that cannot renew its lease ends itself, and says why."""
    wait_until(lambda: not operator.is_running, MINUTE, "the process that lost its lease gone")
    assert any("the lease" in line and "is lost" in line for line in operator.log_lines()[-20:])


def test_after_a_backup_was_restored_the_cluster_is_what_the_backup_says(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest, here: View
) -> None:
    with honest.standing():
        here.apply("of-the-backup", **on_gpu("h100-sxm-80gb"))
        here.wait_ready("of-the-backup")
        before = here.pod_uids("of-the-backup")
        backup = control_plane.back_up()
        here.wait(lambda: is_ready(control_plane), "the API server ready")
        served_in_the_end(operator, here, "of-the-backup")
        here.apply("of-the-future", **on_gpu("mi300x-192gb"))
        here.wait_ready("of-the-future")
        here.delete("inferencedeployments", "of-the-backup")
        here.wait(lambda: not here.all("pods", "of-the-backup"), "its pods gone")

        control_plane.restore(backup)
        served_in_the_end(operator, here, "of-the-backup")
        here.wait(lambda: not here.all("deployments", "of-the-future"), "nothing left of the future")
        assert here.pod_uids("of-the-backup") == before
        here.patch("of-the-backup", {"contextLength": 8192})
        served_in_the_end(operator, here, "of-the-backup")
    assert [line for line in operator.log_lines() if "went back in time" in line or "is lost" in line]


def test_a_crd_that_was_deleted_and_comes_back_is_served_again(
    control_plane: ControlPlane, operator: OperatorProcess, here: View
) -> None:
    """Its objects are gone with it, the honest ones too: that is what Kubernetes says about deleting a CRD."""
    here.apply("first", **on_gpu("h100-sxm-80gb"))
    here.wait_ready("first")
    control_plane.kubectl("delete", "crd", CRD_NAME, "--wait=true")
    here.wait(lambda: not here.all("pods", "first"), "its pods gone", 2 * MINUTE)
    control_plane.apply([yaml.safe_load(CRD.read_text())])
    wait_until_established(control_plane.kubectl, CRD_NAME)
    here.apply("second", **on_gpu("h100-sxm-80gb"))
    served_in_the_end(operator, here, "second")
