"""Layers that draft tokens: heads of their own, and those within a checkpoint.

EAGLE heads: a decoder with one or a few layers, which drafts from the hidden states of its target model.
Sources: vLLM 0.32, ``models/llama_eagle.py``, ``models/llama_eagle3.py``, ``models/qwen3_eagle3.py`` and
``transformers_utils/configs/eagle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plimsoll.domain.engines.engine_choice import DraftMethod, HeadMethod
from plimsoll.domain.models.caches import AttentionCache, IndexerCache, StateCache
from plimsoll.domain.models.model import LayerKind, ModelFacts, Sharding, Weight
from plimsoll.domain.models.precision import Storage
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.layers.layer_patterns import in_one_module
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, StorageOf, norm, replicated, stored
from plimsoll.facts.models.mixers.compressed import compressed_layers, uncompressed_layer
from plimsoll.facts.models.traits import Architecture

_SECTION = "eagle_config"
_STATES_READ = 3
"""Layers whose hidden states an EAGLE-3 head reads if its file lists none."""

_INPUTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_PLAIN = "LlamaForCausalLM"
_GENERATION = "eagle3"
"""This word in a head's name shows its generation: to people, and to the engine if no method is given."""


def as_engine_head(draft: ModelFacts) -> tuple[HeadMethod, ModelFacts] | None:
    """Return a draft as the engine loads it for EAGLE, with its method; None if its class is no EAGLE head.

    Heads of the first generation are published under the class of a plain decoder, which the engine renames.
    """
    row = ARCHITECTURES.get(draft.architecture)
    if row is not None and row.eagle is not None:
        return row.eagle, draft
    if draft.architecture != _PLAIN:
        return None
    third = _GENERATION in draft.name.lower()
    method: HeadMethod = DraftMethod.EAGLE3 if third else DraftMethod.EAGLE
    head = with_eagle_parts(draft, Fields({}), method, lambda _, weight: weight.storage)
    return method, replace(head, architecture=f"{'Eagle3' if third else 'Eagle'}{draft.architecture}")


def with_eagle_parts(facts: ModelFacts, fields: Fields, method: HeadMethod | None, storage_of: StorageOf) -> ModelFacts:
    """Turn the decoder that a head's file describes into the head. Return any other model unchanged.

    The head uses the target's embeddings. The first generation also uses the target's output projection; the third has
    its own, over ``draft_vocab_size`` tokens. The map from those tokens to the target's (8 bytes each) is not counted.

    Raises:
        InvalidInput: a field of the head is ill-typed.
    """
    head: tuple[Weight, ...]
    match method:
        case None:
            return facts
        case DraftMethod.EAGLE:
            kinds, head = facts.kinds, ()
            opening = kinds[facts.order[0]]
            first = LayerKind(tuple(each for each in opening.weights if each.name != "norm_0"), opening.caches)
            before = tuple(replicated("fc", facts.hidden, 2 * facts.hidden))
        case DraftMethod.EAGLE3:
            normed = tuple(norm("hidden_norm", facts.hidden))
            kinds = tuple(LayerKind(kind.weights + normed, kind.caches) for kind in facts.kinds)
            opening = kinds[facts.order[0]]
            first = LayerKind(tuple(_reading_both(each) for each in opening.weights), opening.caches)
            before, head = _projection(facts, fields), _own_head(facts, fields)
    return replace(
        facts,
        kinds=(first,) if facts.layers == 1 else (first, *kinds),
        order=(0, *(kind + 1 for kind in facts.order[1:])),
        embedding=stored(before, None, storage_of),
        head=stored(head, None, storage_of),
        tied_embeddings=False,
        parameters=None,
    )


def _reading_both(weight: Weight) -> Weight:
    """Double the inputs of the first layer's attention: it reads the token's embedding and the hidden state."""
    return replace(weight, inputs=2 * weight.inputs) if weight.name in _INPUTS else weight


