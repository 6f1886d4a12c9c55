"""The CRD says what the models say, and keeps the conventions that users' tools rely on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import Field

from plimsoll.api.crd import schema
from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import crd
from plimsoll.api.v1alpha1 import ApiModel, InferenceDeploymentSpec
from scripts.generate_crd import BRACES, PLAIN, TEMPLATE, main, plain, template

VERSION = crd()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]
SIMPLE_TYPES = {"string", "integer", "boolean", "array", "object"}
FORBIDDEN = {"$ref", "anyOf", "oneOf", "allOf", "not", "title", "nullable", "exclusiveMinimum", "exclusiveMaximum"}


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node below and including this one, with its path, but for fields that are always refused."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        if not is_refused(child):
            yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield from nodes(node[keyword], f"{path}[*]")


ALL_NODES = dict(nodes(ROOT))
SPEC_NODES = {path: node for path, node in ALL_NODES.items() if path.startswith(".spec")}
PROPERTIES = {
    path: node for path, node in ALL_NODES.items() if path and not path.endswith("[*]") and path != ".metadata"
}


def offenders(condition: Any, among: dict[str, dict[str, Any]] = ALL_NODES) -> list[str]:
    return [path for path, node in among.items() if condition(node)]


def test_the_committed_files_are_what_the_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_the_plain_file_is_the_crd() -> None:
    assert yaml.load(PLAIN.read_text(), Loader=yaml.CSafeLoader) == crd()


def test_the_charts_copy_is_the_same_crd_in_a_wrapper() -> None:
    lines = TEMPLATE.read_text().splitlines()
    assert lines[1] == "{{- if .Values.crds.install }}"
    assert lines[-1] == "{{- end }}"
    bare = "\n".join(line for line in lines if not line.strip().startswith("{{-")).replace(BRACES, "{{")
    loaded = yaml.load(bare, Loader=yaml.CSafeLoader)
    assert loaded["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    loaded["metadata"].pop("labels")
    assert loaded == crd()


def test_braces_in_a_description_do_not_become_template_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    braced = crd()
    braced["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "a {{ b }}"
    monkeypatch.setattr("scripts.generate_crd.crd", lambda: braced)
    assert "a {{ b }}" in plain()
    assert 'a {{ "{{" }} b }}' in template()


def test_every_node_is_structural() -> None:
    assert offenders(lambda node: node.get("type") not in SIMPLE_TYPES and not may_be_several(node)) == []
    assert offenders(lambda node: FORBIDDEN & node.keys() and not may_be_several(node)) == []
    assert offenders(lambda node: node.get("type") == "array" and "items" not in node) == []
    assert offenders(lambda node: "properties" in node and "additionalProperties" in node) == []
    assert offenders(lambda node: isinstance(node.get("additionalProperties"), bool)) == []


def may_be_several(node: dict[str, Any]) -> bool:
    """Whether values of several types are meant: quantities, and what is inside of free-form objects."""
    return bool(node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields"))


def test_no_default_is_null_and_no_required_field_has_one() -> None:
    assert offenders(lambda node: "default" in node and node["default"] is None) == []
    assert (
        offenders(
            lambda node: any("default" in node["properties"][name] for name in node.get("required", ())),
        )
        == []
    )


def test_numbers_are_64_bit_integers_and_never_floats() -> None:
    assert offenders(lambda node: node.get("type") == "number") == []
    assert offenders(lambda node: node.get("type") == "integer" and node.get("format") != "int64") == []


def test_there_is_no_phase() -> None:
    assert [path for path in ALL_NODES if "phase" in path.lower()] == []


def test_conditions_are_a_map_by_type_with_everything_that_tools_read() -> None:
    conditions = ALL_NODES[".status.conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert set(conditions["items"]["required"]) == {"type", "status", "lastTransitionTime", "reason"}
    assert conditions["items"]["properties"]["lastTransitionTime"]["format"] == "date-time"


def test_every_property_is_described() -> None:
    assert offenders(lambda node: not node.get("description"), PROPERTIES) == []


def test_descriptions_are_plain_text() -> None:
    assert offenders(lambda node: re.search(r"``|:(?:func|class|data):", node.get("description", ""))) == []


def test_lists_and_maps_of_the_spec_are_bounded() -> None:
    assert offenders(lambda node: node.get("type") == "array" and "maxItems" not in node, SPEC_NODES) == []
    maps = {path: node for path, node in SPEC_NODES.items() if not may_be_several(node)}
    assert offenders(lambda node: "additionalProperties" in node and "maxProperties" not in node, maps) == []


def test_texts_numbers_and_quantities_of_the_spec_are_bounded() -> None:
    """What a rule walks over costs what it may be long; what is parsed must not be a number of 5,000 digits."""
    bounded = ("maxLength", "enum")
    texts = {path: node for path, node in SPEC_NODES.items() if node.get("type") == "string"}
    quantities = {path: node for path, node in SPEC_NODES.items() if node.get("x-kubernetes-int-or-string")}
    numbers = {path: node for path, node in SPEC_NODES.items() if node.get("type") == "integer"}
    assert (bool(texts), bool(quantities), bool(numbers)) == (True, True, True)
    assert offenders(lambda node: not any(each in node for each in bounded) and is_endless(node), texts) == []
    assert offenders(lambda node: not {"maxLength", "pattern", "minimum", "maximum"} <= node.keys(), quantities) == []
    assert offenders(lambda node: not {"minimum", "maximum"} <= node.keys(), numbers) == []


def is_endless(node: dict[str, Any]) -> bool:
    """Whether the pattern of a text, where it has one, matches texts of any length."""
    return "pattern" not in node or re.search(r"[*+]|,\}", node["pattern"]) is not None


def test_free_form_objects_belong_to_one_manager_and_are_not_spelled_out() -> None:
    """Levels that are spelled out, and managers of each member, cost the API server CPU seconds for a large object."""
    free = {path: node for path, node in ALL_NODES.items() if node.get("x-kubernetes-preserve-unknown-fields")}
    assert ".spec.model.config" in free
    assert (
        offenders(lambda node: node.get("x-kubernetes-map-type") != "atomic" or "maxProperties" not in node, free) == []
    )
    assert offenders(lambda node: "additionalProperties" in node or "items" in node, free) == []


def test_every_rule_has_a_message_that_names_a_field() -> None:
    rules = [rule for node in ALL_NODES.values() for rule in node.get("x-kubernetes-validations", ())]
    assert rules, "no rule to check"
    fields = {path.rsplit(".", 1)[-1] for path in PROPERTIES} | {"metadata.name"}
    for each in rules:
        assert any(field in each["message"] for field in fields), each


def test_the_scale_subresource_points_at_fields_that_exist() -> None:
    scale = VERSION["subresources"]["scale"]
    for path, kind in (
        ("specReplicasPath", "integer"),
        ("statusReplicasPath", "integer"),
        ("labelSelectorPath", "string"),
    ):
        assert ALL_NODES[scale[path]]["type"] == kind
    assert VERSION["subresources"]["status"] == {}


def test_printer_columns_point_at_fields_of_their_type() -> None:
    columns = {column["name"]: column for column in VERSION["additionalPrinterColumns"]}
    assert [name for name, column in columns.items() if "priority" not in column] == [
        "Ready", "Reason", "Trouble", "Model", "GPU", "TP", "Replicas", "GiB/GPU", "Age",
    ]  # fmt: skip
    assert [name for name, column in columns.items() if "priority" in column] == [
        "Context", "Concurrency", "KV Tokens", "TPOT", "$/h", "URL",
    ]  # fmt: skip
    for column in columns.values():
        path = re.sub(r'\[\?\(@\.type=="\w+"\)\]', "[*]", column["jsonPath"])
        if path != ".metadata.creationTimestamp":
            assert ALL_NODES[path]["type"] == column["type"], column


def test_a_default_object_carries_the_defaults_of_its_fields() -> None:
    minimal = InferenceDeploymentSpec.model_validate({"model": {"name": "m"}, "contextLength": 1, "concurrency": 1})
    for name in ("kvCache", "engine", "rebalancing"):
        by_python = minimal.model_dump(mode="json", by_alias=True, exclude_none=True)[name]
        assert ALL_NODES[f".spec.{name}"]["default"] == by_python


def test_a_field_that_a_crd_cannot_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(ApiModel):
        share: int = Field(multiple_of=8)

    monkeypatch.setattr(schema, "InferenceDeploymentSpec", Odd)
    with pytest.raises(ValueError, match=r"spec\.share: a CRD cannot hold 'multipleOf'"):
        crd()
