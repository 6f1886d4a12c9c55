"""The signs from which the state of a deployment is judged, as a status has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from plimsoll.api.v1alpha1.status import EstimateStatus, InferenceDeploymentStatus
from plimsoll.domain.units import from_rfc3339
from plimsoll.status.record.acknowledged import ACKNOWLEDGED
from plimsoll.status.severity import Acknowledgement, LoadLine, Sign, Signs, load_line


def signs_of(status: InferenceDeploymentStatus, head: Mapping[str, Any]) -> Signs:
    """Return the signs of an object. What its engines report now is not among them.

    Args:
        status: its status.
        head: its metadata.
    """
    conditions = {
        each.type: Sign(each.status, each.reason, each.message, from_rfc3339(each.last_transition_time))
        for each in status.conditions or ()
    }
    line = LoadLine.WITHIN if status.estimate is None else _line_of(status.estimate)
    created = from_rfc3339(str(head.get("creationTimestamp") or ""))
    return Signs(
        MappingProxyType(conditions),
        bool(head.get("deletionTimestamp")),
        created,
        line,
        generation=int(head.get("generation") or 0),
        acknowledged=acknowledgements_of(status),
    )


def acknowledgements_of(status: InferenceDeploymentStatus) -> tuple[Acknowledgement, ...]:
    """Return the findings that people know of, by a status; an entry that cannot be used is left out."""
    read = map(ACKNOWLEDGED.usable, status.acknowledged or ())
    return tuple(each for each in read if each is not None)


def _line_of(estimate: EstimateStatus) -> LoadLine:
    expected = expected_bytes(estimate)
    lower, upper = expected - (estimate.slack_bytes or 0), expected + estimate.margin_bytes
    return load_line(lower, upper, estimate.budget_bytes, estimate.override_bytes)


def expected_bytes(estimate: EstimateStatus) -> int:
    """Return the sum of the terms, which statuses of earlier releases do not have as a figure of its own."""
    needed = estimate.weights_bytes + estimate.kv_cache_bytes + estimate.activations_bytes
    needed += estimate.cuda_graphs_bytes + estimate.overhead_bytes
    return needed + (estimate.adapters_bytes or 0) + (estimate.learned_bytes or 0)