def _projection(facts: ModelFacts, fields: Fields) -> tuple[Weight, ...]:
    """Return the projection from hidden states of several target layers to the head's width, and its input norms."""
    section = fields.section(_SECTION) or Fields({})
    if not section.flag("use_aux_hidden_state", default=True):
        return ()
    target = fields.optional_integer(("target_hidden_size",)) or facts.hidden
    inputs = target * _states_read(fields, section)
    weights = list(replicated("fc", facts.hidden, inputs))
    if section.flag("norm_before_fc", default=fields.flag("norm_before_fc", default=False)):
        weights += norm("input_norm", inputs)
    if fields.flag("fc_norm", default=False):
        weights += norm("fc_norm", inputs)
    return tuple(weights)


def _states_read(fields: Fields, section: Fields) -> int:
    count = fields.optional_integer(("num_aux_layers", "num_aux_hidden_states"))
    listed = "eagle_aux_hidden_state_layer_ids"
    return count or len(fields.items(listed) or section.items(listed)) or _STATES_READ


def _own_head(facts: ModelFacts, fields: Fields) -> tuple[Weight, ...]:
    tokens = fields.optional_integer(("draft_vocab_size",)) or facts.vocabulary
    return (*norm("norm", facts.hidden), Weight("lm_head", tokens, facts.hidden, Sharding.VOCABULARY))


_KIND = "speculators_model_type"
_LAYER = "transformer_layer_config"
_CLASSES = {"llama": "Eagle3LlamaForCausalLM", "qwen3": "Eagle3Qwen3ForCausalLM"}
_FIELDS = (
    "draft_vocab_size",
    "target_hidden_size",
    "norm_before_fc",
    "fc_norm",
    "eagle_aux_hidden_state_layer_ids",
    "torch_dtype",
    "dtype",
    "quantization_config",
)


def with_head_fields(values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the configuration of a draft head as the engine reads it, and every other configuration unchanged.

    Source: vLLM, ``transformers_utils/configs/speculators``.
    """
    layer = mapping_of(values.get(_LAYER))
    if values.get(_KIND) != "eagle3" or layer is None:
        return values
    listed = _CLASSES.get(str(layer.get("model_type", "llama")))
    outside = {name: values[name] for name in _FIELDS if values.get(name) is not None}
    classes = values.get("architectures") if listed is None else [listed]
    return {**layer, **outside, "architectures": classes}


_COUNT_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_MOST_LAYERS = 64
_MODULE = "mtp.layers.0."


def predictor_kinds(
    fields: Fields,
    traits: Architecture,
    shape: DecoderShape,
    layers: Sequence[tuple[LayerPart, LayerPart]],
    norms: LayerPart,
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
    mlp = next((part for _, part in reversed(layers) if part.weights), LayerPart())
    if traits.predicts_locally:
        mixer = next((part for part, _ in reversed(layers) if _slides(part)), mixer)
        mlp = layers[0][1]
    apart = not any(_attends(own) and mlp_part.weights for own, mlp_part in layers)
    parts = (mixer, mlp, norms, norms if apart else LayerPart())
    block = sum(parts, LayerPart(_joining(traits, shape.hidden)))
    block = in_one_module(block, traits)
    hybrid = traits.recurrent is not None

    def asked(layer: int | None, weight: Weight) -> Storage:
        """Ask by the name in the checkpoint: that of a layer after the last one; hybrids have a separate module."""
        return storage_of(layer, replace(weight, name=f"{_MODULE}{weight.name}") if hybrid else weight)

    return tuple(
        LayerKind(stored(block.weights, None if hybrid else shape.layers + number, asked), block.caches)
        for number in range(count)
    )


def _attends(mixer: LayerPart) -> bool:
    return bool(mixer.caches) and not any(isinstance(cache, StateCache) for cache in mixer.caches)


def _picks(mixer: LayerPart) -> bool:
    return any(isinstance(cache, IndexerCache) for cache in mixer.caches)


def _slides(mixer: LayerPart) -> bool:
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
