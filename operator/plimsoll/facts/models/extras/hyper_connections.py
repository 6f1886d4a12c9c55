"""Hyper-connections: residual streams mixed by maps that are learned in 32 bits.

Source: vLLM, ``models/deepseek_v4/nvidia/model.py`` and ``models/hy_v4``. Each of the two sublayers of a layer has a
map over all streams, a base and scales; the head joins the streams with another one. DeepSeek-V4's map (Sinkhorn
iterations) mixes every stream with every other, Hunyuan V4's only reads and writes. In DeepSeek-V4 the first
``num_hash_layers`` layers pick experts by a table of the vocabulary instead of by a correction.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import vector
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.traits import Extra

_MOST_STREAMS = 64


def layers(fields: Fields, shape: Shape) -> Parts:
    """Maps of every layer, and the expert table or correction of its router."""
    count = streams(fields)
    mixing = fields.has("hc_sinkhorn_iters")
    maps = tuple(
        weight for sublayer in ("attn", "ffn") for weight in _maps(f"hc_{sublayer}", count, shape.hidden, mixing=mixing)
    )
    if not fields.has("num_hash_layers"):
        return (Part(maps),) * shape.layers
    hashed = fields.integer(("num_hash_layers",), smallest=0)
    table, correction = _routing(fields)
    return tuple(Part((*maps, table if layer < hashed else correction)) for layer in range(shape.layers))


def _routing(fields: Fields) -> tuple[Weight, Weight]:
    """Return the weights that pick experts: the table of the first layers, and the correction of the other layers."""
    experts = fields.integer(("n_routed_experts",))
    width = fields.integer(("num_experts_per_tok",), largest=experts)
    tokens = fields.integer(("vocab_size",))
    # 32-bit integers, which have the size of 32-bit floats.
    table = Weight("mlp.gate.tid2eid", tokens, width, Sharding.REPLICATED, storage=FP32, linear=False)
    return table, vector("mlp.gate.e_score_correction_bias", experts, storage=FP32)


def _maps(name: str, count: int, hidden: int, *, mixing: bool) -> Iterator[Weight]:
    rows = (2 + count) * count if mixing else 2 * count
    yield Weight(f"{name}_fn", rows, count * hidden, Sharding.REPLICATED, storage=FP32, linear=False)
    yield vector(f"{name}_base", rows, storage=FP32)
    yield vector(f"{name}_scale", 3 if mixing else 2, storage=FP32)


def head(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """The map behind the layers."""
    count = streams(fields)
    yield Weight("hc_head_fn", count, count * shape.hidden, Sharding.REPLICATED, storage=FP32, linear=False)
    yield vector("hc_head_base", count, storage=FP32)
    yield vector("hc_head_scale", 1, storage=FP32)


def streams(fields: Fields) -> int:
    """Residual streams."""
    return fields.integer(("hc_mult",), largest=_MOST_STREAMS)


HYPER_CONNECTIONS = Extra(layers, head)
"""Several residual streams mixed by learned maps (DeepSeek-V4)."""
