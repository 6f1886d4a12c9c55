"""What the chart makes of its values for the operator, its alerts and its dashboard, as Helm renders it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.prometheus.access import PrometheusAccess
from plimsoll.adapters.prometheus.questions import GatewayMetrics
from plimsoll.app.settings import Settings
from plimsoll.domain.cluster.gpus import Billing, Vendor
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.engines.images import PUBLIC_REGISTRIES
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import ClusterDefaults
from plimsoll.engines.registry import engine_of
from plimsoll.placement.solvers import Overload
from plimsoll.render.names import POOL_LABEL
from tests.support.alerting import DASHBOARD, RECORDS, RULES
from tests.support.helm import CHART, all_of, helm, named, pod_of

pytestmark = pytest.mark.helm

SECRET = "prometheus.url=http://p,prometheus.auth.existingSecret=s"  # noqa: S105 - the name of one
USER = "prometheus.auth.username=u,prometheus.auth.passwordKey=p"
POLICIES = ("replicas", "scale", "approvals", "writes")
ALERTS = ("--set", "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true")


def environment_of(*options: str) -> dict[str, str]:
    """The plain variables of the operator's container."""
    (container, *_) = pod_of("plimsoll", *options)["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.parametrize(
    "options", [(), ("--set", "image.registry=registry.example", *ALERTS)], ids=["usual", "alerts"]
)
def test_helm_finds_nothing_to_complain_about(options: tuple[str, ...]) -> None:
    said = helm("lint", "--strict", str(CHART), *options)
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


def test_what_prometheus_asks_for_is_mounted_and_named() -> None:
    keys = {"tokenKey": "token", "certificateKey": "tls.crt", "privateKeyKey": "tls.key", "caKey": "ca.crt"}
    options = ",".join(f"prometheus.auth.{name}={key}" for name, key in (keys | {"headersKey": "headers"}).items())
    labels = "prometheus.labels[0].namespace=ns,prometheus.labels[0].pod=po"
    given = ("--set", f"{SECRET},{options},{labels}")

    pod = pod_of("plimsoll", *given)
    (volume,) = [each for each in pod["volumes"] if "secret" in each]
    assert volume["secret"]["secretName"] == "s"
    mounts = pod["containers"][0]["volumeMounts"]
    assert [each for each in mounts if each["name"] == volume["name"]] == [
        {"name": volume["name"], "mountPath": "/etc/plimsoll/prometheus", "readOnly": True}
    ]
    settings = Settings.from_environment(environment_of(*given))
    assert settings.prometheus_access == PrometheusAccess(
        token_file=Path("/etc/plimsoll/prometheus/token"),
        certificate_file=Path("/etc/plimsoll/prometheus/tls.crt"),
        key_file=Path("/etc/plimsoll/prometheus/tls.key"),
        ca_file=Path("/etc/plimsoll/prometheus/ca.crt"),
        headers_file=Path("/etc/plimsoll/prometheus/headers"),
    )
    assert settings.prometheus_labels == (("ns", "po"),)

    access = Settings.from_environment(environment_of("--set", f"{SECRET},{USER}")).prometheus_access
    assert (access.user, access.password_file) == ("u", Path("/etc/plimsoll/prometheus/p"))


def test_the_names_of_a_gateways_queue_are_handed_on() -> None:
    assert Settings.from_environment(environment_of()).gateway_metrics == GatewayMetrics()
    options = "prometheus.gatewayQueueMetrics={a_queue,b:queue},prometheus.gatewayPoolLabel=pool"
    settings = Settings.from_environment(environment_of("--set", options))
    assert settings.gateway_metrics == GatewayMetrics(("a_queue", "b:queue"), "pool")


def test_engines_pods_are_read_directly_unless_the_chart_says_otherwise() -> None:
    assert not [each for each in pod_of("plimsoll")["volumes"] if "secret" in each]
    assert Settings.from_environment(environment_of()).direct_scrape is True
    options = ("--set", "directScrape.enabled=false,scrapeAnnotations=true")
    settings = Settings.from_environment(environment_of(*options))
    assert (settings.direct_scrape, settings.scrape_annotations) == (False, True)


