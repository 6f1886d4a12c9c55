"""``plimsoll simulate --host-memory``: sizes of a KV cache in host memory, on the same requests and the same router."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console

from plimsoll.cli.listing import Listing, figure, name
from plimsoll.cli.plans.replays import ReplayQuestion, question_document, question_lines, routed_cells
from plimsoll.cli.screen import print_lines, print_listing
from plimsoll.domain.engines.engine_choice import LEAST_HOST_CACHE_BYTES, MOST_HOST_CACHE_BYTES
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB, counted, format_price, parse_bytes
from plimsoll.placement.options.kept_cache import kept_cache, may_keep
from plimsoll.simulation.prefix_cache import seen_share
from plimsoll.simulation.replay import Progress, Routed, routed
from plimsoll.simulation.run import ReplicaKind
from plimsoll.simulation.values import Routing

AUTO = "auto"
_AUTO_GIB = (64, 128, 256, 512, 1024)
"""The sizes that ``auto`` tries. Servers with eight GPUs have 1 to 2 TiB: a p5 has 2 (https://aws.amazon.com/ec2)."""

SEEN_SECONDS = 1800.0
"""The time within which a prompt counts as seen before: people come back to a conversation within minutes."""

_FLAG = "--host-memory"


@dataclass(frozen=True, slots=True)
class TriedSize:
    """A size for each replica, the tokens that it keeps then, and what the requests got; 0 bytes: none."""

    size_bytes: int
    tokens: int
    routed: Routed


def sizes_of(given: Sequence[str]) -> list[int]:
    """Return the sizes in bytes, in order.

    Raises:
        InvalidInput: one is no size.
    """
    found = set[int]()
    for each in given:
        try:
            sizes = [gib * GIB for gib in _AUTO_GIB] if each == AUTO else [parse_bytes(each)]
        except ValueError:
            sizes = [0]
        if not all(LEAST_HOST_CACHE_BYTES <= size <= MOST_HOST_CACHE_BYTES for size in sizes):
            raise InvalidInput(_FLAG, each, "Write a size of 1Gi or more, such as 200Gi, or auto.")
        found.update(sizes)
    return sorted(found)


def tried_sizes(
    question: ReplayQuestion, routing: Routing, sizes: Sequence[int], progress: Progress
) -> Iterator[TriedSize]:
    """Yield the requests without a cache in host memory, and with each size.

    Raises:
        InvalidInput: the engine keeps none.
    """
    replay = question.replay
    on_gpus = replay.kind.limits.kv_tokens
    for size in (0, *sizes):
        tokens = max(on_gpus, _tokens(replay.kind, size)) if size else on_gpus
        [found] = routed(replace(replay, kept_tokens=tokens), [routing], progress)
        yield TriedSize(size, tokens, found)


def _tokens(kind: ReplicaKind, size: int) -> int:
    request, place = kind.request.with_host_cache(size), kind.place
    kept = kept_cache(request, place.gpu, place.split, place.settings, place.figures) if may_keep(request) else None
    if kept is None:
        fix = f"Release {request.engine.version} keeps no KV cache of {request.model.name} there: leave it out."
        raise InvalidInput(_FLAG, f"{size / GIB:g}Gi", fix)
    return kept.tokens


def print_sizes(console: Console, question: ReplayQuestion, tried: Sequence[TriedSize]) -> None:
    """Print what each size brings, and which one is enough."""
    print_lines(console, (*question_lines(question), f"{question.replay.replicas} replicas.", ""))
    columns = ("TOKENS KEPT", "FOUND", "TTFT P50 MS", "TTFT P95 MS", "GOODPUT", "ERRORS", "REPLICAS ENOUGH")
    table = Listing((name("HOST MEMORY"), *map(figure, columns)))
    for each in tried:
        size = f"{each.size_bytes / GIB:g}Gi" if each.size_bytes else "none"
        table.add(size, f"{each.tokens:,}", *routed_cells(question, each.routed))
    print_listing(console, table)
    print_lines(console, ("", advice(question, tried)))


def advice(question: ReplayQuestion, tried: Sequence[TriedSize]) -> str:
    """Return what was seen before and not found, and what the smallest size that saves most would save."""
    without, *others = tried
    seen, found = 100 * seen_share(question.replay.arrivals, SEEN_SECONDS), without.routed.asked.found
    said = f"{seen:.0f} % of the prompt tokens had come before within 30 min, and {found:.0f} % were found."
    best = min(others, key=lambda each: (_enough(each), _is_less(each, others), each.size_bytes))
    less = 100 * (best.routed.asked.found - found) / max(1.0, 100 - found)
    saved = (
        f"{said} {best.size_bytes / GIB:g} GiB of host memory for each replica would find "
        f"{best.routed.asked.found:.0f} % and save {max(0.0, less):.0f} % of prefill"
    )
    before, after = without.routed.fewest, best.routed.fewest
    if after is None or before == after:
        return f"{saved}, but no replica."
    if before is None:
        most = question.replay.policy.max_replicas
        return f"{saved}: {counted(after, 'replica')} would be enough, where {most} are not without it."
    price = question.replay.kind.option.hourly_price
    dollars = "" if price is None else f" (${format_price(price * (before - after))}/h)"
    return f"{saved} and {before - after} of {counted(before, 'replica')}{dollars}."


def _enough(tried: TriedSize) -> float:
    return float("inf") if tried.routed.fewest is None else tried.routed.fewest


def _is_less(tried: TriedSize, others: Sequence[TriedSize]) -> bool:
    """Whether it finds clearly less than the size that finds most: by more than two points."""
    return tried.routed.asked.found + 2 < max(each.routed.asked.found for each in others)


def sizes_document(question: ReplayQuestion, tried: Sequence[TriedSize]) -> dict[str, Any]:
    """Return the document. ``bytes`` 0 is without host memory; ``replicas_enough`` null: the most are not enough."""
    sizes = [
        {
            "bytes": each.size_bytes,
            "tokens": each.tokens,
            "router": each.routed.routing.value,
            "replicas_enough": each.routed.fewest,
            **asdict(each.routed.asked),
        }
        for each in tried
    ]
    seen = round(100 * seen_share(question.replay.arrivals, SEEN_SECONDS), 1)
    return {**question_document(question, advice(question, tried)), "seen_percent": seen, "host_memory": sizes}
