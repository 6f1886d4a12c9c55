"""The beginnings of prompts that a replica keeps, the least recently used of which go first."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.simulation.values import Arrival, Prefix


class PrefixCache:
    """Blocks of prompts by their ids, of ``most_tokens`` tokens together at most.

    A block is found only if all blocks before it are: it is known by its tokens and those before it. Like vLLM, which
    frees the blocks of a request from its end (``v1/core/single_type_kv_cache_manager.py``), it gives up the end of a
    prompt before its beginning.
    """

    __slots__ = ("_kept", "_tokens", "most_tokens")

    def __init__(self, most_tokens: int) -> None:
        self.most_tokens = most_tokens
        self._kept: dict[int, int] = {}
        """The tokens of each block, the least recently used first."""
        self._tokens = 0

    def found(self, prefix: Prefix) -> int:
        """Return the tokens of the known blocks at the beginning."""
        tokens = 0
        for block, size in prefix:
            if block not in self._kept:
                break
            tokens += size
        return tokens

    def keep(self, prefix: Prefix) -> None:
        """Keep these blocks, and give up those that were used least recently."""
        kept = self._kept
        for block, size in reversed(prefix):
            self._tokens += size - kept.pop(block, 0)
            kept[block] = size
        while self._tokens > self.most_tokens:
            oldest = next(iter(kept))
            self._tokens -= kept.pop(oldest)


def seen_share(arrivals: Iterable[Arrival], seconds: float) -> float:
    """Return the share of the tokens of prompts that came before within so many seconds, at any replica, 0 to 1.

    The arrivals are in the order of time. A block counts only if all blocks before it do.
    """
    last = dict[int, float]()
    seen = total = 0
    for arrival in arrivals:
        total += arrival.prompt_tokens
        known = 0
        is_known = bool(arrival.blocks)
        for block, size in arrival.prefix:
            is_known = is_known and arrival.at - last.get(block, -seconds - 1) <= seconds
            known += size if is_known else 0
            last[block] = arrival.at
        seen += min(known, arrival.prompt_tokens)
    return seen / max(1, total)
