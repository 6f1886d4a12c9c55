"""Hyper-connections: residual streams mixed by maps that are learned in 32 bits (DeepSeek-V4, V4.1 and Hunyuan V4).

Source: vLLM, ``models/deepseek_v4/nvidia/model.py`` and ``models/hy_v4``. Each of the two sublayers of a layer has a
map over all streams, a base and scales; the head joins the streams with another one. DeepSeek-V4's map (Sinkhorn
iterations) mixes every stream with every other, Hunyuan V4's only reads and writes. In DeepSeek-V4 the first
``num_hash_layers`` layers pick experts by a table of the vocabulary instead of by a correction.

DeepSeek-V4.1 has no head, and n-gram embeddings that some layers add to the streams. Source: vLLM,
``models/deepseek_v41/nvidia/model.py`` and ``common/engram.py``. By default the engine keeps the tables in host memory
(``config/engram.py``): :func:`table_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, column, replicated, vector
from plimsoll.facts.models.traits import Extra

_MOST_STREAMS = 64
_MOST_ROWS = 100_000_000_000
_MOST_NGRAM = 64
_INDEX_BYTES = 4
_SCALED_WIDTH = 32
"""8-bit values of a row under one scale, which takes a byte."""


def layers(fields: Fields, shape: DecoderShape) -> Parts:
    """Maps of every layer, and the expert table or correction of its router."""
    count = _streams(fields)
    mixing = fields.has("hc_sinkhorn_iters")
    maps = tuple(
        weight for sublayer in ("attn", "ffn") for weight in _maps(f"hc_{sublayer}", count, shape.hidden, mixing=mixing)
    )
    if not fields.has("num_hash_layers"):
        return (LayerPart(maps),) * shape.layers
    hashed = fields.integer(("num_hash_layers",), smallest=0)
    table, correction = _routing(fields)
    return tuple(LayerPart((*maps, table if layer < hashed else correction)) for layer in range(shape.layers))


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


def head(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """The map behind the layers."""
    count = _streams(fields)
    yield Weight("hc_head_fn", count, count * shape.hidden, Sharding.REPLICATED, storage=FP32, linear=False)
    yield vector("hc_head_base", count, storage=FP32)
    yield vector("hc_head_scale", 1, storage=FP32)


def _streams(fields: Fields) -> int:
    return fields.integer(("hc_mult",), largest=_MOST_STREAMS)


HYPER_CONNECTIONS = Extra(layers, head)
"""Several residual streams mixed by learned maps (DeepSeek-V4)."""


def _v41_layers(fields: Fields, shape: DecoderShape) -> Parts:
    """Maps of every layer, the correction of its router for images, and the embeddings if a layer has them."""
    experts = fields.integer(("n_routed_experts",))
    images = LayerPart((vector("mlp.gate.bias_vl", experts, storage=FP32),))
    plain = [maps + images for maps in layers(fields, shape)]
    numbers = fields.integers("engram_layer_ids", smallest=0)
    if not numbers:
        return tuple(plain)
    embeddings = LayerPart(tuple(_ngram_embeddings(fields, shape)))
    return tuple(part + embeddings if layer in numbers else part for layer, part in enumerate(plain))


def _ngram_embeddings(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    count = _streams(fields)
    yield from column("engram.wkv", (count + 1) * shape.hidden, _ngram_width(fields))
    for name in ("q_weight", "k_weight"):
        yield from replicated(f"engram.{name}", count, shape.hidden, linear=False)


def _ngram_width(fields: Fields) -> int:
    """Values of all n-grams that end at a token."""
    lengths = fields.integer(("engram_max_ngram_size",), smallest=2, largest=_MOST_NGRAM) - 1
    heads = lengths * fields.integer(("engram_n_heads",), largest=_MOST_NGRAM)
    return heads * fields.integer(("engram_head_dim",))


def step_bytes(fields: Fields, _shape: DecoderShape) -> int:
    """Return the bytes for the tokens and blocks that indexers pick (4 bytes each) and a step's embeddings in 8 bits.

    Source: vLLM, ``nvidia/model.py`` (``topk_indices_buffer``, ``candidate_block_buffer``) and ``EngramBatch``, whose
    rows of the rank's own share (13 MB at 8,192 tokens and TP 8) are left out.
    """
    blocks = fields.optional_integer(("candidate_topk_blocks",), smallest=0) or 0
    picked = (fields.integer(("index_topk",)) + blocks) * _INDEX_BYTES
    layers_with = len(fields.items("engram_layer_ids"))
    return picked + (layers_with * (_ngram_width(fields) + _ngram_width(fields) // _SCALED_WIDTH) if layers_with else 0)


def table_bytes(fields: Fields) -> int:
    """The tables of all layers that have one: 8-bit rows with their scales.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    rows = fields.integers("engram_num_embeddings", largest=_MOST_ROWS)
    if not rows:
        return 0
    width = fields.integer(("engram_head_dim",))
    return sum(rows) * (width + width // _SCALED_WIDTH)


ENGRAM = Extra(_v41_layers, step_bytes=step_bytes, table_bytes=table_bytes)
"""Hyper-connections without a head, and n-gram embeddings added to the streams (DeepSeek-V4.1)."""
