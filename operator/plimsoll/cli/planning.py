"""``plimsoll plan``: plan manifests without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from plimsoll.adapters.catalog import load_gpu_types, other_checkpoints
from plimsoll.adapters.garbage import collecting_later
from plimsoll.api.conversion.claims import check_claims, claim_remarks, mounted_volumes, unusable_claim
from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.api.conversion.engines import request_on_engines, resource_on
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.api.v1alpha1 import InferenceDeployment, InferenceDeploymentStatus
from plimsoll.app.settings import Settings
from plimsoll.cli.context import Models
from plimsoll.cli.later import solver_of_plans
from plimsoll.cli.reading.documents import Sourced, UnusableDocument, check_located, namesakes, parse_located
from plimsoll.cli.reading.model_sources import Images
from plimsoll.decision.decide import decide
from plimsoll.decision.deployment import Asked, Deployment, Identity, PlacedPools
from plimsoll.decision.memory import Memory
from plimsoll.decision.outcome import Outcome
from plimsoll.decision.results.manifests import manifests_of
from plimsoll.decision.results.reports import report_of
from plimsoll.decision.spec_digests import SpecDigests
from plimsoll.decision.supervisor import PassStep, PassSupervisor, error_words
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.world import World
from plimsoll.domain.cluster.fleet import Fleet, Weakest
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.node_rules import Claim, KnownClaims, remarks_of, rules_of
from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import NO_CHOICES, ClusterDefaults, Request
from plimsoll.domain.units import agreed
from plimsoll.engines.registry import engine_of
from plimsoll.facts.cluster.priority_reading import PriorityClasses
from plimsoll.facts.cluster.quota_reading import LimitRanges, NamespaceQuotas
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.ledger import Quotas
from plimsoll.placement.solvers.deciding import Overload
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import DeploymentProblem, Report
from plimsoll.status.writing import document_of, new_status

T = TypeVar("T")

NO_CLASSES = PriorityClasses()

NO_LIMIT_RANGES: LimitRanges = {}


@dataclass(frozen=True, slots=True)
class PlannedStatus:
    """The status that the operator would write for an object. ``reason`` and ``message`` say why it is not placed.

    ``reason`` is empty if every replica has a place, except for a suspended object.
    """

    namespace: str
    name: str
    reason: str
    message: str
    status: InferenceDeploymentStatus


@dataclass(frozen=True, slots=True)
class Planned:
    """One manifest and what a pass with nothing that runs decides about it."""

    resource: InferenceDeployment
    decided: Outcome

    @property
    def decision(self) -> Decision:
        """Its pools, the rejections of other places, and remedies."""
        assert self.decided.decision is not None  # noqa: S101 - what has none is a problem
        return self.decided.decision

    @property
    def is_placed(self) -> bool:
        """Whether every replica has a place. A suspended object wants none."""
        return self.decision.missing == 0

    def outcome(self) -> PlannedStatus:
        """The decision as the operator would report it."""
        status = new_status(self.report(), Record(), now="")
        head = self.resource.metadata
        is_settled = self.is_placed and not self.resource.spec.suspend
        if is_settled or not status.conditions:
            return PlannedStatus(head.namespace, head.name, "", "", status)
        ready = status.conditions[0]
        return PlannedStatus(head.namespace, head.name, ready.reason, ready.message, status)

    def document(self) -> dict[str, Any]:
        """The decision as data: the fields that the status would have, and the engine's arguments."""
        outcome = self.outcome()
        status = outcome.status
        shown = InferenceDeploymentStatus(
            model=status.model,
            estimate=status.estimate,
            placement=status.placement,
            size=status.size,
            engine=status.engine,
            pools=status.pools,
            rejections=status.rejections,
            remedies=status.remedies,
            suggestions=status.suggestions,
            image_platforms=status.image_platforms,
        )
        head = {
            "namespace": outcome.namespace,
            "name": outcome.name,
            "placed": self.is_placed,
            "reason": outcome.reason or "Placed",
        }
        if outcome.message:
            head["message"] = outcome.message
        choice = self.decision.choice
        return head | document_of(shown) | ({} if choice is None else {"engineArguments": self.arguments()})

    def arguments(self) -> list[str]:
        """The engine's arguments; empty if nothing is placed."""
        choice = self.decision.choice
        if choice is None:
            return []
        pool = next((each for each in self.decision.pools if each.choice is choice), None)
        resource = self.decided.resource or self.resource
        options = to_workload_options(resource).draining(None if pool is None else pool.drain_seconds)
        return list(engine_of(options.engine).launch(options, choice).arguments)

    def objects(self) -> list[dict[str, Any]]:
        """The objects that the operator would apply."""
        return [dict(manifest) for manifest in manifests_of(self.decided)]

    def report(self) -> Report:
        """The report that the operator would make its status from."""
        return replace(report_of(self.decided, 0.0), size_digest=None, decisions=())


