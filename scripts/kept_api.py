#!/usr/bin/env python3
"""Add the fields that a release brings to those that every later one must keep: docs/api-versions.md.

    python -m scripts.kept_api

It adds fields, values and wider bounds, and refuses to take any away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plimsoll.api.bounds import USUAL_RELEASES
from plimsoll.api.crd.inbox_schema import approval_crd
from plimsoll.api.crd.not_carried import is_refused
from plimsoll.api.crd.schema import crd
from plimsoll.domain.kubernetes_names import KIND

KEPT = Path(__file__).resolve().parent.parent / "tests" / "house" / "data" / "api_v1alpha1.json"
"""For each kind that people write: its fields, with what a value may be."""

LEAST = ("minimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "maxLength", "maxItems", "maxProperties")
SAME = ("type", "format", "pattern", "default", "x-kubernetes-list-type", "x-kubernetes-int-or-string")

READ_AS = "x-read-as"
"""The value that the operator reads where the field is left out, by the value of another field: a CRD cannot say it."""

Fields = Mapping[str, Mapping[str, Any]]


def fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field that is not refused, with what bounds its values."""
    yield path, {key: node[key] for key in (*SAME, *LEAST, *MOST, "enum", "required") if key in node}
    for name, child in node.get("properties", {}).items():
        if not is_refused(child):
            yield from fields(child, f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(node.get(keyword), Mapping):
            yield from fields(node[keyword], path + mark)


def written(definition: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of a kind's spec."""
    (version,) = definition["spec"]["versions"]
    return dict(fields(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec"))


def now() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the fields of the kinds that people write, as the CRDs have them now."""
    found = {each["spec"]["names"]["kind"]: written(each) for each in (crd(), approval_crd())}
    found[KIND]["spec.engine.version"][READ_AS] = dict(USUAL_RELEASES)
    return found


def narrowed(before: Fields, after: Fields) -> Iterator[str]:
    """Yield what a manifest could say before and cannot now."""
    for path, old in before.items():
        new = after.get(path)
        if new is None:
            yield f"{path} is gone"
            continue
        changed = (key for key in SAME if new.get(key) != old.get(key))
        yield from (f"{path}: {key} is {new.get(key)!r} and was {old.get(key)!r}" for key in changed)
        meant = {key: new.get(READ_AS, {}).get(key) for key in old.get(READ_AS, {})}
        yield from (f"{path}: {key} means {meant[key]}" for key in meant if meant[key] != old[READ_AS][key])
        yield from (f"{path}: {key} rose" for key in LEAST if new.get(key, 0) > old.get(key, 0))
        yield from (f"{path}: {key} fell" for key in MOST if new.get(key, float("inf")) < old.get(key, float("inf")))
        if "enum" in new and (gone := set(old.get("enum", ())) - set(new["enum"])):
            yield f"{path}: {sorted(gone)} is no value any more"
        if "enum" in new and "enum" not in old:
            yield f"{path}: only some values are left"
        if more := set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{path}: {sorted(more)} became required"


def main() -> int:
    """Write the file. Returns the exit status."""
    before, after = json.loads(KEPT.read_text(encoding="utf-8")), now()
    lost = [f"{kind}: {each}" for kind in after for each in narrowed(before[kind], after[kind])]
    for each in lost:
        sys.stderr.write(f"error: {each}\n")
    if not lost:
        KEPT.write_text(json.dumps(after, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
