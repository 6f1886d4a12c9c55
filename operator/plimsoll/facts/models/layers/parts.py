"""The parts of layers: the input and the result of every builder, and weights as modelling files declare them.

A projection is one line, with or without its bias. Layers are grouped into kinds of equal layers, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from plimsoll.domain.models.caches import CacheSpec
from plimsoll.domain.models.model import LayerKind, Sharding, Weight
from plimsoll.domain.models.precision import BF16, Storage


@dataclass(frozen=True, slots=True)
class DecoderShape:
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
class LayerPart:
    """One part of one layer (its mixer, its MLP, its norms): its weights and its caches."""

    weights: tuple[Weight, ...] = ()
    caches: tuple[CacheSpec, ...] = ()

    def __add__(self, other: LayerPart) -> LayerPart:
        """Both parts in one layer, this one first."""
        return LayerPart(self.weights + other.weights, self.caches + other.caches)


Parts = tuple[LayerPart, ...]
"""One part for each layer, first to last."""


StorageOf = Callable[[int | None, Weight], Storage]
"""Storage of one weight in one layer (None: outside the layers)."""


def layer_kinds(parts: Sequence[LayerPart], storage_of: StorageOf) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Return the different kinds of layers, and the kind of each layer.

    Args:
        parts: every layer, first to last.
        storage_of: returns how the checkpoint stores a weight; called for weights whose type the class does not fix.
    """
    return numbered(LayerKind(stored(part.weights, layer, storage_of), part.caches) for layer, part in enumerate(parts))


def numbered(layers: Iterable[LayerKind]) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """Return the different kinds among these layers, and the number of each layer's kind."""
    numbers: dict[LayerKind, int] = {}
    order = tuple(numbers.setdefault(kind, len(numbers)) for kind in layers)
    return tuple(numbers), order


def with_undivided(part: LayerPart, names: tuple[str, ...]) -> LayerPart:
    """Return the part with each weight whose name starts with one of ``names`` whole on every rank.

    Source: vLLM, ``model_executor/models/transformers/base.py``: a projection that the class's plan for tensor
    parallelism leaves out is replicated.
    """
    if not names:
        return part
    whole = (
        replace(weight, sharding=Sharding.REPLICATED) if weight.name.startswith(names) else weight
        for weight in part.weights
    )
    return LayerPart(tuple(whole), part.caches)


def stored(weights: Iterable[Weight], layer: int | None, storage_of: StorageOf) -> tuple[Weight, ...]:
    """Return the weights as the checkpoint stores them. A type that the class fixes (32-bit states) does not change."""
    return tuple(
        weight if weight.storage is not BF16 else replace(weight, storage=storage_of(layer, weight))
        for weight in weights
    )


def column(
    name: str, outputs: int, inputs: int, *, bias: bool = False, count: int = 1, units: int = 1
) -> Iterator[Weight]:
    """A projection whose outputs tensor parallelism divides; its bias is divided with them."""
    yield Weight(name, outputs, inputs, Sharding.OUTPUTS, count=count, units=units)
    if bias:
        yield Weight(f"{name}.bias", outputs, 1, Sharding.OUTPUTS, count=count, units=units, linear=False)


def heads(name: str, units: int, unit_outputs: int, inputs: int, *, bias: bool = False) -> Iterator[Weight]:
    """A projection to ``units`` heads or groups, of which every rank holds at least one."""
    yield Weight(name, units * unit_outputs, inputs, Sharding.HEADS, units=units)
    if bias:
        yield Weight(f"{name}.bias", units * unit_outputs, 1, Sharding.HEADS, units=units, linear=False)


def row(
    name: str, outputs: int, inputs: int, *, bias: bool = False, count: int = 1, units: int = 1
) -> Iterator[Weight]:
    """A projection whose inputs tensor parallelism divides; its bias lies on every rank."""
    yield Weight(name, outputs, inputs, Sharding.INPUTS, count=count, units=units)
    if bias:
        yield vector(f"{name}.bias", outputs, count=count)


def replicated(
    name: str, outputs: int, inputs: int, *, bias: bool = False, linear: bool = True, count: int = 1
) -> Iterator[Weight]:
    """A projection that lies whole on every rank."""
    yield Weight(name, outputs, inputs, Sharding.REPLICATED, count=count, linear=linear)
    if bias:
        yield vector(f"{name}.bias", outputs, count=count)


def vector(
    name: str, elements: int, *, sharding: Sharding = Sharding.REPLICATED, storage: Storage = BF16, count: int = 1
) -> Weight:
    """A norm, a bias or another vector; never quantized."""
    return Weight(name, elements, 1, sharding, count=count, storage=storage, linear=False)


def norm(name: str, width: int, *, bias: bool = False, count: int = 1) -> Iterator[Weight]:
    """A normalisation: a weight, and a bias for the LayerNorm that has one."""
    yield vector(name, width, count=count)
    if bias:
        yield vector(f"{name}.bias", width, count=count)


def vocabulary(name: str, tokens: int, width: int) -> Weight:
    """An embedding table or an output projection, divided by rows."""
    return Weight(name, tokens, width, Sharding.VOCABULARY, linear=False)
