"""The JSON schemas for editors: they take the examples, and refuse what the API server would refuse or drop."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from plimsoll.api.crd.inbox_schema import approval_crd, proposal_crd
from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import crd
from scripts.api_documents.schemas import editor_schema, file_name
from scripts.generate_crd import SCHEMAS

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = (crd(), proposal_crd(), approval_crd())
EXAMPLES = sorted(ROOT.glob("examples/*/deployment.yaml"))
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
DEPLOYMENT = Draft7Validator(editor_schema(crd()))
MINIMAL = yaml.safe_load((ROOT / "examples" / "01-minimal" / "deployment.yaml").read_text())


def errors(manifest: Any) -> list[str]:
    return [error.message for error in DEPLOYMENT.iter_errors(manifest)]


def changed(**fields: Any) -> Any:
    manifest = copy.deepcopy(MINIMAL)
    manifest["spec"] |= fields
    return manifest


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_it_is_a_schema_for_the_kind_and_its_version(definition: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / file_name(definition)).read_text())
    Draft7Validator.check_schema(schema)
    assert schema["properties"]["kind"] == {"const": definition["spec"]["names"]["kind"]}
    assert schema["properties"]["apiVersion"] == {"const": "plimsoll.dev/v1alpha1"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_names_its_schema_and_is_valid(path: Path) -> None:
    named = MODELINE.match(path.read_text(encoding="utf-8"))
    assert named is not None
    schema = json.loads((path.parent / named[1]).read_text(encoding="utf-8"))
    validator = Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))] == []


def test_the_page_for_editors_shows_the_line_of_the_examples() -> None:
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    assert set(MODELINE.findall(page)) == {MODELINE.match(each.read_text())[1] for each in EXAMPLES}  # type: ignore[index]


def test_unknown_fields_are_errors_on_every_level() -> None:
    assert errors(MINIMAL) == []
    assert "'contextLenght' was unexpected" in errors(changed(contextLenght=8))[0]
    assert "'nmae' was unexpected" in errors(changed(model={"name": "a/b", "nmae": "c"}))[0]
    assert "'image' was unexpected" in errors({**MINIMAL, "image": "x"})[0]
    open_nodes = [path for path, node in nodes(DEPLOYMENT.schema) if "properties" in node and not is_closed(node)]
    assert open_nodes == [".metadata", *(f".spec.podTemplate.{name}[]" for name in ("initContainers", "containers"))]


def test_a_field_of_other_kinds_is_an_error_with_what_to_write_instead() -> None:
    refused = DEPLOYMENT.schema["properties"]["spec"]["properties"]["model"]["properties"]["uri"]
    assert "write model.path" in refused["errorMessage"]
    assert refused["doNotSuggest"] is True
    assert len(errors(changed(model={"name": "a/b", "uri": "s3://x"}))) == 1


@pytest.mark.parametrize(
    "fields",
    [{"contextLength": "8k"}, {"contextLength": 0}, {"precision": "fp7"}, {"replicas": -1}, {"model": {}}, {"gpu": []}],
    ids=str,
)
def test_wrong_types_values_and_missing_fields_are_errors(fields: dict[str, Any]) -> None:
    assert len(errors(changed(**fields))) == 1


def test_what_the_operator_wrote_is_no_error() -> None:
    assert errors({**MINIMAL, "status": {"replicas": 1, "anything": {}}}) == []


def test_it_has_every_field_of_the_crd() -> None:
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert {path for path, _ in nodes(spec)} - {
        path for path, _ in nodes(DEPLOYMENT.schema["properties"]["spec"])
    } == set()


def is_closed(node: dict[str, Any]) -> bool:
    return node.get("additionalProperties") is False


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        if not is_refused(child):
            yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            yield from nodes(node[keyword], f"{path}[]")


# The page made of the same

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_the_page_has_every_field_with_its_words_and_every_rule(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    root = version["schema"]["openAPIV3Schema"]
    part = PAGE.partition(f"\n## {definition['spec']['names']['kind']}\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([^`]+)`\*? \|(.*)\|$", part, re.MULTILINE))
    heads = {"apiVersion", "kind", "metadata"}
    for name in {name for name, node in root["properties"].items() if not is_refused(node)} - heads:
        for path, node in nodes(root["properties"][name], name):
            for rule in node.get("x-kubernetes-validations", ()):
                assert rule["message"].replace("|", "\\|").replace("<", "&lt;") in part
            if path != name and not path.endswith("[]"):
                assert " ".join(node.get("description", "").split()[:4]) in rows[path.replace("&", "&amp;")]


def test_the_page_says_types_bounds_and_defaults() -> None:
    assert "| `spec.contextLength`* | integer, 1 to 100,000,000 | - |" in PAGE
    assert "| `spec.suspend` | boolean | `false` |" in PAGE
    assert '| `{"precision": "auto"}` |' in PAGE
