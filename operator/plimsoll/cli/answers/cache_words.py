"""The KV cache of the declared load in words and as data, with figures that multiply to the cache next to them."""

from __future__ import annotations

from math import ceil
from typing import Any

from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.decisions.terms import KV_CACHE, CacheLoad
from plimsoll.domain.units import GIB, MIB

NO_CACHE = "KV cache: none. The engine reads an input in one step and keeps nothing of it."

_OF_STEPS = (
    "They are those of the engine's steps and of one request that is partly read. A request leaves the cache with the "
    "step that reads its end, and the others wait in the engine's queue."
)


def cache_sentence(figures: MemoryEstimate) -> str:
    """Return how many requests take the cache, and what each of their tokens takes.

    Tokens of layers with full attention are apart from windows, states and what an encoder hands over, which do not
    grow with a request.
    """
    load = _load(figures)
    if load is None:
        return f"KV cache: {figures.kv_needed_tokens:,} tokens needed."
    if load.of_steps:
        held = f"{load.tokens:,} tokens take {load.total_bytes / GIB:.2f} GiB of each GPU{_parts(load)}."
        return f"KV cache: {held} {_OF_STEPS}"
    times = "" if load.percent == 100 else f"{load.percent / 100:.1f} x "  # noqa: PLR2004 - percent
    requests = f"{times}{load.requests:,} request{'s' if load.requests > 1 else ''} of {load.tokens:,} tokens"
    takes = "take" if load.requests > 1 else "takes"
    whole = load.total_bytes + load.shared_bytes
    less = f" With the prefix that they share, {load.total_bytes / GIB:.2f} GiB are expected." * bool(load.shared_bytes)
    return f"KV cache: {requests} {takes} {whole / GIB:.2f} GiB of each GPU{_parts(load)}.{less}"


def _parts(load: CacheLoad) -> str:
    """Return the parts of the bytes of one request, or of what the steps hold."""
    token = f"{ceil(load.growing_bytes_per_token):,} bytes a token"
    if not load.bounded_bytes:
        return f": {token}" if load.growing_bytes else ""
    bounded = (
        f"{load.bounded_bytes / MIB:.1f} MiB in layers with a window, a state or encoder outputs, which stop growing"
    )
    grown = f"{token} in layers with full attention, and " if load.growing_bytes else ""
    each = "" if load.of_steps else f", {load.request_bytes / MIB:.1f} MiB each"
    return f"{each}: {grown}{bounded}"


def cache_document(figures: MemoryEstimate) -> dict[str, Any] | None:
    """Return the same as data; null if the engine's law does not say it."""
    load = _load(figures)
    if load is None:
        return None
    return {
        "requests": load.requests,
        "tokensOfRequest": load.tokens,
        "percent": load.percent,
        "growingBytesPerToken": float(load.growing_bytes_per_token),
        "growingBytesOfRequest": load.growing_bytes,
        "boundedBytesOfRequest": load.bounded_bytes,
        "bytes": load.total_bytes,
        "ofSteps": load.of_steps,
        "sharedBytes": load.shared_bytes,
    }


def _load(figures: MemoryEstimate) -> CacheLoad | None:
    return next((term.derive().cache for term in figures.terms if term.name == KV_CACHE), None)
