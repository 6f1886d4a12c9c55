"""The objects of a decision: a Service, a PodDisruptionBudget, and a Deployment for each pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plimsoll import __version__
from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.engines.images import EngineImages
from plimsoll.domain.requests.weights import CopyTool
from plimsoll.domain.requests.workload import Manifest, WorkloadOptions
from plimsoll.placement.demands.pools import PlannedPool, active, count
from plimsoll.render.objects import deployment, disruption_budget, service
from plimsoll.render.pods import place_of
from plimsoll.render.weights import weights_job

USUAL_TOOL = CopyTool(f"plimsoll:{__version__}")
"""Plimsoll's image by its usual name. The chart says where it really is."""


def manifests_of(
    outcome: Outcome,
    images: EngineImages | None = None,
    *,
    tool: CopyTool = USUAL_TOOL,
    scrape_annotations: bool = False,
) -> tuple[Manifest, ...]:
    """Render the objects of a decision; none if there is no plan or the user has suspended the object.

    The pools with the largest pods come first, because the scheduler binds pods in the order of their creation. The
    budget comes after its pods: Kubernetes records an event about a budget without pods, and writes its status again
    for each pod that follows. While replicas leave a node that goes, the budget comes before their successors: it keeps
    a drain from ending pods too early. While weights are copied to a claim there is no Deployment: what runs keeps its
    template, and new pods would wait on GPUs for their files.

    Args:
        outcome: the decision.
        images: the engines' images as the admin set them; None: those of the release.
        tool: what copies weights.
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
    copying = tuple(_copying(outcome, options, ordered, tool))
    view = outcome.deployment.asked.weights
    if view is not None and not view.is_ready:
        return (*copying, service(options))
    pools = [deployment(options, pool, pool.choice) for pool in ordered if pool.choice is not None]
    goes = bool(outcome.besides.leaving)
    keeps = count(active(decision.pools)) if goes else None
    budget = disruption_budget(options, keeps)
    rest = (service(options), budget, *pools) if goes else (service(options), *pools, budget)
    return (*copying, *rest)


def _copying(
    outcome: Outcome, options: WorkloadOptions, pools: Sequence[PlannedPool], tool: CopyTool
) -> Iterator[Manifest]:
    """Yield the Job that copies the weights to their claim, if there is one.

    A volume that few nodes can mount is made near the first pod that mounts it, so that pod runs where engines will.
    """
    weights, request = options.weights, None if outcome.decision is None else outcome.decision.request
    if weights is None or weights.claim is None:
        return
    choice = next((pool.choice for pool in pools if pool.choice is not None), None)
    is_near = choice is not None and request is not None and request.mounts_alone
    yield weights_job(options, weights, tool, place_of(options, choice) if choice and is_near else {})


def _with_pods(pool: PlannedPool, more: int, most: int | None) -> PlannedPool:
    """Return a pool with ``more`` pods, which start before a node goes, and ``most`` while kubelets reject its pods."""
    replicas = pool.replicas + more
    return replace(pool, replicas=replicas if most is None else min(replicas, most))
