"""Claims that a spec names, and those that several replicas cannot mount."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.claims import check_claims, mounted_volumes, unusable_claim
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.domain.cluster.node_rules import Claim, Mounted
from plimsoll.domain.errors import InvalidInput
from tests.support.tables import every_case

ONCE, MANY = Claim("weights", ("ReadWriteOnce",)), Claim("weights", ("ReadWriteMany",))


def spec(**given: Any) -> InferenceDeploymentSpec:
    body = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"model": {"name": "m/m"}, "contextLength": 4096, **given},
    }
    return parse_inference_deployment(body).spec


CACHE = {"podTemplate": {"modelCache": {"claimName": "weights"}}}
VOLUME = {"podTemplate": {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]}}


def test_every_claim_of_the_pods_is_named_once() -> None:
    both = {"podTemplate": {**CACHE["podTemplate"], **VOLUME["podTemplate"]}}
    assert mounted_volumes(spec(concurrency=1, **both)) == (Mounted("weights"),)
    assert mounted_volumes(spec(concurrency=1)) == ()


def for_each_pod(template: Any) -> dict[str, Any]:
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    return {"podTemplate": {**CACHE["podTemplate"], "volumes": [{"name": "t", "emptyDir": {}}, scratch]}}


def test_a_volume_that_is_made_for_each_pod_is_named_with_its_class_and_is_fine_for_several_replicas() -> None:
    once = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    found = mounted_volumes(spec(concurrency=1, replicas=2, **for_each_pod({"spec": once})))
    assert found == (Mounted("weights"), Mounted("scratch", "fast"))
    assert [str(each) for each in found] == ["weights", "scratch of each pod"]
    check_claims(spec(concurrency=1, replicas=2, **for_each_pod({"spec": once})), [MANY, Claim(str(found[1]))])


@every_case("template", [None, {}, {"spec": None}, {"spec": {}}, {"spec": {"storageClassName": ""}},
                         {"spec": {"storageClassName": 7}}, {"spec": "fast"}])  # fmt: skip
def test_a_template_without_a_class_names_nothing(template: Any) -> None:
    assert mounted_volumes(spec(concurrency=1, **for_each_pod(template))) == (Mounted("weights"),)


@every_case(
    ("given", "field"),
    [
        (CACHE, "spec.podTemplate.modelCache.claimName"),
        (VOLUME, "spec.podTemplate.volumes[0].persistentVolumeClaim.claimName"),
    ],
)
def test_a_claim_for_one_node_is_refused_for_several_replicas_with_field_value_and_fix(
    given: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_claims(spec(concurrency=1, replicas=2, **given), [ONCE])
    assert str(refused.value).startswith(f"{field}: 'weights'")
    for word in ("ReadWriteOnce", "2 replicas", "ReadWriteMany", "set spec.replicas to 1"):
        assert word in str(refused.value)


@every_case(
    ("given", "name", "field"),
    [
        (CACHE, "weights", "spec.podTemplate.modelCache.claimName"),
        (VOLUME, "weights", "spec.podTemplate.volumes[0].persistentVolumeClaim.claimName"),
        (
            for_each_pod({"spec": {"storageClassName": "fast"}}),
            "scratch of each pod",
            "spec.podTemplate.volumes[1].ephemeral",
        ),
    ],
)
def test_a_claim_that_no_pod_can_mount_is_refused_with_field_value_and_fix(
    given: dict[str, Any], name: str, field: str
) -> None:
    asked = spec(concurrency=1, **given)
    others = [Claim("weights"), Claim("scratch of each pod", terms=None)]
    assert unusable_claim(asked, others) is None
    refused = unusable_claim(asked, [Claim(name, fault="The claim is being deleted. Name another claim.")])
    assert str(refused).startswith(f"{field}: '{name}'")
    assert str(refused).endswith("The claim is being deleted. Name another claim.")
    assert "No node may mount" in str(unusable_claim(asked, [Claim(name, terms=((),))]))


def test_with_a_total_load_the_least_number_of_replicas_counts() -> None:
    with pytest.raises(InvalidInput, match=r"set spec\.minReplicas to 1"):
        check_claims(spec(totalConcurrency=8, minReplicas=2, **CACHE), [ONCE])
    check_claims(spec(totalConcurrency=8, **CACHE), [ONCE])


def test_one_replica_may_mount_any_claim_and_many_may_mount_one_for_many() -> None:
    check_claims(spec(concurrency=1, **CACHE), [ONCE])
    check_claims(spec(concurrency=1, replicas=2, **CACHE), [MANY])
    check_claims(spec(concurrency=1, replicas=2, **CACHE), [Claim("weights")])
