"""Weights as modelling files declare them: one line for a projection, with or without its bias."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import BF16, Storage


def column(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Iterator[Weight]:
    """A projection whose outputs tensor parallelism divides; its bias is divided with them."""
    yield Weight(name, outputs, inputs, Sharding.OUTPUTS)
    if bias:
        yield Weight(f"{name}.bias", outputs, 1, Sharding.OUTPUTS, linear=False)


def heads(name: str, units: int, unit_outputs: int, inputs: int, *, bias: bool = False) -> Iterator[Weight]:
    """A projection to ``units`` heads or groups, of which every rank holds at least one."""
    yield Weight(name, units * unit_outputs, inputs, Sharding.HEADS, units=units)
    if bias:
        yield Weight(f"{name}.bias", units * unit_outputs, 1, Sharding.HEADS, units=units, linear=False)


def row(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Iterator[Weight]:
    """A projection whose inputs tensor parallelism divides; its bias lies on every rank."""
    yield Weight(name, outputs, inputs, Sharding.INPUTS)
    if bias:
        yield Weight(f"{name}.bias", outputs, 1, Sharding.REPLICATED, linear=False)


def replicated(name: str, outputs: int, inputs: int, *, bias: bool = False, linear: bool = True) -> Iterator[Weight]:
    """A projection that lies whole on every rank."""
    yield Weight(name, outputs, inputs, Sharding.REPLICATED, linear=linear)
    if bias:
        yield Weight(f"{name}.bias", outputs, 1, Sharding.REPLICATED, linear=False)


def vector(name: str, elements: int, *, sharding: Sharding = Sharding.REPLICATED, storage: Storage = BF16) -> Weight:
    """A norm, a bias or another vector; never quantized."""
    return Weight(name, elements, 1, sharding, storage=storage, linear=False)


def norm(name: str, width: int, *, bias: bool = False) -> Iterator[Weight]:
    """A normalisation: a weight, and a bias for the LayerNorm that has one."""
    yield vector(name, width)
    if bias:
        yield vector(f"{name}.bias", width)


def vocabulary(name: str, tokens: int, width: int) -> Weight:
    """An embedding table or an output projection, divided by rows."""
    return Weight(name, tokens, width, Sharding.VOCABULARY, linear=False)
