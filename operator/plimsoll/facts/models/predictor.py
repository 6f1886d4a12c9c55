"""Multi-token-prediction layers: the layers of a checkpoint that draft tokens. Only speculation loads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.domain.caches import AttentionCache, IndexerCache, StateCache
from plimsoll.domain.model import LayerKind, Sharding, Weight
from plimsoll.domain.storage import BF16
from plimsoll.facts.models.assembly import StorageOf
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layer_patterns import in_one_module
from plimsoll.facts.models.linears import norm
from plimsoll.facts.models.mixers.compressed import compressed_layers, uncompressed_layer
from plimsoll.facts.models.shape import Part, Shape
from plimsoll.facts.models.traits import Architecture

_COUNT_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_MOST_LAYERS = 64
_MODULE = "mtp.layers.0."


def predictor_kinds(
    fields: Fields,
    traits: Architecture,
    shape: Shape,
    layers: Sequence[tuple[Part, Part]],
    norms: Part,
    storage_of: StorageOf,
) -> tuple[LayerKind, ...]:
    """Return the predictor's layers. Each is like the decoder's last attention layer, after a projection of two states.

    The predictor uses the decoder's embeddings and output projection. Sources: vLLM, ``models/deepseek_mtp.py``,
    ``qwen3_next_mtp.py``, ``qwen3_5_mtp.py``, ``nemotron_h_mtp.py``, ``mimo_v2_mtp.py``.

    Args:
        fields: the language model's configuration.
        traits: its class.
        shape: the decoder as a whole.
        layers: mixer and MLP of every layer of the decoder.
        norms: normalisations of one layer.
        storage_of: how the checkpoint stores a weight.

    Raises:
        InvalidInput: the number of layers is ill-typed or absurd.
    """
    count = fields.optional_integer(_COUNT_KEYS, smallest=0, largest=_MOST_LAYERS)
    count = traits.predictors if count is None else count
    attending = [part for part, _ in reversed(layers) if _attends(part)]
    # Decoder layers may share picked keys, but the predictor's layer picks its own (``deepseek_v2.py``, 0.24 to 0.27).
    mixer = next((part for part in attending if _picks(part)), next(iter(attending), None))
    if traits.mixer is compressed_layers:
        mixer = uncompressed_layer(fields, shape)
    if not count or mixer is None:
        return ()
    mlp = next((part for _, part in reversed(layers) if part.weights), Part())
    if traits.predicts_locally:
        mixer = next((part for part, _ in reversed(layers) if _slides(part)), mixer)
        mlp = layers[0][1]
    apart = not any(_attends(own) and mlp_part.weights for own, mlp_part in layers)
    parts = (mixer, mlp, norms, norms if apart else Part())
    block = sum(parts, Part(_joining(traits, shape.hidden)))
    block = in_one_module(block, traits)
    hybrid = traits.recurrent is not None
    return tuple(
        LayerKind(_stored(block.weights, None if hybrid else shape.layers + number, storage_of), block.caches)
        for number in range(count)
    )


def _attends(mixer: Part) -> bool:
    return bool(mixer.caches) and not any(isinstance(cache, StateCache) for cache in mixer.caches)


def _picks(mixer: Part) -> bool:
    return any(isinstance(cache, IndexerCache) for cache in mixer.caches)


def _slides(mixer: Part) -> bool:
    return any(isinstance(cache, AttentionCache) and cache.window_tokens is not None for cache in mixer.caches)


def _joining(traits: Architecture, hidden: int) -> tuple[Weight, ...]:
    """Return the projection joining the next token's embedding and the decoder's output, and the norms around it."""
    hybrid = traits.recurrent is not None
    sharding = Sharding.OUTPUTS if hybrid else Sharding.REPLICATED
    return (
        Weight("eh_proj", hidden, 2 * hidden, sharding, linear=hybrid),
        *norm("enorm", hidden),
        *norm("hnorm", hidden),
        *norm("final_layernorm", hidden),
    )


def _stored(weights: Sequence[Weight], layer: int | None, storage_of: StorageOf) -> tuple[Weight, ...]:
    """Return the weights with their storage, found by their name in the checkpoint.

    The name is that of a layer after the last one; hybrid models have a separate module.
    """
    named = [weight if layer is not None else replace(weight, name=f"{_MODULE}{weight.name}") for weight in weights]
    return tuple(
        weight if weight.storage is not BF16 else replace(weight, storage=storage_of(layer, asked))
        for weight, asked in zip(weights, named, strict=True)
    )
