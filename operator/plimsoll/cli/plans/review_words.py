"""Short texts about a review that all of its formats share."""

from __future__ import annotations

from decimal import Decimal

from plimsoll.app.review.values import Bill, Change, Place, Review
from plimsoll.domain.units import format_price
from plimsoll.placement.explain import place_words

NOTHING = "-"


def places_text(places: tuple[Place, ...]) -> str:
    """Replicas and their places."""
    return " + ".join(f"{_count(each)} on {place_words(each.gpu_type, each.split)}" for each in places) or NOTHING


def _count(place: Place) -> str:
    return f"{place.replicas} replica{'' if place.replicas == 1 else 's'}"


def price_text(places: tuple[Place, ...]) -> str:
    """US dollars an hour of all these places; a question mark where one of them has no price."""
    if not places:
        return NOTHING
    prices = [each.hourly_price for each in places]
    return "?" if None in prices else format_price(sum((price for price in prices if price is not None), Decimal(0)))


def change_text(change: Change) -> str:
    """The verdict, with what it means for engines that run."""
    return f"{change.verdict}, restarts" if change.restarts and change.verdict == "changed" else str(change.verdict)


def why_text(change: Change) -> str:
    """The reason. For an object outside the files also whether they are the cause."""
    if change.where:
        return change.reason
    cause = "happens without them, too" if change.regardless else "because of them"
    return f"{change.reason}; not in the files, {cause}"


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
    waiting = f", {review.others_unserved} of them without a place for every replica" if review.others_unserved else ""
    if review.others == 1:
        return f"1 more InferenceDeployment of the cluster stays as it is{waiting}."
    return f"{review.others} more InferenceDeployments of the cluster stay as they are{waiting}."
