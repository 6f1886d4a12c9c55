"""The console of the chart: off by default, without rights and without a token, and taken by a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.console.command import command
from testbed.commands import CommandFailed
from testbed.control_plane import ControlPlane
from testbed.versions import KUBERNETES

pytestmark = pytest.mark.cluster

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
NAMESPACE = "plimsoll-system"
NAME = "plimsoll-console"
ON = "console.enabled=true,console.hosts={console.example.org}"
TLS = "console.tls.existingSecret=console-tls"
WHOLE = f"{ON},{TLS},console.proxies={{10.244.0.0/16}},console.allowApprovals=true,console.namespaces={{chat}}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        yield control_plane


def rendered(cluster: ControlPlane, options: str = "") -> dict[tuple[str, str], dict[str, Any]]:
    words = ("--namespace", NAMESPACE, "--set", "image.registry=registry.example", "--kube-version", f"v{KUBERNETES}")
    text = cluster.helm("template", "plimsoll", str(CHART), *words, *(("--set", options) if options else ()))
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod_of(objects: dict[tuple[str, str], dict[str, Any]], name: str = NAME) -> dict[str, Any]:
    spec: dict[str, Any] = objects["Deployment", name]["spec"]["template"]["spec"]
    return spec


def test_without_the_switch_nothing_of_it_is_there(cluster: ControlPlane) -> None:
    assert not [name for _, name in rendered(cluster) if "console" in name or "fleet-viewer" in name]
    kinds = {kind for kind, name in rendered(cluster, f"{ON},{TLS}") if name == NAME}
    assert kinds == {"Deployment", "Service", "NetworkPolicy"}


def test_the_pod_has_no_token_and_is_hardened(cluster: ControlPlane) -> None:
    pod = pod_of(rendered(cluster, WHOLE))
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert not [volume for volume in pod["volumes"] if "projected" in volume]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["limits"]["memory"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert all(probe == {"path": "/healthz", "port": "console", "scheme": "HTTPS"} for probe in probes)


def test_every_argument_is_an_option_of_the_command(cluster: ControlPlane) -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    [container] = pod_of(
        rendered(cluster, f"{WHOLE},console.prometheusUrl=http://p:9090,console.grafanaUrl=https://g")
    )["containers"]
    name, *words = container["args"]
    assert name == "console"
    assert {word.partition("=")[0] for word in words} <= known
    assert {"--in-cluster", "--allow-approvals", "--namespace=chat", "--public-host=console.example.org"} <= set(words)
    assert {
        "--proxy=10.244.0.0/16",
        "--tls-cert=/etc/plimsoll/tls/tls.crt",
        "--prometheus-url=http://p:9090",
        "--grafana-url=https://g",
    } <= set(words)


def test_it_only_reads_and_shows_what_the_operator_serves_unless_the_chart_says_otherwise(
    cluster: ControlPlane,
) -> None:
    [container] = pod_of(rendered(cluster, f"{ON},{TLS},watchNamespaces={{served}}"))["containers"]
    assert "--allow-approvals" not in container["args"]
    assert "--namespace=served" in container["args"]


def test_no_selector_of_the_operator_finds_the_console(cluster: ControlPlane) -> None:
    objects = rendered(cluster, WHOLE)
    labels = objects["Deployment", NAME]["spec"]["template"]["metadata"]["labels"]
    own = objects["Service", NAME]["spec"]["selector"]
    assert own.items() <= labels.items()
    for kind, name, path in (
        ("Deployment", "plimsoll", ("selector", "matchLabels")),
        ("Service", "plimsoll-metrics", ("selector",)),
        ("NetworkPolicy", "plimsoll", ("podSelector", "matchLabels")),
    ):
        selector = objects[kind, name]["spec"]
        for key in path:
            selector = selector[key]
        assert not selector.items() <= labels.items()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("console.enabled=true", "console.hosts is empty"),
        (ON, "console.tls.existingSecret is empty"),
        (f"{ON},{TLS},console.tls.plainHttp=true", "keep one of them"),
        (f"{ON},{TLS},console.tokenHeader=X-Id-Token", "console.proxies is empty"),
        (f"{ON},{TLS},console.allowApprovals=true,approvals=false", "approvals=true"),
        (f"{ON},{TLS},console.proxies={{10.0.0.1}}", "does not match pattern"),
        ("console.hosts={https://console.example.org}", "does not match pattern"),
        ("console.port=80", "minimum"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(cluster: ControlPlane, options: str, reason: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        rendered(cluster, options)
    assert reason in refused.value.output


def test_without_tls_only_where_somebody_says_so(cluster: ControlPlane) -> None:
    objects = rendered(cluster, f"{ON},console.tls.plainHttp=true")
    assert objects["Service", NAME]["spec"]["ports"][0]["port"] == 80
    [container] = pod_of(objects)["containers"]
    assert not [word for word in container["args"] if word.startswith("--tls")]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"


def test_the_api_server_takes_it_and_its_pod_gets_no_token(cluster: ControlPlane) -> None:
    cluster.create_namespace(NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    words = ("--namespace", NAMESPACE, "--set", "image.registry=registry.example", "--set", WHOLE)
    cluster.helm("install", "plimsoll", str(CHART), *words)

    def pods() -> list[dict[str, Any]]:
        selected = ("-l", "app.kubernetes.io/name=plimsoll-console", "--namespace", NAMESPACE, "-o", "json")
        found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", "pods", *selected))["items"]
        return found

    [pod] = cluster.wait_until(pods, 30, "a pod that Pod Security admits")
    assert "/var/run/secrets/kubernetes.io/serviceaccount" not in json.dumps(pod["spec"])
    assert cluster.kubectl("get", "configmap", "kube-root-ca.crt", "--namespace", NAMESPACE)


def test_the_role_for_the_fleet_reads_nodes_and_pods_and_changes_nothing(cluster: ControlPlane) -> None:
    rules = rendered(cluster, WHOLE)["ClusterRole", "plimsoll-fleet-viewer"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]} in rules