def plan_document(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of a plan: that of each deployment, in the order of the files."""
    return {"deployments": list(documents)}


def appraisal_of(planned: Iterable[Planned]) -> Appraisal | None:
    """Return how good the placements of a plan are together; None if nothing was placed."""
    return next((each.decision.appraisal for each in planned if each.decision.appraisal is not None), None)


NO_CLAIMS = KnownClaims()


@dataclass(frozen=True, slots=True)
class ManifestRequest:
    """An object that could be read, its place in the files, its request and its priority."""

    where: str
    resource: InferenceDeployment
    request: Request
    priority: Priority = NO_PRIORITY


def plan_located(
    found: Sequence[Sourced],
    fleet: Fleet,
    show: Callable[[Planned], T],
    catalog: Sequence[GpuType] | None = None,
    groups: Sequence[NodeGroup] = (),
    priorities: PriorityClasses = NO_CLASSES,
    quotas: Quotas | None = None,
    claims: KnownClaims = NO_CLAIMS,
    teach: Callable[[Request], Request] = lambda request: request,
    limit_ranges: LimitRanges = NO_LIMIT_RANGES,
    admin: Settings | None = None,
) -> tuple[list[tuple[Planned, T]], list[str]]:
    """Plan all usable objects together, as if applied in this order, and report what is wrong with the rest.

    Args:
        found: the objects of the user's files.
        fleet: the fleet that they share.
        show: turns each decision into what is printed.
        catalog: all GPU types with the prices in force; None for those of the shipped catalogue.
        groups: nodes that could be added: they are suggested, and nothing is placed on them.
        priorities: the cluster's PriorityClasses; without any, all objects are equal.
        quotas: what namespaces may still take; None for no limits.
        claims: PersistentVolumeClaims and storage classes; nothing is known of others.
        teach: adds to a request what engines have taught.
        limit_ranges: the LimitRanges of each namespace.
        admin: the settings of the cluster's operator; None: the defaults.
    """
    settings = Settings() if admin is None else admin
    problems: list[str] = []
    models, images = Models(), Images(fleet)
    ask = partial(_asked, models=models, images=images, priorities=priorities, claims=claims, weakest=fleet.weakest)
    ask = partial(ask, defaults=settings.defaults)
    asked = [each for one in found if (each := _attempt(one.where, partial(ask, one), problems)) is not None]
    asked = _warned_of_sharing(_without_namesakes(asked, problems), claims)
    asked = [
        replace(each, request=filled_in(each.request.everywhere(teach), priorities, limit_ranges)) for each in asked
    ]
    world = World(
        0.0,
        fleet,
        tuple(_deployment(each, index) for index, each in enumerate(asked)),
        settings.of_cluster,
        quotas=NamespaceQuotas(quotas or {}),
        catalog=tuple(load_gpu_types() if catalog is None else catalog),
        groups=tuple(groups),
    )
    planned = _planned(asked, world, problems, settings.overload)
    shown = [(entry, _attempt(where, partial(show, entry), problems)) for where, entry in planned]
    return [(entry, printed) for entry, printed in shown if printed is not None], problems


def _attempt(where: str, work: Callable[[], T], problems: list[str]) -> T | None:
    """Return the result of ``work`` for one object. If it fails, add a problem and return None: others go on."""
    try:
        return work()
    except UnusableDocument as error:
        problems.append(str(error))
    except PlimsollError as error:
        problems.append(f"{where}: {error}")
    except Exception as error:  # noqa: BLE001 - any exception must stay with this object
        problems.append(f"{where}: It cannot be planned ({type(error).__name__}: {error}). Please report this.")
    return None


def _asked(
    each: Sourced,
    models: Models,
    images: Images,
    priorities: PriorityClasses,
    claims: KnownClaims,
    weakest: Weakest,
    defaults: ClusterDefaults,
) -> ManifestRequest:
    resource = parse_located(each)
    check_without_model(resource.spec)  # first: its messages are more exact than those of the rules
    check_located(each)
    request = _mounting(request_of(resource, models, images, weakest, defaults), resource, claims)
    return ManifestRequest(each.where, resource, request, priority_of(resource, priorities))


def _mounting(request: Request, resource: InferenceDeployment, claims: KnownClaims) -> Request:
    """Return the request with what its volumes rule out. Raises :class:`InvalidInput` as the operator does."""
    known = claims.look_up(request.key, mounted_volumes(resource.spec))
    check_claims(resource.spec, known)
    unusable = unusable_claim(resource.spec, known)
    if unusable is not None:
        raise unusable
    alone = any(claim.is_for_one_node for claim in known)

    def mounting(each: Request) -> Request:
        options = to_workload_options(resource_on(resource, each.engine.name))
        said = (*each.remarks, *remarks_of(known), *claim_remarks(options, each.model, known))
        rules = (*each.node_rules, *rules_of(known))
        return replace(each, node_rules=rules, mounts_alone=alone, remarks=said)

    return request.everywhere(mounting)


def _warned_of_sharing(asked: Sequence[ManifestRequest], claims: KnownClaims) -> list[ManifestRequest]:
    """Return the objects with a warning for each claim for one node that another one of them mounts as well."""
    users: dict[ObjectKey, list[ObjectKey]] = {}
    alone = [[claim for claim in _claims_of(each, claims) if claim.is_for_one_node] for each in asked]
    for each, found in zip(asked, alone, strict=True):
        for claim in found:
            users.setdefault(ObjectKey(each.request.key.namespace, claim.name), []).append(each.request.key)
    warned: list[ManifestRequest] = []
    for each, found in zip(asked, alone, strict=True):
        key, said = each.request.key, list[str]()
        for claim in found:
            others = [other for other in users[ObjectKey(key.namespace, claim.name)] if other != key]
            said += [_shared(claim, others)] if others else []
        warned.append(replace(each, request=_with_remarks(each.request, said)))
    return warned


def _with_remarks(request: Request, said: Sequence[str]) -> Request:
    return request.everywhere(lambda each: replace(each, remarks=(*each.remarks, *said)))


def _claims_of(each: ManifestRequest, claims: KnownClaims) -> tuple[Claim, ...]:
    """Return the claims that an object mounts; none if it wants no pod."""
    is_off = each.resource.spec.suspend or not each.request.replicas
    return () if is_off else claims.look_up(each.request.key, mounted_volumes(each.resource.spec))


def _shared(claim: Claim, others: Sequence[ObjectKey]) -> str:
    return (
        f"{', '.join(map(str, others))} {agreed(len(others), 'mounts', 'mount')} the claim {claim.name} as well, which "
        f"is {' and '.join(claim.access_modes)}: {claim.shared_by}."
    )


def filled_in(request: Request, priorities: PriorityClasses, limit_ranges: LimitRanges) -> Request:
    """Return the request with what the API server fills in for its pods."""
    ranges = limit_ranges.get(request.key.namespace, ())
    usual = priorities.default_name
    return request.everywhere(lambda each: replace(each, **each.filled_in(usual, ranges)))


def priority_of(resource: InferenceDeployment, priorities: PriorityClasses) -> Priority:
    """Return an object's priority. Raises :class:`InvalidInput` if the file has classes and not this one."""
    template = resource.spec.pod_template
    name = template.priority_class_name if template else None
    priority = priorities.of(name)
    if priority is None:
        fix = "The file of the fleet has no such PriorityClass: add it, or name another one."
        raise InvalidInput("spec.podTemplate.priorityClassName", name, fix)
    return priority


def request_of(
    resource: InferenceDeployment,
    models: Models,
    images: Images,
    weakest: Weakest,
    defaults: ClusterDefaults = NO_CHOICES,
) -> Request:
    """Return the request of an object. Raises :class:`PlimsollError` if it or one of its models cannot be used."""
    check_gpu_names(resource.spec, {gpu.name for gpu in load_gpu_types()})
    facts, draft = models.of(resource), models.draft_of(resource)

    def convert(each: InferenceDeployment) -> Request:
        return to_request(each, facts, draft=draft, platforms=images.of(each), weakest=weakest, defaults=defaults)

    return request_on_engines(resource, convert)


def _without_namesakes(asked: Sequence[ManifestRequest], problems: list[str]) -> list[ManifestRequest]:
    places: dict[ObjectKey, list[str]] = {}
    for each in asked:
        places.setdefault(each.request.key, []).append(each.where)
    problems += namesakes(places)
    return [each for each in asked if len(places[each.request.key]) == 1]


def _planned(
    asked: Sequence[ManifestRequest], world: World, problems: list[str], overload: Overload
) -> list[tuple[str, Planned]]:
    """Plan the objects together, in their order, as if nothing of them ran. Those that cannot be planned are named."""
    with collecting_later():
        outcomes = decide(world, Memory(), _AtOnce(), solver=solver_of_plans(overload), relatives=other_checkpoints)
    planned: list[tuple[str, Planned]] = []
    for each, outcome in zip(asked, outcomes.each, strict=True):
        if outcome.decision is not None:
            planned.append((each.where, Planned(each.resource, outcome)))
        else:
            why = "It cannot be planned." if outcome.problem is None else outcome.problem.message
            problems.append(f"{each.where}: {why}")
    return planned


_NO_DIGESTS = SpecDigests("", "", "")
"""Digests compare specs of different passes, and here is one."""


class _AtOnce(PassSupervisor):
    """A pass that nobody repeats: an exception is quoted."""

    def failed(self, step: PassStep, deployment: Deployment, error: BaseException) -> DeploymentProblem:  # noqa: ARG002 - said by the place
        """Return a problem for the person who asks."""
        return DeploymentProblem(
            step, f"It cannot be planned ({error_words(error)}). Please report this.", permanent=True
        )


def _deployment(asked: ManifestRequest, index: int) -> Deployment:
    """Return an object that nothing runs of yet. Those that come first in the files are the oldest."""
    head, created = asked.resource.metadata, f"{index:06d}"
    request = asked.request.everywhere(lambda each: replace(each, created=created))
    identity = Identity(request.key, head.uid, head.generation, created, _NO_DIGESTS)
    is_open = asked.resource.spec.engine.is_open
    wanted = Asked(request.replicas, asked.resource, request.model, request, asked.priority, chooses_engine=is_open)
    return Deployment(identity, Record(), PlacedPools(Surroundings({}, {})), wanted)
