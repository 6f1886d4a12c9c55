"""Reads each InferenceDeployment of a picture into a value: its object, and the facts that are looked up for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.kinds import PRIORITY_CLASSES
from plimsoll.api.checks.pod_policy import PodPolicy, check_pod_policy
from plimsoll.api.checks.schedules import minima_of, windows_of
from plimsoll.api.conversion.claims import check_claims, claim_remarks, mounted_volumes, unusable_claim
from plimsoll.api.conversion.convert import (
    check_without_model,
    platforms_of,
    to_request,
    to_workload_options,
    weights_of,
)
from plimsoll.api.conversion.engines import (
    check_flags,
    rank_of,
    request_on_engines,
    resource_on,
    spec_on,
)
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import EngineSpec, InferenceDeployment
from plimsoll.app.lookups.claim_cache import ClaimCache
from plimsoll.app.lookups.image_cache import ImageCache, reading
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.app.lookups.weights_watch import WeightsWatch
from plimsoll.app.reading.openings import opening_of, scheduled_at
from plimsoll.app.reading.reading_memo import ReadingMemo
from plimsoll.app.settings import Settings
from plimsoll.app.watch import pruning
from plimsoll.app.watch.sizes import size_sentence
from plimsoll.app.watch.store import Body, Picture, key_of, uid_of
from plimsoll.decision.deployment import Asked, Deployment, Identity, PlacedPools
from plimsoll.decision.kept import ChangedRequests
from plimsoll.decision.lessons import teaches_others
from plimsoll.decision.pools import engines_that_run, placed_now
from plimsoll.decision.surroundings import wanted_replicas
from plimsoll.decision.weights import view_of, wanted_job
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_rules import Claim, Holders, left_rule, remarks_of, rules_of
from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.engines.images import ImagePlatforms, PlatformSource, from_index, has_other_platforms
from plimsoll.domain.errors import InvalidInput, NotPermitted, PlimsollError
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.public_words import ConditionReason, ConditionType
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.weights import WeightsView
from plimsoll.facts.cluster.priority_reading import PriorityClasses, read_priority_classes
from plimsoll.facts.cluster.quota_reading import LimitRanges
from plimsoll.facts.cluster.scheduler_words import OF_VOLUMES
from plimsoll.placement.demands.pools import PoolState
from plimsoll.placement.options.total_load import with_size
from plimsoll.status.record.observations import recorded_platforms
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import DeploymentProblem


@dataclass(slots=True)
class DeploymentReader:
    """Makes a :class:`Deployment` of each object. What it looks up comes from books, which fetch it in the background.

    ``priorities``, ``limit_ranges`` and ``holders`` (the pods that mount claims) are those of the picture that is being
    read.
    """

    settings: Settings
    models: ModelCache
    gpu_types: tuple[GpuType, ...]
    pod_policy: PodPolicy = field(default_factory=PodPolicy)
    claims: ClaimCache = field(default_factory=ClaimCache)
    images: ImageCache = field(default_factory=ImageCache)
    downloads: WeightsWatch = field(default_factory=WeightsWatch)
    memo: ReadingMemo = field(default_factory=ReadingMemo)
    priorities: PriorityClasses = field(default_factory=PriorityClasses)
    limit_ranges: LimitRanges = field(default_factory=dict)
    holders: Holders = field(default_factory=dict)
    gpu_names: frozenset[str] = field(init=False)
    """GPU types that a spec may name: those of the catalogue, including their slices."""
    _requests: ChangedRequests = field(default_factory=ChangedRequests)

    def __post_init__(self) -> None:
        self.gpu_names = frozenset(gpu.name for gpu in self.gpu_types)

    def begin(self, picture: Picture) -> None:
        """Begin a pass over a picture."""
        self.priorities = read_priority_classes(picture.all(PRIORITY_CLASSES))
        self.limit_ranges = self.memo.limit_ranges(picture)
        self.holders = self.memo.holders(picture) if self.claims.knows_any else {}
        self.memo.begin()
        self._requests.begin()

    def start_wanted(self) -> None:
        """Begin to look up what the last pass has asked for in vain."""
        self.models.start_wanted()
        self.claims.start_wanted()
        self.images.start_wanted()
        self.downloads.start_wanted()

    async def close(self) -> None:
        """End all look-ups."""
        await self.models.close()
        await self.claims.close()
        await self.images.close()
        await self.downloads.close()

    def identity(self, body: Body) -> Identity:
        """Return which object this is, and which version of its spec."""
        head = body["metadata"]
        born = str(head.get("creationTimestamp") or "")
        return Identity(key_of(body), uid_of(body), int(head.get("generation") or 1), born, self.memo.digests(body))

    def placed(self, body: Body, bare: Deployment, now: float) -> PlacedPools:
        """Return the pools of an object as they run. ``bare`` has its record, its pods and its refusal."""
        return placed_now(
            bare.identity,
            bare.record,
            bare.placed.around,
            wanted=wanted_replicas(body),
            concurrency=(body.get("spec") or {}).get("concurrency"),
            now=now,
            grace_seconds=self.settings.stranded_seconds,
            refusal=bare.writes.refusal,
        )

    def with_spec(self, body: Body, bare: Deployment, fleet: Fleet, now: float) -> Deployment:
        """Return an object with what it asks for, as far as that can be read now."""
        reason = pruning.why_reduced(body)
        if reason is not None:
            problem = DeploymentProblem(ConditionReason.TOO_LARGE, size_sentence(reason), permanent=True)
            return replace(bare, asked=replace(bare.asked, problem=problem))
        asked = self._asked(body, bare, fleet)
        if asked.resource is None or asked.request is None:
            return replace(bare, asked=asked)
        loop = asked.resource.spec.rebalancing
        times = opening_of(windows_of(loop), now), scheduled_at(minima_of(loop), now)
        known = bare.people.opening, bare.people.scheduled
        people = bare.people if times == known else replace(bare.people, opening=times[0], scheduled=times[1])
        return Deployment(bare.identity, bare.record, bare.placed, asked, bare.writes, people)

    def _asked(self, body: Body, bare: Deployment, fleet: Fleet) -> Asked:
        found, request, problem = _Found(), None, None
        try:
            answer = self._request(body, bare, fleet, found)
        except NotPermitted as error:
            answer = DeploymentProblem(ConditionReason.NOT_PERMITTED, str(error), permanent=True)
        except InvalidInput as error:
            answer = DeploymentProblem(ConditionReason.INVALID_SPEC, str(error), permanent=True)
        except PlimsollError as error:
            answer = DeploymentProblem(ConditionReason.UNSUPPORTED_MODEL, str(error), permanent=True)
        if isinstance(answer, DeploymentProblem):
            problem = answer
        else:
            request = answer
        return Asked(
            bare.asked.replicas,
            found.resource,
            found.model,
            request,
            found.priority,
            problem,
            teaches_others(body.get("spec")),
            None if found.resource is None else self._weights(found.resource, bare),
            found.chooses_engine,
        )

    def _weights(self, resource: InferenceDeployment, bare: Deployment) -> WeightsView | None:
        """Return how far the copy of the weights on a claim is; None if none is asked for."""
        weights = weights_of(resource.spec)
        name = wanted_job(bare.key.name, weights)
        if weights is None or name is None:
            return None
        job = bare.placed.around.jobs.get(name)
        view = view_of(weights, job)
        if job is None or view.is_ready:
            return view
        heard = self.downloads.of(job)
        return view_of(weights, job, heard.progress, heard.failure)

    def _request(self, body: Body, bare: Deployment, fleet: Fleet, found: _Found) -> Request | DeploymentProblem:
        """Return what the planner is asked, or why nothing can be. ``found`` takes what was read on the way.

        Raises:
            PlimsollError: the object asks for something that is refused.
        """
        parse = partial(parse_inference_deployment, gpu_names=self.gpu_names)
        found.resource = resource = self.memo.resource(body, parse)
        _check_rival(bare)
        engine = resource.spec.engine
        found.chooses_engine = engine.is_open
        for running in engines_that_run(engine, bare):
            try:
                request = self._request_of(self.memo.on_engine(resource, running), bare, fleet, found)
            except InvalidInput:
                if not _has_other_spec(bare, running):
                    raise  # e.g. a new release or rule of the operator refuses it: what runs is not moved for that
            else:
                return self._with_alternatives(request, resource, bare, fleet)
        return self._request_of(resource, bare, fleet, found)

    def _with_alternatives(
        self, request: Request | DeploymentProblem, resource: InferenceDeployment, bare: Deployment, fleet: Fleet
    ) -> Request | DeploymentProblem:
        """Return the request on the engine that runs, with those on the others that take all of the open spec."""
        if isinstance(request, DeploymentProblem):
            return request
        spec, found = resource.spec.engine, list[Request]()
        for engine in spec.engines:
            if engine == request.engine.name:
                continue
            try:
                check_flags(spec, engine)
                other = self._request_of(self.memo.on_engine(resource, engine), bare, fleet, _Found())
            except PlimsollError:
                continue
            if isinstance(other, Request):
                found.append(self._requests.of(_kept_as(bare, other), other, engine_rank=rank_of(engine, spec)))
        rank = rank_of(request.engine.name, spec)
        return self._requests.of(bare.identity.uid, request, engine_rank=rank, alternatives=tuple(found))

    def _request_of(
        self, resource: InferenceDeployment, bare: Deployment, fleet: Fleet, found: _Found
    ) -> Request | DeploymentProblem:
        found.resource, spec, namespace = resource, resource.spec, bare.key.namespace
        check_without_model(spec)
        check_pod_policy(spec, self.pod_policy, namespace)
        check_gpu_names(spec, self.gpu_names)
        priority = self._priority(resource)
        if isinstance(priority, DeploymentProblem):
            return priority
        found.priority = priority
        model = self.models.look_up(namespace, spec.model)
        draft = self.models.look_up_draft(namespace, spec)
        if isinstance(model, DeploymentProblem):
            return model
        found.model = model
        if isinstance(draft, DeploymentProblem):
            return draft
        claims = self.claims.look_up(namespace, mounted_volumes(spec), doubted=_waits_for_volumes(bare))
        if isinstance(claims, DeploymentProblem):
            return claims
        claims = tuple(claim.held(bare.key, self.holders) for claim in claims)
        check_claims(spec, claims)
        unusable = None if bare.placed.pools else unusable_claim(spec, claims)
        if unusable is not None:  # of what is placed, the scheduler says what its pods wait for
            return DeploymentProblem(ConditionReason.CLAIM_UNUSABLE, str(unusable), permanent=False)
        platforms = dict[str, ImagePlatforms]()
        for engine in spec.engine.engines:
            read = self._platforms(bare, spec_on(spec, engine).engine, fleet)
            if isinstance(read, DeploymentProblem):
                return read
            platforms[engine] = read
        settings, weakest = self.settings, fleet.weakest

        def convert(each: InferenceDeployment) -> Request:
            return to_request(
                each,
                model,
                draft=draft,
                platforms=platforms[each.spec.engine.engine_name],
                images=settings.images,
                weakest=weakest,
                defaults=settings.defaults,
            )

        on_all = partial(request_on_engines, resource, convert)
        request = self.memo.converted(resource, model, draft, (platforms, weakest), on_all)
        said = remarks_of(claims)
        if claims:
            options = to_workload_options(resource_on(resource, request.engine.name))
            said = (*said, *claim_remarks(options, request.model, claims))
        request = self._filled_in(bare, self._sized(bare, request))
        return self._restricted(bare, request, claims, said)

    def _platforms(self, bare: Deployment, engine: EngineSpec, fleet: Fleet) -> ImagePlatforms | DeploymentProblem:
        """Return the platforms of the image. Its index is read only if the answer can matter.

        What has served keeps the platforms that it was placed with, unless its pods cannot start now: it is the proof
        for them, and another answer would start its engines again. What is there does not wait for an answer, unless
        its image is another one now.
        """
        given, pools = platforms_of(engine, self.settings.images), bare.placed.pools
        known = recorded_platforms(bare.record.status.image_platforms, given)
        is_placed = bool(pools) and (known is not None or bare.is_judged)
        is_proven = is_placed and any(pool.ready or (pool.served and not pool.failing) for pool in pools)
        if not given.image or is_proven or not self.images.reads or not has_other_platforms(fleet):
            return known or given
        found = self.images.look_up(bare.key.namespace, given.image)
        if found is None:
            return reading(given.image) if known is None and not is_placed else known or given
        if found.architectures:
            return from_index(found.architectures, given.image)
        if known is not None and known.source is PlatformSource.INDEX:
            return known
        return given.unread(found.why)

    def _sized(self, bare: Deployment, request: Request) -> Request:
        """Return the request with the size that was chosen earlier; unchanged if there is none.

        The size counts for the spec that it was chosen for, while it is in use: without a pool a new one is chosen.
        """
        size = bare.record.status.size
        if size is None or request.total is None or not bare.placed.pools:
            return request
        if size.spec != bare.identity.digests.size:
            return request
        known = with_size(request, size.replicas, size.concurrency)
        sized = {"shape": known.shape, "replicas": known.replicas, "total": None, "is_sized": True}
        return self._requests.each(_kept_as(bare, request), request, lambda _: dict(sized))

    def _restricted(
        self, bare: Deployment, request: Request, claims: Sequence[Claim], said: tuple[str, ...]
    ) -> Request:
        """Return the request with the nodes that its volumes and earlier failures rule out, and with warnings."""
        alone = any(claim.is_for_one_node for claim in claims)
        rules = (*rules_of(claims), *(left_rule(left) for left in _left_nodes(bare) if left))
        if not rules and not alone and not said:
            return request

        def restricted(each: Request) -> dict[str, Any]:
            node_rules, remarks = (*each.node_rules, *rules), (*each.remarks, *said)
            return {"node_rules": node_rules, "mounts_alone": alone, "remarks": remarks}

        return self._requests.each(_kept_as(bare, request), request, restricted)

    def _filled_in(self, bare: Deployment, request: Request) -> Request:
        ranges, usual = self.limit_ranges.get(request.key.namespace, ()), self.priorities.default_name
        return self._requests.each(_kept_as(bare, request), request, lambda each: each.filled_in(usual, ranges))

    def declared_priority(self, body: Body) -> int:
        """Return the priority that an unread object names; 0 if nothing usable is there."""
        template = (body.get("spec") or {}).get("podTemplate")
        name = template.get("priorityClassName") if isinstance(template, Mapping) else None
        found = self.priorities.of(name if isinstance(name, str) else None)
        return 0 if found is None else found.value

    def _priority(self, resource: InferenceDeployment) -> Priority | DeploymentProblem:
        """Return the object's priority. The API server refuses pods of a class that does not exist."""
        template = resource.spec.pod_template
        name = template.priority_class_name if template else None
        priority = self.priorities.of(name)
        if priority is not None:
            return priority
        refusal = InvalidInput(
            "spec.podTemplate.priorityClassName",
            name,
            "The cluster has no such PriorityClass: create it, or name another one.",
        )
        return DeploymentProblem(ConditionReason.PRIORITY_CLASS_MISSING, str(refusal), permanent=False)


