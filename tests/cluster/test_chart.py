"""The chart on a real API server: it installs, grants what it should, upgrades its CRD, and leaves the CRD behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.prometheus_access import PrometheusAccess
from plimsoll.adapters.prometheus_gateway import GatewayMetrics
from plimsoll.app.node_groups import declared_in
from plimsoll.app.settings import Settings
from plimsoll.domain.names import API_VERSION, KIND
from plimsoll.engines.registry import engine_of
from plimsoll.render.names import POOL_LABEL
from testbed import versions
from testbed.commands import CommandFailed
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established

pytestmark = pytest.mark.cluster

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
NAMESPACE = "plimsoll-system"
CRD = "inferencedeployments.plimsoll.dev"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:plimsoll"
SUBRESOURCES = ("status", "scale", "finalizers")
RELEASE = ("plimsoll", "--namespace", NAMESPACE)
IMAGE = ("--set", "image.registry=registry.example")
SECRET = "prometheus.url=http://p,prometheus.auth.existingSecret=s"  # noqa: S105 - the name of one
USER = "prometheus.auth.username=u,prometheus.auth.passwordKey=p"
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
    install(empty)
    wait_until_established(empty.kubectl, CRD)
    return empty


def install(cluster: ControlPlane, *options: str) -> None:
    cluster.helm("install", RELEASE[0], str(CHART), *RELEASE[1:], *IMAGE, *options)


def read(cluster: ControlPlane, *what: str) -> Any:
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def can(cluster: ControlPlane, user: str, verb: str, resource: str, namespace: str = "default") -> bool:
    main, _, part = resource.partition("/")  # kubectl takes RESOURCE/NAME for one object, so parts go by option
    what = [main, f"--subresource={part}"] if part in SUBRESOURCES else [resource]
    words = ["auth", "can-i", verb, *what, f"--as={user}", "--namespace", namespace]
    return cluster.kubectl(*words, check=False).startswith("yes")


def render(cluster: ControlPlane, *options: str) -> list[dict[str, Any]]:
    """The chart's objects with these options, as ``helm template`` writes them."""
    version = f"--kube-version={versions.KUBERNETES}"
    text = cluster.helm("template", RELEASE[0], str(CHART), *RELEASE[1:], version, *IMAGE, *options)
    return [document for document in yaml.safe_load_all(text) if document]


def test_helm_finds_nothing_to_complain_about(cluster: ControlPlane) -> None:
    said = cluster.helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


