"""The chart on a real API server: it installs, grants what it should, upgrades its CRD, and leaves the CRD behind."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.watch.node_groups import declared_in
from plimsoll.domain.kubernetes_names import API_VERSION, KIND, ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, Routing, RoutingMode
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.engines.registry import engine_of
from plimsoll.render.router import router_objects
from plimsoll.render.router_config import PickerFacts
from testbed.api_client import ApiError
from testbed.binaries import ensure_binaries
from testbed.commands import CommandFailed
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.fleet import cpu_node
from testbed.kubelet.images import CannotRun, Image, Place, Program, plain_environment
from testbed.kubelet.kubelet import Kubelet
from testbed.operator_process import NAMESPACE, USER
from testbed.rights import may
from testbed.routing_kinds import install_gateways
from testbed.waiting import NotInTime
from tests.support.helm import CHART, RELEASE, Body, of_helm_test
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

CRD = "inferencedeployments.plimsoll.dev"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
LLAMA = "/apis/plimsoll.dev/v1alpha1/namespaces/default/inferencedeployments/llama"
DEPLOYMENTS = "/apis/plimsoll.dev/v1alpha1/namespaces/served/inferencedeployments"
SPEC = {"model": {"name": "acme/llama"}, "contextLength": 8192, "concurrency": 16}
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
CONSOLE = (
    "console.enabled=true,console.hosts={console.example.org},console.tls.existingSecret=console-tls,"
    "console.proxies={10.244.0.0/16},console.allowApprovals=true,console.namespaces={chat}"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """A cluster without the chart; its namespace admits only pods of the strictest profile."""
    with borrowed_plane(knows=()) as control_plane:
        strict = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": strict}])
        yield control_plane


@pytest.fixture
def empty(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster without a release, before and after; the CRD of an earlier one may be there."""
    yield cluster
    uninstall(cluster)


@contextmanager
def released(cluster: ControlPlane, *options: str) -> Iterator[ControlPlane]:
    install(cluster, *options)
    wait_until_established(cluster.kubectl, CRD)
    yield cluster
    uninstall(cluster)


