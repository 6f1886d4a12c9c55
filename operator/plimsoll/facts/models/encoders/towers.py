"""The layers of all towers: attention, MLP and norms, and how tensor parallelism divides them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from plimsoll.domain.models.model import EncoderFacts, Sharding, Weight
from plimsoll.facts.models.encoders.sections import size
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import column, norm, replicated, row


class TowerCut(Enum):
    """The part of a tower's projections that a rank holds.

    Source: each family's module in vLLM's ``model_executor/models``.
    """

    DIVIDED = auto()
    """Parallel layers; the engine refuses a degree that does not divide the heads."""
    BY_HEADS = auto()
    """Parallel layers if the degree divides the heads, else whole on every rank."""
    WHOLE = auto()
    """Plain or replicated layers: all of it on every rank."""


@dataclass(frozen=True, slots=True)
class Tower:
    """The layers of one tower. All of them are equal.

    ``attention_width`` is the width of all heads together if it is not ``hidden``. ``kv_heads`` is the number of heads
    of keys and values if they are fewer. ``key_bias`` says whether keys have a bias, as queries and values do.
    ``norms`` is the number of norms of hidden width in a layer.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    attention_width: int | None = None
    kv_heads: int | None = None
    gated: bool = False
    qkv_bias: bool = True
    key_bias: bool = True
    output_bias: bool = True
    mlp_bias: bool = True
    norms: int = 2
    norm_bias: bool = True
    attention: TowerCut = TowerCut.DIVIDED
    mlp: TowerCut = TowerCut.DIVIDED

    def with_biases(self, *, present: bool) -> Tower:
        """Return the tower with biases in all projections, or in none."""
        return replace(self, qkv_bias=present, output_bias=present, mlp_bias=present)


USUAL = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
"""Fields for the four sizes of a tower, as most configuration classes name them."""
BY_DEPTH = ("hidden_size", "intermediate_size", "depth", "num_heads")
"""The same fields in Qwen's and GLM's classes."""


def sized(section: Fields, default: Tower, names: tuple[str, str, str, str] = USUAL) -> Tower:
    """Return the tower with the sizes that a section gives; ``default`` has the sizes of the configuration class.

    Raises:
        InvalidInput: a size is no whole number, or absurd.
    """
    hidden, intermediate, layers, heads = names
    return replace(
        default,
        hidden=size(section, hidden, default=default.hidden),
        intermediate=size(section, intermediate, default=default.intermediate),
        layers=size(section, layers, default=default.layers),
        heads=size(section, heads, default=default.heads),
    )


def tower_facts(tower: Tower, weights: Iterable[Weight], *, positions: int, outputs: int) -> EncoderFacts:
    """Return the tower with its largest item: its positions in the tower, and its tokens in the language model."""
    return EncoderFacts(
        weights=tuple(weights),
        layers=tower.layers,
        hidden=tower.hidden,
        intermediate=tower.intermediate,
        item_tokens=positions,
        output_tokens=outputs,
        divided_heads=divided_heads(tower),
    )


def divided_heads(tower: Tower) -> int:
    """Return the heads that a degree must divide; 0 if every rank can hold all of them."""
    return tower.heads if tower.attention is TowerCut.DIVIDED else 0


def tower_layers(prefix: str, tower: Tower) -> Iterator[Weight]:
    """All layers of a tower; ``count`` of each weight is the number of layers."""
    yield from attention(f"{prefix}.self_attn", tower)
    yield from _mlp(f"{prefix}.mlp", tower)
    for index in range(tower.norms):
        yield from layer_norm(f"{prefix}.norm_{index}", tower.hidden, bias=tower.norm_bias, count=tower.layers)


def attention(prefix: str, tower: Tower) -> Iterator[Weight]:
    """Queries, keys and values in one projection, and the output projection, of all layers."""
    width = tower.attention_width or tower.hidden
    keys = width if tower.kv_heads is None else width // tower.heads * tower.kv_heads
    units = tower.heads if tower.attention is TowerCut.BY_HEADS else 1
    cut, count = tower.attention, tower.layers
    yield from up(f"{prefix}.qkv_proj", width + 2 * keys, tower.hidden, cut=cut, count=count, units=units)
    if tower.qkv_bias:
        biased = width + keys * (2 if tower.key_bias else 1)
        sharding = Sharding.REPLICATED if cut is TowerCut.WHOLE else Sharding.OUTPUTS
        yield Weight(f"{prefix}.qkv_proj.bias", biased, 1, sharding, count=count, units=units, linear=False)
    yield from down(
        f"{prefix}.out_proj", tower.hidden, width, cut=cut, bias=tower.output_bias, count=count, units=units
    )


def _mlp(prefix: str, tower: Tower) -> Iterator[Weight]:
    cut, bias, count = tower.mlp, tower.mlp_bias, tower.layers
    units = tower.heads if cut is TowerCut.BY_HEADS else 1
    wide, hidden = tower.intermediate, tower.hidden
    for name in ("gate_proj", "up_proj") if tower.gated else ("up_proj",):
        yield from up(f"{prefix}.{name}", wide, hidden, cut=cut, bias=bias, count=count, units=units)
    yield from down(f"{prefix}.down_proj", hidden, wide, cut=cut, bias=bias, count=count, units=units)


def up(
    name: str,
    outputs: int,
    inputs: int,
    *,
    cut: TowerCut = TowerCut.DIVIDED,
    bias: bool = False,
    count: int = 1,
    units: int = 1,
) -> Iterator[Weight]:
    """Return a projection that is divided by its outputs, if it is divided at all; its bias is divided with it."""
    if cut is TowerCut.WHOLE:
        return replicated(name, outputs, inputs, bias=bias, count=count)
    return column(name, outputs, inputs, bias=bias, count=count, units=units)


def down(
    name: str,
    outputs: int,
    inputs: int,
    *,
    cut: TowerCut = TowerCut.DIVIDED,
    bias: bool = False,
    count: int = 1,
    units: int = 1,
) -> Iterator[Weight]:
    """Return a projection that is divided by its inputs, if it is divided at all; its bias is whole on every rank."""
    if cut is TowerCut.WHOLE:
        return replicated(name, outputs, inputs, bias=bias, count=count)
    return row(name, outputs, inputs, bias=bias, count=count, units=units)


def whole(name: str, outputs: int, inputs: int, *, bias: bool = False, count: int = 1) -> Iterator[Weight]:
    """A plain layer of PyTorch (linear, convolution, table): on every rank, and never quantized by the engine."""
    return replicated(name, outputs, inputs, bias=bias, linear=False, count=count)


def layer_norm(name: str, width: int, *, bias: bool = True, count: int = 1) -> Iterator[Weight]:
    """A normalisation; RMSNorm has no bias."""
    return norm(name, width, bias=bias, count=count)