def test_an_install_brings_everything_and_passes_the_restricted_profile(installed: ControlPlane) -> None:
    deployment = read(installed, "deployment/plimsoll", "--namespace", NAMESPACE)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/plimsoll:0.1.0"
    assert deployment["spec"]["replicas"] == 2
    assert read(installed, "poddisruptionbudget/plimsoll", "--namespace", NAMESPACE)["spec"]["minAvailable"] == 1
    policy = read(installed, "networkpolicy/plimsoll", "--namespace", NAMESPACE)["spec"]
    assert policy["ingress"] == [
        {"ports": [{"port": "metrics", "protocol": "TCP"}]},
        {"ports": [{"port": "health", "protocol": "TCP"}]},
    ]
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
        ("delete", "deployments.apps", "default", True),
        ("patch", "services", "default", True),
        ("list", "nodes", "default", True),
        ("watch", "pods", "default", True),
        ("watch", "resourcequotas", "default", True),
        ("list", "priorityclasses.scheduling.k8s.io", "default", True),
        ("patch", "priorityclasses.scheduling.k8s.io", "default", False),
        ("create", "events.events.k8s.io", "default", True),
        ("get", "configmaps/plimsoll-prices", NAMESPACE, True),
        ("create", "leases.coordination.k8s.io", NAMESPACE, True),
        ("patch", "leases.coordination.k8s.io/plimsoll", NAMESPACE, True),
        ("patch", "leases.coordination.k8s.io/another", NAMESPACE, False),
        ("delete", "leases.coordination.k8s.io/plimsoll", NAMESPACE, False),
        ("create", "leases.coordination.k8s.io", "default", False),
        ("get", "configmaps/another", NAMESPACE, False),
        ("watch", "configmaps", NAMESPACE, False),
        ("get", "secrets", "default", False),
        ("get", "secrets", NAMESPACE, False),
        ("get", "nodes", "default", False),
        ("get", "pods", "default", False),
        ("delete", "services", "default", False),
        ("delete", "poddisruptionbudgets.policy", "default", False),
        ("update", "inferencedeployments.plimsoll.dev/status", "default", False),
        ("patch", "events.events.k8s.io", "default", False),
        ("patch", "inferencedeployments.plimsoll.dev", "default", False),
        ("delete", "inferencedeployments.plimsoll.dev", "default", False),
        ("create", "placementproposals.plimsoll.dev", "default", True),
        ("patch", "placementapprovals.plimsoll.dev/status", "default", True),
        ("create", "placementapprovals.plimsoll.dev", "default", False),
        ("patch", "placementapprovals.plimsoll.dev", "default", False),
        ("approve", "inferencedeployments.plimsoll.dev", "default", False),
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
        install(control_plane, "--create-namespace")
        wait_until_established(control_plane.kubectl, CRD)
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
    for kind in ("placementproposals.plimsoll.dev", "placementapprovals.plimsoll.dev"):
        assert can(granted_cluster, user, "list", kind)
        assert not can(granted_cluster, user, "create", kind)
    assert not can(granted_cluster, user, "approve", resource)


def test_an_approver_decides_and_writes_no_spec(granted_cluster: ControlPlane) -> None:
    user, role, resource = "approver-of-default", "plimsoll-approver", "inferencedeployments.plimsoll.dev"
    granted_cluster.kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    granted_cluster.wait_until(lambda: can(granted_cluster, user, "approve", resource), 30, "the right to approve")
    assert can(granted_cluster, user, "create", "placementapprovals.plimsoll.dev")
    assert can(granted_cluster, user, "list", "placementproposals.plimsoll.dev")
    for verb, what in (
        ("patch", resource),
        ("patch", f"{resource}/scale"),
        ("create", "placementproposals.plimsoll.dev"),
        ("patch", "placementproposals.plimsoll.dev"),
        ("patch", "placementapprovals.plimsoll.dev"),
        ("patch", "placementapprovals.plimsoll.dev/status"),
    ):
        assert not can(granted_cluster, user, verb, what)
    assert not can(granted_cluster, user, "approve", resource, NAMESPACE)


def test_an_upgrade_brings_new_values_and_a_newer_crd(installed: ControlPlane, tmp_path: Path) -> None:
    newer = tmp_path / "plimsoll"
    shutil.copytree(CHART, newer)
    template = newer / "templates" / "crd.yaml"
    text = template.read_text()
    added = "              suspend:\n"
    assert text.count(added) == 1
    new_field = "              newField:\n                type: string\n"
    template.write_text(text.replace(added, new_field + added))

    values = ("--set-string", "prices.l4-24gb=0.71", "--set", "logLevel=debug,hub.readTokenSecrets=true")
    installed.helm("upgrade", RELEASE[0], str(newer), *RELEASE[1:], *IMAGE, *values)

    spec_of = "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.newField.type}"
    assert installed.kubectl("get", "crd", CRD, "-o", f"jsonpath={spec_of}") == "string"
    assert read(installed, "configmap/plimsoll-prices", "--namespace", NAMESPACE)["data"] == {"l4-24gb": "0.71"}
    deployment = read(installed, "deployment/plimsoll", "--namespace", NAMESPACE)
    environment = {
        each["name"]: each.get("value") for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert environment["PLIMSOLL_LOG_LEVEL"] == "debug"
    assert can(installed, OPERATOR, "get", "secrets")
    assert not can(installed, OPERATOR, "list", "secrets")


def test_an_uninstall_keeps_the_crd_and_its_objects_and_a_new_install_takes_them_over(installed: ControlPlane) -> None:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "llama"}, "spec": SPEC}
    installed.apply([body])
    installed.helm("uninstall", *RELEASE, "--wait")
    assert read(installed, "infd/llama")["spec"]["contextLength"] == 8192
    assert installed.kubectl("get", "deployments,services", "--namespace", NAMESPACE, "-o", "name") == ""

    install(installed)
    assert read(installed, "infd/llama")["spec"]["contextLength"] == 8192