@pytest.fixture(scope="class")
def installed(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """One install with the console for the questions that change nothing of it."""
    with released(cluster, "--set", f"{CONSOLE},gatewayRouting=true") as found:
        yield found


@pytest.fixture(scope="class")
def replaced(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """An install that is upgraded and taken away."""
    with released(cluster) as found:
        yield found


@pytest.fixture(scope="class")
def served(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """An install that serves one namespace."""
    for name in ("served", "foreign"):
        cluster.create_namespace(name)
    options = "watchNamespaces={served},hub.tokenSecretNamespaces={served},hub.tokenSecretNames={hugging-face}"
    options += ",gatewayRouting=true"
    with released(cluster, "--set", options) as found:
        yield found


@contextmanager
def runner(cluster: ControlPlane) -> Iterator[None]:
    """Make one node on which containers of Plimsoll's image run as processes. The others take no pods meanwhile."""
    nodes = [each["metadata"]["name"] for each in cluster.client.get("/api/v1/nodes")["items"]]
    for name in nodes:
        cluster.client.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    with Kubelet(cluster, [cpu_node("runner")], {"registry.example/plimsoll": checks_image(cluster)}) as kubelet:
        try:
            yield
        except CommandFailed as error:
            error.add_note(kubelet.logs())
            raise
    cluster.client.send("DELETE", "/api/v1/nodes/runner")
    for name in nodes:
        cluster.client.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def checks_image(cluster: ControlPlane) -> Image:
    """Return the image of `helm test`: its files are in the pod's folder, and so is what its account has."""

    def program(container: Mapping[str, Any], place: Place) -> Program:
        if "command" not in container:
            raise CannotRun("ErrImagePull", "only the commands of helm test run here")
        kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "plimsoll-test")
        known = yaml.safe_load(kubeconfig.read_text())
        (place.folder / "token").write_text(known["users"][0]["user"]["token"])
        authority = base64.b64decode(known["clusters"][0]["cluster"]["certificate-authority-data"])
        (place.folder / "ca.crt").write_bytes(authority)
        for name, text in own(cluster, "/api/v1", "configmaps/plimsoll-test")["data"].items():
            (place.folder / name).write_text(text.replace(ACCOUNT, str(place.folder)))
        name, *words = (word.replace("/checks", str(place.folder)) for word in container["command"])
        address = urlsplit(cluster.server)
        environment = plain_environment(container) | {
            "HOME": str(place.folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHART.parents[1] / "operator"),
            "KUBECONFIG": str(kubeconfig),
            "KUBERNETES_SERVICE_HOST": address.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }
        command = [shutil.which(name, path=environment["PATH"]) or name, *words]
        return Program(command, environment, ["/checks and the account's files are in the pod's folder"])

    return program


@contextmanager
def engine_with(model: str) -> Iterator[str]:
    """A server that says which model it serves; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"data": [{"id": model}]}).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def install(cluster: ControlPlane, *options: str) -> None:
    cluster.helm("install", *RELEASE, *options)


def uninstall(cluster: ControlPlane) -> None:
    cluster.helm("uninstall", "plimsoll", "--namespace", NAMESPACE, "--wait", "--ignore-not-found")


def own(cluster: ControlPlane, group: str, what: str, **query: str) -> Any:
    """Something in the namespace of the release."""
    return cluster.client.get(f"{group}/namespaces/{NAMESPACE}/{what}", **query)


def pods_of(cluster: ControlPlane, name: str) -> list[Body]:
    found: list[Body] = own(cluster, "/api/v1", "pods", labelSelector=f"app.kubernetes.io/name={name}")["items"]
    return found


def exists(cluster: ControlPlane, path: str) -> bool:
    try:
        cluster.client.get(path)
    except ApiError:
        return False
    return True


Row = tuple[str, str, str]
"""A namespace, a verb and a resource; what has no namespace stands under none."""


def rows(namespace: str, *words: str) -> set[Row]:
    """Rows of one namespace from ``VERB RESOURCE``."""
    return {(namespace, *word.split()) for word in words}  # type: ignore[misc]


def check_rights(cluster: ControlPlane, user: str, yes: set[Row], no: set[Row]) -> None:
    """Assert which rows the API server grants to a user. It learns of new roles a moment after they are made."""

    def wrong() -> set[Row]:
        return {row for row in yes | no if may(cluster.client, user, row[1], row[2], row[0]) != (row in yes)}

    with suppress(NotInTime):
        cluster.wait_until(lambda: not wrong(), 60, f"the rights of {user}")
    found = wrong()
    assert not found, f"{user} may: {sorted(found & no)}, and may not: {sorted(found & yes)}"


def bind(cluster: ControlPlane, user: str, role: str) -> None:
    """Give somebody a ClusterRole in the namespace ``default``."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": "default"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    cluster.apply([binding])


OPERATORS = {
    *rows(
        "default",
        "watch inferencedeployments.plimsoll.dev",
        "update inferencedeployments.plimsoll.dev/status",
        "update inferencedeployments.plimsoll.dev/finalizers",
        "create placementproposals.plimsoll.dev",
        "update placementapprovals.plimsoll.dev/status",
        "patch deployments.apps",
        "delete deployments.apps",
        "create jobs.batch",
        "delete jobs.batch",
        "create poddisruptionbudgets.policy",
        "delete poddisruptionbudgets.policy",
        "patch services",
        "delete services",
        "get pods",
        "create serviceaccounts",
        "patch roles.rbac.authorization.k8s.io",
        "delete rolebindings.rbac.authorization.k8s.io",
        "create networkpolicies.networking.k8s.io",
        "patch httproutes.gateway.networking.k8s.io",
        "list gateways.gateway.networking.k8s.io",
        "create pods/eviction",
        "watch pods",
        "watch resourcequotas",
        "list limitranges",
        "get persistentvolumeclaims",
        "create events.events.k8s.io",
    ),
    *rows(
        "",
        "list nodes",
        "list priorityclasses.scheduling.k8s.io",
        "list resourceslices.resource.k8s.io",
        "list resourceclaims.resource.k8s.io",
        "get persistentvolumes",
        "get storageclasses.storage.k8s.io",
    ),
    *rows(
        NAMESPACE,
        "get configmaps/plimsoll-prices",
        "create leases.coordination.k8s.io",
        "patch leases.coordination.k8s.io/plimsoll",
    ),
}
NOT_THE_OPERATORS = {
    *rows(
        "default",
        "create leases.coordination.k8s.io",
        "get secrets",
        "list secrets",
        "create pods",
        "delete pods",
        "watch roles.rbac.authorization.k8s.io",
        "escalate roles.rbac.authorization.k8s.io",
        "bind roles.rbac.authorization.k8s.io",
        "create serviceaccounts/token",
        "patch httproutes.gateway.networking.k8s.io/status",
        "get gateways.gateway.networking.k8s.io",
        "patch gateways.gateway.networking.k8s.io",
        "create referencegrants.gateway.networking.k8s.io",
        "watch limitranges",
        "patch limitranges",
        "deletecollection deployments.apps",
        "patch events.events.k8s.io",
        "get configmaps",
        "patch inferencedeployments.plimsoll.dev",
        "delete inferencedeployments.plimsoll.dev",
        "approve inferencedeployments.plimsoll.dev",
        "patch inferencedeployments.plimsoll.dev/status",
        "create placementapprovals.plimsoll.dev",
        "patch placementapprovals.plimsoll.dev",
    ),
    *rows(
        "",
        "get nodes",
        "patch nodes",
        "watch resourceslices.resource.k8s.io",
        "get resourceslices.resource.k8s.io",
        "watch resourceclaims.resource.k8s.io",
        "patch resourceclaims.resource.k8s.io",
        "patch priorityclasses.scheduling.k8s.io",
        "create clusterrolebindings.rbac.authorization.k8s.io",
    ),
    *rows(
        NAMESPACE,
        "patch leases.coordination.k8s.io/another",
        "delete leases.coordination.k8s.io/plimsoll",
        "get configmaps/another",
        "watch configmaps",
        "patch configmaps",
        "get secrets",
        "list secrets",
    ),
}
READS = rows(
    "default",
    "get inferencedeployments.plimsoll.dev",
    "watch inferencedeployments.plimsoll.dev",
    "get inferencedeployments.plimsoll.dev/status",
    "list placementproposals.plimsoll.dev",
    "list placementapprovals.plimsoll.dev",
)
EDITS = rows(
    "default",
    "create inferencedeployments.plimsoll.dev",
    "patch inferencedeployments.plimsoll.dev",
    "delete inferencedeployments.plimsoll.dev",
    "patch inferencedeployments.plimsoll.dev/scale",
)
APPROVES = rows(
    "default",
    "approve inferencedeployments.plimsoll.dev",
    "create placementapprovals.plimsoll.dev",
    "list placementproposals.plimsoll.dev",
    "list placementapprovals.plimsoll.dev",
)
NOBODYS = {
    *rows(
        "default",
        "patch inferencedeployments.plimsoll.dev/status",
        "update inferencedeployments.plimsoll.dev/status",
        "create placementproposals.plimsoll.dev",
        "patch placementproposals.plimsoll.dev",
        "patch placementapprovals.plimsoll.dev",
        "patch placementapprovals.plimsoll.dev/status",
        "update placementapprovals.plimsoll.dev/status",
    ),
    *rows(NAMESPACE, "get inferencedeployments.plimsoll.dev", "approve inferencedeployments.plimsoll.dev"),
}
PEOPLE = {"view": READS, "edit": READS | EDITS, "admin": READS | EDITS, "plimsoll-approver": APPROVES}
"""What a role gives to somebody who has it in the namespace ``default``."""

SERVED = (
    "watch inferencedeployments.plimsoll.dev",
    "update inferencedeployments.plimsoll.dev/status",
    "create placementproposals.plimsoll.dev",
    "delete placementproposals.plimsoll.dev",
    "list placementapprovals.plimsoll.dev",
    "update placementapprovals.plimsoll.dev/status",
    "patch deployments.apps",
    "create services",
    "create httproutes.gateway.networking.k8s.io",
    "list pods",
    "list resourcequotas",
    "list limitranges",
    "get persistentvolumeclaims",
    "create events.events.k8s.io",
    "get secrets/hugging-face",
)


README = (CHART / "README.md").read_text(encoding="utf-8")


def shell(cluster: ControlPlane, script: str) -> None:
    """Run a script with the testbed's kubectl against the cluster."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.admin_kubeconfig)}
    call = f'kubectl() {{ "{ensure_binaries()["kubectl"]}" "$@"; }}\n{script}'
    subprocess.run(["bash", "-euc", call], env=environment, check=True, capture_output=True)  # noqa: S603, S607


def test_crds_that_somebody_else_applied_are_adopted_as_the_readme_says(empty: ControlPlane) -> None:
    cluster = empty
    for file in sorted((CHART.parents[1] / "crds").glob("*.yaml")):
        cluster.apply(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    for kind in ("inferencedeployments", "placementproposals", "placementapprovals"):
        name = f"{kind}.plimsoll.dev"
        cluster.kubectl("label", "crd", name, "app.kubernetes.io/managed-by-")
        cluster.kubectl("annotate", "crd", name, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    with pytest.raises(CommandFailed, match="invalid ownership metadata"):
        install(cluster)
    (script,) = re.findall(r"^## Adopt CRDs.*?```console\n(.*?)```", README, re.MULTILINE | re.DOTALL)
    shell(cluster, script)
    install(cluster)
    wait_until_established(cluster.kubectl, CRD)


WAY = "kubectl scale infd NAME"
STAY = "they stay as they are"
ENGINE = "llama-l4-24gb-tp1"
ENGINE_LABELS = {
    "app.kubernetes.io/managed-by": "plimsoll",
    "plimsoll.dev/deployment": "llama",
    "plimsoll.dev/pool": "l4-24gb-tp1",
}


@dataclass(frozen=True)
class Tenant:
    """A namespace with an engine's Deployment and an ordinary one, and what the API server says to changes of them."""

    cluster: ControlPlane
    namespace: str

    def apply(self, api_version: str, kind: str, name: str, spec: Body, labels: dict[str, str] | None = None) -> None:
        head = {"name": name, "namespace": self.namespace, "labels": labels or {}}
        self.cluster.apply([{"apiVersion": api_version, "kind": kind, "metadata": head, "spec": spec}])

    def apply_deployment(self, name: str, labels: dict[str, str]) -> None:
        containers = [{"name": "main", "image": "none.example/none:1"}]
        pod = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
        self.apply("apps/v1", "Deployment", name, spec, labels)

    def apply_autoscaler(self, name: str, least: int) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        half = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        metrics = [{"type": "Resource", "resource": half}]
        spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 16, "metrics": metrics}
        self.apply("autoscaling/v2", "HorizontalPodAutoscaler", name, spec)

    def patch(self, name: str, patch: Body, part: str = "", query: str = "") -> str:
        """Patch a Deployment, or a part of it, as an admin; the API server's words where it refuses, else nothing."""
        try:
            self.cluster.client.merge_patch(f"{self.path('apps/v1', 'deployments', name)}{part}{query}", patch)
        except ApiError as refusal:
            return str(refusal)
        return ""

    def scale_as_operator(self, name: str, replicas: int) -> str:
        patch = json.dumps({"spec": {"replicas": replicas}})
        words = ("patch", "-n", self.namespace, f"deployment/{name}", "--type=merge", "--patch", patch)
        return self.cluster.kubectl(*words, f"--as={USER}", check=False)

    def write_as_operator(self, kind: str, name: str) -> str:
        """Let the operator annotate an object; returns what kubectl says."""
        patch = json.dumps({"metadata": {"annotations": {"seen": uuid.uuid4().hex}}})
        words = ("patch", "-n", self.namespace, f"{kind}/{name}", "--type=merge", "--patch", patch)
        return self.cluster.kubectl(*words, f"--as={USER}", check=False)

    def create_as_operator(self, manifest: Body) -> str:
        """Let the operator make an object; returns what kubectl says."""
        return self.cluster.kubectl("create", f"--as={USER}", "-f", "-", stdin=json.dumps(manifest), check=False)

    def own(self, name: str) -> None:
        """Let the Deployment belong to an InferenceDeployment, as the operator makes it."""
        self.apply(API_VERSION, KIND, "llama", SPEC)
        owner = self.cluster.client.get(f"/apis/{API_VERSION}/namespaces/{self.namespace}/inferencedeployments/llama")
        reference = {"apiVersion": API_VERSION, "kind": KIND, "name": "llama", "uid": owner["metadata"]["uid"]}
        patch = json.dumps({"metadata": {"ownerReferences": [{**reference, "controller": True}]}})
        words = ("patch", "-n", self.namespace, f"deployment/{name}", "--type=merge", "--patch", patch)
        assert "patched" in self.cluster.kubectl(*words, f"--as={USER}")

    def replicas(self, name: str) -> int:
        return int(self.cluster.client.get(self.path("apps/v1", "deployments", name))["spec"]["replicas"])

    def said_by_autoscaler(self, name: str) -> str:
        found = self.cluster.client.get(self.path("autoscaling/v2", "horizontalpodautoscalers", name))
        return " ".join(str(each.get("message")) for each in found.get("status", {}).get("conditions") or ())

    def path(self, api_version: str, plural: str, name: str) -> str:
        return f"/apis/{api_version}/namespaces/{self.namespace}/{plural}/{name}"


class TestInstalled:
    """One install, which these tests leave as it is."""

    def test_it_brings_everything_and_passes_the_restricted_profile(self, installed: ControlPlane) -> None:
        deployment = own(installed, "/apis/apps/v1", "deployments/plimsoll")
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == "registry.example/plimsoll:0.1.0"
        assert deployment["spec"]["replicas"] == 2
        assert own(installed, "/apis/policy/v1", "poddisruptionbudgets/plimsoll")["spec"]["minAvailable"] == 1
        policy = own(installed, "/apis/networking.k8s.io/v1", "networkpolicies/plimsoll")["spec"]
        assert policy["ingress"] == [
            {"ports": [{"port": "metrics", "protocol": "TCP"}]},
            {"ports": [{"port": "health", "protocol": "TCP"}]},
        ]
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "plimsoll"
        assert own(installed, "/api/v1", "configmaps/plimsoll-prices").get("data", {}) == {}
        assert own(installed, "/api/v1", "services/plimsoll-metrics")["spec"]["ports"][0]["port"] == 8080

        pod, *_ = installed.wait_until(lambda: pods_of(installed, "plimsoll"), 60, "a pod that Pod Security admits")
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True

    def test_the_console_passes_the_restricted_profile_and_its_pod_gets_no_token(self, installed: ControlPlane) -> None:
        token = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
        for name, has_token in (("plimsoll-console", False), ("plimsoll", True)):
            found = installed.wait_until(partial(pods_of, installed, name), 60, f"a pod of {name}")
            assert [token in json.dumps(pod["spec"]) for pod in found] == [has_token] * len(found), name

    def test_the_pods_of_helm_test_pass_the_restricted_profile(self, installed: ControlPlane) -> None:
        objects = of_helm_test()
        installed.apply([each for each in objects if each["kind"] == "ServiceAccount"])
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All&fieldValidation=Strict"
        made = [installed.client.send("POST", path, each) for each in objects if each["kind"] == "Pod"]
        assert [each["spec"]["serviceAccountName"] for each in made] == ["plimsoll-test"] * 2

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_helm_test_leaves_no_rights_behind_and_a_failed_pod_for_its_log(
        self, installed: ControlPlane, phase: str
    ) -> None:
        """No container runs here: the test says how each pod ended, as the kubelet would."""
        with ThreadPoolExecutor(1) as thread:
            test = thread.submit(installed.helm, "test", "plimsoll", "--namespace", NAMESPACE, "--timeout", "2m")
            for name in ("plan", "serving"):
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/plimsoll-test-{name}"
                installed.wait_until(partial(exists, installed, path), 60, f"the pod of {name}")
                installed.client.merge_patch(f"{path}/status", {"status": {"phase": phase}})
                if phase == "Failed":
                    break
            if phase == "Failed":
                with pytest.raises(CommandFailed, match="plimsoll-test-plan"):
                    test.result()
            else:
                test.result()
        assert bool(pods_of(installed, "plimsoll-test")) == (phase == "Failed")
        rights = "/apis/rbac.authorization.k8s.io/v1"
        assert not exists(installed, f"{rights}/clusterroles/plimsoll-test")
        assert not exists(installed, f"{rights}/clusterrolebindings/plimsoll-test")
        assert not exists(installed, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-test")

    @pytest.mark.parametrize(("served", "passes"), [("llama", True), ("other", False)])
    def test_helm_test_runs_its_commands_with_the_rights_of_its_account(
        self, installed: ControlPlane, served: str, *, passes: bool
    ) -> None:
        """Both commands run as processes: a plan on this cluster, and a question to a server in the engine's place."""
        with runner(installed), engine_with(served) as address:
            head = {"namespace": "default", "name": "llama"}
            installed.apply([{"apiVersion": API_VERSION, "kind": KIND, "metadata": head, "spec": SPEC}])
            installed.client.merge_patch(f"{LLAMA}/status", {"status": {"readyReplicas": 1, "url": f"{address}/v1"}})
            try:
                if passes:
                    installed.helm("test", "plimsoll", "--namespace", NAMESPACE, "--timeout", "2m")
                else:
                    with pytest.raises(CommandFailed, match="plimsoll-test-serving"):
                        installed.helm("test", "plimsoll", "--namespace", NAMESPACE, "--timeout", "2m")
            finally:
                installed.client.send("DELETE", LLAMA)
        left = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods_of(installed, "plimsoll-test")}
        assert left == ({} if passes else {"plimsoll-test-serving": "Failed"})

    def test_the_service_account_may_do_this_and_not_that(self, installed: ControlPlane) -> None:
        check_rights(installed, USER, OPERATORS, NOT_THE_OPERATORS)

    @pytest.mark.parametrize("role", PEOPLE)
    def test_people_may_do_what_their_role_says_and_an_approver_writes_no_spec(
        self, installed: ControlPlane, role: str
    ) -> None:
        bind(installed, f"{role}-of-default", role)
        others = (READS | EDITS | APPROVES | NOBODYS) - PEOPLE[role]
        check_rights(installed, f"{role}-of-default", PEOPLE[role], others)

    @pytest.fixture
    def tenant(self, installed: ControlPlane) -> Iterator[Tenant]:
        made = Tenant(installed, installed.create_namespace(f"tenant-{uuid.uuid4().hex[:6]}"))
        made.apply_deployment(ENGINE, ENGINE_LABELS)
        made.apply_deployment("web", {"app": "web"})

        def is_refused(part: str) -> bool:
            return WAY in made.patch(ENGINE, {"spec": {"replicas": 9}}, part, "?dryRun=All")

        made.cluster.wait_until(lambda: is_refused("") and is_refused("/scale"), 60, "the policies in force")
        yield made
        installed.client.send("DELETE", f"/api/v1/namespaces/{made.namespace}")

    def test_scaling_by_hand_is_refused_with_the_way_to_do_it(self, tenant: Tenant) -> None:
        many = {"spec": {"replicas": 16}}
        words = ("scale", "-n", tenant.namespace, f"deployment/{ENGINE}", "--replicas=16")
        assert WAY in tenant.cluster.kubectl(*words, check=False)
        assert WAY in tenant.patch(ENGINE, many)
        assert WAY in tenant.patch(ENGINE, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}, **many})
        assert tenant.replicas(ENGINE) == 0

    def test_whatever_is_not_about_replicas_and_whatever_is_somebody_elses_passes(self, tenant: Tenant) -> None:
        assert tenant.patch(ENGINE, {"metadata": {"annotations": {"seen": "yes"}}}) == ""
        assert tenant.patch("web", {"spec": {"replicas": 2}}, "/scale") == ""
        assert tenant.replicas("web") == 2
        assert tenant.patch("web", {"spec": {"replicas": 1}}) == ""
        assert tenant.replicas("web") == 1

    def test_what_the_policies_match_cannot_be_taken_away_by_others(self, tenant: Tenant) -> None:
        tenant.own(ENGINE)
        for labels in ({"app.kubernetes.io/managed-by": None}, {"plimsoll.dev/deployment": "other"}):
            assert STAY in tenant.patch(ENGINE, {"metadata": {"labels": labels}})
        assert STAY in tenant.patch(ENGINE, {"metadata": {"ownerReferences": None}})
        assert tenant.patch(ENGINE, {"metadata": {"labels": {"team": "a"}}}) == "", "other labels are everybody's"
        assert tenant.patch("web", {"metadata": {"labels": None}}) == "", "a neighbour's labels are the neighbour's"

    def test_the_operator_writes_its_own_objects_only_and_not_in_namespaces_of_the_system(self, tenant: Tenant) -> None:
        assert "patched" in tenant.write_as_operator("deployment", ENGINE)
        assert "managed-by: plimsoll" in tenant.write_as_operator("deployment", "web")
        assert "managed-by: plimsoll" in tenant.cluster.kubectl(
            "delete", "-n", tenant.namespace, "deployment/web", f"--as={USER}", check=False
        )
        for namespace in ("kube-system", NAMESPACE):
            there = Tenant(tenant.cluster, namespace)
            there.apply_deployment(ENGINE, ENGINE_LABELS)
            assert "namespaces kube-*" in there.write_as_operator("deployment", ENGINE)
            tenant.cluster.client.send("DELETE", there.path("apps/v1", "deployments", ENGINE))

    def test_the_operator_grants_what_a_picker_needs_and_nothing_else(self, tenant: Tenant) -> None:
        names = WorkloadOptions(ObjectKey(tenant.namespace, "llama"), "0-1-2", "acme/llama", None, "0.32.0")
        facts = PickerFacts(engine_of().metrics, 16, 4096, 60)
        made = router_objects(names, Routing(RoutingMode.STANDALONE), facts, 60)
        account, role, binding = (
            {**each, "metadata": {**each["metadata"], "ownerReferences": []}} for each in made[:3]
        )
        for manifest in (account, role, binding):
            assert "created" in tenant.create_as_operator(manifest)
        refused, usual = "Plimsoll grants routers only the right to read pods", role["rules"][0]
        other = {**role["metadata"], "name": "other"}
        for rule in ({"apiGroups": ["apps"], "resources": ["deployments"]}, {"resources": ["pods/log"]}):
            said = tenant.create_as_operator({**role, "metadata": other, "rules": [usual | rule]})
            assert refused in said or "not currently held" in said
        named = {**binding, "metadata": {**binding["metadata"], "name": "other"}}
        assert refused in tenant.create_as_operator(named), "it binds no ServiceAccount of another name"

    def test_the_operator_routes_to_the_pool_of_the_same_name_and_to_nothing_else(self, tenant: Tenant) -> None:
        install_gateways(tenant.cluster)
        names = WorkloadOptions(ObjectKey(tenant.namespace, "llama"), "0-1-2", "acme/llama", None, "0.32.0")
        through = Routing(RoutingMode.GATEWAY, gateway=GatewayRef(ObjectKey("infra", "shared")))
        *_, route = router_objects(names, through, PickerFacts(engine_of().metrics, 16, 4096, 60), 60)
        route = {**route, "metadata": {**route["metadata"], "ownerReferences": []}}
        assert "created" in tenant.create_as_operator(route)
        refused, [rule] = "only to the InferencePool of the same name and namespace", route["spec"]["rules"]
        [pool] = rule["backendRefs"]
        own = pool | {"name": "other"}
        head = {**route["metadata"], "name": "other"}
        for backends in ([pool], [own | {"namespace": "foreign"}], [{"name": "other", "port": 8000}], [own, pool]):
            spec = {**route["spec"], "rules": [rule | {"backendRefs": backends}]}
            assert refused in tenant.create_as_operator({**route, "metadata": head, "spec": spec})
        mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "foreign", "port": 80}}}
        changes: list[dict[str, Any]] = [
            {"backendRefs": []},
            {"backendRefs": [own | {"group": "example.com"}]},
            {"backendRefs": [own], "filters": [mirror]},
            {"backendRefs": [own | {"filters": [mirror]}]},
        ]
        for changed in changes:
            spec = {**route["spec"], "rules": [rule | changed]}
            assert refused in tenant.create_as_operator({**route, "metadata": head, "spec": spec})

    def test_the_operator_scales_an_autoscaler_is_refused_and_the_neighbours_is_served(self, tenant: Tenant) -> None:
        assert "patched" in tenant.scale_as_operator(ENGINE, 1)
        assert tenant.patch("web", {"spec": {"replicas": 1}}) == ""
        for name in (ENGINE, "web"):
            assert tenant.replicas(name) == 1
            tenant.apply_autoscaler(name, least=3)
        tenant.cluster.wait_until(lambda: tenant.replicas("web") == 3, 90, "the neighbour is scaled by its autoscaler")
        tenant.cluster.wait_until(lambda: WAY in tenant.said_by_autoscaler(ENGINE), 90, "the autoscaler hears why")
        assert tenant.replicas(ENGINE) == 1


