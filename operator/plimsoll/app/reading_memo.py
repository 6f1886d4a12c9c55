"""What was read before and has not changed since: the next pass reads only what is new.

Bodies in the store are never changed in place, so the same body says the same. What is kept is also given again as the
same value: the core's memo compares by identity first. An answer that a whole pass did not ask for is forgotten, so
that no more is kept than the picture holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from plimsoll.adapters.cluster import NODES, PODS
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.store import Body, Picture, uid_of
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType, Price
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.serving import Request
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.pod_reading import PodFacts, read_pod

T = TypeVar("T")
Prices = Mapping[str, Price]


@dataclass(slots=True)
class Kept(Generic[T]):
    """Values by key that were asked for in this pass, and those of the pass before."""

    now: dict[Hashable, T] = field(default_factory=dict)
    before: dict[Hashable, T] = field(default_factory=dict)

    def begin(self) -> None:
        """A new pass."""
        self.now, self.before = {}, self.now

    def get(self, key: Hashable) -> T | None:
        """The latest value."""
        known = self.now.get(key)
        return self.before.get(key) if known is None else known

    def put(self, key: Hashable, value: T) -> T:
        """Keep a value until a whole pass does not."""
        self.now[key] = value
        return value


@dataclass(frozen=True, slots=True)
class _SeenFleet:
    """A fleet and what it was read from."""

    versions: tuple[int, int]
    prices: Prices
    fleet: Fleet


@dataclass(frozen=True, slots=True)
class _ReadObject:
    """A parsed object and the body it was read from."""

    body: Body
    resource: InferenceDeployment


@dataclass(frozen=True, slots=True)
class _Converted:
    """A request and what it was made of."""

    resource: InferenceDeployment
    model: ModelFacts
    draft: ModelFacts | None
    request: Request


@dataclass(frozen=True, slots=True)
class _Changed:
    """A request with other values in some fields, and the one it was made of."""

    of: Request
    request: Request


@dataclass(slots=True)
class ReadingMemo:
    """Readings of one store. Not thread-safe: one pass is made at a time."""

    _fleet: _SeenFleet | None = None
    _pods: Kept[tuple[Body, PodFacts]] = field(default_factory=Kept)
    _objects: Kept[_ReadObject] = field(default_factory=Kept)
    _converted: Kept[_Converted] = field(default_factory=Kept)
    _changed: Kept[_Changed] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass: what the last one did not ask for is forgotten."""
        for kept in (self._pods, self._objects, self._converted, self._changed):
            kept.begin()

    def fleet(self, picture: Picture, types: Sequence[GpuType], prices: Prices) -> Fleet:
        """The fleet, read again where a node, a pod or a price has changed; the known one where both are equal."""
        versions = picture.versions[NODES], picture.versions[PODS]
        known = self._fleet if self._fleet is not None and self._fleet.prices is prices else None
        if known is not None and known.versions == versions:
            return known.fleet
        read = read_fleet(picture.all(NODES), picture.all(PODS), types, prices)
        fleet = known.fleet if known is not None and known.fleet == read else read
        self._fleet = _SeenFleet(versions, prices, fleet)
        return fleet

    def pod(self, body: Body) -> PodFacts:
        """What a pod shows."""
        uid = uid_of(body)
        known = self._pods.get(uid)
        if known is None or known[0] is not body:
            known = body, read_pod(body)
        return self._pods.put(uid, known)[1]

    def resource(self, body: Body, parse: Callable[[Body], InferenceDeployment]) -> InferenceDeployment:
        """The object as parsed; its status is that of the moment when its spec last changed."""
        uid = uid_of(body)
        known = self._objects.get(uid)
        if known is None or _what_is_parsed(body) != _what_is_parsed(known.body):
            known = _ReadObject(body, parse(body))
        return self._objects.put(uid, known).resource

    def converted(
        self, resource: InferenceDeployment, model: ModelFacts, draft: ModelFacts | None, convert: Callable[[], Request]
    ) -> Request:
        """The request that the object's spec makes with these facts."""
        uid = resource.metadata.uid
        known = self._converted.get(uid)
        if known is None or not (known.resource is resource and known.model is model and known.draft is draft):
            known = _Converted(resource, model, draft, convert())
        return self._converted.put(uid, known).request

    def with_changes(self, uid: str, request: Request, **changes: Any) -> Request:
        """The request with these values; the same object as in the last pass where nothing has changed."""
        if _has(request, changes):
            return request
        key = uid, *changes
        known = self._changed.get(key)
        if known is None or known.of is not request or not _has(known.request, changes):
            known = _Changed(request, replace(request, **changes))
        return self._changed.put(key, known).request


def _has(request: Request, values: Mapping[str, Any]) -> bool:
    return all(getattr(request, name) == value for name, value in values.items())


def _what_is_parsed(body: Body) -> tuple[Any, ...]:
    """All of an object that its reader looks at: everything but the status."""
    head = body["metadata"]
    told = (head.get(name) for name in ("generation", "name", "namespace", "creationTimestamp"))
    return (*told, body.get("apiVersion"), body.get("kind"), body.get("spec"))
