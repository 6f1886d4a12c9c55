"""Names, labels, quantities and free-form objects, as Kubernetes takes them: each is bounded, so that none can harm.

The patterns are those of the API server's own validation (``k8s.io/apimachinery``: ``util/validation`` and
``api/resource``), written so that RE2, Rust's engine and Python's read them alike.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema
from pydantic.config import JsonDict

from plimsoll.api.bounds import MOST_MEMBERS
from plimsoll.api.v1alpha1.base import LARGEST_BOUND, rule

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
LABEL_KEY = rf"({_SUBDOMAIN}/)?{_NAME_PART}"
ANNOTATION_KEY = rf"([A-Za-z0-9](\.?[-A-Za-z0-9])*/)?{_NAME_PART}"
"""Annotations may have capitals in the prefix, too."""

LONGEST_KEY = 253 + 1 + 63

OWN_PREFIX = r"([^/]*\.)?plimsoll\.dev/.*"
"""Keys that the operator sets and reads."""

LONGEST_QUANTITY = 32
QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2}|[KMGTP]i|[mkMGTP])?$"
RESOURCE_NAME = (
    rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|{_SUBDOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)

_MOST_KEYS = 1024
_LONGEST_MEMBER = 4096
_BELOW_LISTS = 3
"""Levels that may follow a list."""


def _quantity(value: object) -> str | int:
    """A quantity as text, or a whole number. A fraction without quotes is taken too: earlier releases took it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("Write a quantity, e.g. 500m or 16Gi")  # noqa: TRY004 - pydantic reports ValueError
    if isinstance(value, int):
        if not 0 <= value <= LARGEST_BOUND:
            raise ValueError(f"Write a whole number from 0 to {LARGEST_BOUND}, or a quantity such as 16Gi")
        return value
    text = value if isinstance(value, str) else str(value)
    if len(text) > LONGEST_QUANTITY or not re.fullmatch(QUANTITY, text):
        raise ValueError("Write a quantity, e.g. 500m or 16Gi")
    return text


_ANY_JSON = WithJsonSchema(
    {
        "type": "object",
        "maxProperties": _MOST_KEYS,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-map-type": "atomic",
    }
)
"""A JSON object of any content, which one manager owns as a whole.

Nothing below it is spelled out. For 1 MB of short members, a schema of ten levels took the API server 1.7 CPU seconds,
and this one takes 0.2. :func:`_bounded` and :mod:`plimsoll.app.watch.sizes` count levels and members.
"""


def _bounded(value: dict[str, Any], *, levels: int) -> dict[str, Any]:
    """Plain JSON within the same bounds. Walked without recursion."""
    if len(value) > _MOST_KEYS:
        raise ValueError(f"It has more than {_MOST_KEYS} members")
    members = 0
    pending: list[tuple[Any, int]] = [(value, levels + 1)]
    while pending:
        node, left = pending.pop()
        children = _members(node)
        members += len(children)
        if members > MOST_MEMBERS:
            raise ValueError(f"It has more than {MOST_MEMBERS} members")
        if children and left == 0:
            raise ValueError(f"It is nested more than {levels} levels deep, or {_BELOW_LISTS} levels below a list")
        below = left - 1 if isinstance(node, dict) else min(left - 1, _BELOW_LISTS)
        pending += [(child, below) for child in children if isinstance(child, dict | list)]
    return value


def _members(node: dict[Any, Any] | list[Any]) -> list[Any]:
    if isinstance(node, dict) and not all(isinstance(key, str) and len(key) <= _LONGEST_MEMBER for key in node):
        raise ValueError(f"Its keys must be strings of at most {_LONGEST_MEMBER} characters")
    members = list(node.values() if isinstance(node, dict) else node)
    for each in members:
        if each is not None and not isinstance(each, str | bool | int | float | dict | list):
            raise ValueError(f"It holds a {type(each).__name__}; put what is no number in quotes")
    return members


def _finite(value: dict[str, Any]) -> dict[str, Any]:
    """Values that are passed on to the API server must be JSON in its narrow sense."""
    pending: list[Any] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict | list):
            pending += node.values() if isinstance(node, dict) else node
        elif isinstance(node, float) and not math.isfinite(node):
            raise ValueError("Its numbers must be finite")
        elif isinstance(node, int) and abs(node) > LARGEST_BOUND:
            raise ValueError(f"Its numbers must not be beyond {LARGEST_BOUND}")
    return value


_Finite = AfterValidator(_finite)

FreeForm = Annotated[dict[str, Any], AfterValidator(partial(_bounded, levels=10)), _ANY_JSON]
"""A model's ``config.json``: those of the known models have seven levels at most."""

Passed = Annotated[dict[str, Any], AfterValidator(partial(_bounded, levels=5)), _Finite, _ANY_JSON]
"""A part of a pod that is handed on to the API server as it stands."""

PassedShallow = Annotated[dict[str, Any], AfterValidator(partial(_bounded, levels=1)), _Finite, _ANY_JSON]
"""The same, of plain values, lists of them and references."""

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_LABEL}$")]
DnsSubdomain = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}$")]
OptionalSubdomain = Annotated[str, Field(max_length=253, pattern=rf"^({_SUBDOMAIN})?$")]
"""Empty means the cluster's default, as in a pod."""

DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a ConfigMap or Secret."""

FileMode = Annotated[int, Field(ge=0, le=0o777)]

Quantity = Annotated[
    str | int,
    PlainValidator(_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": LARGEST_BOUND,
            "maxLength": LONGEST_QUANTITY,
            "pattern": QUANTITY,
        }
    ),
]
"""A Kubernetes quantity that is not negative."""

_LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]

_KEY = "a key is a name of at most 63 letters, digits, '-', '_' and '.', with or without a DNS prefix and '/'"


def _keys(pattern: str, message: str) -> JsonDict:
    return rule(f"self.all(k, k.size() <= {LONGEST_KEY} && k.matches(r'^{pattern}$'))", message)


def _entries(*rules: JsonDict) -> Any:
    return Field(max_length=32, json_schema_extra={"x-kubernetes-validations": [*rules]})


Labels = Annotated[
    dict[str, _LabelValue],
    _entries(
        _keys(LABEL_KEY, f"labels: {_KEY}"),
        rule(
            f"!self.exists(k, k.matches(r'^{OWN_PREFIX}$'))",
            "labels: keys under plimsoll.dev/ are the operator's: remove them",
        ),
    ),
]
NodeLabels = Annotated[dict[str, _LabelValue], _entries(_keys(LABEL_KEY, f"nodeSelector: {_KEY}"))]
Annotations = Annotated[
    dict[str, Annotated[str, Field(max_length=65_536)]], _entries(_keys(ANNOTATION_KEY, f"annotations: {_KEY}"))
]
ResourceList = Annotated[
    dict[str, Quantity],
    _entries(
        _keys(
            f"({RESOURCE_NAME})",
            "resources: write cpu, memory, ephemeral-storage, hugepages-2Mi or an extended resource such as "
            "example.com/device",
        )
    ),
]
