"""The MLP of each layer: dense, a mixture of experts, or both.

The width of the dense MLP in each layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import ExpertFacts, Sharding, Weight
from plimsoll.domain.models.precision import BF16, FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.expert_layers import expert_facts, expert_layers
from plimsoll.facts.models.layers.layer_patterns import layer_roles, mlp_layers
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, column, replicated, row, vector
from plimsoll.facts.models.mixers.heads import block_sections
from plimsoll.facts.models.traits import Architecture, Moe

_BLOCK_STEP = 256
"""DeciLM rounds a width that is given as a factor up to a multiple of it. Source: vLLM, ``models/nemotron_nas.py``."""
_LARGEST_FACTOR = 1_000


def _dense_widths(fields: Fields, traits: Architecture, shape: DecoderShape) -> tuple[int, ...]:
    """The width of every layer's dense MLP, 0 if it has none."""
    if traits.in_blocks:
        return tuple(_block_width(section, shape) for section in block_sections(fields, "ffn", shape.layers))
    key = fields.first(traits.width_keys)
    if key is not None and isinstance(fields.values[key], list | tuple):
        return fields.integers(key, shape.layers)
    if traits.intermediate_factor is not None and key is None:
        width = traits.intermediate_factor * shape.hidden
    else:
        width = fields.integer(traits.width_keys)
    return (width,) * shape.layers if traits.widths is None else traits.widths(fields, width, shape.layers)


