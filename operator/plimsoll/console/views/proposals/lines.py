"""The changed figures of a proposal, before and after. Figures that stay the same are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plimsoll.api.v1alpha1.inbox import (
    ProposalContent,
    ProposedAlternative,
    ProposedPlace,
    ProposedSettings,
    ProposedSpeed,
)
from plimsoll.console.views.words import BEYOND_ANY_PRICE, UNKNOWN, count, dollars, dollars_of, split_words
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.units import format_price


@dataclass(frozen=True, slots=True)
class ProposalLine:
    """One figure before and after the change. ``note`` says what it depends on."""

    name: str
    before: str
    after: str
    note: str = ""


def lines_of(content: ProposalContent, fleet: Fleet | None) -> tuple[ProposalLine, ...]:
    """Return the figures that change. Without a fleet, free GPUs are unknown."""
    return (*costs_of(content, fleet), *_settings(content), *_latency(content))


def costs_of(content: ProposalContent, fleet: Fleet | None) -> tuple[ProposalLine, ...]:
    """Return what matters first: replicas, places, free GPUs, KV cache and price."""
    found = (*_replicas(content), *_places(content), *_free(content, fleet), *_cache(content), *_price(content))
    return tuple(found)


def _replicas(content: ProposalContent) -> Iterator[ProposalLine]:
    before, after = replicas_of(content.from_), replicas_of(content.to)
    if before != after:
        yield ProposalLine("replicas", count(before), count(after))


def replicas_of(places: Sequence[ProposedPlace]) -> int:
    """Return the replicas on all places."""
    return sum(place.replicas for place in places)


def _places(content: ProposalContent) -> Iterator[ProposalLine]:
    before, after = _place_words(content.from_), _place_words(content.to)
    if before != after:
        yield ProposalLine("GPUs of a replica", before, after)


def _place_words(places: Sequence[ProposedPlace]) -> str:
    return ", ".join(dict.fromkeys(place_of(each) for each in places)) or "none"


def place_of(place: ProposedPlace | ProposedAlternative) -> str:
    """Return a place in words, without its replicas."""
    capacity = f", {place.capacity_type}" if isinstance(place, ProposedPlace) and place.capacity_type else ""
    return f"{place.gpu_type} {split_words(split_of(place))}{capacity}"


def split_of(place: ProposedPlace | ProposedAlternative) -> Split:
    """Return how a replica is divided over GPUs."""
    return Split(
        place.tensor_parallel,
        place.pipeline_parallel or 1,
        place.data_parallel or 1,
        expert_parallel=bool(place.expert_parallel),
    )


def _free(content: ProposalContent, fleet: Fleet | None) -> Iterator[ProposalLine]:
    for gpu_type in dict.fromkeys(place.gpu_type for place in (*content.from_, *content.to)):
        taken = _gpus(content.to, gpu_type) - _gpus(content.from_, gpu_type)
        if taken:
            free = _free_then(content, gpu_type) if fleet is None else sum(n.free for n in fleet.of_type(gpu_type))
            yield _free_of(gpu_type, taken, free, _FREE_BEFORE if fleet is None else "", others=bool(content.touches))


_FREE_BEFORE = "when it was proposed: the GPUs that are free now need the right to list nodes"


def _free_then(content: ProposalContent, gpu_type: str) -> int | None:
    """Return the GPUs of a type that were free when the proposal was made; None if it does not say."""
    return next((each.free for each in content.gpus if each.gpu_type == gpu_type), None)


def _gpus(places: Sequence[ProposedPlace], gpu_type: str) -> int:
    return sum(place.replicas * split_of(place).gpus for place in places if place.gpu_type == gpu_type)


def _free_of(gpu_type: str, taken: int, free: int | None, since: str, *, others: bool) -> ProposalLine:
    """Return the line of one type. ``since`` says what the free GPUs depend on."""
    name = f"{gpu_type} free"
    if free is None:
        words = f"takes {taken:,}" if taken > 0 else f"gives back {-taken:,}"
        return ProposalLine(
            name, UNKNOWN, UNKNOWN, f"{words}; free GPUs are not known here without the right to list nodes"
        )
    if others:
        return ProposalLine(name, count(free), UNKNOWN, _notes(f"takes {taken:,}; others make room first", since))
    if taken > free:
        return ProposalLine(name, count(free), "too few", _notes(f"takes {taken:,}", since))
    return ProposalLine(name, count(free), count(free - taken), since)


def _notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _cache(content: ProposalContent) -> Iterator[ProposalLine]:
    """Yield the use of the KV cache; after the change only, if just the number of equal replicas changes."""
    figures = {each.name: each.value for each in content.figures}
    percent, used, held = (_whole(figures.get(name)) for name in ("kv_percent", "used_tokens", "held_tokens"))
    if percent is None:
        return
    before, after = replicas_of(content.from_), replicas_of(content.to)
    if used is None or not held or not _is_one_place(content) or not before or not after or before == after:
        yield ProposalLine("KV cache in use", f"{percent} %", UNKNOWN)
        return
    then = round(100 * used * before / (held * after))
    yield ProposalLine(
        "KV cache in use", f"{percent} %", f"{then} %", "if the load stays as it was when this was proposed"
    )


def _is_one_place(content: ProposalContent) -> bool:
    return len({place_of(place) for place in (*content.from_, *content.to)}) == 1


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None  # noqa: PLR2004 - beyond any tokens


def _price(content: ProposalContent) -> Iterator[ProposalLine]:
    before, after = content.bill.before, content.bill.after
    if before != after or before is None:
        yield ProposalLine("price per hour", dollars(before), dollars(after), _difference(before, after))


def _difference(before: str | None, after: str | None) -> str:
    was, then = dollars_of(before), dollars_of(after)
    if was is None or then is None or max(abs(was), abs(then)) >= BEYOND_ANY_PRICE:
        return ""
    more = then - was
    return f"{'+' if more >= 0 else '-'}{dollars(format_price(abs(more)))}/h"


def _settings(content: ProposalContent) -> Iterator[ProposalLine]:
    befores, afters = _settings_of(content.from_), _settings_of(content.to)
    for name, words in _SETTINGS.items():
        before, after = _listed(befores, name), _listed(afters, name)
        if before != after:
            yield ProposalLine(words, before, after)


_SETTINGS = {
    "max_num_seqs": "requests at once of an engine",
    "max_num_batched_tokens": "tokens of a step",
    "kv_cache_dtype": "KV cache type",
}


def _settings_of(places: Sequence[ProposedPlace]) -> list[ProposedSettings]:
    return [place.settings for place in places if place.settings is not None]


def _listed(settings: Sequence[ProposedSettings], name: str) -> str:
    values = dict.fromkeys(value for each in settings if (value := getattr(each, name)) is not None)
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values) or UNKNOWN


def _latency(content: ProposalContent) -> Iterator[ProposalLine]:
    latency = content.latency
    before, after = (None, None) if latency is None else (latency.before, latency.after)
    for words, name in (("first token", "ttft_milliseconds"), ("time per token", "tpot_milliseconds")):
        was, then = _milliseconds(before, name), _milliseconds(after, name)
        if was != then:
            yield ProposalLine(words, was, then, "predicted at the declared load")


def _milliseconds(speed: ProposedSpeed | None, name: str) -> str:
    value = None if speed is None else getattr(speed, name)
    return UNKNOWN if value is None else f"{value:,} ms"