@dataclass(slots=True)
class _Found:
    """The parts of one object that were read before its request was complete, or before it was refused."""

    resource: InferenceDeployment | None = None
    model: ModelFacts | None = None
    priority: Priority = NO_PRIORITY
    chooses_engine: bool = False


def _check_rival(bare: Deployment) -> None:
    """Check that no other deployment of the namespace has the pool or host name. Raises InvalidInput: one has."""
    if bare.placed.around.rival is not None:
        raise InvalidInput(*bare.placed.around.rival)


def declared_replicas(body: Body, record: Record) -> int:
    """Return the replicas that an object declares, for the status of one without a request."""
    if pruning.why_reduced(body) is not None:  # its spec is not there, and its replicas stay as they are
        return sum(pool.replicas for pool in record.pools if pool.state is PoolState.ACTIVE)
    spec, size = body.get("spec") or {}, record.status.size
    declared = spec.get("replicas")
    if "totalConcurrency" in spec:
        declared = spec.get("minReplicas", 1) if size is None else size.replicas
    return declared if isinstance(declared, int) else 0


def _has_other_spec(bare: Deployment, engine: str) -> bool:
    """Whether the user has written another spec since the pools of an engine were decided.

    The digest alone changes with the engine's usual release, too, and the generation with the number of replicas.
    """
    pools, now = (pool for pool in bare.placed.pools if pool.engine == engine), bare.identity
    return all(pool.spec not in ("", now.digests.engine) and pool.generation != now.generation for pool in pools)


