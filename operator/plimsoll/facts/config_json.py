"""The facts of a model, from its Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.facts.architectures import ARCHITECTURES
from plimsoll.facts.attention_layers import attention_layers
from plimsoll.facts.context_length import max_context_tokens
from plimsoll.facts.expert_layers import expert_facts
from plimsoll.facts.fields import Fields, mapping_of, shown
from plimsoll.facts.parameters import count_parameters
from plimsoll.facts.quantization import checkpoint_facts
from plimsoll.facts.refusals import refuse_unknown_parts, supported_class
from plimsoll.facts.traits import Architecture

_MOST_LAYERS = 10_000
_MOST_PARAMETERS = 10**15


def read_model_facts(
    name: str,
    config: Mapping[str, object],
    *,
    revision: str | None,
    source: FactsSource,
    parameters: int | None = None,
) -> ModelFacts:
    """Read a decoder-only language model with ordinary (multi-, grouped- or single-head) attention.

    Args:
        name: the model, for errors and for the reader.
        config: the parsed ``config.json``.
        revision: the pinned revision, if any.
        source: where the configuration came from.
        parameters: the exact count of the checkpoint's metadata. It is kept where it counts what the engine loads,
            see :func:`_loaded_parameters`.

    Raises:
        InvalidInput: a field is missing, ill-typed or absurd; the error names it, e.g. ``config.json: hidden_size``.
        UnsupportedModel: the model has a part without a memory law; the error names the part.
    """
    values = mapping_of(config)
    if values is None:
        raise InvalidInput("config.json", shown(config), "Give one JSON object.")
    fields = Fields(values)
    refuse_unknown_parts(name, fields)
    architecture = supported_class(name, fields)
    traits = ARCHITECTURES[architecture]
    layers = fields.integer(("num_hidden_layers", "n_layer", "num_layers"), largest=_MOST_LAYERS)
    hidden = fields.integer(("hidden_size", "n_embd"))
    heads = fields.integer(("num_attention_heads", "n_head"))
    context = max_context_tokens(fields, architecture=architecture)
    attention = attention_layers(name, fields, traits, layers=layers, hidden=hidden, heads=heads, context=context)
    experts = None if traits.moe is None else expert_facts(fields, traits.moe, layers)
    all_experts = experts is not None and experts.layers == layers
    facts = ModelFacts(
        name=name,
        revision=revision,
        architecture=architecture,
        source=source,
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocabulary=fields.integer(("vocab_size", "padded_vocab_size")),
        intermediate=0 if all_experts else _intermediate(fields, traits, hidden),
        attention=attention,
        checkpoint=checkpoint_facts(name, fields, layers=layers, has_experts=experts is not None),
        max_context_tokens=context,
        experts=experts,
        tied_embeddings=_tied(fields, traits),
        gated_mlp=_gated(name, fields, traits),
        attention_bias=traits.attention_bias.read(fields),
        mlp_bias=traits.mlp_bias.read(fields),
        qk_norm=traits.qk_norm.read(fields),
        parallel_residual=traits.parallel_residual.read(fields),
        position_embeddings=_position_embeddings(fields, traits),
    )
    return replace(facts, parameters=_loaded_parameters(facts, fields, parameters))


def _intermediate(fields: Fields, traits: Architecture, hidden: int) -> int:
    keys = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    if traits.intermediate_factor is not None and fields.first(keys) is None:
        return traits.intermediate_factor * hidden
    return fields.integer(keys)


def _tied(fields: Fields, traits: Architecture) -> bool:
    return fields.flag("tie_word_embeddings", default=traits.tied)


def _gated(name: str, fields: Fields, traits: Architecture) -> bool:
    """Whether the MLP has a gate. Starcoder2's ``mlp_type`` can ask for one that no published checkpoint has."""
    if fields.values.get("mlp_type") not in (None, "default"):
        raise UnsupportedModel(name, f"the MLP type {shown(fields.values['mlp_type'])!r} (mlp_type)")
    return traits.gated_mlp


def _position_embeddings(fields: Fields, traits: Architecture) -> int:
    if not traits.learned_positions:
        return 0
    return fields.integer(("n_positions", "max_position_embeddings")) + traits.extra_positions


def _loaded_parameters(facts: ModelFacts, fields: Fields, stored: int | None) -> int | None:
    """The count of a checkpoint's metadata, as far as the engine loads what it counts.

    None for quantized checkpoints, whose metadata counts packed words and scales, and for those with
    multi-token-prediction layers, which the engine leaves out. A tied output projection that is stored all the same is
    taken off.
    """
    if stored is not None and not 0 < stored <= _MOST_PARAMETERS:
        raise InvalidInput("parameters", shown(stored), "Give the number of weights, above 0.")
    predicting = fields.optional_integer(("num_nextn_predict_layers", "num_mtp_modules"), smallest=0)
    if stored is None or predicting or facts.checkpoint.precision.is_quantized:
        return None
    table = facts.vocabulary * facts.hidden
    return stored - table if facts.tied_embeddings and stored == count_parameters(facts) + table else stored
