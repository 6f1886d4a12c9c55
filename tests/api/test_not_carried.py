"""Fields that people copy from other kinds are refused by name, and the list of them is complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client

from plimsoll.api.crd.not_carried import is_refused, refused_fields
from plimsoll.api.crd.schema import Schema, crd, root_schema
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.errors import InvalidInput
from tests.support.broken_rules import copied, manifest_with

REFUSED = dict(refused_fields(root_schema()))
SPEC: Schema = root_schema()["properties"]["spec"]
POD: Schema = SPEC["properties"]["podTemplate"]
GOOD = manifest_with("spec.podTemplate", {"nodeSelector": {"zone": "a"}})

GROUPS = ("model", "gpu", "engine", "podTemplate", "overrides", "rebalancing", "kvCache")

LARGEST_APPLIED = 256 * 1024
"""Bytes of all annotations of an object. ``kubectl apply`` keeps the CRD as JSON in one of them."""


def fields_of(model: str) -> dict[str, str]:
    """The fields of a kind of Kubernetes, with their types, as the client's models have them."""
    found = getattr(client, model)
    return {found.attribute_map[name]: kind for name, kind in found.openapi_types.items()}


def refusal(body: dict[str, Any]) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        parse_inference_deployment(body)
    return refused.value


@pytest.mark.parametrize("model", ["V1PodSpec", "V1Container"])
def test_every_field_of_a_pod_and_its_container_is_carried_or_refused(model: str) -> None:
    assert sorted(fields_of(model).keys() - POD["properties"].keys()) == []


@pytest.mark.parametrize("name", ["affinity", "topologySpreadConstraints", "initContainers", "args", "image", "env"])
@pytest.mark.parametrize("place", ["spec", "spec.engine"])
def test_what_people_write_outside_the_template_is_carried_or_refused_there(place: str, name: str) -> None:
    known = (SPEC if place == "spec" else SPEC["properties"]["engine"])["properties"]
    assert name in known


@pytest.mark.parametrize(("place", "model"), [("", "V1DeploymentSpec"), ("podTemplate", "V1PodTemplateSpec")])
def test_every_field_of_what_makes_pods_is_carried_or_refused(place: str, model: str) -> None:
    known = (SPEC["properties"][place] if place else SPEC)["properties"]
    assert sorted(fields_of(model).keys() - known.keys()) == []


PARTS = {
    "env": "V1EnvVar",
    "envFrom": "V1EnvFromSource",
    "volumes": "V1Volume",
    "volumeMounts": "V1VolumeMount",
    "tolerations": "V1Toleration",
    "resources": "V1ResourceRequirements",
    "imagePullSecrets": "V1LocalObjectReference",
}
"""Parts of a pod that are carried, with the kinds that they are of."""


def lacking(node: Schema, model: str, path: str) -> Iterator[str]:
    """The fields of a kind that a schema neither has nor refuses, and the same below it."""
    node = node.get("items", node)
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, kind in fields_of(model).items():
        if name not in node["properties"]:
            yield f"{path}.{name}"
        elif (inner := re.search(r"\w*V1\w+", kind)) and hasattr(client, inner[0]):
            child = node["properties"][name]
            if "properties" in child.get("items", child) and not is_refused(child):
                yield from lacking(child, inner[0], f"{path}.{name}")


@pytest.mark.parametrize("part", PARTS)
def test_every_field_below_a_part_that_is_carried_is_carried_or_refused(part: str) -> None:
    assert list(lacking(POD["properties"][part], PARTS[part], part)) == []


def test_a_field_has_the_type_that_it_has_in_a_pod() -> None:
    """Otherwise the API server would complain of the type, and not say what to write."""
    types = {"int": "integer", "bool": "boolean", "str": "string"}
    wrong = {}
    for name, kind in (fields_of("V1PodSpec") | fields_of("V1Container")).items():
        node = POD["properties"][name]
        expected = "array" if kind.startswith("List") else types.get(kind, "object")
        of_texts = node.get("items") == {"type": "string"}
        if is_refused(node) and (node["type"] != expected or of_texts != (kind == "List[str]")):
            wrong[name] = node, kind
    assert wrong == {}


