"""The chart on a real API server: it installs, grants what it should, upgrades its CRD, and leaves the CRD behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.domain.names import API_VERSION, KIND
from testbed import versions
from testbed.commands import CommandFailed
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
NAMESPACE = "plimsoll-system"
CRD = "inferencedeployments.plimsoll.dev"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:plimsoll"
RELEASE = ("plimsoll", "--namespace", NAMESPACE)
SPEC = {"model": {"name": "acme/llama"}, "contextLength": 8192, "concurrency": 16}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.fixture
def empty(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster without the chart, before and after; its namespace admits only pods of the strictest profile."""
    cluster.create_namespace(NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    yield cluster
    if "plimsoll" in cluster.helm("list", "--namespace", NAMESPACE, "--short"):
        cluster.helm("uninstall", *RELEASE, "--wait")
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", NAMESPACE)


@pytest.fixture
def installed(empty: ControlPlane) -> ControlPlane:
    empty.helm("install", RELEASE[0], str(CHART), *RELEASE[1:])
    empty.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{CRD}")
    return empty


def read(cluster: ControlPlane, *what: str) -> Any:
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def can(cluster: ControlPlane, user: str, verb: str, resource: str, namespace: str = "default") -> bool:
    main, _, part = resource.partition("/")  # kubectl takes RESOURCE/NAME for one object, so parts go by option
    words = ["auth", "can-i", verb, main, f"--subresource={part}", f"--as={user}", "--namespace", namespace]
    return cluster.kubectl(*words, check=False).startswith("yes")


def render(cluster: ControlPlane, *options: str) -> list[dict[str, Any]]:
    """The chart's objects with these options, as ``helm template`` writes them."""
    version = f"--kube-version={versions.KUBERNETES}"
    text = cluster.helm("template", RELEASE[0], str(CHART), *RELEASE[1:], version, *options)
    return [document for document in yaml.safe_load_all(text) if document]


def test_helm_finds_nothing_to_complain_about(cluster: ControlPlane) -> None:
    said = cluster.helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


def test_an_install_brings_everything_and_passes_the_restricted_profile(installed: ControlPlane) -> None:
    deployment = read(installed, "deployment/plimsoll", "--namespace", NAMESPACE)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "plimsoll:0.1.0"
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "plimsoll"
    assert read(installed, "configmap/plimsoll-prices", "--namespace", NAMESPACE).get("data", {}) == {}
    assert read(installed, "service/plimsoll-metrics", "--namespace", NAMESPACE)["spec"]["ports"][0]["port"] == 8080

    pods = installed.wait_until(
        lambda: read(installed, "pods", "--namespace", NAMESPACE)["items"], 30, "a pod that Pod Security admits"
    )
    assert pods[0]["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "granted"),
    [
        ("watch", "inferencedeployments.plimsoll.dev", "default", True),
        ("patch", "inferencedeployments.plimsoll.dev/status", "default", True),
        ("update", "inferencedeployments.plimsoll.dev/finalizers", "default", True),
        ("patch", "deployments.apps", "default", True),
        ("create", "poddisruptionbudgets.policy", "default", True),
        ("delete", "services", "default", True),
        ("list", "nodes", "default", True),
        ("get", "secrets", "default", True),
        ("create", "events.events.k8s.io", "default", True),
        ("watch", "configmaps", NAMESPACE, True),
        ("patch", "inferencedeployments.plimsoll.dev", "default", False),
        ("delete", "inferencedeployments.plimsoll.dev", "default", False),
        ("list", "secrets", "default", False),
        ("list", "secrets", NAMESPACE, False),
        ("get", "configmaps", "default", False),
        ("patch", "configmaps", NAMESPACE, False),
        ("delete", "pods", "default", False),
        ("create", "pods", "default", False),
        ("patch", "nodes", "default", False),
        ("deletecollection", "deployments.apps", "default", False),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", "default", False),
    ],
)
def test_the_service_account_may_do_this_and_not_that(
    granted_cluster: ControlPlane, verb: str, resource: str, namespace: str, *, granted: bool
) -> None:
    assert can(granted_cluster, OPERATOR, verb, resource, namespace) is granted


@pytest.fixture(scope="module")
def granted_cluster() -> Iterator[ControlPlane]:
    """A second control plane that keeps one install, for the questions that change nothing."""
    with ControlPlane() as control_plane:
        control_plane.helm("install", RELEASE[0], str(CHART), *RELEASE[1:], "--create-namespace")
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{CRD}")
        yield control_plane


@pytest.mark.parametrize(
    ("role", "granted", "refused"),
    [
        ("view", {"get", "watch"}, {"create", "patch", "delete"}),
        ("edit", {"get", "create", "patch", "delete"}, set()),
        ("admin", {"get", "create", "patch", "delete"}, set()),
    ],
)
def test_the_clusters_own_roles_learn_of_the_api(
    granted_cluster: ControlPlane, role: str, granted: set[str], refused: set[str]
) -> None:
    user = f"{role}-of-default"
    granted_cluster.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    resource = "inferencedeployments.plimsoll.dev"
    granted_cluster.wait_until(lambda: can(granted_cluster, user, "get", resource), 30, f"aggregation into {role}")
    assert {verb for verb in granted | refused if can(granted_cluster, user, verb, resource)} == granted
    assert can(granted_cluster, user, "get", f"{resource}/status")
    assert not can(granted_cluster, user, "patch", f"{resource}/status")
    assert can(granted_cluster, user, "patch", f"{resource}/scale") is (role != "view")


def test_an_upgrade_brings_new_values_and_a_newer_crd(installed: ControlPlane, tmp_path: Path) -> None:
    newer = tmp_path / "plimsoll"
    shutil.copytree(CHART, newer)
    template = newer / "templates" / "crd.yaml"
    text = template.read_text()
    added = "              suspend:\n"
    assert text.count(added) == 1
    new_field = "              newField:\n                type: string\n"
    template.write_text(text.replace(added, new_field + added))

    values = ("--set-string", "prices.l4=0.71", "--set", "logLevel=debug,hub.readTokenSecrets=false")
    installed.helm("upgrade", RELEASE[0], str(newer), *RELEASE[1:], *values)

    spec_of = "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.newField.type}"
    assert installed.kubectl("get", "crd", CRD, "-o", f"jsonpath={spec_of}") == "string"
    assert read(installed, "configmap/plimsoll-prices", "--namespace", NAMESPACE)["data"] == {"l4-24gb": "0.71"}
    deployment = read(installed, "deployment/plimsoll", "--namespace", NAMESPACE)
    environment = {
        each["name"]: each.get("value") for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert environment["PLIMSOLL_LOG_LEVEL"] == "debug"
    assert not can(installed, OPERATOR, "get", "secrets")


def test_an_uninstall_keeps_the_crd_and_its_objects_and_a_new_install_takes_them_over(installed: ControlPlane) -> None:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "llama"}, "spec": SPEC}
    installed.apply([body])
    installed.helm("uninstall", *RELEASE, "--wait")
    assert read(installed, "infd/llama")["spec"]["contextLength"] == 8192
    assert installed.kubectl("get", "deployments,services", "--namespace", NAMESPACE, "-o", "name") == ""

    installed.helm("install", RELEASE[0], str(CHART), *RELEASE[1:])
    assert read(installed, "infd/llama")["spec"]["contextLength"] == 8192


