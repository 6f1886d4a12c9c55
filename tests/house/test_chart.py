"""What can be said of the chart without Helm: its values, its rights and its hardening."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

import plimsoll
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.settings import Settings
from plimsoll.domain import kubernetes_names

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
TEMPLATES = CHART / "templates"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
WATCH = ["list", "watch"]
OWN = ["get", "list", "watch", "create", "patch"]
LISTED = ["get", "list", "create", "patch", "delete"]
SERVED_RIGHTS = {
    ("plimsoll.dev", "inferencedeployments"): ["get", *WATCH],
    ("plimsoll.dev", "inferencedeployments/status"): ["update"],
    ("plimsoll.dev", "inferencedeployments/finalizers"): ["update"],
    ("plimsoll.dev", "placementproposals"): ["list", "create", "patch", "delete"],
    ("plimsoll.dev", "placementapprovals"): ["list", "delete"],
    ("plimsoll.dev", "placementapprovals/status"): ["update"],
    ("", "secrets"): ["get"],
    ("", "services"): [*OWN, "delete"],
    ("", "serviceaccounts"): LISTED,
    ("", "pods"): ["get", *WATCH],
    ("inference.networking.k8s.io", "inferencepools"): [*OWN, "delete"],
    ("inference.networking.x-k8s.io", "inferenceobjectives"): ["get", *WATCH],
    ("inference.networking.x-k8s.io", "inferencemodelrewrites"): ["get", *WATCH],
    ("gateway.networking.k8s.io", "httproutes"): LISTED,
    ("networking.k8s.io", "networkpolicies"): LISTED,
    ("rbac.authorization.k8s.io", "roles"): LISTED,
    ("rbac.authorization.k8s.io", "rolebindings"): LISTED,
    ("", "pods/eviction"): ["create"],
    ("", "resourcequotas"): WATCH,
    ("", "limitranges"): ["list"],
    ("", "persistentvolumeclaims"): ["get"],
    ("apps", "deployments"): [*OWN, "delete"],
    ("batch", "jobs"): [*OWN, "delete"],
    ("policy", "poddisruptionbudgets"): [*OWN, "delete"],
    ("events.k8s.io", "events"): ["create"],
}


LEFT_OUT = "values.podPolicy"
"""Absent keys leave the operator's defaults, so that none of them is in values.yaml."""

GLOBAL = "values.global"
"""Holds what a parent chart says to all of its parts: keys of other charts are not refused."""


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        definition: dict[str, Any] = SCHEMA["definitions"][node["$ref"].rsplit("/", 1)[-1]]
        return definition
    return node


