"""The KV cache of the declared load on one GPU, in figures that add up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class CacheLoad:
    """The requests that a cache is sized for, and the bytes of one of them.

    Layers with full attention grow with every token. Layers with a window, and those with a recurrent state, stop
    growing. All bytes are of one GPU, in whole blocks, so ``growing_bytes`` is a little more than the tokens times
    ``growing_bytes_per_token``.

    Attributes:
        requests: requests of one engine that are counted.
        tokens: the length of each.
        percent: how much of their cache is kept: 100, or more to hold what is longer than the mean.
        growing_bytes_per_token: bytes of one more token in the layers that grow.
        growing_bytes: bytes of one request in these layers.
        bounded_bytes: bytes of one request in the layers that stop growing.
        total_bytes: the whole cache, with the block that the engine keeps unused.
        of_steps: requests end with the step that reads their end. Then the one request that is counted stands for the
            tokens of the running steps and of what they have begun, and the other requests wait.
    """

    requests: int
    tokens: int
    percent: int
    growing_bytes_per_token: Fraction
    growing_bytes: int
    bounded_bytes: int
    total_bytes: int
    of_steps: bool = False

    @property
    def request_bytes(self) -> int:
        """Bytes of one request."""
        return self.growing_bytes + self.bounded_bytes
