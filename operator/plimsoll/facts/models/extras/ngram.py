"""Embeddings of several tokens at once (LongCat-Flash).

Source: vLLM, ``model_executor/models/longcat_flash_ngram.py``: for every length from 2 to ``emb_neighbor_num`` there
are ``emb_split_num`` tables of about ``ngram_vocab_size_ratio`` vocabularies, whose parts add up to the hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.linears import vocabulary
from plimsoll.facts.models.shape import Shape
from plimsoll.facts.models.traits import Extra

_MOST = 1_000
"""Tables, lengths and vocabularies a table; published models have 4, 5 and 78."""


def ngram_embeddings(fields: Fields, shape: Shape) -> Iterator[Weight]:
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
