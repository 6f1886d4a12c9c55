"""The names of objects that are to be made are looked up one by one, or all at once where they are many."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import DEPLOYMENTS, SERVICES, Cluster, Listing, ObjectKind
from plimsoll.app.write.free_names import FEW, FREE_SECONDS, FreeNames
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey

MANY = 40


@dataclass
class Names:
    """An API server with these foreign objects."""

    foreign: frozenset[ObjectKey] = frozenset()
    is_whole: bool = True
    error: Exception | None = None
    calls: list[str] = field(default_factory=list)

    async def get(self, _: ObjectKind, key: ObjectKey) -> dict[str, Any] | None:
        self.calls.append(f"get {key}")
        return self._body(key) if key in self.foreign else None

    async def list(self, kind: ObjectKind, **options: Any) -> Listing:
        assert options == {
            "labels": "!plimsoll.dev/deployment",
            "namespace": options["namespace"],
            "metadata_only": True,
            "pages": 1,
        }
        self.calls.append(f"list {kind.plural} {options['namespace']}")
        if self.error is not None:
            raise self.error
        found = [self._body(key) for key in self.foreign if key.namespace == options["namespace"]]
        return Listing(found, is_whole=self.is_whole)

    @staticmethod
    def _body(key: ObjectKey) -> dict[str, Any]:
        return {"metadata": {"name": key.name, "namespace": key.namespace}}

    def made(self) -> FreeNames:
        return FreeNames(cast("Cluster", self))


async def found(names: FreeNames, namespace: str, count: int = MANY, kind: ObjectKind = SERVICES) -> dict[str, bool]:
    """Ask for names one after the other; return which are taken."""
    keys = [ObjectKey(namespace, f"o{number}") for number in range(count)]
    return {key.name: await names.find(kind, key) is not None for key in keys}


async def test_many_names_of_a_namespace_are_asked_for_at_once_and_those_of_a_neighbour_apart() -> None:
    there = Names(frozenset({ObjectKey("busy", "o3"), ObjectKey("busy", "o30"), ObjectKey("honest", "o1")}))
    names = there.made()
    busy = await found(names, "busy")
    assert {name for name, is_taken in busy.items() if is_taken} == {"o3", "o30"}
    assert there.calls[FEW:] == ["list services busy", "get busy/o30"]
    there.calls.clear()
    honest = await found(names, "honest", 2)
    assert honest == {"o0": False, "o1": True}
    assert there.calls == ["get honest/o0", "get honest/o1"]


async def test_each_kind_has_names_of_its_own() -> None:
    there = Names()
    names = there.made()
    await found(names, "busy")
    there.calls.clear()
    await found(names, "busy", FEW, DEPLOYMENTS)
    assert len(there.calls) == FEW


@pytest.mark.parametrize(
    "trouble",
    [
        {"is_whole": False},
        {"error": ClusterRefused("list services", 403, "no")},
        {"error": SourceUnavailable("list services: late")},
    ],
)
async def test_names_that_cannot_be_listed_at_once_are_asked_for_one_by_one(trouble: Mapping[str, Any]) -> None:
    there = Names(frozenset({ObjectKey("busy", "o30")}), **trouble)
    busy = await found(there.made(), "busy")
    assert {name for name, is_taken in busy.items() if is_taken} == {"o30"}
    assert sum(call.startswith("list") for call in there.calls) == 1
    assert sum(call.startswith("get") for call in there.calls) == MANY


async def test_an_object_that_somebody_makes_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Names()
    names = there.made()
    await found(names, "busy")
    there.foreign = frozenset({ObjectKey("busy", "o39")})
    later = time.monotonic() + FREE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert (await found(names, "busy"))["o39"]


async def test_a_name_that_was_free_counts_as_free_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    names, key = Names().made(), ObjectKey("ns", "a")
    assert not names.has(SERVICES, key)
    names.add(SERVICES, key)
    assert names.has(SERVICES, key)
    assert not names.has(DEPLOYMENTS, key)
    later = time.monotonic() + FREE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not names.has(SERVICES, key)