def disagreements(values: Any, node: dict[str, Any], path: str = "values") -> Iterator[str]:
    """Where values and schema differ: a key that only one of them has, a wrong type, an open object, a bad default."""
    node = resolved(node)
    if "enum" in node and values not in node["enum"]:
        yield f"{path}: {values!r} is not in the enum"
    if "type" in node and not isinstance(values, TYPES[node["type"]]):
        yield f"{path}: {values!r} is not of type {node['type']}"
    if "pattern" in node and not re.search(node["pattern"], values):
        yield f"{path}: {values!r} does not match {node['pattern']}"
    if "properties" in node:
        if node.get("additionalProperties") is not False and path != GLOBAL:
            yield f"{path}: the schema takes keys that nothing reads"
        expected = values.keys() if path == LEFT_OUT else node["properties"].keys()
        for key in sorted(values.keys() ^ expected):
            yield f"{path}.{key}: in one of values.yaml and values.schema.json only"
        for key in values.keys() & node["properties"].keys():
            yield from disagreements(values[key], node["properties"][key], f"{path}.{key}")


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a template without its template lines; actions inside a line become one word."""
    text = (TEMPLATES / name).read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith("{{-")]
    return list(yaml.safe_load_all(re.sub(r"\{\{.*?\}\}", "TEMPLATED", "\n".join(lines))))


def part(name: str) -> list[dict[str, Any]]:
    """The rules of one named part of ``_rights.tpl``."""
    text = (TEMPLATES / "_rights.tpl").read_text()
    (body,) = re.findall(rf'define "plimsoll\.rights\.{name}" -\}}\}}\n(.*?)\{{\{{- end -\}}\}}', text, re.DOTALL)
    lines = [line for line in body.splitlines() if not line.startswith("{{-")]
    return list(yaml.safe_load("\n".join(lines)))


def rights(rules: list[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    return {
        (group, resource): rule["verbs"]
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def template_text() -> str:
    return "\n".join(path.read_text() for path in TEMPLATES.iterdir() if path.name != "crd.yaml")


def test_values_and_their_schema_agree() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert list(disagreements(VALUES, SCHEMA)) == []


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        nested = isinstance(value, dict) and value and "properties" in resolved(schema_at(f"{path}.{key}"))
        yield from leaves(value, f"{path}.{key}") if nested else [f"{path}.{key}"]


def schema_at(path: str) -> dict[str, Any]:
    node: dict[str, Any] = SCHEMA
    for key in path.strip(".").split("."):
        node = resolved(node["properties"][key])
    return node


def test_every_value_is_read_by_a_template() -> None:
    text = template_text() + (TEMPLATES / "crd.yaml").read_text()
    assert [leaf for leaf in leaves(VALUES) if f".Values{leaf}" not in text] == []


def test_every_value_that_a_template_reads_exists() -> None:
    read = set(re.findall(r"\.Values((?:\.[A-Za-z]+)+)", template_text()))
    assert read == set(leaves(VALUES))


def test_every_value_is_documented() -> None:
    undocumented = set(leaves(VALUES))
    path: list[str] = []
    above = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if key := re.match(r"( *)([A-Za-z]+):", line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if above.strip().startswith("#"):
                undocumented.discard("." + ".".join(path))
        above = line
    assert undocumented == set()


def test_the_cluster_role_grants_exactly_what_the_operator_needs() -> None:
    assert rights(part("served")) == SERVED_RIGHTS
    assert rights(part("nodes")) == {("", "nodes"): WATCH, ("resource.k8s.io", "resourceslices"): ["list"]}
    assert rights(part("pods")) == {("", "pods"): WATCH, ("resource.k8s.io", "resourceclaims"): ["list"]}
    assert rights(part("priorities")) == {("scheduling.k8s.io", "priorityclasses"): WATCH}
    assert rights(part("volumes")) == {
        ("", "persistentvolumes"): ["get"],
        ("storage.k8s.io", "storageclasses"): ["get"],
    }


def test_secrets_are_granted_only_where_the_switch_says_so() -> None:
    assert VALUES["hub"]["readTokenSecrets"] is False
    text = (TEMPLATES / "_rights.tpl").read_text()
    guarded = re.search(r"\{\{- if \.Values\.hub\.readTokenSecrets \}\}(.*?)\{\{- end \}\}", text, re.DOTALL)
    assert guarded is not None
    assert "secrets" in guarded[1]
    assert "secrets" not in text.replace(guarded[1], "")


def test_in_its_own_namespace_it_reads_its_prices_and_holds_its_lease() -> None:
    role, _ = documents("role.yaml")
    assert role["kind"] == "Role"
    prices, lease, new_lease = role["rules"]
    assert rights([prices]) == {("", "configmaps"): ["get"]}
    assert rights([lease]) == {("coordination.k8s.io", "leases"): ["get", "patch", "update"]}
    assert rights([new_lease]) == {("coordination.k8s.io", "leases"): ["create"]}
    assert [len(rule.get("resourceNames", ())) for rule in role["rules"]] == [1, 1, 0]


def test_people_get_roles_that_aggregate_into_the_clusters_own() -> None:
    viewer, editor, _ = documents("aggregated-clusterroles.yaml")
    aggregation = "rbac.authorization.k8s.io/aggregate-to-"
    assert {label for label in viewer["metadata"]["labels"] if label.startswith(aggregation)} == {
        f"{aggregation}view",
        f"{aggregation}edit",
        f"{aggregation}admin",
    }
    assert {label for label in editor["metadata"]["labels"] if label.startswith(aggregation)} == {
        f"{aggregation}edit",
        f"{aggregation}admin",
    }
    assert all(set(verbs) <= {"get", "list", "watch"} for verbs in rights(viewer["rules"]).values())
    assert (kubernetes_names.GROUP, f"{kubernetes_names.PLURAL}/status") not in rights(editor["rules"])


def test_who_approves_reads_proposals_and_changes_nothing_else() -> None:
    _, _, approver = documents("aggregated-clusterroles.yaml")
    assert approver["metadata"]["labels"] is None, "it is part of no other role"
    assert rights(approver["rules"]) == {
        (kubernetes_names.GROUP, kubernetes_names.PROPOSAL_PLURAL): ["get", "list", "watch"],
        (kubernetes_names.GROUP, kubernetes_names.APPROVAL_PLURAL): ["get", "list", "watch", "create"],
        (kubernetes_names.GROUP, kubernetes_names.PLURAL): ["approve"],
    }


def test_the_operator_hears_approvals_only_where_a_policy_guards_them() -> None:
    """Without the policy, anybody who may create one could approve in any name."""
    condition = '{{- if include "plimsoll.approvals" . }}'
    assert (TEMPLATES / "guard-approvals.yaml").read_text().startswith(condition)
    before, _ = (TEMPLATES / "deployment.yaml").read_text().split("- name: PLIMSOLL_APPROVALS")
    assert before.splitlines()[-2].strip() == condition
    policy, binding = documents("guard-approvals.yaml")
    assert (policy["spec"]["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])
    assert Settings().approvals is False


def test_the_switch_for_the_cluster_is_written_only_where_it_is_set() -> None:
    """An upgrade takes back a variable that the chart writes, and keeps one that it does not know."""
    before, after = (TEMPLATES / "deployment.yaml").read_text().split("- name: PLIMSOLL_REBALANCING_SUSPENDED")
    assert before.splitlines()[-2].strip() == "{{- if .Values.rebalancing.suspended }}"
    assert [line.strip() for line in after.splitlines()[1:3]] == ['value: "true"', "{{- end }}"]
    usual = {"suspended": Settings().rebalancing_suspended, "movesPerHour": Settings().rebalancing_moves_per_hour}
    assert VALUES["rebalancing"] == usual


def test_no_template_uses_a_wildcard_right() -> None:
    assert not re.search(r"(verbs|resources|apiGroups): *\[?.*\*", template_text())


def test_the_pod_is_hardened() -> None:
    assert VALUES["podSecurityContext"]["runAsNonRoot"] is True
    assert VALUES["podSecurityContext"]["runAsUser"] > 10_000
    assert VALUES["podSecurityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert VALUES["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    text = (TEMPLATES / "deployment.yaml").read_text()
    assert "toYaml .Values.podSecurityContext" in text
    assert "toYaml .Values.securityContext" in text
    assert not re.search(r"hostNetwork|hostPID|hostIPC|hostPath|privileged", text)


def test_a_standby_waits_by_default_and_no_update_leaves_fewer() -> None:
    (deployment,) = documents("deployment.yaml")
    assert VALUES["replicaCount"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (budget,) = documents("poddisruptionbudget.yaml")
    assert budget["spec"]["minAvailable"] == 1
    assert "podAntiAffinity" in (TEMPLATES / "deployment.yaml").read_text()


def test_whatever_is_written_to_has_a_volume() -> None:
    (deployment,) = documents("deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    homes = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    fleet = mounts.pop("/etc/plimsoll/fleet")
    assert homes["PLIMSOLL_FLEET_FILE"] == "/etc/plimsoll/fleet/fleet.yaml"
    assert [volume["name"] for volume in pod["volumes"] if "configMap" in volume] == [fleet]
    secret = mounts.pop("/etc/plimsoll/prometheus")
    assert [volume["name"] for volume in pod["volumes"] if "secret" in volume] == [secret]
    assert mounts == {"/tmp": "tmp", homes["PLIMSOLL_CACHE_DIR"]: "hub-cache"}  # noqa: S108 - a path of the container
    assert homes["HF_HOME"].startswith(f"{homes['PLIMSOLL_CACHE_DIR']}/")
    assert {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume} == set(mounts.values())


class Recorder(dict[str, str]):
    """An empty environment that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    @override
    def get(self, key: str, default: Any = None, /) -> Any:
        self.asked.add(key)
        return super().get(key, default)