def _kept_as(bare: Deployment, request: Request) -> str:
    """Return the key of a kept request: there is one for each engine."""
    return f"{bare.identity.uid} {request.engine.name}"


def _left_nodes(bare: Deployment) -> tuple[dict[str, str], dict[str, str]]:
    """Return the nodes where the object's pods could not run, and those of a slow or silent replica, with the causes.

    A cause is one word; empty if it is forgotten. Pods that wait may go to nodes that were left more than an hour ago.
    """
    active = bare.placed.active
    found = dict.fromkeys((name for pool in active if not pool.stranded for name in pool.target.avoids), "")
    found |= {each.node: each.reason for each in bare.placed.left if each.node and not each.is_of_one_replica}
    found |= {name: cause for pool in active for name, cause in pool.bad_nodes}
    return found, {each.node: each.reason for each in bare.placed.left if each.is_shunned}


def _waits_for_volumes(bare: Deployment) -> bool:
    """Whether pods wait because of their volumes, or replicas have no place: what is known of its claims may be old."""
    planned = bare.record.condition(ConditionType.PLANNED)
    if planned is not None and planned.status == "False":
        return True
    pods = (pod for listed in bare.placed.around.pods.values() for pod in listed)
    return any(not OF_VOLUMES.isdisjoint(pod.obstacles) for pod in pods)
