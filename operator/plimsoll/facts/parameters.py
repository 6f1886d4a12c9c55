"""How many parameters a model has, group by group, and how tensor parallelism splits each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.model import ExpertFacts, ModelFacts
from plimsoll.facts.architectures import ARCHITECTURES
from plimsoll.facts.traits import Architecture, Moe


class Sharding(StrEnum):
    """What one of ``tp`` ranks holds of a group.

    Source: vLLM, ``model_executor/layers/linear.py`` and ``vocab_parallel_embedding.py``.
    """

    SHARDED = "sharded"
    """One part in ``tp``."""
    KV_HEADS = "kvHeads"
    """One part in ``min(tp, kv_heads)``: past that, ranks hold copies."""
    REPLICATED = "replicated"
    """All of it: norms, routers, biases of row-parallel layers, position tables."""
    VOCABULARY = "vocabulary"
    """Rows padded to a multiple of 64, then one part in ``tp``."""


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that are stored and split alike.

    ``parameters`` counts the whole model; ``layers`` says over how many layers they spread, 0 for those in none;
    ``quantizable`` whether a quantized checkpoint of this model stores them quantized.
    """

    name: str
    parameters: int
    sharding: Sharding
    quantizable: bool
    layers: int


def count_parameters(facts: ModelFacts) -> int:
    """All parameters of the model as the engine loads it: a tied output projection counts once."""
    return sum(group.parameters for group in parameter_groups(facts))


def parameter_groups(facts: ModelFacts) -> tuple[ParameterGroup, ...]:
    """Every parameter of the model, in groups; empty groups are left out.

    Source of the shapes: the modelling files of the classes in :mod:`plimsoll.facts.architectures`.
    """
    traits = ARCHITECTURES.get(facts.architecture, Architecture())
    parts = (_outside_layers(facts, traits), _attention(facts, traits), _dense(facts), _experts(facts, traits))
    return tuple(group for part in parts for group in part if group.parameters)


def _outside_layers(facts: ModelFacts, traits: Architecture) -> Iterator[ParameterGroup]:
    table = facts.vocabulary * facts.hidden
    yield ParameterGroup("embeddings", table, Sharding.VOCABULARY, quantizable=False, layers=0)
    positions = facts.position_embeddings * facts.hidden
    yield ParameterGroup("positions", positions, Sharding.REPLICATED, quantizable=False, layers=0)
    if not facts.tied_embeddings:
        quantized = facts.checkpoint.quantizes_lm_head
        yield ParameterGroup("lm_head", table, Sharding.VOCABULARY, quantizable=quantized, layers=0)
    bias = facts.vocabulary if traits.lm_head_bias else 0
    yield ParameterGroup("lm_head.bias", bias, Sharding.VOCABULARY, quantizable=False, layers=0)
    final = _norm(facts, traits) if traits.norms else 0
    yield ParameterGroup("norm", final, Sharding.REPLICATED, quantizable=False, layers=0)


def _norm(facts: ModelFacts, traits: Architecture) -> int:
    """One normalisation of hidden width: a weight, and a bias where the class has one."""
    return facts.hidden * (2 if traits.norm_bias else 1)


def _attention(facts: ModelFacts, traits: Architecture) -> Iterator[ParameterGroup]:
    query = sum(group.count * facts.heads * group.head_dim for group in facts.attention)
    key = sum(group.count * group.kv_heads * group.head_dim for group in facts.attention)
    linear = facts.checkpoint.quantizes_attention
    layers = facts.layers
    yield ParameterGroup("q_proj", query * facts.hidden, Sharding.SHARDED, linear, layers)
    yield ParameterGroup("k_proj", key * facts.hidden, Sharding.KV_HEADS, linear, layers)
    yield ParameterGroup("v_proj", key * facts.hidden, Sharding.KV_HEADS, linear, layers)
    yield ParameterGroup("o_proj", query * facts.hidden, Sharding.SHARDED, linear, layers)
    if facts.attention_bias:
        output = layers * facts.hidden if traits.output_bias else 0
        yield ParameterGroup("q_proj.bias", query, Sharding.SHARDED, quantizable=False, layers=layers)
        yield ParameterGroup("k_proj.bias", key, Sharding.KV_HEADS, quantizable=False, layers=layers)
        yield ParameterGroup("v_proj.bias", key, Sharding.KV_HEADS, quantizable=False, layers=layers)
        yield ParameterGroup("o_proj.bias", output, Sharding.REPLICATED, quantizable=False, layers=layers)
    if traits.sinks:
        yield ParameterGroup("sinks", layers * facts.heads, Sharding.SHARDED, quantizable=False, layers=layers)
    if facts.qk_norm:
        spans = query + key if traits.qk_norm_spans_heads else 2 * layers * facts.head_dim
        yield ParameterGroup("qk_norm", spans, Sharding.REPLICATED, quantizable=False, layers=layers)
    norms = traits.norms_if_parallel if facts.parallel_residual else traits.norms
    total = norms * layers * _norm(facts, traits)
    yield ParameterGroup("layer_norms", total, Sharding.REPLICATED, quantizable=False, layers=layers)


def _dense(facts: ModelFacts) -> Iterator[ParameterGroup]:
    layers, width = facts.dense_layers, facts.intermediate
    yield from _mlp("", layers, layers * width * facts.hidden, gated=facts.gated_mlp)
    if facts.mlp_bias:
        wide = layers * width
        gate = wide if facts.gated_mlp else 0
        yield ParameterGroup("gate_proj.bias", gate, Sharding.SHARDED, quantizable=False, layers=layers)
        yield ParameterGroup("up_proj.bias", wide, Sharding.SHARDED, quantizable=False, layers=layers)
        narrow = layers * facts.hidden
        yield ParameterGroup("down_proj.bias", narrow, Sharding.REPLICATED, quantizable=False, layers=layers)


def _mlp(prefix: str, layers: int, size: int, *, gated: bool) -> Iterator[ParameterGroup]:
    names = ("gate_proj", "up_proj", "down_proj") if gated else ("up_proj", "down_proj")
    for name in names:
        yield ParameterGroup(prefix + name, size, Sharding.SHARDED, quantizable=True, layers=layers)


def _experts(facts: ModelFacts, traits: Architecture) -> Iterator[ParameterGroup]:
    experts = facts.experts
    if experts is None:
        return
    count = experts.layers * experts.experts
    yield from _mlp("experts.", experts.layers, count * experts.intermediate * facts.hidden, gated=facts.gated_mlp)
    if experts.has_bias:
        wide = count * experts.intermediate * (2 if facts.gated_mlp else 1)
        narrow = count * facts.hidden
        yield ParameterGroup("experts.up.bias", wide, Sharding.SHARDED, quantizable=False, layers=experts.layers)
        yield ParameterGroup("experts.down.bias", narrow, Sharding.REPLICATED, quantizable=False, layers=experts.layers)
    shared = experts.layers * experts.shared_intermediate * facts.hidden
    yield from _mlp("shared_expert.", experts.layers, shared, gated=facts.gated_mlp)
    router = _router(facts, experts, traits.moe or Moe())
    yield ParameterGroup("router", router, Sharding.REPLICATED, quantizable=False, layers=experts.layers)


def _router(facts: ModelFacts, experts: ExpertFacts, moe: Moe) -> int:
    a_layer = experts.experts * facts.hidden
    a_layer += experts.experts if moe.router_bias else 0
    a_layer += facts.hidden if moe.shared_gate and experts.shared_intermediate else 0
    return experts.layers * a_layer
