"""How many more replicas fit, as a table for people and as data for programs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from plimsoll.app.review.values import Measured
from plimsoll.cli.plans.tables import print_ignored
from plimsoll.domain.outcomes import Fit, Option, Split
from plimsoll.domain.units import format_price
from plimsoll.placement.capacity import Room
from plimsoll.placement.explain import place_words, rejection_sentence
from plimsoll.render.capacity_words import next_sentence, total_sentence


def print_capacity(console: Console, found: Measured) -> None:
    """Print one line per place, the total, and what blocks the next replica."""
    table = Table("PLACE", "FIT ALONE", "OF THE TOTAL", "$/h EACH", "DOUBTS", "THE NEXT ONE THERE", box=None)
    for room in found.capacity.rooms:
        table.add_row(
            place_words(*room.option.target.place),
            str(room.alone),
            str(room.share),
            "?" if room.option.hourly_price is None else format_price(room.option.hourly_price),
            _doubts(room.option) or "-",
            rejection_sentence(room.blocked),
        )
    if found.capacity.rooms:
        console.print(table)
    if found.runs:
        word = "replica has a place" if found.runs == 1 else "replicas have places"
        console.print(f"{found.runs} {word} already.", highlight=False)
    for line in (total_sentence(found.capacity), next_sentence(found.capacity)):
        console.print(line, highlight=False, markup=False)
    print_ignored(console, found.fleet.ignored)


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
            {
                **_split(each.gpu_type, each.split),
                "reason": each.reason.value,
                "message": rejection_sentence(each),
            }
            for each in capacity.rejections
        ],
        "notes": list(found.notes),
    }


def _place(room: Room) -> dict[str, Any]:
    price = room.option.hourly_price
    return {
        **_split(room.option.gpu.name, room.option.split),
        "fitAlone": room.alone,
        "ofTheTotal": room.share,
        **({} if price is None else {"hourlyPriceEach": format_price(price)}),
        "fit": room.option.estimate.fit.value,
        "slow": room.option.is_slow,
        "next": {"reason": room.blocked.reason.value, "message": rejection_sentence(room.blocked)},
    }


def _split(gpu_type: str, split: Split) -> dict[str, Any]:
    return {
        "gpuType": gpu_type,
        "tensorParallel": split.tensor_parallel,
        "pipelineParallel": split.pipeline_parallel,
        "expertParallel": split.expert_parallel,
        "dataParallel": split.data_parallel,
    }


def _doubts(option: Option) -> str:
    slow = ["slow"] if option.is_slow else []
    unsure = [] if option.estimate.fit is Fit.SURE else ["fits probably"]
    return ", ".join(slow + unsure)