@pytest.mark.parametrize(("value", "learns"), [("true", True), ("false", False)])
def test_whether_deployments_learn_from_others_is_handed_on(value: str, *, learns: bool) -> None:
    settings = Settings.from_environment(environment_of("--set", f"learnFromOthers={value}"))
    assert settings.learn_from_others is learns


def test_the_objective_and_the_vendors_of_deployments_that_choose_none_are_handed_on() -> None:
    assert Settings.from_environment(environment_of()).defaults == ClusterDefaults()
    options = ("--set", "objective=Interactive", "--set", "gpuVendors={NVIDIA,AMD}")
    chosen = Settings.from_environment(environment_of(*options)).defaults
    assert chosen == ClusterDefaults(Objective.INTERACTIVE, (Vendor.NVIDIA, Vendor.AMD))


@pytest.mark.parametrize(("value", "billing"), [("", None), ("owned", Billing.OWNED), ("onDemand", Billing.ON_DEMAND)])
def test_how_nodes_are_paid_for_is_handed_on(value: str, billing: Billing | None) -> None:
    settings = Settings.from_environment(environment_of("--set", f"fleet.billing={value}"))
    assert settings.of_cluster.billing is billing


def test_who_waits_in_a_full_cluster_is_handed_on() -> None:
    assert Settings.from_environment(environment_of()).overload is Overload.SENIORITY
    chosen = environment_of("--set", "fleet.overload=MostPlaced")
    assert Settings.from_environment(chosen).overload is Overload.MOST_PLACED


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("PLIMSOLL_OBJECTIVE", "Fast", "Interactive, Balanced, Batch"),
        ("PLIMSOLL_GPU_VENDORS", "NVIDIA,Intel", "AMD"),
        ("PLIMSOLL_BILLING", "reserved", "owned or onDemand"),
        ("PLIMSOLL_BILLING", "kept", "owned or onDemand"),
        ("PLIMSOLL_OVERLOAD", "Youngest", "Seniority or MostPlaced"),
    ],
)
def test_a_choice_that_does_not_exist_stops_the_operator_with_the_name_the_value_and_the_fix(
    name: str, value: str, fix: str
) -> None:
    with pytest.raises(InvalidInput, match=fix) as raised:
        Settings.from_environment({name: value})
    assert name in str(raised.value)
    assert value.rpartition(",")[2] in str(raised.value)


def test_the_registries_that_may_be_asked_are_handed_on() -> None:
    assert Settings.from_environment(environment_of()).image_registries == PUBLIC_REGISTRIES
    some = Settings.from_environment(environment_of("--set", "engine.imageRegistries={r.example:5000,*.pkg.dev}"))
    assert some.image_registries == ("r.example:5000", "*.pkg.dev")
    none = Settings.from_environment(environment_of("--set-json", "engine.imageRegistries=[]"))
    assert none.image_registries == ()


def test_admission_policies_come_with_releases_that_have_them_whoever_renders_the_chart() -> None:
    """``helm template`` and GitOps controllers render without a list of the cluster's APIs."""

    def policies(*options: str) -> set[str]:
        return {each["metadata"]["name"] for each in all_of("ValidatingAdmissionPolicy", *options)}

    assert policies("--kube-version=1.29.9") == set()
    assert policies("--kube-version=1.30.0") == policies() == {f"plimsoll-{name}" for name in POLICIES}
    assert policies("--set", "protectReplicas=false") == {"plimsoll-approvals", "plimsoll-writes"}
    assert policies("--set", "protectReplicas=false,bindWrites=false") == {"plimsoll-approvals"}


def test_the_network_policy_lets_the_operator_read_engines_only_where_it_does() -> None:
    def egress(*options: str) -> list[list[int]]:
        policy = named("NetworkPolicy", "plimsoll", *options)
        return [[port["port"] for port in rule["ports"]] for rule in policy["spec"].get("egress", ())]

    bounded = "networkPolicy.egress[0].ports[0].port=53"
    assert egress() == []
    downloads = [8000]
    assert egress("--set", bounded) == [[53], downloads, [8000]]
    assert egress("--set", f"{bounded},directScrape.enabled=false") == [[53], downloads]
    assert egress("--set", f"{bounded},prometheus.url=http://p") == [[53], downloads]


