"""What a manifest may say today, every later release of the same API version takes: docs/api-versions.md."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll.api.crd.inbox_schema import approval_crd
from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import crd

KEPT = Path(__file__).parent / "data" / "api_v1alpha1.json"
"""For each kind that people write: its fields, with what a value may be."""

LEAST = ("minimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "maxLength", "maxItems", "maxProperties")
SAME = ("type", "format", "pattern", "default", "x-kubernetes-list-type", "x-kubernetes-int-or-string")

Fields = Mapping[str, Mapping[str, Any]]


def fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that is not refused, with what bounds its values."""
    yield path, {key: node[key] for key in (*SAME, *LEAST, *MOST, "enum", "required") if key in node}
    for name, child in node.get("properties", {}).items():
        if not is_refused(child):
            yield from fields(child, f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(keyword), Mapping):
            yield from fields(node[keyword], path + mark)


def written(definition: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    (version,) = definition["spec"]["versions"]
    return dict(fields(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec"))


def now() -> dict[str, dict[str, dict[str, Any]]]:
    return {each["spec"]["names"]["kind"]: written(each) for each in (crd(), approval_crd())}


def narrowed(before: Fields, after: Fields) -> Iterator[str]:
    """What a manifest could say before and cannot now."""
    for path, old in before.items():
        new = after.get(path)
        if new is None:
            yield f"{path} is gone"
            continue
        changed = (key for key in SAME if new.get(key) != old.get(key))
        yield from (f"{path}: {key} is {new.get(key)!r} and was {old.get(key)!r}" for key in changed)
        yield from (f"{path}: {key} rose" for key in LEAST if new.get(key, 0) > old.get(key, 0))
        yield from (f"{path}: {key} fell" for key in MOST if new.get(key, float("inf")) < old.get(key, float("inf")))
        if "enum" in new and (gone := set(old.get("enum", ())) - set(new["enum"])):
            yield f"{path}: {sorted(gone)} is no value any more"
        if "enum" in new and "enum" not in old:
            yield f"{path}: only some values are left"
        if more := set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{path}: {sorted(more)} became required"


@pytest.mark.parametrize("kind", ["InferenceDeployment", "PlacementApproval"])
def test_every_manifest_of_the_kept_api_is_one_of_today(kind: str) -> None:
    assert list(narrowed(json.loads(KEPT.read_text())[kind], now()[kind])) == []


def test_every_kind_of_narrowing_is_found() -> None:
    before = now()["InferenceDeployment"]
    context, precision = "spec.contextLength", "spec.precision"

    def found(path: str, **change: Any) -> list[str]:
        after = copy.deepcopy(before)
        after[path] |= change
        return list(narrowed(before, after))

    assert found(context, maximum=10) == [f"{context}: maximum fell"]
    assert found(context, minimum=10) == [f"{context}: minimum rose"]
    assert len(found(context, type="string")) == 1
    assert found(context, enum=[1]) == [f"{context}: only some values are left"]
    assert len(found(precision, enum=["auto"])) == len(found(precision, default="fp8")) == 1
    assert found("spec", required=[*before["spec"]["required"], "slo"]) == ["spec: ['slo'] became required"]
    assert list(narrowed(before, {path: each for path, each in before.items() if path != context})) == [
        f"{context} is gone"
    ]


def test_a_wider_api_is_no_narrower_one() -> None:
    before = now()["InferenceDeployment"]
    after = copy.deepcopy(before)
    after["spec.contextLength"] |= {"maximum": 10**12, "minimum": 0}
    after["spec.precision"]["enum"] = [*before["spec.precision"]["enum"], "fp4"]
    after["spec.new"] = {"type": "string"}
    assert list(narrowed(before, after)) == []
