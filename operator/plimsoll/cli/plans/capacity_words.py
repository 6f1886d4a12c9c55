"""Sentences about how many more replicas fit, and what the next one lacks."""

from __future__ import annotations

from plimsoll.domain.units import format_price
from plimsoll.placement.explain import nearest_sentence, place_words, rejection_sentence
from plimsoll.placement.places.capacity import Capacity, Room


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
