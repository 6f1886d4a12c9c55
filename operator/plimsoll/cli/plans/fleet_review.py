"""The answer to ``--what-if`` on a file of nodes: the plan of the manifests with the changes, next to that without.

Files of a fleet: what ``--fleet`` names instead of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.review.comparing import are_restarted, compared
from plimsoll.app.review.hypothetical import after_changes, with_fields
from plimsoll.app.review.values import DecidedDeployment, DeploymentWish, PricedReplicas, Review, WhatIf
from plimsoll.app.settings import Settings
from plimsoll.cli.planning import Planned, plan_located
from plimsoll.cli.prices.price_files import priced_types
from plimsoll.cli.reading.documents import FleetObjects, Sourced, load_fleet_objects
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.node_rules import KnownClaims
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.facts.cluster.claim_reading import read_claims, read_holders
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.priority_reading import PriorityClasses, read_priority_classes
from plimsoll.facts.cluster.quota_reading import LimitRanges, NamespaceQuotas, read_limit_ranges, read_quotas
from plimsoll.facts.prices.repricing import OwnPrices
from plimsoll.placement.demands.pools import PlannedPool, PoolState
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The facts of a fleet file.

    Attributes:
        objects: its objects.
        prices: prices over the catalogue's.
        fleet: its nodes, less what its pods hold.
        priorities: its PriorityClasses.
        quotas: what its ResourceQuotas leave, and a message for each that could not be evaluated.
        claims: its PersistentVolumeClaims and storage classes.
        limit_ranges: its LimitRanges, by namespace.
        admin: the settings of the operator that would serve there.
    """

    objects: FleetObjects
    prices: OwnPrices
    fleet: Fleet
    priorities: PriorityClasses
    quotas: NamespaceQuotas
    claims: KnownClaims
    limit_ranges: LimitRanges
    admin: Settings = field(default_factory=Settings)

    def after(self, changes: Iterable[WhatIf]) -> FleetFile:
        """Return the facts of the file after these changes of its nodes."""
        nodes, pods = after_changes(self.objects["Node"], self.objects["Pod"], changes, self.fleet, load_gpu_types())
        return _read({**self.objects, "Node": nodes, "Pod": pods}, self.prices, self.admin)

    def planned(
        self,
        found: Sequence[Sourced],
        show: Callable[[Planned], T],
        groups: Sequence[NodeGroup],
        teach: Callable[[Request], Request] = lambda request: request,
    ) -> tuple[list[tuple[Planned, T]], list[str]]:
        """Plan all usable objects on the nodes, as :func:`~plimsoll.cli.planning.plan_located` does."""
        return plan_located(
            found,
            self.fleet,
            show,
            priced_types(self.prices),
            groups,
            self.priorities,
            self.quotas.remaining,
            self.claims,
            teach,
            self.limit_ranges,
            self.admin,
        )


def fleet_file(path: str, prices: OwnPrices, admin: Settings | None = None) -> FleetFile:
    """Return the facts of a file or of standard input, with these prices over the catalogue's.

    ``admin`` are the settings of the operator that would serve there; None: the defaults.

    Raises:
        InvalidInput: the file cannot be read, or holds no Node.
        UnusableDocument: a document of it cannot be used.
    """
    return _read(load_fleet_objects(path), prices, Settings() if admin is None else admin)


def _read(objects: FleetObjects, prices: OwnPrices, admin: Settings) -> FleetFile:
    nodes, pods, slices, claims = (objects[kind] for kind in ("Node", "Pod", "ResourceSlice", "ResourceClaim"))
    claimed, volumes, classes = (
        objects[kind] for kind in ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
    )
    return FleetFile(
        objects,
        prices,
        read_fleet(nodes, pods, load_gpu_types(), prices, slices=slices, claims=claims),
        read_priority_classes(objects["PriorityClass"]),
        read_quotas(objects["ResourceQuota"]),
        read_claims(claimed, volumes, classes, read_holders(pods, DEPLOYMENT_LABEL)),
        read_limit_ranges(objects["LimitRange"]),
        admin,
    )


_NOTE = (
    "NOW is the plan of your files on the nodes of the file, and AFTER is the plan with --what-if. Both begin as if "
    "nothing of your files ran: an object that runs may stay where it is."
)


def review_on(
    file: FleetFile, groups: Sequence[NodeGroup], wishes: Sequence[DeploymentWish], changes: Sequence[WhatIf]
) -> Review:
    """Return the difference that changes make to a plan. All objects of the user's files are planned anew.

    Raises:
        InvalidInput: a change names no object of the files, or several.
    """
    changed = with_fields(wishes, {}, changes)
    before, _ = file.planned(wishes, _key, groups)
    earlier = {key: entry for entry, key in before}
    planned, problems = file.after(changes).planned(changed, _key, groups)
    decided = [_decided(entry, earlier.get(key)) for entry, key in planned]
    found = compared((), decided, {wish.key: wish.where for wish in changed}, file.fleet)
    return replace(found, problems=tuple(problems), notes=(_NOTE, *file.quotas.complaints))


def _key(entry: Planned) -> ObjectKey:
    return entry.decision.request.key


def _decided(entry: Planned, earlier: Planned | None) -> DecidedDeployment:
    manifests = entry.objects()
    return DecidedDeployment(
        key=_key(entry),
        before=() if earlier is None else _places(earlier),
        after=_places(entry),
        status=entry.outcome().status,
        restarts=earlier is not None and are_restarted(manifests, _by_pool(earlier)),
        is_suspended=entry.resource.spec.suspend,
        manifests=tuple(manifests),
    )


def _places(entry: Planned) -> tuple[PricedReplicas, ...]:
    pools = entry.decision.pools
    return tuple(_place(pool) for pool in pools if pool.state is PoolState.ACTIVE and pool.replicas)


def _place(pool: PlannedPool) -> PricedReplicas:
    each = None if pool.choice is None else pool.choice.hourly_price
    return PricedReplicas(pool.gpu_type, pool.split, pool.replicas, None if each is None else each * pool.replicas)


def _by_pool(entry: Planned) -> Mapping[str, Mapping[str, Any]]:
    heads = ((body, body["metadata"].get("labels") or {}) for body in entry.objects())
    return {labels[POOL_LABEL]: body for body, labels in heads if POOL_LABEL in labels}