def test_without_keep_an_uninstall_takes_the_crd_along(empty: ControlPlane) -> None:
    empty.helm("install", RELEASE[0], str(CHART), *RELEASE[1:], "--set", "crds.keep=false")
    empty.helm("uninstall", *RELEASE, "--wait")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
    empty.wait_until(lambda: not empty.client.exists(path), 30, "the CRD is gone")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("promtheus.url=http://p", "promtheus"),
        ("prices.l4=cheap", "does not match pattern"),
        ("logLevel=loud", "logLevel"),
        ("metrics.port=80", "minimum"),
        ("prometheus.url=prometheus:9090", "does not match pattern"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(cluster: ControlPlane, option: str, reason: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        render(cluster, "--set-string" if "port" not in option else "--set", option)
    assert reason in refused.value.output


def test_a_service_monitor_comes_on_request_with_the_labels_prometheus_selects_by(cluster: ControlPlane) -> None:
    assert not [each for each in render(cluster) if each["kind"] == "ServiceMonitor"]
    options = ("enabled=true", "additionalLabels.release=stack", "interval=15s")
    on = ",".join(f"metrics.serviceMonitor.{option}" for option in options)
    (monitor,) = [each for each in render(cluster, "--set", on) if each["kind"] == "ServiceMonitor"]
    (service,) = [each for each in render(cluster) if each["kind"] == "Service"]
    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0] == {"port": "metrics", "interval": "15s", "honorLabels": True}


def test_every_option_at_once_is_taken_by_the_api_server(empty: ControlPlane, tmp_path: Path) -> None:
    values = {
        "fullnameOverride": "load-line",
        "commonLabels": {"team": "platform"},
        "image": {"repository": "registry.example/plimsoll", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "prometheus": {"url": "http://prometheus.monitoring:9090"},
        "hub": {"endpoint": "https://hub.example", "offline": True, "tokenSecret": {"name": "hub"}},
        "prices": {"l4-24gb": "0.71", "h100-sxm-80gb": "2.95"},
        "serviceAccount": {"annotations": {"example.com/role": "reader"}},
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "egress": [{"ports": [{"port": 443}]}],
        },
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    empty.helm("install", RELEASE[0], str(CHART), *RELEASE[1:], "--values", str(file))

    deployment = read(empty, "deployment/load-line", "--namespace", NAMESPACE)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    environment = {each["name"]: each for each in container["env"]}
    assert container["image"] == f"registry.example/plimsoll@sha256:{'0' * 64}"
    assert environment["PLIMSOLL_PRICES_CONFIGMAP"]["value"] == "load-line-prices"
    assert environment["PLIMSOLL_PROMETHEUS_URL"]["value"] == "http://prometheus.monitoring:9090"
    assert environment["HF_HUB_OFFLINE"]["value"] == "1"
    assert environment["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert environment["HTTPS_PROXY"]["value"] == "http://proxy.example"
    policy = read(empty, "networkpolicy/load-line", "--namespace", NAMESPACE)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert can(empty, f"system:serviceaccount:{NAMESPACE}:load-line", "watch", "inferencedeployments.plimsoll.dev")