def test_a_pod_monitor_comes_on_request_where_the_cluster_knows_it() -> None:
    def monitors(*options: str) -> list[dict[str, Any]]:
        return all_of("PodMonitor", *options)

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


def test_a_service_monitor_comes_on_request_with_the_labels_prometheus_selects_by() -> None:
    assert all_of("ServiceMonitor") == []
    options = ("enabled=true", "additionalLabels.release=stack", "interval=15s")
    on = ",".join(f"metrics.serviceMonitor.{option}" for option in options)
    (monitor,) = all_of("ServiceMonitor", "--set", on)
    (service,) = all_of("Service")
    assert monitor["metadata"]["labels"]["release"] == "stack"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0] == {"port": "metrics", "interval": "15s", "honorLabels": True}


def test_what_is_not_set_is_left_to_the_operator() -> None:
    given = {each["name"] for each in pod_of("plimsoll")["containers"][0]["env"]}
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


def test_the_images_of_routers_are_digests_and_one_of_ones_own_is_taken_as_it_is_written() -> None:
    usual = Settings.from_environment(environment_of()).router_images
    assert all(re.search("@sha256:[0-9a-f]{64}$", each) for each in (usual.picker, usual.proxy))
    own = "registry.example/of-ours:v7"
    images = Settings.from_environment(environment_of("--set", f"router.pickerImage={own}")).router_images
    assert (images.picker, images.proxy) == (own, usual.proxy)
    images = Settings.from_environment(environment_of("--set", f"router.proxyImage={own}")).router_images
    assert (images.picker, images.proxy) == (usual.picker, own)


def test_a_lonely_operator_has_no_budget_that_would_keep_its_node_from_draining() -> None:
    assert all_of("PodDisruptionBudget")
    assert not all_of("PodDisruptionBudget", "--set", "replicaCount=1")


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
def test_the_operators_image_is_a_full_reference(options: str, image: str, engines: str | None) -> None:
    (container,) = pod_of("plimsoll", "--set", options)["containers"]
    assert container["image"] == image
    assert environment_of("--set", options).get("PLIMSOLL_ENGINE_REGISTRY") == engines


def test_every_pod_is_seen_on_request() -> None:
    role = named("ClusterRole", "plimsoll", "--set", "watchNamespaces={served},fleet.readPods=true")
    granted = [name for rule in role["rules"] for name in rule["resources"]]
    others = ["priorityclasses", "persistentvolumes", "storageclasses"]
    assert granted == [*others, "nodes", "resourceslices", "pods", "resourceclaims"]


def test_alerts_and_dashboard_come_only_on_request() -> None:
    assert all_of("PrometheusRule") == []
    assert [each["metadata"]["name"] for each in all_of("ConfigMap")] == ["plimsoll-prices"]


def test_alerts_and_dashboard_have_the_labels_that_others_select_by() -> None:
    labels = "metrics.prometheusRule.additionalLabels.release=kps,metrics.dashboard.annotations.grafana_folder=LLM"
    options = (*ALERTS, "--set", f"{labels},metrics.dashboard.namespace=grafana")
    (rule,) = all_of("PrometheusRule", *options)
    assert rule["metadata"]["labels"]["release"] == "kps"
    rules = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    links = [each["annotations"]["runbook_url"] for each in rules if "alert" in each]
    assert links == [f"docs/runbooks.md#{name.lower()}" for name in RULES]
    assert {each["record"]: each["expr"] for each in rules if "record" in each} == RECORDS
    found = named("ConfigMap", "plimsoll-dashboard", *options)
    assert found["metadata"]["namespace"] == "grafana"
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "LLM"}
    assert json.loads(found["data"]["plimsoll.json"]) == DASHBOARD
