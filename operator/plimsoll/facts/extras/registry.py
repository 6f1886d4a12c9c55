"""The builder of what a class keeps beside the usual parts."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.model import Weight
from plimsoll.facts.extras import gemma, hyper_connections, ngram
from plimsoll.facts.fields import Fields
from plimsoll.facts.shape import Part, Parts, Shape
from plimsoll.facts.traits import Architecture, Extra


def extra_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """The extra weights of every layer, first to last."""
    match traits.extra:
        case Extra.LAYER_INPUTS:
            part = Part(tuple(gemma.layer_inputs(fields, shape)))
        case Extra.ALTUP:
            part = Part((*gemma.layer_inputs(fields, shape), *gemma.altup(fields, shape)))
        case Extra.HYPER_CONNECTIONS:
            return hyper_connections.layers(fields, shape)
        case Extra.NONE | Extra.NGRAM:
            part = Part()
    return (part,) * shape.layers


def extra_embeddings(fields: Fields, traits: Architecture, shape: Shape) -> Iterator[Weight]:
    """The extra weights outside the layers."""
    match traits.extra:
        case Extra.LAYER_INPUTS:
            yield from gemma.layer_embeddings(fields, shape)
        case Extra.ALTUP:
            yield from gemma.layer_embeddings(fields, shape)
            yield from gemma.altup_projections(fields, shape)
        case Extra.HYPER_CONNECTIONS:
            yield from hyper_connections.head(fields, shape)
        case Extra.NGRAM:
            yield from ngram.ngram_embeddings(fields, shape)
        case Extra.NONE:
            return
