"""A review in short texts, as a table for people, and as data."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rich.console import Console

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.app.review.values import Bill, DeploymentChange, PricedReplicas, Review, ReviewVerdict
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.plans.tables import print_details, print_left_out
from plimsoll.cli.screen import print_heading, print_lines, print_listing
from plimsoll.domain.units import counted, format_price
from plimsoll.placement.explain import place_words
from plimsoll.status.writing import document_of

NOTHING = "-"


def places_text(places: tuple[PricedReplicas, ...]) -> str:
    """Replicas and their places."""
    shares = (f"{counted(each.replicas, 'replica')} on {place_words(each.gpu_type, each.split)}" for each in places)
    return " + ".join(shares) or NOTHING


def price_text(places: tuple[PricedReplicas, ...]) -> str:
    """US dollars an hour of all these places; a question mark if one of them has no price."""
    if not places:
        return NOTHING
    prices = [each.hourly_price for each in places]
    return "?" if None in prices else format_price(sum((price for price in prices if price is not None), Decimal(0)))


def _change_text(change: DeploymentChange) -> str:
    return f"{change.verdict}, restarts" if change.restarts and change.verdict == "changed" else str(change.verdict)


def _why_text(change: DeploymentChange) -> str:
    """The reason. For an object outside the files also whether they are the cause."""
    if change.where:
        return change.reason
    cause = "happens without them, too" if change.regardless else "because of them"
    return f"{change.reason}; not in the files, {cause}"


def cells(change: DeploymentChange) -> tuple[str, ...]:
    """The change, the places and prices before and after it, and the reason."""
    places, prices = map(places_text, (change.before, change.after)), map(price_text, (change.before, change.after))
    return _change_text(change), *places, *prices, _why_text(change)


def bill_text(bill: Bill) -> str:
    """The bill in one sentence. The difference is that of the figures that are shown."""
    before, after = format_price(bill.before), format_price(bill.after)
    difference = Decimal(after) - Decimal(before)
    sign = "+" if difference >= 0 else "-"
    text = f"All InferenceDeployments cost ${before}/h now and ${after}/h after ({sign}${abs(difference)}/h)."
    return text if not bill.unpriced else f"{text} {bill.unpriced} places have no price and are not counted."


def others_text(review: Review) -> str:
    """The objects that are not shown, in one sentence; empty if there are none."""
    if not review.others:
        return ""
    waiting = f", {review.others_unserved} of them waiting or refused" if review.others_unserved else ""
    if review.others == 1:
        return f"1 more InferenceDeployment of the cluster stays as it is{waiting}."
    return f"{review.others} more InferenceDeployments of the cluster stay as they are{waiting}."


def print_review(console: Console, review: Review) -> None:
    """Print the difference, the bill, and the details of the objects of the files that change."""
    places, prices = map(prose, ("NOW", "AFTER")), map(figure, ("$/h NOW", "$/h AFTER"))
    table = Listing((name("DEPLOYMENT"), name("CHANGE"), *places, *prices, prose("WHY")))
    for change in review.changes:
        table.add(str(change.key), *cells(change))
    print_listing(console, table)
    print_lines(console, filter(None, (others_text(review), bill_text(review.bill))))
    for change in review.changes:
        if change.verdict is ReviewVerdict.KEPT or not change.where:
            continue
        print_heading(console, str(change.key))
        if not change.is_served:
            print_lines(console, (change.message,))
        print_details(console, change.status)
    print_left_out(console, review.fleet)


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


def _change(change: DeploymentChange) -> dict[str, Any]:
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


def _place(place: PricedReplicas) -> dict[str, Any]:
    price = {} if place.hourly_price is None else {"hourlyPrice": format_price(place.hourly_price)}
    return {
        "gpuType": place.gpu_type,
        "tensorParallel": place.split.tensor_parallel,
        "pipelineParallel": place.split.pipeline_parallel,
        **({} if place.split.data_parallel == 1 else {"dataParallel": place.split.data_parallel}),
        "replicas": place.replicas,
    } | price
