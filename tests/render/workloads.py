"""A decided deployment, ready to be rendered."""

from __future__ import annotations

from typing import Any

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.workload import Manifest, WorkloadOptions
from plimsoll.placement.demands.pools import Decision, PlannedPool, Tenant
from plimsoll.placement.plan import plan
from plimsoll.render.objects import deployment
from tests.support.planning import H100, LLAMA_8B, fleet, node, request

WHERE = fleet(node("h", H100, 8))


def options(**changes: Any) -> WorkloadOptions:
    """Workload options of ``ml/llama`` with defaults."""
    fields: dict[str, Any] = {
        "key": ObjectKey("ml", "llama"),
        "uid": "0-1-2",
        "model_source": LLAMA_8B,
        "revision": None,
        "engine_version": "0.32.0",
    }
    return WorkloadOptions(**fields | changes)


def decision(wanted: Request | None = None, where: Any = WHERE) -> Decision:
    """The plan for one deployment."""
    (decided,) = plan([Tenant(wanted or request(), 1)], where)
    return decided


def chosen_pool(wanted: Request | None = None, where: Any = WHERE) -> tuple[PlannedPool, Option]:
    """The first pool of the plan and its choice."""
    pool = decision(wanted, where).pools[0]
    assert pool.choice is not None
    return pool, pool.choice


def rendered(given: WorkloadOptions | None = None, wanted: Request | None = None, where: Any = WHERE) -> Manifest:
    """The Deployment of the first pool."""
    return deployment(given or options(), *chosen_pool(wanted, where))


def container(manifest: Manifest) -> Manifest:
    """The engine's container of a Deployment."""
    (engine,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(engine)
