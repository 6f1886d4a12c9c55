"""Qwen4-Exp: residual streams mixed by gates of low rank, and n-gram embeddings that some layers add to them.

Source: vLLM, ``models/qwen4_exp/nvidia/hyperconnection.py`` and ``ple_layer.py``. All weights are whole on every
rank and in 16 bits, except the projections of the embeddings, which are quantized like other layers. By default the
engine keeps the n-gram tables in host memory (``config/engram.py``): :func:`table_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Weight
from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, norm, replicated
from plimsoll.facts.models.traits import Extra

_MOST_STREAMS = 64
_MOST_NGRAM = 64
_MOST_ROWS = 1_000_000_000
_GEMM_ROWS = 16
"""Rows of the projection down are filled up to a multiple of it."""
_VALUE_BYTES = 2
_INDEX_BYTES = 4
_NUMBER_BYTES = 8


def layers(fields: Fields, shape: DecoderShape) -> Parts:
    """Gates of every layer, and the embeddings if a layer has them.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    gates = LayerPart(tuple(_gates(fields, shape)))
    numbers = _embedded(fields)
    if not numbers:
        return (gates,) * shape.layers
    embeddings = _embeddings(fields, shape)
    return tuple(gates + embeddings if layer + 1 in numbers else gates for layer in range(shape.layers))


def head(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield the weights that join the streams after the layers, in place of a norm."""
    streams, rank = _streams(fields), fields.integer(("hc_lowrank",))
    yield from _gate("hyper_connection_mixer", streams, shape.hidden, rank, rank)


def _gates(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    streams, rank = _streams(fields), fields.integer(("hc_lowrank",))
    rows = ceil_div(rank + streams, _GEMM_ROWS) * _GEMM_ROWS
    for name in ("attn_hyper_connection", "mlp_hyper_connection"):
        yield from _gate(name, streams, shape.hidden, rank, rows)


def _gate(name: str, streams: int, hidden: int, rank: int, rows: int) -> Iterator[Weight]:
    yield from norm(f"{name}.hc_norm", streams * hidden)
    yield from replicated(f"{name}.input_mix_weight_down", rows, streams * hidden, linear=False)
    yield from replicated(f"{name}.input_mix_weight_up", streams * hidden, rank, linear=False)


def _embeddings(fields: Fields, shape: DecoderShape) -> LayerPart:
    width, streams = fields.integer(("ple_embed_dim",)), _streams(fields)
    kernel = fields.integer(("ple_conv_kernel_size",), largest=_MOST_NGRAM)
    columns = (kernel - 1) * fields.integer(("ngram_size",), largest=_MOST_NGRAM)
    wide = streams * shape.hidden
    weights = [*replicated("ple.kv_proj", wide + shape.hidden, width)]
    for name in ("norm_key", "norm_query", "norm_conv"):
        weights.extend(norm(f"ple.{name}", wide))
    weights.extend(replicated("ple.conv1d", wide, kernel, linear=False))
    state = StatePart(1, wide * columns, grows_with_speculation=wide)
    return LayerPart(tuple(weights), (StateCache(StateKind.SHORT_CONV, ((state,),), whole=True),))


def table_bytes(fields: Fields) -> int:
    """The n-gram tables of all layers that have one: about ``ngram_vocab_size_base`` rows a head, in 16 bits or in 8.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    layers_with = len(_embedded(fields))
    if not layers_with:
        return 0
    heads = _heads(fields)
    rows = heads * fields.integer(("ngram_vocab_size_base",), largest=_MOST_ROWS)
    value = 1 if "float8" in (fields.text("ple_embedding_dtype") or "") else _VALUE_BYTES
    return layers_with * rows * (fields.integer(("ple_embed_dim",)) // heads) * value


def step_bytes(fields: Fields, shape: DecoderShape) -> int:
    """Return the bytes for the picks of every attention layer's indexer (4 bytes each and their count) and for n-grams.

    Source: vLLM, ``nvidia/qsa.py`` (``topk_indices_buffer``) and ``nvidia/ngram_embedding.py``.
    """
    size = 0
    if fields.has("indexer_n_heads"):
        group = fields.integer(("indexer_compress_ratio",), largest=_MOST_STREAMS * _GEMM_ROWS)
        picked = fields.integer(("indexer_budget",)) + group
        every = fields.optional_integer(("full_attention_interval",)) or 4
        size += shape.layers // every * picked * _INDEX_BYTES
    if _embedded(fields):
        size += _heads(fields) * _NUMBER_BYTES
    return size


def _heads(fields: Fields) -> int:
    lengths = fields.integer(("ngram_size",), largest=_MOST_NGRAM, smallest=2) - 1
    return lengths * fields.integer(("heads_per_ngram",), largest=_MOST_NGRAM)


def _embedded(fields: Fields) -> frozenset[int]:
    """Numbers of the layers that have embeddings, counted from 1."""
    return frozenset(fields.integers("ple_layer_ids"))


def _streams(fields: Fields) -> int:
    return fields.integer(("hc_count",), largest=_MOST_STREAMS)


GATED_STREAMS = Extra(layers, head=head, step_bytes=step_bytes, table_bytes=table_bytes)
"""Several residual streams mixed by gates of low rank, and n-gram embeddings added to them (Qwen4-Exp)."""
