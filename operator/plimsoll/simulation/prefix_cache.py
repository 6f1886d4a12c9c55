"""The beginnings of prompts that a replica keeps, the least recently used of which go first."""

from __future__ import annotations

from plimsoll.simulation.values import Prefix


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
