"""A review as data."""

from __future__ import annotations

from typing import Any

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.app.review.values import Change, Place, Review
from plimsoll.domain.units import format_price
from plimsoll.status.writing import document_of


def document(review: Review) -> dict[str, Any]:
    """The whole review. Prices are US dollars an hour, as text with two decimals."""
    return {
        "changes": [_change(each) for each in review.changes],
        "bill": {
            "before": format_price(review.bill.before),
            "after": format_price(review.bill.after),
            "unpricedPlaces": review.bill.unpriced,
        },
        "unchanged": {"count": review.others, "unplaced": review.others_unserved},
        "notes": list(review.notes),
        "problems": list(review.problems),
    }


def _change(change: Change) -> dict[str, Any]:
    shown = InferenceDeploymentStatus(
        model=change.status.model,
        estimate=change.status.estimate,
        placement=change.status.placement,
        rejections=change.status.rejections,
        remedies=change.status.remedies,
    )
    head = {
        "namespace": change.key.namespace,
        "name": change.key.name,
        "change": change.verdict.value,
        "placed": change.is_served,
        "reason": change.reason,
        "message": change.message,
        "inFiles": bool(change.where),
        "withoutFilesToo": change.regardless,
        "restarts": change.restarts,
        "before": [_place(each) for each in change.before],
        "after": [_place(each) for each in change.after],
    }
    return head | ({"source": change.where} if change.where else {}) | document_of(shown)


def _place(place: Place) -> dict[str, Any]:
    price = {} if place.hourly_price is None else {"hourlyPrice": format_price(place.hourly_price)}
    return {
        "gpuType": place.gpu_type,
        "tensorParallel": place.split.tensor_parallel,
        "pipelineParallel": place.split.pipeline_parallel,
        **({} if place.split.data_parallel == 1 else {"dataParallel": place.split.data_parallel}),
        "replicas": place.replicas,
    } | price
