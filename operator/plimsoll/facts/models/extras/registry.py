"""The builders of weights that some classes have in addition to the usual parts."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.model import Weight
from plimsoll.domain.units import GIB
from plimsoll.facts.models.extras import engram, gated_streams, gemma, hyper_connections, ngram
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.shape import Part, Parts, Shape
from plimsoll.facts.models.traits import Architecture, Extra


def extra_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """The extra weights of every layer, first to last."""
    match traits.extra:
        case Extra.LAYER_INPUTS:
            part = Part(tuple(gemma.layer_inputs(fields, shape)))
        case Extra.ALTUP:
            part = Part((*gemma.layer_inputs(fields, shape), *gemma.altup(fields, shape)))
        case Extra.HYPER_CONNECTIONS:
            return hyper_connections.layers(fields, shape)
        case Extra.GATED_STREAMS:
            return gated_streams.layers(fields, shape)
        case Extra.ENGRAM:
            return engram.layers(fields, shape)
        case Extra.NONE | Extra.NGRAM:
            part = Part()
    return (part,) * shape.layers


def extra_embeddings(fields: Fields, traits: Architecture, shape: Shape) -> Iterator[Weight]:
    """The extra weights before the layers, on the first stage."""
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
        case Extra.NONE | Extra.GATED_STREAMS | Extra.ENGRAM:
            return


def extra_head(fields: Fields, traits: Architecture, shape: Shape) -> Iterator[Weight]:
    """The extra weights behind the layers, on the last stage."""
    if traits.extra is Extra.GATED_STREAMS:
        yield from gated_streams.head(fields, shape)


def extra_step_bytes(fields: Fields, traits: Architecture, shape: Shape) -> int:
    """Bytes that the modules set aside for every token of the largest step."""
    match traits.extra:
        case Extra.GATED_STREAMS:
            return gated_streams.step_bytes(fields, shape)
        case Extra.ENGRAM:
            return engram.step_bytes(fields)
        case _:
            return 0


def host_tables_remarks(fields: Fields, traits: Architecture) -> tuple[str, ...]:
    """Return remarks for the user about embeddings that the engine keeps in host memory."""
    match traits.extra:
        case Extra.GATED_STREAMS:
            size = gated_streams.table_bytes(fields)
        case Extra.ENGRAM:
            size = engram.table_bytes(fields)
        case _:
            size = 0
    return (_on_host(size),) if size else ()


def _on_host(size: int) -> str:
    return (
        f"The engine keeps {size / GIB:.0f} GiB of n-gram embeddings of each replica in pinned host memory, divided "
        "over its tensor-parallel ranks: the node needs them beside its other memory. --engram-config can move them to "
        "the GPUs, where no estimate counts them."
    )
