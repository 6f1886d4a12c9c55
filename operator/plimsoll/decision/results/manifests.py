"""The objects of a decision: a Service, a PodDisruptionBudget, and a Deployment for each pool."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.engines.images import EngineImages
from plimsoll.domain.requests.workload import Manifest
from plimsoll.placement.demands.pools import PlannedPool, active, count
from plimsoll.render.objects import deployment, disruption_budget, service


def manifests_of(
    outcome: Outcome, images: EngineImages | None = None, *, scrape_annotations: bool = False
) -> tuple[Manifest, ...]:
    """Render the objects of a decision; none if there is no plan or the user has suspended the object.

    The pools with the largest pods come first, because the scheduler binds pods in the order of their creation. The
    budget comes after its pods: Kubernetes records an event about a budget without pods, and writes its status again
    for each pod that follows. While replicas leave a node that goes, the budget comes before their successors: it keeps
    a drain from ending pods too early.

    Args:
        outcome: the decision.
        images: the engines' images as the admin set them; None: those of the release.
        scrape_annotations: whether pods ask Prometheus to scrape them.
    """
    decision, resource = outcome.decision, outcome.deployment.asked.resource
    if decision is None or resource is None or resource.spec.suspend or not decision.pools:
        return ()
    platforms = decision.request.platforms
    options = to_workload_options(resource, images, scrape_annotations=scrape_annotations, platforms=platforms)
    held, more = dict(outcome.deployment.placed.held_back), dict(outcome.besides.replacing)
    made = [_with_pods(pool, more.get(pool.name, 0), held.get(pool.name)) for pool in decision.pools]
    ordered = sorted(made, key=lambda pool: -pool.split.shape.gpus_per_pod)
    pools = [deployment(options, pool, pool.choice) for pool in ordered if pool.choice is not None]
    goes = bool(outcome.besides.leaving)
    keeps = count(active(decision.pools)) if goes else None
    budget = disruption_budget(options, keeps)
    return (service(options), budget, *pools) if goes else (service(options), *pools, budget)


def _with_pods(pool: PlannedPool, more: int, most: int | None) -> PlannedPool:
    """Return a pool with ``more`` pods, which start before a node goes, and ``most`` while kubelets reject its pods."""
    replicas = pool.replicas + more
    return replace(pool, replicas=replicas if most is None else min(replicas, most))