def test_every_setting_that_the_pod_gets_is_one_that_the_operator_reads() -> None:
    recorder = Recorder()
    Settings.from_environment(recorder)
    given = set(re.findall(r"PLIMSOLL_[A-Z_]+", (TEMPLATES / "deployment.yaml").read_text()))
    assert given <= recorder.asked


def test_the_charts_ports_and_names_are_the_operators_defaults() -> None:
    assert VALUES["metrics"]["port"] == Settings().metrics_port
    assert VALUES["health"]["port"] == Settings().health_port
    assert Settings().prices_configmap == "plimsoll-prices"


def test_probes_use_the_health_port() -> None:
    (deployment,) = documents("deployment.yaml")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    assert [port["name"] for port in container["ports"]] == ["metrics", "health"]
    assert container["args"] == ["run"]


def test_the_chart_names_the_release_that_it_installs() -> None:
    assert METADATA["appVersion"] == plimsoll.__version__
    assert METADATA["kubeVersion"] == ">=1.29.0-0"


def test_artifact_hub_learns_of_the_api() -> None:
    listed = yaml.safe_load(METADATA["annotations"]["artifacthub.io/crds"])
    kinds = (
        (kubernetes_names.KIND, kubernetes_names.PLURAL),
        (kubernetes_names.PROPOSAL_KIND, kubernetes_names.PROPOSAL_PLURAL),
    )
    assert [(each["kind"], each["version"], each["name"]) for each in listed] == [
        (kind, kubernetes_names.VERSION, f"{plural}.{kubernetes_names.GROUP}")
        for kind, plural in (*kinds, (kubernetes_names.APPROVAL_KIND, kubernetes_names.APPROVAL_PLURAL))
    ]
    (example,) = yaml.safe_load(METADATA["annotations"]["artifacthub.io/crdsExamples"])
    assert example["apiVersion"] == kubernetes_names.API_VERSION


