"""EAGLE heads: a decoder with one or a few layers, which drafts from the hidden states of its target model.

Sources: vLLM 0.32, ``models/llama_eagle.py``, ``models/llama_eagle3.py``, ``models/qwen3_eagle3.py`` and
``transformers_utils/configs/eagle.py``.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.engine_options import DraftMethod, HeadMethod
from plimsoll.domain.model import LayerKind, ModelFacts, Sharding, Weight
from plimsoll.facts.models.architectures import ARCHITECTURES
from plimsoll.facts.models.assembly import StorageOf, stored
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.linears import norm, replicated

_SECTION = "eagle_config"
_STATES_READ = 3
"""Layers whose hidden states an EAGLE-3 head reads where its file lists none."""

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
            first = LayerKind(_without_input_norm(facts), facts.kinds[facts.order[0]].caches)
            kinds, head = facts.kinds, ()
            before = tuple(replicated("fc", facts.hidden, 2 * facts.hidden))
        case DraftMethod.EAGLE3:
            kinds = tuple(LayerKind(_normed(kind, facts.hidden), kind.caches) for kind in facts.kinds)
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


def _without_input_norm(facts: ModelFacts) -> tuple[Weight, ...]:
    return tuple(weight for weight in facts.kinds[facts.order[0]].weights if weight.name != "norm_0")


def _normed(kind: LayerKind, hidden: int) -> tuple[Weight, ...]:
    return (*kind.weights, *norm("hidden_norm", hidden))


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
