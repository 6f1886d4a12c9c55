"""The console of the chart, as Helm renders it: off by default, without rights and without a token."""

from __future__ import annotations

import pytest

from plimsoll.console.command import command
from tests.support.helm import Body, named, pod_of, rendered

pytestmark = pytest.mark.helm

NAME = "plimsoll-console"
ON = "console.enabled=true,console.hosts={console.example.org}"
TLS = "console.tls.existingSecret=console-tls"
MORE = "console.prometheusUrl=http://p:9090,console.grafanaUrl=https://g,console.namespaces={chat}"
LOGS = "console.logsUrl=https://l/?p={pod}"
WHOLE = ("--set", f"{ON},{TLS},console.proxies={{10.244.0.0/16}},console.allowApprovals=true,{MORE},{LOGS}")
LEAST = ("--set", f"{ON},{TLS},watchNamespaces={{served}}")


def container_of(*options: str) -> Body:
    container: Body
    [container] = pod_of(NAME, *options)["containers"]
    return container


def test_without_the_switch_nothing_of_it_is_there() -> None:
    names = [each["metadata"]["name"] for each in rendered()]
    assert not [name for name in names if "console" in name or "fleet-viewer" in name]
    kinds = {each["kind"] for each in rendered(*LEAST) if each["metadata"]["name"] == NAME}
    assert kinds == {"Deployment", "Service", "NetworkPolicy"}


def test_the_pod_has_no_token_and_is_hardened() -> None:
    pod, container = pod_of(NAME, *WHOLE), container_of(*WHOLE)
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert not [volume for volume in pod["volumes"] if "projected" in volume]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["resources"]["limits"]["memory"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert all(probe == {"path": "/healthz", "port": "console", "scheme": "HTTPS"} for probe in probes)


def test_every_argument_is_an_option_of_the_command() -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    name, *words = container_of(*WHOLE)["args"]
    assert name == "console"
    assert {word.partition("=")[0] for word in words} <= known
    assert {"--in-cluster", "--allow-approvals", "--namespace=chat", "--public-host=console.example.org"} <= set(words)
    assert {
        "--proxy=10.244.0.0/16",
        "--tls-cert=/etc/plimsoll/tls/tls.crt",
        "--prometheus-url=http://p:9090",
        "--grafana-url=https://g",
        "--logs-url=https://l/?p={pod}",
    } <= set(words)


def test_it_only_reads_and_shows_what_the_operator_serves_unless_the_chart_says_otherwise() -> None:
    container = container_of(*LEAST)
    assert "--allow-approvals" not in container["args"]
    assert "--namespace=served" in container["args"]


def test_no_selector_of_the_operator_finds_the_console() -> None:
    labels = named("Deployment", NAME, *WHOLE)["spec"]["template"]["metadata"]["labels"]
    own = named("Service", NAME, *WHOLE)["spec"]["selector"]
    assert own.items() <= labels.items()
    for kind, name, path in (
        ("Deployment", "plimsoll", ("selector", "matchLabels")),
        ("Service", "plimsoll-metrics", ("selector",)),
        ("NetworkPolicy", "plimsoll", ("podSelector", "matchLabels")),
    ):
        selector = named(kind, name, *WHOLE)["spec"]
        for key in path:
            selector = selector[key]
        assert not selector.items() <= labels.items()


def test_without_tls_only_where_somebody_says_so() -> None:
    plain = ("--set", f"{ON},console.tls.plainHttp=true")
    assert named("Service", NAME, *plain)["spec"]["ports"][0]["port"] == 80
    container = container_of(*plain)
    assert not [word for word in container["args"] if word.startswith("--tls")]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"


def test_the_role_for_the_fleet_reads_nodes_and_pods_and_changes_nothing() -> None:
    rules = named("ClusterRole", "plimsoll-fleet-viewer", *WHOLE)["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]} in rules
