"""Gemma's per-layer embeddings, and Gemma 3n's alternating updates and learned augmented residuals.

Source: vLLM, ``model_executor/models/gemma3n.py`` and ``gemma4.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import (
    DecoderShape,
    LayerPart,
    Parts,
    column,
    norm,
    replicated,
    row,
    vector,
    vocabulary,
)
from plimsoll.facts.models.traits import Extra


def layer_input_width(fields: Fields) -> int:
    """Width of one layer's own embedding; 0 if the model has none."""
    return fields.optional_integer(("hidden_size_per_layer_input",), smallest=0) or 0


def _layer_inputs(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Gate, projection and norm of one layer's own embedding."""
    width = layer_input_width(fields)
    if width:
        yield from replicated("per_layer_input_gate", width, shape.hidden)
        yield from replicated("per_layer_projection", shape.hidden, width)
        yield from norm("post_per_layer_input_norm", shape.hidden)


def _layer_embeddings(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield the embeddings of all layers in one table, and the projection from the usual embedding to them."""
    width = layer_input_width(fields)
    if width:
        tokens = fields.integer(("vocab_size_per_layer_input", "vocab_size"))
        yield vocabulary("embed_tokens_per_layer", tokens, shape.layers * width)
        yield from column("per_layer_model_projection", shape.layers * width, shape.hidden)
        yield from norm("per_layer_projection_norm", width)


def _altup(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Alternating updates and the low-rank residual of one layer."""
    inputs = fields.integer(("altup_num_inputs",))
    rank = fields.integer(("laurel_rank",))
    yield from replicated("altup.correction_coefs", inputs, inputs, linear=False)
    yield from replicated("altup.prediction_coefs", inputs * inputs, inputs, linear=False)
    yield from replicated("altup.modality_router", inputs, shape.hidden, linear=False)
    yield from norm("altup.router_norm", shape.hidden)
    yield vector("altup.correct_output_scale", shape.hidden)
    yield from column("laurel.linear_left", rank, shape.hidden)
    yield from row("laurel.linear_right", shape.hidden, rank)
    yield from norm("laurel.post_laurel_norm", shape.hidden)


def _altup_embeddings(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield also the projections that spread an embedding over the streams, and join these after the layers."""
    yield from _layer_embeddings(fields, shape)
    for index in range(1, fields.integer(("altup_num_inputs",), largest=_MOST_INPUTS)):
        yield from column(f"altup_projections.{index}", shape.hidden, shape.hidden)
        yield from column(f"altup_unembed_projections.{index}", shape.hidden, shape.hidden)


_MOST_INPUTS = 64
"""Residual streams; published models have 4."""


def _altup_layers(fields: Fields, shape: DecoderShape) -> Parts:
    return (LayerPart((*_layer_inputs(fields, shape), *_altup(fields, shape))),) * shape.layers


def _layers(fields: Fields, shape: DecoderShape) -> Parts:
    return (LayerPart(tuple(_layer_inputs(fields, shape))),) * shape.layers


LAYER_INPUTS = Extra(_layers, _layer_embeddings)
"""Per-layer embeddings (Gemma 4)."""

ALTUP = Extra(_altup_layers, _altup_embeddings)
"""Per-layer embeddings, alternating updates and learned augmented residuals (Gemma 3n)."""
