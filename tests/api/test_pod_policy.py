"""Who may only create InferenceDeployments gets no more of a pod than the cluster admin says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll.api.checks.pod_policy import PodPolicy, check_pod_policy
from plimsoll.domain.errors import InvalidInput, NotPermitted
from tests.api.manifests import deployment
from tests.support.tables import every_case

DEFAULT = PodPolicy()


def check(policy: PodPolicy = DEFAULT, namespace: str = "ml", *, secret: str | None = None, **template: Any) -> None:
    named = {} if secret is None else {"tokenSecretRef": {"name": secret}}
    resource = deployment(model={"name": "a/b", **named}, podTemplate=template)
    check_pod_policy(resource.spec, policy, namespace)


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def projected(**source: Any) -> dict[str, Any]:
    return volume(projected={"sources": [source]})


def anti(**term: Any) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAntiAffinity": {required: [{"topologyKey": "kubernetes.io/hostname", **term}]}}}


def sidecar(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": "b", **fields}]}


PERMITTED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a ConfigMap": volume(configMap={"name": "c"}),
    "fields of the pod": volume(downwardAPI={"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.name"}}]}),
    "a directory": volume(emptyDir={"medium": "Memory"}),
    "no source, which is a directory": volume(),
    "a claim": volume(persistentVolumeClaim={"claimName": "models"}),
    "a claim as the cache": {"modelCache": {"claimName": "models"}},
    "a claim of the pod's own": volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
    "files of an image": volume(image={"reference": "a/b:1"}),
    "ConfigMaps in one directory": projected(configMap={"name": "c"}),
    "the default service account": {"serviceAccountName": "default"},
    "no service account": {"serviceAccountName": ""},
    "an ordinary priority": {"priorityClassName": "high"},
    "any pull secret": {"imagePullSecrets": [{"name": "registry"}]},
    "a ConfigMap as environment": {"envFrom": [{"configMapRef": {"name": "c"}}]},
    "a token": {"secret": "hf-token"},
    "a token of a team": {"secret": "search-hf-token"},
    "a container of the author's": {"containers": [{"name": "a", "image": "b"}]},
    "pods of the namespace to be far from": anti(namespaces=["ml"]),
    "other times of a probe": {"startupProbe": {"failureThreshold": 9}},
    "the runtime's own confinement": {
        "annotations": {"container.apparmor.security.beta.kubernetes.io/engine": "runtime/default"}
    },
}
REFUSED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a path of the node": (
        volume(hostPath={"path": "/"}),
        "spec.podTemplate.volumes[0]",
        "hostPath",
        "hostPath goes into podPolicy.volumeTypes",
    ),
    "a network file system": (volume(nfs={"server": "s", "path": "/"}), "spec.podTemplate.volumes[0]", "nfs", "nfs"),
    "a source handed on as it is": (volume(rbd={}), "spec.podTemplate.volumes[0]", "rbd", "podPolicy.volumeTypes"),
    "a CSI driver": (volume(csi={"driver": "d"}), "spec.podTemplate.volumes[0]", "csi", "podPolicy.volumeTypes"),
    "a Secret as files": (
        volume(secret={"secretName": "db"}),
        "spec.podTemplate.volumes[0].secret.secretName",
        "db",
        "db goes into podPolicy.secrets",
    ),
    "a Secret among other files": (
        projected(secret={"name": "db"}),
        "spec.podTemplate.volumes[0].projected.sources[0].secret.name",
        "db",
        "podPolicy.secrets",
    ),
    "a nameless Secret": (
        projected(secret={"name": 1}),
        "spec.podTemplate.volumes[0].projected.sources[0].secret.name",
        "",
        "podPolicy.secrets",
    ),
    "the token of the service account": (
        projected(serviceAccountToken={"path": "t"}),
        "spec.podTemplate.volumes[0].projected.sources[0].serviceAccountToken",
        "default",
        "podPolicy.serviceAccounts",
    ),
    "a certificate of the pod's": (
        projected(podCertificate={"signerName": "a/b"}),
        "spec.podTemplate.volumes[0].projected.sources[0].podCertificate",
        "default",
        "podPolicy.serviceAccounts",
    ),
    "a source that nobody knows yet": (
        projected(newThing={}),
        "spec.podTemplate.volumes[0].projected.sources[0]",
        "newThing",
        "configMap",
    ),
    "two sources in one": (
        projected(configMap={"name": "c"}, secret={"name": "db"}),
        "spec.podTemplate.volumes[0].projected.sources[0].secret.name",
        "db",
        "podPolicy.secrets",
    ),
    "a Secret's key as environment": (
        {
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "p"}}},
            ]
        },
        "spec.podTemplate.env[1].valueFrom.secretKeyRef.name",
        "db",
        "podPolicy.secrets",
    ),
    "a Secret as environment": (
        {"envFrom": [{"secretRef": {"name": "db"}}]},
        "spec.podTemplate.envFrom[0].secretRef.name",
        "db",
        "podPolicy.secrets",
    ),
    "a Secret of a further container": (
        sidecar(env=[{"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "p"}}}]),
        "spec.podTemplate.containers[0].env[0].valueFrom.secretKeyRef.name",
        "db",
        "podPolicy.secrets",
    ),
    "another scheduler": (
        {"schedulerName": "gang"},
        "spec.podTemplate.schedulerName",
        "gang",
        "schedulerName goes into podPolicy.templateFields",
    ),
    "another path of the engine": (
        {"livenessProbe": {"httpGet": {"path": "/x"}}},
        "spec.podTemplate.livenessProbe.httpGet.path",
        "/x",
        "podPolicy.probePaths",
    ),
    "nodes without pods of others": (
        anti(namespaces=["ml", "theirs"]),
        "spec.podTemplate.affinity.podAntiAffinity",
        "theirs",
        "theirs goes into podPolicy.affinityNamespaces",
    ),
    "nodes without pods of anybody": (
        anti(namespaceSelector={}),
        "spec.podTemplate.affinity.podAntiAffinity",
        "namespaceSelector",
        "* goes into podPolicy.affinityNamespaces",
    ),
    "any Secret as the token": ({"secret": "db"}, "spec.model.tokenSecretRef.name", "db", "podPolicy.tokenSecrets"),
    "another service account": (
        {"serviceAccountName": "admin"},
        "spec.podTemplate.serviceAccountName",
        "admin",
        "admin goes into podPolicy.serviceAccounts",
    ),
    "the priority of the node's own pods": (
        {"priorityClassName": "system-node-critical"},
        "spec.podTemplate.priorityClassName",
        "system-node-critical",
        "podPolicy.priorityClasses",
    ),
    "no confinement": (
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/engine": "unconfined"}},
        "spec.podTemplate.annotations",
        "container.apparmor.security.beta.kubernetes.io/engine: unconfined",
        "Remove it",
    ),
}


@every_case("case", PERMITTED)
def test_what_harms_nobody_is_permitted(case: str) -> None:
    check(**PERMITTED[case])


@every_case("case", REFUSED)
def test_what_gives_more_is_refused_with_what_the_admin_would_set(case: str) -> None:
    template, field, value, fix = REFUSED[case]
    with pytest.raises(NotPermitted) as caught:
        check(**template)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert fix in caught.value.fix
    assert "is not permitted" in str(caught.value)


@every_case("case", REFUSED)
def test_an_unrestricted_namespace_permits_everything_and_its_neighbour_nothing(case: str) -> None:
    policy = PodPolicy(unrestricted_namespaces=("kube-*", "admins"))
    check(policy, "admins", **REFUSED[case][0])
    check(policy, "kube-system", **REFUSED[case][0])
    with pytest.raises(NotPermitted):
        check(policy, "ml", **REFUSED[case][0])


@every_case(
    ("policy", "template"),
    [
        (PodPolicy(volume_types=("hostPath",)), volume(hostPath={"path": "/"})),
        (PodPolicy(volume_types=("csi",)), volume(csi={"driver": "d"})),
        (PodPolicy(secrets=("d?",)), volume(secret={"secretName": "db"})),
        (PodPolicy(secrets=("db",)), projected(secret={"name": "db"})),
        (PodPolicy(secrets=("db",)), {"envFrom": [{"secretRef": {"name": "db"}}]}),
        (PodPolicy(secrets=("db",)), {"secret": "db"}),
        (PodPolicy(token_secrets=("db",)), {"secret": "db"}),
        (PodPolicy(service_accounts=("engine-*",)), {"serviceAccountName": "engine-a"}),
        (PodPolicy(service_accounts=("default",)), projected(serviceAccountToken={"path": "t"})),
        (PodPolicy(priority_classes=("system-cluster-critical",)), {"priorityClassName": "system-cluster-critical"}),
        (PodPolicy(template_fields=("schedulerName",)), {"schedulerName": "gang"}),
        (PodPolicy(probe_paths=("/x*",)), {"livenessProbe": {"httpGet": {"path": "/x/y"}}}),
        (PodPolicy(affinity_namespaces=("their*",)), anti(namespaces=["theirs"])),
        (PodPolicy(affinity_namespaces=("*",)), anti(namespaceSelector={})),
    ],
)
def test_what_the_admin_names_is_permitted(policy: PodPolicy, template: dict[str, Any]) -> None:
    with pytest.raises(NotPermitted):
        check(**template)
    check(policy, **template)


def test_a_token_is_not_the_leave_to_read_secrets_elsewhere() -> None:
    with pytest.raises(NotPermitted, match="secretKeyRef"):
        check(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}])


def test_a_driver_gets_a_permitted_secret_alone() -> None:
    policy = PodPolicy(volume_types=("csi",), secrets=("disk",))
    check(policy, **volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "disk"}}))
    with pytest.raises(NotPermitted, match="nodePublishSecretRef"):
        check(policy, **volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "db"}}))


def test_claims_can_be_forbidden_the_cache_included() -> None:
    policy = PodPolicy(volume_types=("emptyDir",))
    with pytest.raises(NotPermitted, match="persistentVolumeClaim goes into podPolicy"):
        check(policy, modelCache={"claimName": "models"})


def test_the_charts_json_is_read_and_what_it_leaves_out_is_as_by_default() -> None:
    text = json.dumps({"volumeTypes": ["emptyDir"], "unrestrictedNamespaces": ["a"], "serviceAccounts": []})
    assert PodPolicy.from_json(text) == PodPolicy(volume_types=("emptyDir",), unrestricted_namespaces=("a",))
    assert PodPolicy.from_json("{}") == DEFAULT
    full = {"secrets": ["s"], "tokenSecrets": ["t"], "priorityClasses": ["p"], "templateFields": ["containers"]}
    assert PodPolicy.from_json(json.dumps(full)) == PodPolicy(
        secrets=("s",), token_secrets=("t",), priority_classes=("p",), template_fields=("containers",)
    )


@every_case(
    ("text", "field"),
    [
        ("", "podPolicy"),
        ("null", "podPolicy"),
        ('{"templateFields": ["env"]}', "podPolicy.templateFields"),
        ("[]", "podPolicy"),
        ('"*"', "podPolicy"),
        ("{", "podPolicy"),
        ("[" * 100_000, "podPolicy"),
        ('{"secrets": [], "secrets": ["*"]}', "podPolicy"),
        ('{"volumetypes": []}', "podPolicy.volumetypes"),
        ('{"namespaces": ["*"]}', "podPolicy.namespaces"),
        ('{"volumeTypes": ["*"]}', "podPolicy.volumeTypes"),
        ('{"volumeTypes": null}', "podPolicy.volumeTypes"),
        ('{"secrets": "*"}', "podPolicy.secrets"),
        ('{"secrets": {"a": 1}}', "podPolicy.secrets"),
        ('{"secrets": [1]}', "podPolicy.secrets[0]"),
        ('{"secrets": ["a", ""]}', "podPolicy.secrets[1]"),
        ('{"unrestrictedNamespaces": [" *"]}', "podPolicy.unrestrictedNamespaces[0]"),
        ('{"unrestrictedNamespaces": true}', "podPolicy.unrestrictedNamespaces"),
    ],
)
def test_a_policy_that_is_nonsense_is_refused_and_permits_nothing(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PodPolicy.from_json(text)
    assert caught.value.field == field
    assert caught.value.fix