def test_without_keep_an_uninstall_takes_the_crd_along(empty: ControlPlane) -> None:
    install(empty, "--set", "crds.keep=false")
    empty.helm("uninstall", *RELEASE, "--wait")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
    empty.wait_until(lambda: not empty.client.exists(path), 30, "the CRD is gone")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("promtheus.url=http://p", "promtheus"),
        ("prices.l4-24gb=cheap", "does not match pattern"),
        ("logLevel=loud", "logLevel"),
        ("metrics.port=80", "minimum"),
        ("prometheus.url=prometheus:9090", "does not match pattern"),
        ("image.registry=", "image.registry is empty"),
        ("image.registry=https://registry.example", "does not match pattern"),
        ("podPolicy.volumes={hostPath}", "podPolicy"),
        ("fleet.readNodes=false", "--set-file fleet.file"),
        ("fleet.configMap=nodes", "fleet.readNodes is true"),
        ("hub.tokenSecretNames={hf}", "hub.tokenSecretNamespaces is empty"),
        ("hub.tokenSecretNamespaces={ml}", "hub.tokenSecretNames is empty"),
        ("prometheus.auth.tokenKey=token", 'tokenKey is "token", and prometheus.auth.existingSecret is empty'),
        ("prometheus.auth.existingSecret=s", "no key of it is named"),
        (f"{SECRET},prometheus.url=,prometheus.auth.tokenKey=t", "prometheus.url is empty"),
        ("prometheus.auth.username=u", "prometheus.auth.passwordKey is empty"),
        (f"{SECRET},prometheus.auth.passwordKey=p", "prometheus.auth.username is empty"),
        (f"{SECRET},{USER},prometheus.auth.tokenKey=t", "a request carries one of them"),
        (f"{SECRET},prometheus.auth.certificateKey=tls.crt", "prometheus.auth.privateKeyKey is empty"),
        (f"{SECRET},prometheus.auth.privateKeyKey=tls.key", "prometheus.auth.certificateKey is empty"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(cluster: ControlPlane, option: str, reason: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        render(cluster, "--set" if "port" in option or "fleet" in option else "--set-string", option)
    assert reason in refused.value.output


def operator_pod(cluster: ControlPlane, *options: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The operator's pod and its plain environment."""
    (found,) = [each for each in render(cluster, *options) if each["kind"] == "Deployment"]
    spec = found["spec"]["template"]["spec"]
    return spec, {each["name"]: each["value"] for each in spec["containers"][0]["env"] if "value" in each}


def test_what_prometheus_asks_for_is_mounted_and_named(cluster: ControlPlane) -> None:
    keys = {"tokenKey": "token", "certificateKey": "tls.crt", "privateKeyKey": "tls.key", "caKey": "ca.crt"}
    options = ",".join(f"prometheus.auth.{name}={key}" for name, key in (keys | {"headersKey": "headers"}).items())
    labels = "prometheus.labels[0].namespace=ns,prometheus.labels[0].pod=po"

    spec, environment = operator_pod(cluster, "--set", f"{SECRET},{options},{labels}")

    (volume,) = [each for each in spec["volumes"] if "secret" in each]
    assert volume["secret"]["secretName"] == "s"
    mounts = spec["containers"][0]["volumeMounts"]
    assert [each for each in mounts if each["name"] == volume["name"]] == [
        {"name": volume["name"], "mountPath": "/etc/plimsoll/prometheus", "readOnly": True}
    ]
    settings = Settings.from_environment(environment)
    assert settings.prometheus_access == PrometheusAccess(
        token_file=Path("/etc/plimsoll/prometheus/token"),
        certificate_file=Path("/etc/plimsoll/prometheus/tls.crt"),
        key_file=Path("/etc/plimsoll/prometheus/tls.key"),
        ca_file=Path("/etc/plimsoll/prometheus/ca.crt"),
        headers_file=Path("/etc/plimsoll/prometheus/headers"),
    )
    assert settings.prometheus_labels == (("ns", "po"),)

    _, environment = operator_pod(cluster, "--set", f"{SECRET},{USER}")
    access = Settings.from_environment(environment).prometheus_access
    assert (access.user, access.password_file) == ("u", Path("/etc/plimsoll/prometheus/p"))


def test_the_names_of_a_gateways_queue_are_handed_on(cluster: ControlPlane) -> None:
    _, environment = operator_pod(cluster)
    assert Settings.from_environment(environment).gateway_metrics == GatewayMetrics()
    options = "prometheus.gatewayQueueMetrics={a_queue,b:queue},prometheus.gatewayPoolLabel=pool"
    _, environment = operator_pod(cluster, "--set", options)
    assert Settings.from_environment(environment).gateway_metrics == GatewayMetrics(("a_queue", "b:queue"), "pool")


def test_engines_pods_are_read_directly_unless_the_chart_says_otherwise(cluster: ControlPlane) -> None:
    spec, environment = operator_pod(cluster)
    assert not [each for each in spec["volumes"] if "secret" in each]
    assert Settings.from_environment(environment).direct_scrape is True
    _, environment = operator_pod(cluster, "--set", "directScrape.enabled=false,scrapeAnnotations=true")
    settings = Settings.from_environment(environment)
    assert (settings.direct_scrape, settings.scrape_annotations) == (False, True)


def test_the_network_policy_lets_the_operator_read_engines_only_where_it_does(cluster: ControlPlane) -> None:
    def egress(*options: str) -> list[list[int]]:
        (policy,) = [each for each in render(cluster, *options) if each["kind"] == "NetworkPolicy"]
        return [[port["port"] for port in rule["ports"]] for rule in policy["spec"].get("egress", ())]

    bounded = "networkPolicy.egress[0].ports[0].port=53"
    assert egress() == []
    assert egress("--set", bounded) == [[53], [8000]]
    assert egress("--set", f"{bounded},directScrape.enabled=false") == [[53]]
    assert egress("--set", f"{bounded},prometheus.url=http://p") == [[53]]


def test_a_pod_monitor_comes_on_request_where_the_cluster_knows_it(cluster: ControlPlane) -> None:
    def monitors(*options: str) -> list[dict[str, Any]]:
        return [each for each in render(cluster, *options) if each["kind"] == "PodMonitor"]

    known = "--api-versions=monitoring.coreos.com/v1/PodMonitor"
    assert monitors(known) == monitors("--set", "podMonitor.enabled=true") == []
    (monitor,) = monitors(known, "--set", "podMonitor.enabled=true,podMonitor.additionalLabels.release=kps")
    assert monitor["metadata"]["labels"]["release"] == "kps"
    assert monitor["spec"] == {
        "namespaceSelector": {"any": True},
        "selector": {"matchExpressions": [{"key": POOL_LABEL, "operator": "Exists"}]},
        "podMetricsEndpoints": [{"port": "http", "path": engine_of().metrics.path, "interval": "15s"}],
    }
    (monitor,) = monitors(known, "--set", "podMonitor.enabled=true,watchNamespaces={a,b}")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


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
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    install(empty, "--values", str(file))

    deployment = read(empty, "deployment/load-line", "--namespace", NAMESPACE)
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
    rights = read(empty, "clusterrole/load-line")["rules"]
    assert {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["list"]} in rights
    assert json.loads(environment["PLIMSOLL_POD_POLICY"]["value"]) == values["podPolicy"]
    assert environment["PLIMSOLL_ENGINE_REGISTRY"]["value"] == "mirror.example"
    assert environment["PLIMSOLL_ENGINE_IMAGE_NVIDIA"]["value"] == "house/vllm"
    assert environment["PLIMSOLL_ENGINE_IMAGE_AMD"]["value"] == "house/vllm-rocm"
    assert read(empty, "configmap/load-line-fleet", "--namespace", NAMESPACE)["data"] == {
        "fleet.yaml": "kind: List\nitems: []\n"
    }
    assert read(empty, "configmap/load-line-prices", "--namespace", NAMESPACE)["data"] == {
        **values["prices"],  # type: ignore[dict-item]
        "prices.csv": values["priceList"],
    }
    assert container["image"] == f"registry.example/plimsoll@sha256:{'0' * 64}"
    assert environment["PLIMSOLL_PRICES_CONFIGMAP"]["value"] == "load-line-prices"
    assert environment["PLIMSOLL_PROMETHEUS_URL"]["value"] == "http://prometheus.monitoring:9090"
    assert environment["HF_HUB_OFFLINE"]["value"] == "1"
    assert environment["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert environment["HTTPS_PROXY"]["value"] == "http://proxy.example"
    policy = read(empty, "networkpolicy/load-line", "--namespace", NAMESPACE)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [[each["port"] for each in rule["ports"]] for rule in policy["spec"]["ingress"]] == [
        ["metrics"],
        ["health"],
        [8443],
    ]
    assert can(empty, f"system:serviceaccount:{NAMESPACE}:load-line", "watch", "inferencedeployments.plimsoll.dev")


def test_what_is_not_set_is_left_to_the_operator(cluster: ControlPlane) -> None:
    (deployment,) = [each for each in render(cluster) if each["kind"] == "Deployment"]
    given = {each["name"] for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert {"PLIMSOLL_LEASE_NAME", "PLIMSOLL_IDENTITY", "PLIMSOLL_NAMESPACE"} <= given
    left = (
        "WATCH_NAMESPACES",
        "READ_ALL_PODS",
        "FLEET_FILE",
        "POD_POLICY",
        "ENGINE_REGISTRY",
        "ENGINE_IMAGE_NVIDIA",
        "ENGINE_IMAGE_AMD",
    )
    assert given.isdisjoint(f"PLIMSOLL_{name}" for name in left)


def test_a_lonely_operator_has_no_budget_that_would_keep_its_node_from_draining(cluster: ControlPlane) -> None:
    assert [each for each in render(cluster) if each["kind"] == "PodDisruptionBudget"]
    assert not [each for each in render(cluster, "--set", "replicaCount=1") if each["kind"] == "PodDisruptionBudget"]


@pytest.mark.parametrize(
    ("options", "image", "engines"),
    [
        ("image.registry=r.example/team", "r.example/team/plimsoll:0.1.0", None),
        ("global.imageRegistry=g.example", "g.example/plimsoll:0.1.0", "g.example"),
        ("image.registry=,image.repository=r.example:5000/line", "r.example:5000/line:0.1.0", None),
        (
            "image.repository=own.example/line,image.tag=v7,engine.registry=e.example",
            "own.example/line:v7",
            "e.example",
        ),
    ],
)
def test_the_operators_image_is_a_full_reference(
    cluster: ControlPlane, options: str, image: str, engines: str | None
) -> None:
    (deployment,) = [each for each in render(cluster, "--set", options) if each["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    registries = [each["value"] for each in container["env"] if each["name"] == "PLIMSOLL_ENGINE_REGISTRY"]
    assert container["image"] == image
    assert registries == ([] if engines is None else [engines])


@pytest.fixture(scope="module")
def served() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        for name in ("served", "foreign"):
            control_plane.create_namespace(name)
        options = "watchNamespaces={served},hub.tokenSecretNamespaces={served},hub.tokenSecretNames={hugging-face}"
        install(control_plane, "--create-namespace", "--set", options)
        yield control_plane


class TestNamespaced:
    """``watchNamespaces``: Roles where it serves, and next to nothing elsewhere."""

    @pytest.mark.parametrize(
        ("verb", "resource"),
        [
            ("watch", "inferencedeployments.plimsoll.dev"),
            ("patch", "inferencedeployments.plimsoll.dev/status"),
            ("create", "placementproposals.plimsoll.dev"),
            ("delete", "placementproposals.plimsoll.dev"),
            ("list", "placementapprovals.plimsoll.dev"),
            ("patch", "placementapprovals.plimsoll.dev/status"),
            ("patch", "deployments.apps"),
            ("create", "services"),
            ("list", "pods"),
            ("list", "resourcequotas"),
            ("create", "events.events.k8s.io"),
            ("get", "secrets/hugging-face"),
        ],
    )
    def test_it_may_do_its_work_where_it_serves_and_nowhere_else(
        self, served: ControlPlane, verb: str, resource: str
    ) -> None:
        what = f"the right to {verb} {resource}"  # the authorizer learns of new roles a moment later
        served.wait_until(lambda: can(served, OPERATOR, verb, resource, "served"), 20, what)
        assert not can(served, OPERATOR, verb, resource, "foreign")

    def test_other_secrets_stay_closed(self, served: ControlPlane) -> None:
        assert not can(served, OPERATOR, "get", "secrets/database", "served")
        assert not can(served, OPERATOR, "list", "secrets", "served")

    def test_nodes_are_read_unless_a_file_describes_them(self, served: ControlPlane, tmp_path: Path) -> None:
        assert can(served, OPERATOR, "watch", "nodes")
        assert not can(served, OPERATOR, "list", "pods", "foreign")
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text("kind: List\nitems: []\n")
        chart = (RELEASE[0], str(CHART), *RELEASE[1:], *IMAGE, "--set-file", f"fleet.file={fleet}")
        served.helm("upgrade", *chart, "--set", "watchNamespaces={served},fleet.readNodes=false")
        assert not can(served, OPERATOR, "watch", "nodes")
        assert can(served, OPERATOR, "list", "pods", "served")
        assert read(served, "clusterroles", "-l", "app.kubernetes.io/instance=plimsoll")["items"]
        assert not served.client.exists("/apis/rbac.authorization.k8s.io/v1/clusterroles/plimsoll")

    def test_every_pod_is_seen_on_request(self, cluster: ControlPlane) -> None:
        options = "watchNamespaces={served},fleet.readPods=true"
        (role,) = [
            each
            for each in render(cluster, "--set", options)
            if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "plimsoll"
        ]
        assert [rule["resources"] for rule in role["rules"]] == [["priorityclasses"], ["nodes"], ["pods"]]

    def test_the_notes_say_which_pods_are_not_seen(self, served: ControlPlane) -> None:
        notes = served.helm("get", "notes", *RELEASE)
        assert "served" in notes
        assert "fleet.readPods" in notes


class TestProtectedReplicas:
    """Nobody but the operator changes how many pods its Deployments have."""

    @pytest.fixture
    def workloads(self, granted_cluster: ControlPlane) -> Iterator[ControlPlane]:
        """An engine's Deployment and an ordinary one in a namespace, and the policies in force."""
        cluster = granted_cluster
        cluster.create_namespace("tenant")
        cluster.apply([_deployment(ENGINE, ENGINE_LABELS), _deployment("web", {"app": "web"})])
        for ask in (_scale, _patch_replicas):
            cluster.wait_until(partial(_is_refused, cluster, ask), 30, "the policy in force")
        yield cluster
        cluster.kubectl("delete", "namespace", "tenant")

    def test_scaling_by_hand_is_refused_with_the_way_to_do_it(self, workloads: ControlPlane) -> None:
        assert WAY in _scale(workloads, ENGINE, 16)
        assert WAY in _patch_replicas(workloads, ENGINE, 16)
        disguised = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}, "spec": {"replicas": 16}}
        assert WAY in _patch(workloads, ENGINE, disguised)
        assert _replicas(workloads, ENGINE) == 0

    def test_whatever_is_not_about_replicas_and_whatever_is_somebody_elses_passes(
        self, workloads: ControlPlane
    ) -> None:
        assert "patched" in _patch(workloads, ENGINE, {"metadata": {"annotations": {"seen": "yes"}}})
        assert "scaled" in _scale(workloads, "web", 2)
        assert "patched" in _patch_replicas(workloads, "web", 1)
        assert _replicas(workloads, "web") == 1

    def test_the_operator_itself_scales(self, workloads: ControlPlane) -> None:
        assert "patched" in _patch_replicas(workloads, ENGINE, 1, f"--as={OPERATOR}")
        assert _replicas(workloads, ENGINE) == 1

    def test_an_autoscaler_is_refused_and_the_neighbours_is_served(self, workloads: ControlPlane) -> None:
        for name in (ENGINE, "web"):
            assert "patched" in _patch_replicas(workloads, name, 1, f"--as={OPERATOR}")
            workloads.apply([_autoscaler(name, least=3)])
        workloads.wait_until(lambda: _replicas(workloads, "web") == 3, 90, "the neighbour is scaled by its autoscaler")
        workloads.wait_until(lambda: WAY in _said_by_autoscaler(workloads, ENGINE), 90, "the autoscaler hears why")
        assert _replicas(workloads, ENGINE) == 1


WAY = "kubectl scale infd NAME"
ENGINE = "llama-l4-24gb-tp1"
ENGINE_LABELS = {
    "app.kubernetes.io/managed-by": "plimsoll",
    "plimsoll.dev/deployment": "llama",
    "plimsoll.dev/pool": "l4-24gb-tp1",
}
_DEPLOYMENTS = "/apis/apps/v1/namespaces/tenant/deployments"


def _deployment(name: str, labels: dict[str, str]) -> dict[str, Any]:
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none.example/none:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "tenant", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }


def _autoscaler(name: str, least: int) -> dict[str, Any]:
    half = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "tenant"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": least,
            "maxReplicas": 16,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": half}}],
        },
    }


def _scale(cluster: ControlPlane, name: str, replicas: int, *options: str) -> str:
    words = ("scale", "-n", "tenant", f"deployment/{name}", f"--replicas={replicas}")
    return cluster.kubectl(*words, *options, check=False)


def _patch(cluster: ControlPlane, name: str, patch: dict[str, Any], *options: str) -> str:
    words = ("patch", "-n", "tenant", f"deployment/{name}", "--type=merge", "--patch", json.dumps(patch))
    return cluster.kubectl(*words, *options, check=False)


def _patch_replicas(cluster: ControlPlane, name: str, replicas: int, *options: str) -> str:
    return _patch(cluster, name, {"spec": {"replicas": replicas}}, *options)


def _is_refused(cluster: ControlPlane, ask: Callable[..., str]) -> bool:
    return WAY in ask(cluster, ENGINE, 9, "--dry-run=server")


def _replicas(cluster: ControlPlane, name: str) -> int:
    return int(cluster.client.get(f"{_DEPLOYMENTS}/{name}")["spec"]["replicas"])


def _said_by_autoscaler(cluster: ControlPlane, name: str) -> str:
    status = read(cluster, f"hpa/{name}", "--namespace", "tenant").get("status") or {}
    return " ".join(str(each.get("message")) for each in status.get("conditions") or ())
