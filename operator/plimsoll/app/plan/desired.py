"""What is to be written about one object after a pass: its status, the objects of its pools, and its proposals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plimsoll.api.convert import to_workload_options
from plimsoll.app.plan.inbox import Outbox
from plimsoll.app.settings import Settings
from plimsoll.app.watch.equal_parts import shared
from plimsoll.app.watch.store import Body
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.workload import Manifest
from plimsoll.placement.pools import PlannedPool, PoolState
from plimsoll.render.objects import deployment, disruption_budget, service
from plimsoll.status.report import Report


@dataclass(frozen=True, slots=True)
class Desired:
    """The decision about one object as it is to be written.

    Attributes:
        body: the object as the store has it, with the status that is being written.
        outcome: the decision.
        report: what the status is made from.
        manifests: the objects of its pools.
        new_status: the status; None: there is none.
        outbox: what is to be written about proposals and approvals.
    """

    body: Body
    outcome: Outcome
    report: Report | None = None
    manifests: tuple[Manifest, ...] = ()
    new_status: Mapping[str, Any] | None = None
    outbox: Outbox = field(default_factory=Outbox)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the object."""
        return self.outcome.key

    @property
    def uid(self) -> str:
        """Kubernetes' identity of the object."""
        return self.outcome.uid

    @property
    def generation(self) -> int:
        """The generation of the spec that was decided on."""
        return self.outcome.generation

    @property
    def workloads(self) -> Mapping[str, Body]:
        """The object's Deployments as they are, by pool."""
        return self.outcome.deployment.placed.around.workloads


def manifests_of(outcome: Outcome, settings: Settings | None = None) -> tuple[Manifest, ...]:
    """Render the objects of a decision; none if there is no plan or the user has suspended the object.

    The pools with the largest pods come first, because the scheduler binds pods in the order of their creation.
    """
    decision, resource = outcome.decision, outcome.deployment.asked.resource
    if decision is None or resource is None or resource.spec.suspend or not decision.pools:
        return ()
    settings = settings or Settings()
    options = to_workload_options(
        resource,
        settings.images,
        scrape_annotations=settings.scrape_annotations,
        platforms=decision.request.platforms,
    )
    held, more = dict(outcome.deployment.placed.held_back), dict(outcome.besides.replacing)
    made = [_held(_replaced(pool, more), held) for pool in decision.pools]
    ordered = sorted(made, key=lambda pool: -pool.split.gpus)
    pools = [deployment(options, pool, pool.choice) for pool in ordered if pool.choice is not None]
    keeps = sum(pool.replicas for pool in decision.pools if pool.state is PoolState.ACTIVE) if more else None
    return tuple(shared(manifest) for manifest in (service(options), disruption_budget(options, keeps), *pools))


def _replaced(pool: PlannedPool, more: Mapping[str, int]) -> PlannedPool:
    """Return a pool with the pods that start before a node goes."""
    return replace(pool, replicas=pool.replicas + more[pool.name]) if pool.name in more else pool


def _held(pool: PlannedPool, held: Mapping[str, int]) -> PlannedPool:
    """Return a pool with no more replicas than it may have while kubelets reject its pods."""
    most = held.get(pool.name)
    return pool if most is None or most >= pool.replicas else replace(pool, replicas=most)