@pytest.mark.parametrize("path", REFUSED)
def test_a_copied_field_is_refused_by_its_name_with_what_to_write(path: str) -> None:
    node = REFUSED[path]
    body = manifest_with(path, copied(node))
    refused = refusal(body)
    assert refused.field == path.replace("[]", "[0]")
    assert refused.fix == f"{node['x-kubernetes-validations'][0]['message']}."
    assert re.match(r"[\w.]+ is not carried: \S.*\S\.$", refused.fix)
    assert node["description"] == f"Not carried: {refused.fix.partition(': ')[2]}"


def test_the_advice_names_fields_that_exist() -> None:
    wrong = {}
    for path, node in REFUSED.items():
        message = node["x-kubernetes-validations"][0]["message"].partition(": ")[2]
        for group, field in re.findall(
            r"\b(model|gpu|engine|podTemplate|overrides|rebalancing|kvCache)\.(\w+)", message
        ):
            known = SPEC["properties"][group]["properties"].get(field)
            if known is None or is_refused(known):
                wrong[path] = f"{group}.{field}"
    assert wrong == {}


def test_a_null_is_no_value_and_a_good_neighbour_is_taken() -> None:
    nulls = manifest_with("spec.podTemplate", {"nodeName": None, "nodeSelector": {"zone": "a"}})
    assert parse_inference_deployment(nulls) == parse_inference_deployment(GOOD)


MISSPELT = {
    "spec.contextLenght": "contextLength",
    "spec.replica": "replicas",
    "spec.engine.extraArg": "extraArgs",
    "spec.podTemplate.nodeselector": "nodeSelector",
    "spec.rebalancing.maxreplicas": "maxReplicas",
    "specs": "spec",
}


@pytest.mark.parametrize(("path", "meant"), MISSPELT.items())
def test_a_misspelt_field_is_refused_with_the_field_that_is_meant(path: str, meant: str) -> None:
    refused = refusal(manifest_with(path, 1))
    assert (refused.field, refused.fix) == (path, f"There is no such field: write {meant}.")


FEW = "There is no such field: write one of tokens, requestsPercent, or remove it."
MANY = "There is no such field: check its spelling, or remove it."


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.workload.sharedPrefix.share", 1.5, f"1.5 cannot be used. {FEW}"),
        ("spec.workload.sharedPrefix.share", None, f"'null' cannot be used. {FEW}"),
        ("spec.zebra", 1, f"1 cannot be used. {MANY}"),
    ],
)
def test_a_field_like_no_other_is_refused_with_those_that_there_are_if_they_are_few(
    path: str, value: object, said: str
) -> None:
    assert f"{path}: {said}" in str(refusal(manifest_with(path, value)))


def test_a_field_beside_the_spec_that_does_not_exist_is_not_missing_where_it_is_null() -> None:
    refused = refusal(manifest_with("spc", None))
    assert str(refused) == "spc: 'null' cannot be used. There is no such field: write spec."


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), st.sampled_from(["", "engine", "gpu"]))
def test_no_field_that_does_not_exist_is_taken(name: str, place: str) -> None:
    known = (SPEC["properties"][place] if place else SPEC)["properties"]
    if name not in known:
        path = f"spec.{place}.{name}".replace("..", ".")
        assert refusal(manifest_with(path, 1)).field == path


def test_the_crd_can_be_applied_by_every_client() -> None:
    assert len(json.dumps(crd(), separators=(",", ":"))) < 0.8 * LARGEST_APPLIED


def test_notes_of_the_store_are_no_fields() -> None:
    body = deepcopy(GOOD) | {"plimsoll.dev/record": object()}
    assert parse_inference_deployment(body) == parse_inference_deployment(GOOD)
