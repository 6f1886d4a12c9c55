"""A cache of parsed objects: the next pass parses only what has changed.

Bodies in the store are never changed in place, so the same body always gives the same result. The cache returns the
same Python object again, because the core's memo compares by identity first. A result that a whole pass did not use is
dropped, so that no more is kept than the picture holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, NODES, PODS
from plimsoll.adapters.cluster.kinds import (
    JOBS,
    LIMIT_RANGES,
    OF_GATEWAYS,
    OF_ROUTERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ObjectKind,
)
from plimsoll.api.conversion.engines import resource_on
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.reading.gathering import surroundings_of
from plimsoll.app.watch.store import Body, Picture, uid_of
from plimsoll.decision.kept import Kept
from plimsoll.decision.spec_digests import SpecDigests, digests_of
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Weakest
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_rules import Holders
from plimsoll.domain.kubernetes_names import ObjectKey, queue_labels
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.claim_reading import read_holders
from plimsoll.facts.cluster.fleet_reading import NodeUse, Parts, read_fleet, read_node, without
from plimsoll.facts.cluster.pod_reading import PodFacts, read_pod
from plimsoll.facts.cluster.quota_reading import LimitRanges, read_limit_ranges
from plimsoll.facts.prices.repricing import OwnPrices, repriced
from plimsoll.render.names import DEPLOYMENT_LABEL


@dataclass(frozen=True, slots=True)
class _SeenFleet:
    """A fleet and the versions and prices that it was read from."""

    versions: tuple[int, ...]
    prices: OwnPrices
    fleet: Fleet


@dataclass(frozen=True, slots=True)
class _ReadObject:
    """A parsed object and what it was read from, without its status: another one follows soon."""

    parts: tuple[Any, ...]
    resource: InferenceDeployment


@dataclass(frozen=True, slots=True)
class _Converted:
    resource: InferenceDeployment
    model: ModelFacts
    draft: ModelFacts | None
    values: tuple[object, Weakest]
    request: Request


@dataclass(slots=True)
class ReadingMemo:
    """The parsed objects of one store. Not thread-safe: one pass is made at a time."""

    _fleet: _SeenFleet | None = None
    _priced: tuple[OwnPrices, tuple[GpuType, ...]] | None = None
    _nodes: Kept[tuple[Body, object, Parts]] = field(default_factory=Kept)
    _held: Kept[tuple[GpuNode, NodeUse, GpuNode]] = field(default_factory=Kept)
    _around: tuple[Mapping[ObjectKind, int], dict[ObjectKey, Surroundings]] | None = None
    _limit_ranges: tuple[int, LimitRanges] | None = None
    _holders: tuple[int, Holders] | None = None
    _pods: Kept[tuple[Body, PodFacts]] = field(default_factory=Kept)
    _objects: Kept[_ReadObject] = field(default_factory=Kept)
    _digests: Kept[tuple[object, SpecDigests]] = field(default_factory=Kept)
    _converted: Kept[_Converted] = field(default_factory=Kept)

    def begin(self) -> None:
        """Begin a pass: drop what the last pass did not use."""
        for kept in (self._objects, self._digests, self._converted):
            kept.begin()

    def priced(self, types: Sequence[GpuType], prices: OwnPrices) -> tuple[GpuType, ...]:
        """The catalogue with the prices in force: new objects only if a price has changed."""
        known = self._priced
        if known is None or known[0] is not prices:
            self._priced = known = (prices, tuple(repriced(gpu, prices) for gpu in types))
        return known[1]

    def fleet(self, picture: Picture, types: Sequence[GpuType], prices: OwnPrices) -> Fleet:
        """The fleet. It is read again if anything in it or a price has changed; an equal result is the known object."""
        kinds = (NODES, PODS, RESOURCE_SLICES, RESOURCE_CLAIMS)
        versions = tuple(picture.versions[kind] for kind in kinds)
        known = self._fleet if self._fleet is not None and self._fleet.prices is prices else None
        if known is not None and known.versions == versions:
            return known.fleet
        self._nodes.begin()
        self._held.begin()
        nodes, pods, slices, claims = map(picture.all, kinds)
        priced = self.priced(types, prices)
        read = read_fleet(nodes, pods, priced, read=self._node, slices=slices, claims=claims, less=self._less)
        fleet = known.fleet if known is not None and known.fleet == read else read
        self._fleet = _SeenFleet(versions, prices, fleet)
        return fleet

    def _node(self, body: Body, types: Sequence[GpuType]) -> Parts:
        """The GPUs of a node without pods: its object changes less often than its pods."""
        uid = uid_of(body)
        known = self._nodes.get(uid)
        if known is None or known[0] is not body or known[1] is not self._priced:
            known = body, self._priced, read_node(body, types)
        return self._nodes.put(uid, known)[2]

    def _less(self, part: GpuNode, use: NodeUse) -> GpuNode:
        """The GPUs of a node with what is held: the known object while nothing of it changes, so comparing is quick."""
        known = self._held.get(part.account)
        if known is None or known[0] is not part or known[1] != use:
            known = part, use, without(part, use)
        return self._held.put(part.account, known)[2]

    def limit_ranges(self, picture: Picture) -> LimitRanges:
        """The LimitRanges of all namespaces. They are read again if any of them has changed."""
        version = picture.versions[LIMIT_RANGES]
        if self._limit_ranges is None or self._limit_ranges[0] != version:
            self._limit_ranges = version, read_limit_ranges(picture.all(LIMIT_RANGES))
        return self._limit_ranges[1]

    def holders(self, picture: Picture) -> Holders:
        """The pods that mount claims. They are read again if any pod has changed."""
        version = picture.versions[PODS]
        if self._holders is None or self._holders[0] != version:
            self._holders = version, read_holders(picture.all(PODS), DEPLOYMENT_LABEL)
        return self._holders[1]

    def surroundings(self, picture: Picture, now: float) -> dict[ObjectKey, Surroundings]:
        """The pods and workloads of every object. They are read again if any of these kinds has changed.

        ``now`` is in POSIX seconds.
        """
        kinds = (
            INFERENCE_DEPLOYMENTS,
            DEPLOYMENTS,
            PODS,
            JOBS,
            *picture.read.intersection((*OF_ROUTERS, *OF_GATEWAYS)),
        )
        versions = {kind: picture.versions[kind] for kind in kinds}
        if self._around is None or self._around[0] != versions:
            self._pods.begin()
            self._around = versions, surroundings_of(picture, partial(self.pod, now=now))
        return self._around[1]

    def pod(self, body: Body, now: float) -> PodFacts:
        """The facts of a pod, with the time when the last of its scheduling gates was opened, as far as it was seen."""
        uid = uid_of(body)
        known = self._pods.get(uid)
        if known is None or known[0] is not body:
            known = body, _since_gates(None if known is None else known[1], read_pod(body, read_failure), now)
        return self._pods.put(uid, known)[1]

    def digests(self, body: Body) -> SpecDigests:
        """The digests of the object's spec."""
        uid, spec = uid_of(body), body.get("spec")
        known = self._digests.get(uid)
        if known is None or known[0] is not spec:
            known = spec, digests_of(spec)
        return self._digests.put(uid, known)[1]

    def resource(self, body: Body, parse: Callable[[Body], InferenceDeployment]) -> InferenceDeployment:
        """The parsed object."""
        uid, parts = uid_of(body), _what_is_parsed(body)
        known = self._objects.get(uid)
        if known is None or known.parts != parts:
            known = _ReadObject(parts, parse(body))
        return self._objects.put(uid, known).resource

    def on_engine(self, resource: InferenceDeployment, engine: str) -> InferenceDeployment:
        """The parsed object as if it named this engine; the same object in each pass."""
        key = resource.metadata.uid, engine
        known = self._objects.get(key)
        if known is None or known.parts[0] is not resource:
            known = _ReadObject((resource,), resource_on(resource, engine))
        return self._objects.put(key, known).resource

    def converted(
        self,
        resource: InferenceDeployment,
        model: ModelFacts,
        draft: ModelFacts | None,
        values: tuple[object, Weakest],
        convert: Callable[[], Request],
    ) -> Request:
        """The request made from the object's spec and these facts. ``values`` are small ones, compared by value."""
        key = resource.metadata.uid, resource.spec.engine.name
        known = self._converted.get(key)
        same = known is not None and known.resource is resource and known.model is model and known.draft is draft
        if known is None or not same or known.values != values:
            known = _Converted(resource, model, draft, values, convert())
        return self._converted.put(key, known).request


def _since_gates(before: PodFacts | None, seen: PodFacts, now: float) -> PodFacts:
    """Return a pod that waits for a node since its gates were opened, and not since it was made.

    The pod's own condition does not say so: it is false before and after, so Kubernetes keeps its time of transition
    (``UpdatePodCondition`` in ``pkg/api/v1/pod/util.go``). A process that starts later takes the time of the condition.
    """
    if before is None or before.unscheduled_since is None or seen.unscheduled_since is None or seen.is_gated:
        return seen
    return replace(seen, unscheduled_since=now if before.is_gated else before.unscheduled_since)


def _what_is_parsed(body: Body) -> tuple[Any, ...]:
    """The parts of an object that the parser reads: everything except the status."""
    head = body["metadata"]
    values = (head.get(name) for name in ("generation", "name", "namespace", "creationTimestamp"))
    return (*values, queue_labels(head.get("labels")), body.get("apiVersion"), body.get("kind"), body.get("spec"))
