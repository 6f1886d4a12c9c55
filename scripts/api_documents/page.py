"""The page ``docs/api.md``: every field of the kinds, as the CRDs describe them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from plimsoll.api.crd.not_carried import is_refused

Schema = dict[str, Any]

_HEAD = """# The API

<!-- Made by scripts/generate_crd.py from operator/plimsoll/api: change the models, then run `make crds`. -->

Every field of the three kinds in the group `plimsoll.dev`, version `v1alpha1`. Fields with `*` are required. `[]` is
for the entries of a list, `{}` for the values of a map with names of your own. [api-versions.md](api-versions.md) says
what later versions will keep. `kubectl explain infd.spec` prints the same from a cluster, and [editors](editors.md)
show it while you type.
"""
_EMPTY = "-"
_ENTRIES = {"items": "[]", "additionalProperties": "{}"}
"""Marks in a path: of an entry of a list, and of a value of a map."""


def page(definitions: Sequence[Schema]) -> str:
    """Return the page about these CRDs."""
    return "\n".join([_HEAD, *(line for each in definitions for line in _kind(each))])


def _kind(definition: Schema) -> Iterator[str]:
    names, (version,) = definition["spec"]["names"], definition["spec"]["versions"]
    root = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']}\n"
    yield f"{root['description']}\n"
    short = ", ".join(f"`{each}`" for each in names.get("shortNames", ()))
    yield f"Resource `{names['plural']}`{f', short {short}' if short else ''}.\n"
    for part, node in root["properties"].items():
        if part in ("apiVersion", "kind", "metadata"):
            continue
        if "properties" not in node:
            yield from _table(
                f"{names['kind']} `{part}`", [(part, node, part in root.get("required", ())), *_below(part, node)]
            )
            continue
        required = node.get("required", ())
        simple = [(f"{part}.{name}", child, name in required) for name, child in node["properties"].items()]
        yield from _table(f"{names['kind']} `{part}`", [each for each in simple if not _parts(each[1])])
        for path, child, is_required in simple:
            if _parts(child):
                yield from _table(f"{names['kind']} `{path}`", [(path, child, is_required), *_below(path, child)])
        yield from _rules([(part, node, True), *_below(part, node)])


def _parts(node: Schema) -> bool:
    """Whether a field has fields of its own."""
    return any(not path.endswith(tuple(_ENTRIES.values())) for path, *_ in _below("", node))


def _below(path: str, node: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield the fields and entries below one, with paths and whether they are required, without refused ones."""
    for name, child in node.get("properties", {}).items():
        if not is_refused(child):
            yield f"{path}.{name}", child, name in node.get("required", ())
            yield from _below(f"{path}.{name}", child)
    for keyword, mark in _ENTRIES.items():
        if isinstance(entry := node.get(keyword), dict):
            yield f"{path}{mark}", entry, False
            yield from _below(f"{path}{mark}", entry)


def _table(title: str, fields: Sequence[tuple[str, Schema, bool]]) -> Iterator[str]:
    shown = [each for each in fields if not is_refused(each[1]) and not each[0].endswith(tuple(_ENTRIES.values()))]
    if not shown:
        return
    yield f"### {title}\n"
    yield "| Field | Type | Default | Meaning |\n|---|---|---|---|"
    for path, node, is_required in shown:
        default = f"`{_word(node['default'])}`" if "default" in node else _EMPTY
        cells = (f"`{path}`{'*' if is_required else ''}", _type(node), default, _escaped(node.get("description", "")))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _rules(fields: Sequence[tuple[str, Schema, bool]]) -> Iterator[str]:
    """Yield the rules that hold between fields."""
    rules = [(path, each["message"]) for path, node, _ in fields for each in node.get("x-kubernetes-validations", ())]
    if rules:
        yield "### Rules that the API server checks\n"
        yield from (f"- `{path}`: {_escaped(message)}" for path, message in rules)
        yield ""


def _type(node: Schema) -> str:
    """Return a type with its bounds."""
    if "enum" in node:
        return ", ".join(f"`{_word(each)}`" for each in node["enum"])
    name = "integer or string" if node.get("x-kubernetes-int-or-string") else str(node.get("type", "any"))
    if name == "array":
        return f"list of {_bracketed(_type(node['items']))}{_bounds(node, 'minItems', 'maxItems', ' entries')}"
    if isinstance(values := node.get("additionalProperties"), dict):
        return f"map of {_bracketed(_type(values))}{_bounds(node, 'minProperties', 'maxProperties', ' entries')}"
    if node.get("format") == "date-time":
        return "time"
    if name == "string":
        return f"string{_bounds(node, 'minLength', 'maxLength', ' characters')}"
    return f"{name}{_bounds(node, 'minimum', 'maximum', '')}"


def _bracketed(words: str) -> str:
    """Return words in brackets if a bound stands in them, so that it is not taken for that of the list."""
    return f"({words})" if "," in words else words


def _bounds(node: Schema, least: str, most: str, unit: str) -> str:
    low, high = node.get(least), node.get(most)
    if low is None and high is None:
        return ""
    if high is None:
        return f", {low:,}{unit} or more"
    return f", {high:,}{unit} at most" if low is None else f", {low:,} to {high:,}{unit}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
