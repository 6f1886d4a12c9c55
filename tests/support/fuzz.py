"""Specs made by walking the CRD's schema and putting something awkward into one place after the other, by seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from tests.support.installed import CRD

Path = tuple[str, ...]
_STATED: Mapping[Path, Mapping[str, Any]] = {
    ("engine", "speculation"): {"method": "Ngram", "tokens": 2},
    ("engine", "speculation", "draftModel"): {"name": "a/b"},
    ("engine", "weightStreaming"): {"group": 4},
    ("expectedTokens",): {"prompt": 512, "output": 128},
    ("workload", "sharedPrefix"): {"tokens": 64},
    ("model",): {"name": "meta-llama/Llama-3.1-8B-Instruct"},
    ("model", "tokenSecretRef"): {"name": "absent"},
}
"""What a section needs so that it can be there at all."""

_WORDS: tuple[Any, ...] = (
    "", " ", "0", "-1", "1e400", "NaN", "null", "../../etc", "a b", "\u202ex\U0001f4a5é", "x" * 300, "x" * 100_000,
    "9" * 5000, "9" * 5000 + "Gi", "0." + "1" * 5000 + "Gi", "0Gi", "1Mi", "lots", "{{ .Values }}", "$(A)", "%s%n",
    "\x00",
)  # fmt: skip
_NUMBERS: tuple[Any, ...] = (0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63), 10**30, 1.5, 1e308, "1", True)
_WRONG: tuple[Any, ...] = (None, "", 0, [], {}, [[]], [None], {"": None}, True, 1.5)


@cache
def spec_schema() -> dict[str, Any]:
    """The schema of ``spec``, as the CRD in the repository has it."""
    crd = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)  # ten times as fast as the loader in Python
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def leaves(schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every place of a schema that holds something other than named fields, with the schema there."""
    fields = schema.get("properties")
    if not fields:
        yield path, schema
        return
    for name, inner in sorted(fields.items()):
        yield from leaves(inner, (*path, name))


class SpecFuzzer:
    """Specs by seed: what a spec is depends on the seed and its number alone.

    Args:
        seed: of the dice.
        minimal: a spec that is served, where mutations start.
        wild: share of values that ignore the schema's type and bounds.
    """

    def __init__(self, seed: int, minimal: Mapping[str, Any], *, wild: float = 0.3) -> None:
        self._seed, self._minimal, self._wild = seed, minimal, wild
        self._leaves = list(leaves(spec_schema()))

    def spec(self, number: int) -> tuple[str, dict[str, Any]]:
        """The spec of this number, and which of its places are awkward. The first numbers visit every leaf once."""
        dice = random.Random(f"{self._seed}/{number}")  # noqa: S311 - must be repeatable, not secret
        order = random.Random(self._seed).sample(self._leaves, len(self._leaves))  # noqa: S311 - same
        chosen = [order[number % len(order)], *dice.sample(self._leaves, dice.choice((0, 0, 1, 2)))]
        spec: dict[str, Any] = copy.deepcopy(dict(self._minimal))
        for path, schema in chosen:
            _put(spec, path, self._value(schema, dice))
        return ", ".join(".".join(path) for path, _ in chosen), spec

    def _value(self, schema: Mapping[str, Any], dice: random.Random) -> Any:
        if dice.random() < self._wild:
            return dice.choice((*_WRONG, *_WORDS, *_NUMBERS))
        if schema.get("enum"):
            return dice.choice((*schema["enum"], ""))
        return _OF_TYPE.get(str(schema.get("type")), _any)(schema, dice)


def _put(spec: dict[str, Any], path: Path, value: Any) -> None:
    """Write a value, with every section above it, unless an earlier value stands in the way."""
    here: Any = spec
    for depth, name in enumerate(path[:-1], start=1):
        here = here.setdefault(name, copy.deepcopy(dict(_STATED.get(path[:depth], {}))))
        if not isinstance(here, dict):
            return
    here[path[-1]] = value


def _number(schema: Mapping[str, Any], dice: random.Random) -> Any:
    low, high = int(schema.get("minimum", -(2**63))), int(schema.get("maximum", 2**63 - 1))
    return dice.choice((low, high, low + 1, high - 1, (low + high) // 2, low - 1, high + 1, dice.choice(_NUMBERS)))


def _word(schema: Mapping[str, Any], dice: random.Random) -> Any:
    longest = min(int(schema.get("maxLength", 5000)), 5000)
    fitting = ("x" * longest, "a", "9" * longest, "9" * (longest - 2) + "Gi", "0.5Gi", "/" + "x" * (longest - 1), "a/b")
    return dice.choice((*fitting, *fitting, *_WORDS))


def _list(schema: Mapping[str, Any], dice: random.Random) -> Any:
    of = schema.get("items", {})
    many = dice.choice((0, 1, 2, int(schema.get("maxItems", 50)), 1_000))
    if many > 100:
        return [_item(of, dice)] * many
    return [_item(of, dice) for _ in range(many)]


def _item(schema: Mapping[str, Any], dice: random.Random) -> Any:
    fields = schema.get("properties")
    if not fields:
        return _OF_TYPE.get(str(schema.get("type")), _any)(schema, dice)
    chosen = dice.sample(sorted(fields), dice.randint(0, min(3, len(fields))))
    return {name: _item(fields[name], dice) for name in sorted({*chosen, *schema.get("required", ())})}


def _any(_: Mapping[str, Any], dice: random.Random) -> Any:
    """Free-form: names that Kubernetes knows with values that it does not expect."""
    names = ("name", "value", "valueFrom", "mountPath", "emptyDir", "requests", "limits", "cpu", "memory", "a b", "")
    values = (*_WRONG, *_WORDS, *_NUMBERS, {"cpu": "lots"}, {"cpu": "1"}, {"memory": None}, {"sizeLimit": "x"})
    return {name: dice.choice(values) for name in dice.sample(names, dice.randint(0, 4))}


def _flag(_: Mapping[str, Any], dice: random.Random) -> Any:
    return dice.choice((True, False, "true", 1, None))


_OF_TYPE = {"integer": _number, "number": _number, "string": _word, "array": _list, "object": _any, "boolean": _flag}
