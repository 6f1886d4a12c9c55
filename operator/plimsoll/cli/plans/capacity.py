"""The deployment that ``plimsoll capacity`` asks about, and the answer without a cluster.

How many more replicas fit, in sentences, as a table for people and as data for programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from plimsoll.api.conversion.convert import check_without_model
from plimsoll.app.review.values import Measured
from plimsoll.cli.context import Models, prices_from
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.planning import filled_in, request_of
from plimsoll.cli.plans.fleet_review import fleet_file
from plimsoll.cli.plans.tables import print_left_out
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.estimate import manifest_of
from plimsoll.cli.questions.manifest_options import bounded
from plimsoll.cli.reading.documents import (
    Located,
    UnusableDocument,
    check_located,
    in_namespace,
    no_deployment,
    parse_located,
    read_manifests,
)
from plimsoll.cli.reading.model_sources import Images
from plimsoll.cli.screen import print_lines, print_listing
from plimsoll.cli.split_words import split_document
from plimsoll.domain.decisions.outcomes import Fit, Option, Rejection
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import format_price
from plimsoll.placement.explain import nearest_sentence, place_words, rejection_sentence
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.places.capacity import Capacity, Room, capacity

NAME = "plimsoll-capacity"
"""The name of the deployment that is made from a model's name: the cluster has none of that name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The command's words that name the deployment: a model or a file, the options, and bounds on the GPUs."""

    model: str | None
    file: str | None
    asked: TypedOptions
    tensor_parallel: int | None = None


def located(subject: Subject, namespace: str) -> Located:
    """Return the manifest to ask about, checked by the rules of the API server.

    Raises:
        InvalidInput: neither or both of a model and a file are named, or the file holds several deployments.
        UnusableDocument: the manifest cannot be used.
    """
    if (subject.model is None) == (subject.file is None):
        raise InvalidInput("MODEL", subject.model, "Name a model, or one InferenceDeployment with -f.")
    found = _of_file(subject.file) if subject.file is not None else _of_model(str(subject.model), subject)
    found = in_namespace(found, namespace)
    parse_located(found)
    check_located(found)
    return found


def _of_file(file: str) -> Located:
    manifests = read_manifests([file])
    if manifests.problems:
        raise UnusableDocument(manifests.problems[0])
    if not manifests.found:
        raise no_deployment([file])
    if len(manifests.found) > 1:
        raise InvalidInput("-f", file, f"It holds {len(manifests.found)} InferenceDeployments: name a file with one.")
    return manifests.found[0]


def _of_model(model: str, subject: Subject) -> Located:
    body = manifest_of(model, subject.asked)
    spec = body.get("spec")
    if isinstance(spec, dict):
        body["spec"] = bounded(spec, subject.asked.gpus, subject.tensor_parallel)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name") == "estimate":
        body["metadata"] = {"name": NAME}
    return Located(model, body)


def measure_offline(found: Located, fleet: str, prices: str | None) -> Measured:
    """Return how many replicas fit on the nodes of a file, in addition to the pods in it, within its quotas."""
    file = fleet_file(fleet, prices_from(prices))
    seen, quotas = file.fleet, file.quotas
    resource = parse_located(found)
    check_without_model(resource.spec)
    request = filled_in(request_of(resource, Models(), Images(seen), seen.weakest), file.priorities, file.limit_ranges)
    room = capacity(request, seen, Ledger.of(seen, quotas.remaining))
    return Measured(request.key, 0, room, seen, quotas.complaints)


def total_sentence(found: Capacity) -> str:
    """Return how many more replicas fit, where, and at which price each."""
    used = [room for room in found.rooms if room.share]
    if not used:
        return "No more replica fits."
    count = f"{found.total} more replica{' fits' if found.total == 1 else 's fit'}"
    return f"{count}: {', then '.join(_share_words(room) for room in used)}."


def _share_words(room: Room) -> str:
    price, place = room.option.hourly_price, place_words(*room.option.target.place)
    cost = "without a known price" if price is None else f"for ${format_price(price)}/h"
    return f"{room.share} on {place} {cost}{'' if room.share == 1 else ' each'}"


def next_sentence(found: Capacity) -> str:
    """Return what the next replica lacks, with its figures."""
    blocked = found.next_blocked
    if blocked is not None:
        place = place_words(blocked.gpu_type, blocked.split)
        return f"The next one has no place: {place} {rejection_sentence(blocked)}."
    if not found.rejections:
        return "The next one has no place: the cluster has no GPUs that can be used."
    return f"No place takes one: {nearest_sentence(found.rejections)}."


def print_capacity(console: Console, found: Measured) -> None:
    """Print one line per place, the total, and what blocks the next replica."""
    figures = map(figure, ("FIT ALONE", "OF THE TOTAL", "$/h EACH"))
    table = Listing((name("PLACE"), *figures, prose("DOUBTS"), prose("THE NEXT ONE THERE")))
    for room in found.capacity.rooms:
        table.add(
            place_words(*room.option.target.place),
            str(room.alone),
            str(room.share),
            "?" if room.option.hourly_price is None else format_price(room.option.hourly_price),
            _doubts(room.option) or "-",
            rejection_sentence(room.blocked),
        )
    if found.capacity.rooms:
        print_listing(console, table)
    if found.runs:
        word = "replica has a place" if found.runs == 1 else "replicas have places"
        print_lines(console, (f"{found.runs} {word} already.",))
    print_lines(console, (total_sentence(found.capacity), next_sentence(found.capacity)))
    print_left_out(console, found.fleet)


def capacity_document(found: Measured) -> dict[str, Any]:
    """The answer as data. Prices are US dollars an hour, as text with two decimals."""
    capacity, blocked = found.capacity, found.capacity.next_blocked
    price = capacity.hourly_price
    return {
        "namespace": found.key.namespace,
        "name": found.key.name,
        "placedReplicas": found.runs,
        "moreReplicas": capacity.total,
        **({} if price is None else {"hourlyPrice": format_price(price)}),
        "message": total_sentence(capacity),
        "next": {**({} if blocked is None else {"reason": blocked.reason.value}), "message": next_sentence(capacity)},
        "places": [_place(room) for room in capacity.rooms],
        "rejections": [
            {"gpuType": each.gpu_type} | split_document(each.split) | _why(each) for each in capacity.rejections
        ],
        "notes": list(found.notes),
    }


def _place(room: Room) -> dict[str, Any]:
    price = room.option.hourly_price
    return {
        "gpuType": room.option.gpu.name,
        **split_document(room.option.split),
        "fitAlone": room.alone,
        "ofTheTotal": room.share,
        **({} if price is None else {"hourlyPriceEach": format_price(price)}),
        "fit": room.option.estimate.fit.value,
        "slow": room.option.is_slow,
        "next": _why(room.blocked),
    }


def _why(blocked: Rejection) -> dict[str, str]:
    return {"reason": blocked.reason.value, "message": rejection_sentence(blocked)}


def _doubts(option: Option) -> str:
    slow = ["slow"] if option.is_slow else []
    guess = ["speed not measured"] if option.is_unmeasured else []
    unsure = [] if option.estimate.fit is Fit.SURE else ["fits probably"]
    return ", ".join(slow + guess + unsure)
