"""Deployments and outcomes as values, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.reading.deployments import declared_replicas
from plimsoll.app.watch.store import Body
from plimsoll.decision.deployment import Asked, Deployment, Identity, PlacedPools, Writes
from plimsoll.decision.memory import LeavingNodes, Memory, TurnMemo
from plimsoll.decision.outcome import Observed, Outcome, Ready
from plimsoll.decision.spec_digests import digests_of
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import Standing
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.status.record.reading import record_of
from tests.support.bodies import inference_deployment_body

KEY = ObjectKey("ns", "chat")
NOTHING_RUNS = Surroundings({}, {})


def without_answers(memory: Memory) -> Memory:
    """A memory with only those parts that change decisions."""
    return Memory(turns=TurnMemo(dict(memory.turns.memories)), leaving=LeavingNodes(dict(memory.leaving.since)))


def identity_of(body: Body, key: ObjectKey = KEY) -> Identity:
    """Which object a body is."""
    head = body["metadata"]
    generation, born = int(head.get("generation") or 1), str(head.get("creationTimestamp") or "")
    return Identity(key, head["uid"], generation, born, digests_of(body.get("spec")))


def deployment_of(
    body: Body | None = None,
    *,
    key: ObjectKey = KEY,
    around: Surroundings = NOTHING_RUNS,
    resource: InferenceDeployment | None = None,
    request: Request | None = None,
    writes: Writes | None = None,
    **placed: Any,
) -> Deployment:
    """A deployment with this object, what it asks for, and what is placed of it (the fields of ``PlacedPools``)."""
    body = inference_deployment_body("chat") if body is None else body
    record = record_of(body)
    asked = Asked(declared_replicas(body, record), resource, request=request)
    return Deployment(identity_of(body, key), record, PlacedPools(around, **placed), asked, writes or Writes())


def outcome_of(deployment: Deployment | None = None, **found: Any) -> Outcome:
    """An outcome with these fields."""
    return Outcome(deployment_of() if deployment is None else deployment, **found)


def desired_of(outcome: Outcome, body: Body | None = None, **rendered: Any) -> Desired:
    """Return the writes that an outcome leads to."""
    return Desired(inference_deployment_body("chat") if body is None else body, outcome, **rendered)


def ready_of(deployment: Deployment, request: Request, reported: dict[str, int] | None = None) -> Ready:
    """A deployment that is planned with this request."""
    standing = Standing(request.replicas, request.replicas, ChangeHistory())
    return Ready(deployment, request, standing, Observed(reported=reported or {}))
