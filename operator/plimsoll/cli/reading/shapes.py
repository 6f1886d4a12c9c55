"""Checks objects from a file as an API server would: the code that reads a fleet trusts the server's types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource
from plimsoll.facts.cluster.quota_reading import PARTS, is_read

Body = dict[str, Any]

_QUOTED = "Write a string: quote it."
_MOST_GPUS = 1024
"""The most GPUs or slices of one node or pod; more is a typing mistake."""


def refuse_misshapen(body: Body) -> None:
    """Raise :class:`InvalidInput` with the object and the field if reading the fleet would fail."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InvalidInput(f"{body.get('kind')}.metadata", metadata, "Give the object a metadata.name.")
    check = _Check(f"{body.get('kind')} {metadata['name']}")
    check.strings(metadata, "metadata", "labels")
    for part in ("spec", "status"):
        check.mapping(body, "", part)
    kind = str(body.get("kind"))
    if kind in {"ResourceQuota", "LimitRange"}:
        check.needed(metadata, "metadata", "namespace", "Name the namespace that it limits.")
    reader = _CHECKS.get(kind)
    if reader is not None:
        reader(check, body.get("spec") or {}, body.get("status") or {})


def _check_node(check: _Check, spec: Body, status: Body) -> None:
    for part in ("allocatable", "capacity"):
        check.quantities(status, "status", part)
    for name, condition in check.mappings(status, "status", "conditions"):
        check.text(condition, name, "type")
        check.text(condition, name, "status")
    for name, taint in check.mappings(spec, "spec", "taints"):
        for part in ("key", "value", "effect"):
            check.text(taint, name, part)


def _check_pod(check: _Check, spec: Body, status: Body) -> None:
    check.text(spec, "spec", "nodeName")
    check.text(status, "status", "phase")
    for part in ("containers", "initContainers"):
        for name, container in check.mappings(spec, "spec", part):
            check.texts(container, name, "command")
            resources = check.mapping(container, name, "resources")
            for section in ("requests", "limits"):
                check.quantities(resources, f"{name}.resources", section)


def _check_quota(check: _Check, spec: Body, status: Body) -> None:
    for body, where, part in ((spec, "spec", "hard"), (status, "status", "used")):
        check.quantities(body, where, part)
        check.numbers(body, where, part, [str(name) for name in body.get(part) or () if is_read(str(name))])
    check.texts(spec, "spec", "scopes")
    selector = check.mapping(spec, "spec", "scopeSelector")
    for name, term in check.mappings(selector, "spec.scopeSelector", "matchExpressions"):
        for part in ("scopeName", "operator"):
            check.text(term, name, part)
        check.texts(term, name, "values")


def _check_limit_range(check: _Check, spec: Body, _: Body) -> None:
    for name, entry in check.mappings(spec, "spec", "limits"):
        check.text(entry, name, "type")
        for part in PARTS:
            check.quantities(entry, name, part)
            check.numbers(entry, name, part, list(entry.get(part) or ()))


_CHECKS: dict[str, Callable[[_Check, Body, Body], None]] = {
    "Node": _check_node,
    "Pod": _check_pod,
    "ResourceQuota": _check_quota,
    "LimitRange": _check_limit_range,
}
"""The check of each kind, in addition to that of its head."""


class _Check:
    """Checks fields of one object; every message begins with its title. A missing field or null is accepted."""

    def __init__(self, title: str) -> None:
        self._title = title

    def mapping(self, body: Body, where: str, part: str) -> Body:
        """Return a mapping, empty if there is none."""
        return dict(self._value(body, where, part, dict, "Write a mapping.") or {})

    def mappings(self, body: Body, where: str, part: str) -> Iterator[tuple[str, Body]]:
        """Yield the mappings of a list, each with its path."""
        yield from self._listed(body, where, part, dict, "Write a list of mappings.", "Write a mapping.")

    def text(self, body: Body, where: str, part: str) -> None:
        self._value(body, where, part, str, _QUOTED)

    def needed(self, body: Body, where: str, part: str, fix: str) -> None:
        if not isinstance(body.get(part), str) or not body[part]:
            raise self._bad(f"{where}.{part}", body.get(part), fix)

    def texts(self, body: Body, where: str, part: str) -> None:
        for _ in self._listed(body, where, part, str, "Write a list of strings.", _QUOTED):
            pass

    def numbers(self, body: Body, where: str, part: str, names: Sequence[str]) -> None:
        """Check that the quantities with these names can be counted. A limit that is no number would not limit."""
        for name in names:
            if not _is_number(body[part][name]):
                raise self._bad(f"{where}.{part}[{name}]", body[part][name], "Write a quantity, e.g. 8 or 64Gi.")

    def strings(self, body: Body, where: str, part: str) -> None:
        for key, value in self._keyed(body, where, part, "Write a mapping of strings."):
            if not isinstance(value, str):
                raise self._bad(f"{where}.{part}[{key}]", value, "Labels are strings: quote it.")

    def quantities(self, body: Body, where: str, part: str) -> None:
        for key, value in self._keyed(body, where, part, "Write a mapping of quantities."):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise self._bad(f"{where}.{part}[{key}]", value, "Write a quantity, e.g. 500m or 64Gi.")
            if is_gpu_resource(key) and not _is_count(value):
                raise self._bad(f"{where}.{part}[{key}]", value, f"Write a number from 0 to {_MOST_GPUS}.")

    def _listed(
        self, body: Body, where: str, part: str, kind: type, fix: str, fix_of_each: str
    ) -> Iterator[tuple[str, Any]]:
        for index, each in enumerate(self._value(body, where, part, list, fix) or ()):
            if not isinstance(each, kind):
                raise self._bad(f"{where}.{part}[{index}]", each, fix_of_each)
            yield f"{where}.{part}[{index}]", each

    def _keyed(self, body: Body, where: str, part: str, fix: str) -> Iterator[tuple[str, Any]]:
        for key, value in (self._value(body, where, part, dict, fix) or {}).items():
            if not isinstance(key, str):
                raise self._bad(f"{where}.{part}", key, "Its keys are strings: quote them.")
            yield key, value

    def _value(self, body: Body, where: str, part: str, kind: type, fix: str) -> Any:
        value = body.get(part)
        if value is not None and not isinstance(value, kind):
            raise self._bad(f"{where}.{part}".lstrip("."), value, fix)
        return value

    def _bad(self, where: str, value: object, fix: str) -> InvalidInput:
        return InvalidInput(f"{self._title}: {where}", value, fix)


def _is_number(value: str | float) -> bool:
    try:
        parse_quantity(str(value))
    except (ValueError, ArithmeticError):
        return False
    return True


def _is_count(value: str | float) -> bool:
    try:
        return 0 <= parse_quantity(str(value)) <= _MOST_GPUS
    except ValueError:
        return False
