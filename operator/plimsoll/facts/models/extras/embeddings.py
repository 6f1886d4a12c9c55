"""Embeddings in addition to the vocabulary: tables of encoders, of several tokens at once, and those in host memory.

Tables that encoders add to the embeddings of tokens: positions and types of tokens.
Source: vLLM 0.32, ``models/bert.py``, ``models/roberta.py`` and ``models/bert_with_rope.py``. Each is a
``VocabParallelEmbedding``, so its rows are padded and divided like those of the vocabulary.

Embeddings of several tokens at once (LongCat-Flash).
Source: vLLM, ``model_executor/models/longcat_flash_ngram.py``: for every length from 2 to ``emb_neighbor_num`` there
are ``emb_split_num`` tables of about ``ngram_vocab_size_ratio`` vocabularies, whose parts add up to the hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.units import GIB
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, vocabulary
from plimsoll.facts.models.traits import Architecture, Extra


def token_types(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield the table of token types, if there are any.

    Raises:
        InvalidInput: their number is ill-typed or absurd.
    """
    types = fields.optional_integer(("type_vocab_size",), smallest=0)
    if types:
        yield vocabulary("token_type_embeddings", types, shape.hidden)


def positions_and_types(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield the tables of learned positions and of token types.

    Raises:
        InvalidInput: a number is missing, ill-typed or absurd.
    """
    yield vocabulary("embed_positions", fields.integer(("max_position_embeddings",)), shape.hidden)
    yield from token_types(fields, shape)


def host_tables_remarks(fields: Fields, traits: Architecture) -> tuple[str, ...]:
    """Return remarks for the user about embeddings that the engine keeps in host memory."""
    size = traits.extra.table_bytes(fields)
    return (_on_host(size),) if size else ()


def _on_host(size: int) -> str:
    return (
        f"The engine keeps {size / GIB:.0f} GiB of n-gram embeddings of each replica in pinned host memory, divided "
        "over its tensor-parallel ranks: its pod requests them of the node. --engram-config can move "
        "them to the GPUs, where no estimate counts them."
    )


_MOST = 1_000
"""Tables, lengths and vocabularies a table; published models have 4, 5 and 78."""


def ngram_embeddings(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield all tables as one, and the projections of their parts to the hidden size."""
    if not fields.has("ngram_vocab_size_ratio"):
        return
    ratio = fields.integer(("ngram_vocab_size_ratio",), largest=_MOST)
    lengths = fields.integer(("emb_neighbor_num",), largest=_MOST, smallest=2) - 1
    tables = lengths * fields.integer(("emb_split_num",), largest=_MOST)
    width = max(1, shape.hidden // tables)
    # Each table has two entries more than the one before, so that their hashes differ.
    entries = tables * ratio * fields.integer(("vocab_size",)) + tables * tables
    yield vocabulary("ngram_embeddings.embedder", entries, width)
    yield Weight("ngram_embeddings.projection", shape.hidden, width, Sharding.REPLICATED, count=tables, linear=False)


NGRAM = Extra(embeddings=ngram_embeddings)
"""Embeddings of several tokens at once (LongCat-Flash)."""
