"""Tables that encoders add to the embeddings of tokens: positions and types of tokens.

Source: vLLM 0.32, ``models/bert.py``, ``models/roberta.py`` and ``models/bert_with_rope.py``. Each is a
``VocabParallelEmbedding``, so its rows are padded and divided like those of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.model import Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.linears import vocabulary
from plimsoll.facts.models.shape import Shape


def token_types(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """Yield the table of token types, if there are any.

    Raises:
        InvalidInput: their number is ill-typed or absurd.
    """
    types = fields.optional_integer(("type_vocab_size",), smallest=0)
    if types:
        yield vocabulary("token_type_embeddings", types, shape.hidden)


def positions_and_types(fields: Fields, shape: Shape) -> Iterator[Weight]:
    """Yield the tables of learned positions and of token types.

    Raises:
        InvalidInput: a number is missing, ill-typed or absurd.
    """
    yield vocabulary("embed_positions", fields.integer(("max_position_embeddings",)), shape.hidden)
    yield from token_types(fields, shape)