def double_if_shared(fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """With ``use_double_wide_mlp`` twice as wide in the layers that borrow keys and values (Gemma 4).

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    wide = fields.flag("use_double_wide_mlp", default=False)
    shared = fields.optional_integer(("num_kv_shared_layers",), smallest=0) if wide else 0
    first = layers - (shared or 0)
    return tuple(width if layer < first else 2 * width for layer in range(layers))


def half(_fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """Half of what is written: the field counts gate and up together (Molmo, Qwen 1)."""
    return (width // 2,) * layers


def two_thirds(fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """With ``block_auto_adjust_ff_dim`` two thirds, rounded up to ``block_multiple_of`` (LFM2).

    Source: vLLM, ``models/lfm2.py``.

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    if not fields.flag("block_auto_adjust_ff_dim", default=True):
        return (width,) * layers
    factor = fields.number("block_ffn_dim_multiplier", default=1.0)
    step = fields.optional_integer(("block_multiple_of",)) or _BLOCK_STEP
    narrowed = int(factor * int(2 * width / 3))
    return (narrowed + -narrowed % step,) * layers


def _block_width(section: Fields, shape: DecoderShape) -> int:
    """Return the width of one DeciLM block: a number, or two thirds of a factor times the hidden size, rounded up."""
    if section.flag("no_op", default=False) or section.flag("replace_with_linear", default=False):
        return 0
    if section.first(("intermediate_size",)) is not None:
        return section.integer(("intermediate_size",))
    if not section.has("ffn_mult"):
        raise section.refuse("ffn_mult", "Give ffn_mult or intermediate_size.")
    factor = section.number("ffn_mult", default=1.0)
    if factor > _LARGEST_FACTOR:
        raise section.refuse("ffn_mult", f"Give a factor up to {_LARGEST_FACTOR}.")
    width = int(2 * factor * shape.hidden / 3)
    return width + -width % _BLOCK_STEP


def mlps(fields: Fields, traits: Architecture, shape: DecoderShape) -> tuple[Parts, int, ExpertFacts | None]:
    """The MLP of every layer, the width of the widest dense one (0 if there is none), and the experts.

    Raises:
        InvalidInput: a width or a count is missing, ill-typed or absurd, or a list of them too short.
    """
    present = mlp_layers(layer_roles(shape.name, fields, traits, shape.layers), traits)
    sparse = tuple(
        here and has for here, has in zip(present, expert_layers(fields, traits.moe, shape.layers), strict=True)
    )
    experts = expert_facts(fields, traits.moe, sparse) if traits.moe is not None and any(sparse) else None
    keeps_dense = traits.moe is not None and traits.moe.beside_dense
    needed = [here and (keeps_dense or not has) for here, has in zip(present, sparse, strict=True)]
    widths = _dense_widths(fields, traits, shape) if any(needed) else (0,) * shape.layers
    widths = tuple(width if here else 0 for width, here in zip(widths, needed, strict=True))
    bias = traits.mlp_bias.read(fields)
    dense = {width: _dense(traits, shape.hidden, width, bias=bias) for width in {0, *widths}}
    mixture = LayerPart(tuple(_experts(fields, traits, shape.hidden, experts))) if experts is not None else LayerPart()
    parts = tuple(
        (dense[width] + mixture if keeps_dense else mixture) if has_experts else dense[width]
        for has_experts, width in zip(sparse, widths, strict=True)
    )
    return parts, max(widths, default=0), experts


def _dense(traits: Architecture, hidden: int, width: int, *, bias: bool) -> LayerPart:
    if not width:
        return LayerPart()
    weights = tuple(gated_mlp("mlp.", hidden, width, gated=traits.gated_mlp, bias=bias))
    return LayerPart(weights * traits.sublayers)


def gated_mlp(prefix: str, hidden: int, width: int, *, gated: bool = True, bias: bool = False) -> Iterator[Weight]:
    """Gate, up and down projections; without the gate if the class has none."""
    if gated:
        yield from column(f"{prefix}gate_proj", width, hidden, bias=bias)
    yield from column(f"{prefix}up_proj", width, hidden, bias=bias)
    yield from row(f"{prefix}down_proj", hidden, width, bias=bias)


def _experts(fields: Fields, traits: Architecture, hidden: int, experts: ExpertFacts) -> Iterator[Weight]:
    moe = traits.moe or Moe()
    latent = fields.optional_integer(moe.latent_keys) if moe.latent_keys else None
    if latent is not None:
        yield from _latent_projections(fields, moe, hidden, latent)
    inner = latent or hidden
    # Experts in a layer with a dense MLP are a separate module: a checkpoint's "mlp*" does not match them (Gemma 4).
    prefix = "experts." if moe.beside_dense else "mlp.experts."
    for weight in _expert_matrices(prefix, inner, experts, gated=traits.gated_mlp, bias=moe.expert_bias):
        yield replace(weight, smallest_share=moe.smallest_share)
    if experts.shared_intermediate:
        shared = experts.shared_intermediate
        yield from gated_mlp("mlp.shared_expert.", hidden, shared, gated=traits.gated_mlp)
        if moe.shared_gate:
            yield from replicated("mlp.shared_expert_gate", 1, hidden, linear=False)
    rows = experts.experts
    if moe.extra_router_rows is not None:
        rows += fields.optional_integer((moe.extra_router_rows,), smallest=0) or 0
    storage = FP32 if moe.router_fp32 else BF16
    yield Weight("mlp.gate", rows, hidden, Sharding.REPLICATED, storage=storage, linear=False)
    if moe.router_bias.read(fields):
        yield vector("mlp.gate.bias", rows, storage=FP32)


def _latent_projections(fields: Fields, moe: Moe, hidden: int, latent: int) -> Iterator[Weight]:
    """Yield the projections to the width of the routed experts and back; they are whole on every rank.

    Source: vLLM, ``models/nemotron_h.py`` and ``models/kimi_k3/nvidia/model.py``.
    """
    # Kimi K3 normalises between them and never quantizes them, whatever the checkpoint's format.
    normed = moe.latent_norm.read(fields)
    yield from replicated("mlp.fc1_latent_proj", latent, hidden, linear=not normed)
    yield from replicated("mlp.fc2_latent_proj", hidden, latent, linear=not normed)
    if normed:
        yield vector("mlp.latent_norm", latent)


def _expert_matrices(
    prefix: str, hidden: int, experts: ExpertFacts, *, gated: bool = True, bias: bool = False
) -> Iterator[Weight]:
    """The routed experts of one layer."""
    count, width = experts.experts, experts.intermediate
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    for name in names:
        yield Weight(f"{prefix}{name}", width, hidden, Sharding.EXPERT_OUTPUTS, count=count)
        if bias:
            yield Weight(f"{prefix}{name}.bias", width, 1, Sharding.EXPERT_OUTPUTS, count=count, linear=False)
    yield Weight(f"{prefix}down_proj", hidden, width, Sharding.EXPERT_INPUTS, count=count)
    if bias:
        # Every tensor-parallel rank keeps the whole bias; with expert parallelism only the bias of its own experts.
        yield Weight(f"{prefix}down_proj.bias", hidden, 1, Sharding.EXPERT_INPUTS, count=count, linear=False)
