"""All that one pass decides from: the cluster and its deployments at one moment, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plimsoll.decision.deployment import Deployment
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import Billing, GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from plimsoll.rebalance.signals.reading import Reading


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of a cluster's admin for all deployments.

    Attributes:
        learns_from_others: whether an estimate is corrected by what engines of other namespaces report.
        rebalancing_suspended: whether the live loop decides nothing.
        moves_per_hour: the most moves of all deployments in an hour.
        move_seconds: the least time that new replicas have until they serve.
        billing: whether the dollars of a node end with its use; None: as its labels and the node groups say.
    """

    learns_from_others: bool = True
    rebalancing_suspended: bool = False
    moves_per_hour: int = 12
    move_seconds: float = LEAST_SECONDS
    billing: Billing | None = None


@dataclass(frozen=True, slots=True)
class World:
    """The cluster at one moment.

    Attributes:
        at: the time in POSIX seconds.
        fleet: the GPUs, and what all pods hold of them.
        deployments: every InferenceDeployment.
        settings: what the admin has set.
        quotas: what the namespaces may still use.
        catalog: the GPU types that could be bought, at the prices in force.
        groups: groups of nodes that can grow.
        readings: the live signals of each deployment; None: nothing was read yet.
    """

    at: float
    fleet: Fleet
    deployments: tuple[Deployment, ...] = ()
    settings: ClusterSettings = field(default_factory=ClusterSettings)
    quotas: NamespaceQuotas = field(default_factory=NamespaceQuotas)
    catalog: tuple[GpuType, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    readings: Mapping[ObjectKey, Reading | None] = field(default_factory=dict)
