"""Decides which Deployments are really ours: anyone can write labels, so labels, name and record must agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.kubernetes_names import KIND
from plimsoll.engines.registry import ENGINES
from plimsoll.placement.demands.pools import is_at, pool_name
from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    FIELD_MANAGER,
    HASH_ANNOTATION,
    MANAGED_BY,
    POOL_ANNOTATION,
    POOL_LABEL,
    is_of_router,
    workload_name,
)
from plimsoll.status.record.places import drain_doubt, place_doubt, split_doubt, target_from
from plimsoll.status.record.reading import Body

_DEPLOYMENT = "Deployment"


def is_adoptable(body: Body, name: str) -> bool:
    """Whether we made an object without a controller for an InferenceDeployment of that name.

    ``kubectl delete --cascade=orphan`` leaves these objects, or someone removed its owner reference. A Deployment must
    have a valid pool record, unless it is that of the router; a Service or a PodDisruptionBudget needs none.
    """
    head = body.get("metadata") or {}
    labels, annotations = head.get("labels") or {}, head.get("annotations") or {}
    if controller_of(body) is not None or HASH_ANNOTATION not in annotations:
        return False
    if labels.get(MANAGED_BY) != FIELD_MANAGER or labels.get(DEPLOYMENT_LABEL) != name:
        return False
    return body.get("kind") != _DEPLOYMENT or is_of_router(str(head.get("name")), name) or not record_doubt(body, name)


def workload_doubt(body: Body, owner: Body) -> str:
    """The reason why a Deployment with our labels is not one of the object's pools; empty if it is one.

    A Deployment of a deleted object of the same name is no error: Kubernetes will remove it, see
    :func:`is_of_namesake`.
    """
    name = str(owner["metadata"]["name"])
    controller = controller_of(body)
    if controller is None and not is_adoptable(body, name):
        return record_doubt(body, name) or "it has no controller and not the marks of an object that the operator made"
    if controller is not None and controller.get("uid") != owner["metadata"]["uid"]:
        return f"its controller is {controller.get('kind')} {controller.get('name')} with another uid"
    return record_doubt(body, name)


def is_of_namesake(body: Body, owner: Body) -> bool:
    """Whether a Deployment belonged to an object of the same name that was deleted."""
    controller = controller_of(body) or {}
    same = (controller.get("kind"), controller.get("name")) == (KIND, owner["metadata"]["name"])
    return same and controller.get("uid") != owner["metadata"]["uid"]


def record_doubt(body: Body, name: str) -> str:
    """The error in the pool record, the labels or the name of a Deployment; empty if they all agree."""
    head = body.get("metadata") or {}
    record = _record(head.get("annotations") or {})
    if isinstance(record, str):
        return record
    if not isinstance(record.get("gpuType"), str) or not record["gpuType"]:
        return f"gpuType {record.get('gpuType')!r} of its pool record is no name"
    if "tensorParallel" not in record:
        return "its pool record has no tensorParallel"
    stages, engines = record.get("pipelineParallel", 1), record.get("dataParallel", 1)
    doubt = place_doubt(
        record.get("nodeSelector"),
        record.get("resource"),
        record.get("nodeLabels"),
        record.get("capacityType"),
        record.get("avoidedNodes"),
    )
    doubt = doubt or split_doubt(record["tensorParallel"], stages, engines)
    if not doubt and "drain" in record:
        doubt = drain_doubt(record["drain"])
    if not doubt and str(record.get("engine", DEFAULT_ENGINE)) not in ENGINES:
        doubt = f"engine {record['engine']!r} is not known"
    if doubt:
        return f"{doubt} (in its pool record)"
    place = record["gpuType"], Split(record["tensorParallel"], stages, engines)
    labels = head.get("labels") or {}
    pool = str(labels.get(POOL_LABEL))
    if not is_at(pool, *place) or labels.get(DEPLOYMENT_LABEL) != name:
        return f"its labels do not name the pool {pool_name(*place)} of {name}, which its pool record tells of"
    wanted = workload_name(name, pool)
    return "" if head.get("name") == wanted else f"its name is not {wanted}"


def target_of(body: Body) -> Target:
    """The target in the pool record of a Deployment that :func:`record_doubt` accepts."""
    record = json.loads(body["metadata"]["annotations"][POOL_ANNOTATION])
    whole = record.get("expertParallel") is True
    stages, engines = record.get("pipelineParallel", 1), record.get("dataParallel", 1)
    split = Split(record["tensorParallel"], stages, engines, expert_parallel=whole)
    return target_from(
        record["gpuType"],
        split,
        record["nodeSelector"],
        record["resource"],
        labels=record.get("nodeLabels"),
        capacity=record.get("capacityType"),
        avoids=record.get("avoidedNodes"),
    )


def drain_of(body: Body) -> int | None:
    """The seconds that running requests may finish, in the pool record of a Deployment; None if it has none."""
    seconds = json.loads(body["metadata"]["annotations"][POOL_ANNOTATION]).get("drain")
    return seconds if isinstance(seconds, int) else None


def engine_in(body: Body) -> str:
    """The name of the engine in the pool record of a Deployment; the usual one if it has none."""
    return str(json.loads(body["metadata"]["annotations"][POOL_ANNOTATION]).get("engine", DEFAULT_ENGINE))


def controller_of(body: Body) -> Mapping[str, Any] | None:
    """The owner reference to an object's controller."""
    references = (body.get("metadata") or {}).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def _record(annotations: Mapping[str, Any]) -> dict[str, Any] | str:
    text = annotations.get(POOL_ANNOTATION)
    if text is None:
        return f"the annotation {POOL_ANNOTATION} is missing"
    try:
        record = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return f"the annotation {POOL_ANNOTATION} is no JSON"
    return record if isinstance(record, dict) else f"the annotation {POOL_ANNOTATION} is no JSON object"
