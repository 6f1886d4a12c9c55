"""The objects of a decision: a Service, a PodDisruptionBudget, a Deployment for each pool, and those of a router."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll import __version__
from plimsoll.api.conversion.convert import routing_of, to_workload_options
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.outcome import Outcome
from plimsoll.domain.engines.images import EngineImages
from plimsoll.domain.requests.routing import USUAL_IMAGES, RouterImages, Routing, RoutingMode
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.weights import CopyTool
from plimsoll.domain.requests.workload import Manifest, WorkloadOptions
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import PlannedPool, active, as_it_runs, count
from plimsoll.render.objects import deployment, disruption_budget, service
from plimsoll.render.pods import place_of, start_budget_seconds
from plimsoll.render.router import is_part, router_objects
from plimsoll.render.router_config import PickerFacts, hold_seconds
from plimsoll.render.weights import weights_job

USUAL_TOOL = CopyTool(f"plimsoll:{__version__}")
"""Plimsoll's image by its usual name. The chart says where it really is."""


def manifests_of(
    outcome: Outcome,
    images: EngineImages | None = None,
    *,
    tool: CopyTool = USUAL_TOOL,
    routers: RouterImages = USUAL_IMAGES,
    scrape_annotations: bool = False,
) -> tuple[Manifest, ...]:
    """Render the objects of a decision; none if there is no plan or the user has suspended the object.

    The pools with the largest pods come first, because the scheduler binds pods in the order of their creation. The
    budget comes after its pods: Kubernetes records an event about a budget without pods, and writes its status again
    for each pod that follows. While replicas leave a node that goes, the budget comes before their successors: it keeps
    a drain from ending pods too early. While weights are copied to a claim there is no Deployment: what runs keeps its
    template, and new pods would wait on GPUs for their files. The router comes last: who is refused a part of it has
    engines and the plain Service.

    Args:
        outcome: the decision.
        images: the engines' images as the admin set them; None: those of the release.
        tool: what copies weights.
        routers: the images of routers.
        scrape_annotations: whether pods ask Prometheus to scrape them.
    """
    decision, resource = outcome.decision, outcome.resource
    if decision is None or resource is None or resource.spec.suspend or not decision.pools:
        return ()
    platforms = decision.request.platforms
    options = to_workload_options(resource, images, scrape_annotations=scrape_annotations, platforms=platforms)
    held, more = dict(outcome.deployment.placed.held_back), dict(outcome.besides.replacing)
    made = [_with_pods(pool, more.get(pool.name, 0), held.get(pool.name)) for pool in decision.pools]
    ordered = sorted(made, key=lambda pool: -pool.split.shape.gpus_per_pod)
    copying = tuple(_copying(outcome, options, ordered, tool))
    routing, router = routing_of(resource, routers), outcome.deployment.placed.around.router
    if routing is not None and routing.mode is RoutingMode.STANDALONE and router.ready and not router.missing:
        options = replace(options, routing=routing)
    view = outcome.deployment.asked.weights
    if view is not None and not view.is_ready:
        return (*copying, service(options))
    pools = [deployment(options, pool, pool.choice) for pool in ordered if pool.choice is not None]
    routed = _routing(outcome, options, routing, pools) if routing is not None and not router.missing else ()
    goes = bool(outcome.besides.leaving)
    keeps = count(active(decision.pools)) if goes else None
    budget = disruption_budget(options, keeps)
    rest = (service(options), budget, *pools) if goes else (service(options), *pools, budget)
    return (*copying, *rest, *routed)


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


def _routing(
    outcome: Outcome, options: WorkloadOptions, routing: Routing, pools: Sequence[Manifest]
) -> tuple[Manifest, ...]:
    """Return the objects of the router. It stays as it is while no placement is known."""
    decision = outcome.decision
    placed = [] if decision is None else [pool for pool in active(decision.pools) if pool.choice is not None]
    if decision is None or not placed or not pools:
        return ()
    choices = [pool.choice for pool in placed if pool.choice is not None]
    facts = PickerFacts(
        engine_of(options.engine).metrics,
        max(choice.estimate.kv_block_tokens for choice in choices),
        max(_kept_tokens(decision.request, pool) for pool in placed),
        hold_seconds(max(start_budget_seconds(options, choice) for choice in choices)),
        has_adapters=decision.request.engine.lora is not None,
        engine=options.engine,
    )
    drain = max(each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for each in pools)
    return router_objects(options, routing, facts, drain)


def _kept_tokens(request: Request, pool: PlannedPool) -> int:
    """Return the tokens of prefixes that a replica keeps, on its GPUs and in host memory."""
    choice = pool.choice
    if choice is None:
        return 0
    used = as_it_runs(request, pool)
    program = engine_of(used.engine.name)
    behind = program.host_cache(used, choice.gpu, choice.split, choice.settings, choice.estimate)
    return choice.estimate.kv_capacity_tokens + (0 if behind is None else behind.tokens)


def router_to_go(deployment: Deployment) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a router that are not wanted any more in the mode that is asked for."""
    spec, around = deployment.spec, deployment.placed.around
    if spec is None:
        return ()
    name = deployment.identity.key.name
    return tuple(body for body in around.of_router if not is_part(body, spec.routing.mode, name))


def _with_pods(pool: PlannedPool, more: int, most: int | None) -> PlannedPool:
    """Return a pool with ``more`` pods, which start before a node goes, and ``most`` while kubelets reject its pods."""
    replicas = pool.replicas + more
    return replace(pool, replicas=replicas if most is None else min(replicas, most))
