"""The weights before and after the layers: embeddings, positions, final norm, output projection."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Sharding, Task, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import norm, vector, vocabulary
from plimsoll.facts.models.layers.shape import Shape
from plimsoll.facts.models.traits import Architecture


def embedding_weights(fields: Fields, traits: Architecture, shape: Shape, tokens: int) -> Iterator[Weight]:
    """The token embeddings, and learned positions where the class has them."""
    if traits.whole_vocabulary:
        yield Weight("embed_tokens", tokens, shape.hidden, Sharding.REPLICATED, linear=False)
    else:
        yield vocabulary("embed_tokens", tokens, shape.hidden)
    if traits.learned_positions:
        positions = fields.integer(("n_positions", "max_position_embeddings")) + traits.extra_positions
        yield Weight("embed_positions", positions, shape.hidden, Sharding.REPLICATED, linear=False)
    if traits.embedding_norm:
        yield from norm("embed_norm", shape.hidden, bias=traits.norm_bias)
    yield from traits.extra.embeddings(fields, shape)


def head_weights(fields: Fields, traits: Architecture, shape: Shape, tokens: int, *, tied: bool) -> Iterator[Weight]:
    """Yield the final norm, and the output projection unless it shares the embedding table or the class only pools."""
    if traits.norms and traits.final_norm:
        yield from norm("norm", shape.hidden, bias=traits.norm_bias)
    generates = traits.task is Task.GENERATE
    if generates and not tied:
        yield Weight("lm_head", tokens, shape.hidden, Sharding.VOCABULARY)
    if generates and traits.lm_head_bias:
        yield vector("lm_head.bias", tokens, sharding=Sharding.VOCABULARY)
    yield from traits.extra.head(fields, shape)


def layer_norms(fields: Fields, traits: Architecture, shape: Shape) -> Iterator[Weight]:
    """Normalisations of hidden width in one layer."""
    count = traits.norms_if_parallel if traits.parallel_residual.read(fields) else traits.norms
    for index in range(count):
        yield from norm(f"norm_{index}", shape.hidden, bias=traits.norm_bias)
