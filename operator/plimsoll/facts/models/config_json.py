"""The facts of a model, from its Hugging Face ``config.json``.

The name of the method by which a checkpoint is quantized, as engines look it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import EncoderFacts, FactsSource, ModelFacts, Sharding, Task, Weight
from plimsoll.facts.models.composites import language_fields, reads_items_whole
from plimsoll.facts.models.drafts import predictor_kinds, with_eagle_parts, with_head_fields
from plimsoll.facts.models.extras.embeddings import host_tables_remarks
from plimsoll.facts.models.fields import Fields, mapping_of, shown
from plimsoll.facts.models.generic import respelled
from plimsoll.facts.models.layers.layer_patterns import has_attention, in_one_module, layer_count
from plimsoll.facts.models.layers.mlps import mlps
from plimsoll.facts.models.layers.parts import (
    DecoderShape,
    LayerPart,
    layer_kinds,
    norm,
    stored,
    vector,
    vocabulary,
    with_undivided,
)
from plimsoll.facts.models.layers.stages import inseparable_runs, tables_on_every_stage
from plimsoll.facts.models.mixers.every_layer import mixers
from plimsoll.facts.models.model_class import ModelClass, model_class
from plimsoll.facts.models.pooling import purpose_remarks
from plimsoll.facts.models.positions import max_context_tokens, names_context, older_rotary_bytes, rotary_bytes
from plimsoll.facts.models.quantization import StorageRule, quantization_remarks, storage_rule
from plimsoll.facts.models.refusals import MOST_PARAMETERS, check_size, check_tower_size, count_parameters
from plimsoll.facts.models.tensors import Tensor, unreadable, with_tensors
from plimsoll.facts.models.traits import Architecture

_SECTIONS = ("quantization_config", "compression_config")
_MODELOPT = "modelopt"
_ALGORITHMS = {"MXFP8": "modelopt_mxfp8", "MIXED_PRECISION": "modelopt_mixed"}
"""Algorithms of ModelOpt for which engines have a method of their own."""


def quantization_method(fields: Fields) -> str | None:
    """Return the method that the configuration names; None if it names none."""
    key = fields.first(_SECTIONS)
    section = None if key is None else mapping_of(fields.values[key])
    named = None if section is None else section.get("quant_method")
    if section is None or not isinstance(named, str) or not named:
        return None
    method = named.lower().replace("_tensors", "-tensors")
    return _of_modelopt(section) if method == _MODELOPT else method


def _of_modelopt(section: object) -> str:
    whole = mapping_of(section) or {}
    settings = mapping_of(whole.get("quantization")) or whole
    return _ALGORITHMS.get(str(settings.get("quant_algo")).upper(), _MODELOPT)


_MOST_LAYERS = 2_000
_TIED = ("tie_word_embeddings", "tie_embedding")


def read_model_facts(
    name: str,
    config: Mapping[str, object],
    *,
    revision: str | None,
    source: FactsSource,
    parameters: int | None = None,
    tensors: Sequence[Tensor] | None = None,
) -> ModelFacts:
    """Read a language model, with its tower if it has one.

    Args:
        name: the model, for errors and for the reader.
        config: the parsed ``config.json``.
        revision: the pinned revision, if any.
        source: where the configuration came from.
        parameters: the exact count from the checkpoint's metadata. It is kept if it counts what the engine loads,
            see :func:`_loaded_parameters`.
        tensors: the tensors of every file of the checkpoint, if available. The weights of an unknown class are read
            from them; those of a known class are compared with them.

    Raises:
        InvalidInput: a field is missing, ill-typed or absurd; the error names it, e.g. ``config.json: hidden_size``.
        UnsupportedModel: the model has a part without a memory law; the error names the part.
    """
    values = mapping_of(config)
    if values is None:
        raise InvalidInput("config.json", shown(config), "Give one JSON object.")
    whole = Fields(with_head_fields(values))
    kind = model_class(name, whole, with_tensors=bool(tensors))
    fields = respelled(language_fields(whole), kind.traits)
    rule = storage_rule(name, fields)
    facts = _decoder(name, fields, kind, rule)
    check_size(facts, fields)
    facts = with_eagle_parts(facts, fields, kind.traits.eagle, rule.storage_of)
    facts = replace(
        facts,
        revision=revision,
        source=source,
        encoder=_tower(whole, fields, kind, facts, rule),
        brings_configuration=_brought(whole),
    )
    facts = replace(
        facts,
        rotary_bytes=rotary_bytes(fields, facts),
        older_rotary_bytes=older_rotary_bytes(fields, facts),
        parameters=_loaded_parameters(facts, fields, parameters),
    )
    if not tensors:
        return facts
    adjusted = with_tensors(facts, whole, fields, tensors)
    if adjusted is not None:
        return adjusted
    plain = read_model_facts(name, config, revision=revision, source=source, parameters=parameters)
    return replace(plain, remarks=(*plain.remarks, unreadable(plain)))


def _brought(whole: Fields) -> str | None:
    """Return the kind of a configuration that code of the checkpoint reads (``auto_map``); None if there is none."""
    brought = mapping_of(whole.values.get("auto_map"))
    if brought is None or not isinstance(brought.get("AutoConfig"), str):
        return None
    return whole.text("model_type") or next(iter(whole.texts("architectures")), None)


def _decoder(name: str, fields: Fields, kind: ModelClass, rule: StorageRule) -> ModelFacts:
    """Return the facts of the language model without the tower."""
    traits = kind.traits
    shape = _shape(name, fields, kind)
    mlp_parts, width, experts = mlps(fields, traits, shape)
    norms = LayerPart(tuple(_layer_norms(fields, traits, shape)))
    mixer_parts = mixers(fields, traits, shape)
    if traits.reads_both_ways:
        mixer_parts = tuple(LayerPart(part.weights) for part in mixer_parts)
    extras = traits.extra.layers(fields, shape)
    parts = [
        in_one_module(mixer + mlp, traits) + extra + norms
        for mixer, mlp, extra in zip(mixer_parts, mlp_parts, extras, strict=True)
    ]
    kinds, order = layer_kinds([with_undivided(part, traits.undivided) for part in parts], rule.storage_of)
    tokens = fields.integer(("vocab_size", "padded_vocab_size"))
    tied = fields.flag(fields.first(_TIED) or _TIED[0], default=traits.tied) if traits.ties else traits.tied
    return ModelFacts(
        name=name,
        revision=None,
        architecture=kind.name,
        source=FactsSource.INLINE,
        hidden=shape.hidden,
        heads=shape.heads,
        vocabulary=tokens,
        intermediate=width,
        kinds=kinds,
        order=order,
        embedding=stored(_embedding_weights(fields, traits, shape, tokens), None, rule.storage_of),
        head=stored(_head_weights(fields, traits, shape, tokens, tied=tied), None, rule.storage_of),
        checkpoint=replace(rule.checkpoint, method=quantization_method(fields)),
        max_context_tokens=shape.context,
        names_context=names_context(fields),
        experts=experts,
        tied_embeddings=tied,
        task=traits.task,
        on_every_stage=tables_on_every_stage(kind.language if traits.task is Task.GENERATE else None),
        inseparable=inseparable_runs(fields, traits, shape),
        step_bytes=traits.extra.step_bytes(fields, shape),
        host_bytes=traits.extra.table_bytes(fields),
        remarks=(
            *quantization_remarks(name, fields, is_head=traits.eagle is not None),
            *host_tables_remarks(fields, traits),
            *purpose_remarks(name, traits),
        ),
        evidence=kind.evidence,
        predictor=predictor_kinds(
            fields, traits, shape, list(zip(mixer_parts, mlp_parts, strict=True)), norms, rule.storage_of
        ),
    )


def _embedding_weights(fields: Fields, traits: Architecture, shape: DecoderShape, tokens: int) -> Iterator[Weight]:
    """The token embeddings, and learned positions if the class has them."""
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


def _head_weights(
    fields: Fields, traits: Architecture, shape: DecoderShape, tokens: int, *, tied: bool
) -> Iterator[Weight]:
    """Yield the final norm, and the output projection unless it shares the embedding table or the class only pools."""
    if traits.norms and traits.final_norm:
        yield from norm("norm", shape.hidden, bias=traits.norm_bias)
    generates = traits.task is Task.GENERATE
    if generates and not tied:
        yield Weight("lm_head", tokens, shape.hidden, Sharding.VOCABULARY)
    if generates and traits.lm_head_bias:
        yield vector("lm_head.bias", tokens, sharding=Sharding.VOCABULARY)
    yield from traits.extra.head(fields, shape)


def _layer_norms(fields: Fields, traits: Architecture, shape: DecoderShape) -> Iterator[Weight]:
    count = traits.norms_if_parallel if traits.parallel_residual.read(fields) else traits.norms
    for index in range(count):
        yield from norm(f"norm_{index}", shape.hidden, bias=traits.norm_bias)


def _tower(
    whole: Fields, fields: Fields, kind: ModelClass, facts: ModelFacts, rule: StorageRule
) -> EncoderFacts | None:
    """Return the tower as the checkpoint stores it; None if there is no tower."""
    if kind.encoder is None:
        return None
    encoder = kind.encoder(whole, fields, facts)
    check_tower_size(encoder, whole)
    whole_items = reads_items_whole(whole, fields)
    return replace(encoder, weights=stored(encoder.weights, None, rule.storage_of), whole_items=whole_items)


def _shape(name: str, fields: Fields, kind: ModelClass) -> DecoderShape:
    return DecoderShape(
        name=name,
        layers=layer_count(fields, largest=_MOST_LAYERS),
        hidden=fields.integer(("hidden_size", "n_embd")),
        heads=fields.integer(("num_attention_heads", "n_head")) if has_attention(kind.traits) else 0,
        context=max(1, max_context_tokens(fields, architecture=kind.language) - kind.traits.reserved_positions),
    )


def _loaded_parameters(facts: ModelFacts, fields: Fields, declared: int | None) -> int | None:
    """Return the count of a checkpoint's metadata, if the engine loads what it counts.

    None for quantized checkpoints, because their metadata counts packed words and scales. None for checkpoints with
    multi-token-prediction layers, because the engine does not load these. A tied output projection that the checkpoint
    stores anyway is subtracted.
    """
    if declared is not None and not 0 < declared <= MOST_PARAMETERS:
        raise InvalidInput("parameters", shown(declared), "Give the number of weights, above 0.")
    predicting = fields.optional_integer(("num_nextn_predict_layers", "num_mtp_modules"), smallest=0)
    if declared is None or predicting or facts.predictor or facts.checkpoint.precision.is_quantized:
        return None
    table = facts.vocabulary * facts.hidden
    twice = facts.tied_embeddings and declared == count_parameters(facts) + table
    return declared - table if twice else declared
