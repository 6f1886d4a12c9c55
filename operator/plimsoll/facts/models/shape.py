"""The input and the result of every builder of a model's layers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from plimsoll.domain.caches import CacheSpec
from plimsoll.domain.model import Weight


@dataclass(frozen=True, slots=True)
class Shape:
    """The decoder as a whole: its name for errors, and the sizes all layers share.

    ``context`` is the longest sequence in tokens that the configuration declares.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    context: int


class Role(Enum):
    """The parts that a layer has in addition to its MLP or instead of it."""

    ATTENTION = auto()
    RECURRENT = auto()
    BOTH = auto()
    """Side by side on the same input."""
    MLP = auto()
    """An MLP alone."""
    EXPERTS = auto()
    """A mixture of experts alone."""


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens that one layer reads: all tokens, a sliding window, or the chunk that the token is in.

    A window longer than any request still costs a block, because the engine still counts it as a window.
    """

    local: bool = False
    window: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of one attention layer. With ``borrows_kv`` it reads the keys and values of an earlier layer."""

    query: int
    kv: int
    key_dim: int
    value_dim: int
    borrows_kv: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one layer (its mixer, its MLP, its norms): its weights and its caches."""

    weights: tuple[Weight, ...] = ()
    caches: tuple[CacheSpec, ...] = ()

    def __add__(self, other: Part) -> Part:
        """Both parts in one layer, this one first."""
        return Part(self.weights + other.weights, self.caches + other.caches)


Parts = tuple[Part, ...]
"""One part for each layer, first to last."""