# What catalogues of charts read

ANNOTATIONS = {name.partition("/")[2]: text for name, text in METADATA["annotations"].items()}


def test_artifact_hub_hears_of_the_image_that_the_chart_runs() -> None:
    (image,) = yaml.safe_load(ANNOTATIONS["images"])
    assert image["image"] == f"registry.example/{VALUES['image']['repository']}:{METADATA['appVersion']}"


def test_every_address_of_the_metadata_begins_with_the_home_and_what_it_names_is_there() -> None:
    home = METADATA["home"]
    addresses = [
        METADATA["icon"],
        *METADATA["sources"],
        *(each["url"] for each in yaml.safe_load(ANNOTATIONS["links"])),
    ]
    assert {each[: len(home)] for each in addresses} == {home}
    paths = [each.removeprefix(home).lstrip("/").partition("/main/")[2] for each in addresses]
    assert all((CHART.parents[1] / each).is_file() for each in paths if each)
    assert METADATA["icon"].endswith("/charts/plimsoll/icon.svg")


def test_the_icon_is_the_consoles_mark() -> None:
    mark = CHART.parents[1] / "operator" / "plimsoll" / "console" / "static" / "mark.svg"
    assert (CHART / "icon.svg").read_text() == mark.read_text()


def test_the_example_of_artifact_hub_is_one_that_the_api_takes() -> None:
    (example,) = yaml.safe_load(ANNOTATIONS["crdsExamples"])
    InferenceDeployment.model_validate(example)


def test_the_readme_has_a_row_with_words_for_every_value() -> None:
    rows = dict(
        re.findall(r"^\| ((?!Key )[\w.]+) \| .* \| ?(.*?) ?\|$", (CHART / "README.md").read_text(), re.MULTILINE)
    )
    assert {f".{key}" for key, words in rows.items() if words} == set(leaves(VALUES))