class TestReplaced:
    """After each of these tests there is a release again."""

    def test_an_upgrade_brings_new_values_and_a_newer_crd(self, replaced: ControlPlane, tmp_path: Path) -> None:
        newer = tmp_path / "plimsoll"
        shutil.copytree(CHART, newer)
        template = newer / "templates" / "crd.yaml"
        text = template.read_text()
        added = "              suspend:\n"
        assert text.count(added) == 1
        new_field = "              newField:\n                type: string\n"
        template.write_text(text.replace(added, new_field + added))

        values = ("--set-string", "prices.l4-24gb=0.71", "--set", "logLevel=debug,hub.readTokenSecrets=true")
        replaced.helm("upgrade", RELEASE[0], str(newer), *RELEASE[2:], *values)

        schema = replaced.client.get(CRD_PATH)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert schema["properties"]["spec"]["properties"]["newField"] == {"type": "string"}
        assert own(replaced, "/api/v1", "configmaps/plimsoll-prices")["data"] == {"l4-24gb": "0.71"}
        deployment = own(replaced, "/apis/apps/v1", "deployments/plimsoll")
        environment = {
            each["name"]: each.get("value") for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        assert environment["PLIMSOLL_LOG_LEVEL"] == "debug"
        no_routes = rows("default", "list secrets", "create httproutes.gateway.networking.k8s.io")
        check_rights(replaced, USER, rows("default", "get secrets"), no_routes)

    def test_an_uninstall_keeps_the_crd_and_its_objects_and_a_new_install_takes_them_over(
        self, replaced: ControlPlane
    ) -> None:
        head = {"name": "llama", "namespace": "default"}
        replaced.apply([{"apiVersion": API_VERSION, "kind": KIND, "metadata": head, "spec": SPEC}])
        uninstall(replaced)
        assert replaced.client.get(LLAMA)["spec"]["contextLength"] == 8192
        assert own(replaced, "/apis/apps/v1", "deployments")["items"] == []
        assert own(replaced, "/api/v1", "services")["items"] == []

        install(replaced)
        assert replaced.client.get(LLAMA)["spec"]["contextLength"] == 8192


def test_without_keep_an_uninstall_takes_the_crd_along(empty: ControlPlane) -> None:
    install(empty, "--set", "crds.keep=false")
    assert empty.client.exists(CRD_PATH)
    uninstall(empty)
    empty.wait_until(lambda: not empty.client.exists(CRD_PATH), 60, "the CRD is gone")


EVERYTHING: dict[str, Any] = {
    "fullnameOverride": "load-line",
    "commonLabels": {"team": "platform"},
    "image": {"repository": "registry.example/plimsoll", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "pull"}],
    "prometheus": {
        "url": "http://prometheus.monitoring:9090",
        "labels": [{"namespace": "ns", "pod": "po"}],
        "auth": {"existingSecret": "prometheus", "tokenKey": "token"},
    },
    "directScrape": {"enabled": False},
    "podMonitor": {"enabled": True},
    "scrapeAnnotations": True,
    "hub": {
        "endpoint": "https://hub.example",
        "offline": True,
        "tokenSecret": {"name": "hub"},
        "tokenSecretNamespaces": ["default"],
        "tokenSecretNames": ["hugging-face"],
    },
    "prices": {"l4-24gb": "0.71", "h100-sxm-80gb.spot": "1.10"},
    "priceList": "gpu_type,usd_per_hour\n# mine\nh100-sxm-80gb,2.95\n",
    "serviceAccount": {"annotations": {"example.com/role": "reader"}},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "ingress": [{"ports": [{"port": 8443}]}],
        "egress": [{"ports": [{"port": 443}]}],
    },
    "replicaCount": 3,
    "watchNamespaces": ["default"],
    "fleet": {
        "readNodes": False,
        "readPods": True,
        "file": "kind: List\nitems: []\n",
        "nodeGroups": [{"name": "small", "gpuType": "l4-24gb", "gpusPerNode": 1, "maxNodes": 2}],
        "readNodePools": True,
    },
    "podPolicy": {"volumeTypes": ["emptyDir"], "unrestrictedNamespaces": ["platform"]},
    "engine": {"registry": "mirror.example", "images": {"nvidia": "house/vllm", "amd": "house/vllm-rocm"}},
    "extraContainers": [{"name": "proxy", "image": "registry.example/proxy:1"}],
    "podLabels": {"a": "b"},
    "podAnnotations": {"c": "d"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example"}],
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


def test_every_option_at_once_is_taken_by_the_api_server(empty: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    install(empty, "--values", str(file))

    deployment = own(empty, "/apis/apps/v1", "deployments/load-line")
    container, proxy = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["name"], proxy["name"]) == ("operator", "proxy")
    environment = {each["name"]: each for each in container["env"]}
    assert environment["PLIMSOLL_LEASE_NAME"]["value"] == "load-line"
    assert environment["PLIMSOLL_IDENTITY"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert environment["PLIMSOLL_WATCH_NAMESPACES"]["value"] == "default"
    assert environment["PLIMSOLL_READ_ALL_PODS"]["value"] == "true"
    assert environment["PLIMSOLL_FLEET_FILE"]["value"] == "/etc/plimsoll/fleet/fleet.yaml"
    assert declared_in(environment["PLIMSOLL_NODE_GROUPS"]["value"], load_gpu_types()).specs[0].name == "small"
    assert environment["PLIMSOLL_READ_NODE_POOLS"]["value"] == "true"
    rights = empty.client.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/load-line")["rules"]
    assert {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["list"]} in rights
    assert json.loads(environment["PLIMSOLL_POD_POLICY"]["value"]) == EVERYTHING["podPolicy"]
    assert environment["PLIMSOLL_ENGINE_REGISTRY"]["value"] == "mirror.example"
    assert environment["PLIMSOLL_ENGINE_IMAGE_NVIDIA"]["value"] == "house/vllm"
    assert environment["PLIMSOLL_ENGINE_IMAGE_AMD"]["value"] == "house/vllm-rocm"
    assert own(empty, "/api/v1", "configmaps/load-line-fleet")["data"] == {"fleet.yaml": "kind: List\nitems: []\n"}
    assert own(empty, "/api/v1", "configmaps/load-line-prices")["data"] == {
        **EVERYTHING["prices"],
        "prices.csv": EVERYTHING["priceList"],
    }
    assert container["image"] == f"registry.example/plimsoll@sha256:{'0' * 64}"
    assert environment["PLIMSOLL_PRICES_CONFIGMAP"]["value"] == "load-line-prices"
    assert environment["PLIMSOLL_PROMETHEUS_URL"]["value"] == "http://prometheus.monitoring:9090"
    assert environment["HF_HUB_OFFLINE"]["value"] == "1"
    assert environment["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert environment["HTTPS_PROXY"]["value"] == "http://proxy.example"
    policy = own(empty, "/apis/networking.k8s.io/v1", "networkpolicies/load-line")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [[each["port"] for each in rule["ports"]] for rule in policy["spec"]["ingress"]] == [
        ["metrics"],
        ["health"],
        [8443],
    ]
    account = f"system:serviceaccount:{NAMESPACE}:load-line"
    check_rights(empty, account, rows("default", "watch inferencedeployments.plimsoll.dev"), set())


class TestNamespaced:
    """``watchNamespaces``: Roles where it serves, and next to nothing elsewhere."""

    def test_it_may_do_its_work_where_it_serves_and_nowhere_else_and_other_secrets_stay_closed(
        self, served: ControlPlane
    ) -> None:
        others = rows("foreign", *SERVED) | rows("served", "get secrets/database", "list secrets")
        others |= rows("", "list gateways.gateway.networking.k8s.io")
        check_rights(served, USER, rows("served", *SERVED), others)

    def test_nodes_are_read_unless_a_file_describes_them(self, served: ControlPlane, tmp_path: Path) -> None:
        check_rights(served, USER, rows("", "watch nodes"), rows("foreign", "list pods"))
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text("kind: List\nitems: []\n")
        options = ("--set-file", f"fleet.file={fleet}", "--set", "watchNamespaces={served},fleet.readNodes=false")
        served.helm("upgrade", *RELEASE, *options)
        try:
            check_rights(served, USER, rows("served", "list pods"), rows("", "watch nodes"))
            roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
            assert served.client.get(roles, labelSelector="app.kubernetes.io/instance=plimsoll")["items"]
            assert not served.client.exists(f"{roles}/plimsoll")
        finally:
            served.helm("rollback", "plimsoll", "1", "--namespace", NAMESPACE)

    def test_the_notes_say_which_pods_are_not_seen(self, served: ControlPlane) -> None:
        notes = served.helm("get", "notes", "plimsoll", "--namespace", NAMESPACE)
        assert "served" in notes
        assert "fleet.readPods" in notes

    def test_the_notes_say_how_to_make_the_first_call_and_how_to_test(self, served: ControlPlane) -> None:
        notes = served.helm("get", "notes", "plimsoll", "--namespace", NAMESPACE)
        manifest = yaml.safe_load(re.search(r"<<'YAML'\n(.*?)\n +YAML", notes, re.DOTALL)[1])  # type: ignore[index]
        served.client.send("POST", f"{DEPLOYMENTS}?dryRun=All&fieldValidation=Strict", manifest)
        assert f'"model": "{manifest["metadata"]["name"]}"' in notes
        assert "/v1/chat/completions" in notes
        assert f"helm test plimsoll --namespace {NAMESPACE} --logs" in notes
