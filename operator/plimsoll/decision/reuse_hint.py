"""A hint about KV cache in host memory, from the reuse that counters show: with its evidence, its bound and its price.

Nothing is said as certain that counters do not show: engines count what they find, not what they gave up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, counted, format_price, to_percent
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.options.kept_cache import kept_cache, may_keep
from plimsoll.rebalance.law.reuse import Reuse

LEAST_FOUND = 0.1
"""The least share of the tokens of prompts that is evidence of prompts that begin alike. Chat templates and short
instructions alone make a few percent. A choice of this project."""

_SIZE = 100 * GIB
_FIELD = "spec.kvCache.hostMemory"
_MINUTE, _HOUR = 60.0, 3600.0
_FIGURE = re.compile(r"[0-9][0-9.,]*")


class ReuseHint(NamedTuple):
    """A hint as text, and the part of it that says what follows."""

    words: str
    result: str

    def or_earlier(self, hints: Iterable[str]) -> str:
        """Return an earlier hint that says the same with figures within a factor of two; else this one.

        So the status is not written anew for every figure.
        """
        return next((each for each in hints if self.result in each and _is_near(each, self.words)), self.words)


def _is_near(earlier: str, now: str) -> bool:
    if _FIGURE.sub("", earlier) != _FIGURE.sub("", now):
        return False
    figures = (map(_number, _FIGURE.findall(text)) for text in (earlier, now))
    return all(2 * min(pair) >= max(pair) for pair in zip(*figures, strict=True))


def _number(figure: str) -> float:
    return float(figure.rstrip(".,").replace(",", ""))


def reuse_hint(reuse: Reuse | None, decision: Decision) -> ReuseHint | None:
    """Return what counters say of a cache in host memory; None if they say nothing that helps."""
    choice, request = decision.choice, decision.request
    if reuse is None or choice is None:
        return None
    host = request.engine.host
    if host.by_spec and (choice.settings.host_cache_bytes or host.kv_bytes):
        return _with_tier(reuse, choice)
    if host.kv_bytes or host.rank_bytes:
        return None  # connectors of the user's own may count hits that are not of host memory
    declared = request.shape.cached_tokens / reuse.lengths.prompt
    if declared > 1:
        return _too_long(reuse, request)
    if declared >= reuse.found + LEAST_FOUND and reuse.found > 0:  # none at all: the engine may not count them
        return _declared(reuse, request, declared)
    return _bound(reuse, request, choice) if reuse.found >= LEAST_FOUND and may_keep(request) else None


def _with_tier(reuse: Reuse, choice: Option) -> ReuseHint | None:
    """Return what the cache in host memory has found, and what it saves."""
    if reuse.behind is None:
        return None
    without = reuse.replicas_at(reuse.found - reuse.behind)
    saved = without - reuse.wish.replicas
    result = "By the performance model, the load needs as many replicas without it."
    if saved > 0:
        result = f"By the performance model, that saves {_saved(saved, without, choice.hourly_price)}."
    found = f"{_percent(reuse.behind)} of the prompt tokens were found in host memory lately"
    return ReuseHint(f"{found}. {result}", result)


def _bound(reuse: Reuse, request: Request, choice: Option) -> ReuseHint | None:
    """Return the most that more cache can save; None if it can save no replica."""
    saved = reuse.wish.replicas - reuse.replicas_at(1.0)
    if saved <= 0:
        return None
    result = f"{_FIELD} would save {_saved(saved, reuse.wish.replicas, choice.hourly_price)} at most"
    return ReuseHint(
        f"{_percent(reuse.found)} of the prompt tokens were found in the GPUs' caches. How many of the others had come "
        f"before is not known: engines count what they find, not what they gave up. If all of them had, {result}; "
        f"`plimsoll simulate --trace` says it for requests that were recorded.{_longer(reuse, request, choice)}",
        result,
    )


def _too_long(reuse: Reuse, request: Request) -> ReuseHint:
    """Return what is wrong with a declared prefix that has more tokens than prompts have."""
    result = "so not so many of them begin alike: correct tokens or requestsPercent there."
    shared, mean = request.shape.shared_tokens, reuse.lengths.prompt
    return ReuseHint(
        f"Prompts have {mean:,.0f} tokens on average, and spec.workload.sharedPrefix says that {shared:,} tokens are "
        f"the same in {request.shape.shared_percent} % of the requests, {result}",
        result,
    )


def _declared(reuse: Reuse, request: Request, share: float) -> ReuseHint | None:
    """Return what is missing of the prefix that the spec declares, if no cache can have given it up.

    Of a share that matters, a cache would have to hold fewer than ten requests to do so.
    """
    every = 100 / (reuse.rate * request.shape.shared_percent)
    if reuse.kept_seconds < every:
        return None
    result = f"so they do not give it up: prompts differ earlier, or fewer begin with it. {_FIELD} would not find it."
    return ReuseHint(
        f"spec.workload.sharedPrefix says that {_percent(share)} of the prompt tokens begin alike, and "
        f"{_percent(reuse.found)} were found. A replica gets that beginning every {_time(every)} on average, and the "
        f"GPUs' caches keep a prompt for {_time(reuse.kept_seconds)} or longer, {result}",
        result,
    )


def _longer(reuse: Reuse, request: Request, choice: Option) -> str:
    """Return how long caches keep a prompt, now and with more memory; nothing where layers keep parts of it alone."""
    more = request.with_host_cache(_SIZE)
    kept = kept_cache(more, choice.gpu, choice.split, choice.settings, choice.estimate)
    if kept is None or kept.is_least:
        return ""
    longer = kept.tokens * reuse.wish.replicas / reuse.flow
    return (
        f" At this load the GPUs' caches keep a prompt for {_time(reuse.kept_seconds)} or longer, and 100 GiB of host "
        f"memory for each replica would keep it for {_time(longer)} more."
    )


def _saved(saved: int, of: int, price: Decimal | None) -> str:
    dollars = "" if price is None else f" (${format_price(price * saved)}/h)"
    return f"{saved} of {counted(of, 'replica')}{dollars}"


def _percent(share: float) -> str:
    return f"{to_percent(share)} %"


def _time(seconds: float) -> str:
    """Return a time with one digit: it follows from means."""
    for unit, words in ((_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{float(f'{seconds / unit:.1g}'):,.0f} {words}"
    return f"{float(f'{seconds:.1g}'):g} s"
