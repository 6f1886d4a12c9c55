"""The values of a review. Nothing here needs an extra of the package, so that the command line can import it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.api.v1alpha1.status import Condition
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionType
from plimsoll.domain.requests.workload import Manifest
from plimsoll.facts.prices.repricing import OwnPrices
from plimsoll.placement.places.capacity import Capacity


@dataclass(frozen=True, slots=True)
class DeploymentWish:
    """An InferenceDeployment of the user's files, with its namespace. ``where`` is its place in them.

    ``is_whole`` means that the spec replaces the live one as a whole, also what others have set.
    """

    where: str
    body: Mapping[str, Any]
    is_whole: bool = False

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.body["metadata"]["namespace"], self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class AddNodes:
    """``count`` more nodes with so many GPUs of one type."""

    count: int
    gpu_type: str
    gpus: int


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """No nodes of one GPU type any more."""

    gpu_type: str


@dataclass(frozen=True, slots=True)
class SetField:
    """Another value in the spec of one InferenceDeployment. None removes the field.

    ``namespace`` is empty if the name alone says which object is meant. ``text`` is what the user wrote.
    """

    namespace: str
    name: str
    path: tuple[str, ...]
    value: Any
    text: str


WhatIf = AddNodes | RemoveNodes | SetField


@dataclass(frozen=True, slots=True)
class Means:
    """The inputs of a review in addition to the cluster.

    Attributes:
        cache: the folder for the hub's answers.
        token: a token for the hub, used if this user may not read the Secret that a spec names.
        prices: prices in place of those of the cluster; None for the cluster's own.
        what_if: changes of the nodes or of single fields that nobody has made.
        dry_run: whether the API server is asked what it would store. Without it, the rules of the CRD are checked here.
    """

    cache: Path
    token: str | None = None
    prices: OwnPrices | None = None
    what_if: tuple[WhatIf, ...] = ()
    dry_run: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """How many more replicas of one deployment fit.

    ``runs`` is the number of its replicas that have a place already. ``notes`` name what could not be read.
    """

    key: ObjectKey
    runs: int
    capacity: Capacity
    fleet: Fleet = field(default_factory=Fleet)
    notes: tuple[str, ...] = ()


class ReviewVerdict(StrEnum):
    """The difference in one word."""

    PLACED = "placed"
    """Nothing of it runs today, and every replica has a place."""
    MOVED = "moved"
    """It goes to another GPU type or split. The new replicas serve before the old ones go."""
    CHANGED = "changed"
    """It stays where it is with another number of replicas, or its engines restart with other settings."""
    KEPT = "kept"
    """Nothing changes."""
    WAITING = "waiting"
    """A part of it has no place now, and will get one when GPUs, quota or a source of facts are there."""
    REFUSED = "refused"
    """It fits nowhere, or it cannot be used. What runs of it stays."""


SERVED = frozenset({ReviewVerdict.PLACED, ReviewVerdict.MOVED, ReviewVerdict.CHANGED, ReviewVerdict.KEPT})
"""Verdicts with a place for every replica."""


@dataclass(frozen=True, slots=True)
class PricedReplicas:
    """Replicas on one GPU type with one split. ``hourly_price`` is for all of them; None if it is not known."""

    gpu_type: str
    split: Split
    replicas: int
    hourly_price: Decimal | None


@dataclass(frozen=True, slots=True)
class DecidedDeployment:
    """One InferenceDeployment after a plan.

    Attributes:
        key: namespace and name.
        before: the places that were in force, retiring ones left out.
        after: the places that the plan decides.
        status: the status that the operator would write.
        restarts: whether its engines are started anew where they are.
        has_problem: whether it cannot be planned at all.
        is_stuck: whether its pods find no node and the plan has no other place for them.
        is_suspended: whether its spec asks for no replicas.
        manifests: the objects that the operator would apply.
    """

    key: ObjectKey
    before: tuple[PricedReplicas, ...]
    after: tuple[PricedReplicas, ...]
    status: InferenceDeploymentStatus
    restarts: bool = False
    has_problem: bool = False
    is_stuck: bool = False
    is_suspended: bool = False
    manifests: tuple[Manifest, ...] = ()

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of this type."""
        return next((each for each in self.status.conditions or () if each.type == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentChange(DecidedDeployment):
    """One InferenceDeployment before and after.

    Attributes:
        where: its place in the user's files; empty for an object that is not in them.
        verdict: the difference in one word.
        reason: the reason of the condition ``Planned`` that the operator would write; of ``Placed`` if pods find no
            node and have no other place to go.
        message: the message of that condition.
        regardless: whether the operator decides the same without the user's files.
    """

    where: str
    verdict: ReviewVerdict
    reason: str
    message: str
    regardless: bool

    @property
    def is_served(self) -> bool:
        """Whether every replica has a place."""
        return self.verdict in SERVED


@dataclass(frozen=True, slots=True)
class Bill:
    """US dollars an hour of all InferenceDeployments. ``unpriced`` counts places whose price is not known."""

    before: Decimal
    after: Decimal
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Review:
    """The answer to the user's files.

    ``changes`` are the objects of the files in their order, then the live objects that change. ``others`` counts the
    live objects that do not change, ``others_unserved`` those of them that wait or are refused today.
    """

    changes: tuple[DeploymentChange, ...]
    bill: Bill
    others: int = 0
    others_unserved: int = 0
    fleet: Fleet = field(default_factory=Fleet)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every object of the files has a place for each replica, and no other object loses by them."""
        return all(each.is_served or (not each.where and each.regardless) for each in self.changes)
