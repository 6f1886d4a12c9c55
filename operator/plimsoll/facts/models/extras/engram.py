"""DeepSeek-V4.1: hyper-connections without a head, and n-gram embeddings that some layers add to the streams.

Source: vLLM, ``models/deepseek_v41/nvidia/model.py`` and ``common/engram.py``. By default the engine keeps the tables
in host memory (``config/engram.py``): :func:`table_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.extras import hyper_connections
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, replicated, vector
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.traits import Extra

_MOST_ROWS = 100_000_000_000
_MOST_NGRAM = 64
_INDEX_BYTES = 4
_SCALED_WIDTH = 32
"""8-bit values of a row under one scale, which takes a byte."""


def layers(fields: Fields, shape: Shape) -> Parts:
    """Maps of every layer, the correction of its router for images, and the embeddings where a layer has them.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    experts = fields.integer(("n_routed_experts",))
    images = Part((vector("mlp.gate.bias_vl", experts, storage=FP32),))
    plain = [maps + images for maps in hyper_connections.layers(fields, shape)]
    numbers = fields.integers("engram_layer_ids", len(fields.items("engram_layer_ids")), smallest=0)
    if not numbers:
        return tuple(plain)
    embeddings = Part(tuple(_embeddings(fields, shape)))
    return tuple(part + embeddings if layer in numbers else part for layer, part in enumerate(plain))


def _embeddings(fields: Fields, shape: Shape) -> Iterator[Weight]:
    streams = hyper_connections.streams(fields)
    yield from column("engram.wkv", (streams + 1) * shape.hidden, _width(fields))
    for name in ("q_weight", "k_weight"):
        yield from replicated(f"engram.{name}", streams, shape.hidden, linear=False)


def _width(fields: Fields) -> int:
    """Values of all n-grams that end at a token."""
    lengths = fields.integer(("engram_max_ngram_size",), smallest=2, largest=_MOST_NGRAM) - 1
    heads = lengths * fields.integer(("engram_n_heads",), largest=_MOST_NGRAM)
    return heads * fields.integer(("engram_head_dim",))


def step_bytes(fields: Fields, _shape: Shape) -> int:
    """Return the bytes for the tokens and blocks that indexers pick (4 bytes each) and a step's embeddings in 8 bits.

    Source: vLLM, ``nvidia/model.py`` (``topk_indices_buffer``, ``candidate_block_buffer``) and ``EngramBatch``, whose
    rows of the rank's own share (13 MB at 8,192 tokens and TP 8) are left out.
    """
    blocks = fields.optional_integer(("candidate_topk_blocks",), smallest=0) or 0
    picked = (fields.integer(("index_topk",)) + blocks) * _INDEX_BYTES
    layers_with = len(fields.items("engram_layer_ids"))
    return picked + (layers_with * (_width(fields) + _width(fields) // _SCALED_WIDTH) if layers_with else 0)


def table_bytes(fields: Fields) -> int:
    """The tables of all layers that have one: 8-bit rows with their scales.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    rows = fields.integers("engram_num_embeddings", len(fields.items("engram_num_embeddings")), largest=_MOST_ROWS)
    if not rows:
        return 0
    width = fields.integer(("engram_head_dim",))
    return sum(rows) * (width + width // _SCALED_WIDTH)


ENGRAM = Extra(layers, step_bytes=step_bytes, table_bytes=table_bytes)
"""Hyper-connections without a head, and n-gram embeddings added to the streams (DeepSeek-V4.1)."""
