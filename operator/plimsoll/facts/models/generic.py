"""Traits of an unknown class: its fields, read in the way that most classes use them.

The mixture of experts of an unknown class.

Fields under their usual names, for classes that write them elsewhere.
"""

from __future__ import annotations

from plimsoll.facts.models.extras.gemma import LAYER_INPUTS
from plimsoll.facts.models.fields import Fields, mapping_of
from plimsoll.facts.models.layers.expert_layers import after_first, every_nth, interval, period_offset, sparse_step
from plimsoll.facts.models.layers.mlps import double_if_shared
from plimsoll.facts.models.mixers.attention import factored_layers
from plimsoll.facts.models.mixers.heads import global_own, listed, other_setting, sliding_own
from plimsoll.facts.models.mixers.kv_heads import chatglm, falcon, grouped, multi_query
from plimsoll.facts.models.mixers.latent import latent_layers
from plimsoll.facts.models.mixers.sparse import block_sparse_layers
from plimsoll.facts.models.traits import (
    NO_EXTRA,
    Architecture,
    ExpertLayers,
    Flag,
    Gate,
    KvHeads,
    LayerHeads,
    Mixer,
    Moe,
    WindowRule,
)

_SWITCHES = ("is_moe", "use_moe", "enable_moe_block")
"""Fields that turn experts off, even if the file gives a number of experts."""


def _generic_experts(fields: Fields) -> Moe | None:
    """Return the experts that the fields describe; None if the model is dense."""
    if any(fields.values.get(key) is False for key in _SWITCHES):
        return None
    if not fields.optional_integer(Moe().experts_keys, smallest=0):
        return None
    return Moe(
        holds=_holds(fields),
        width_keys=(*Moe().width_keys, "expert_intermediate_size", "moe_ffn_hidden_size", "intermediate_size"),
        shared_width_key=fields.first(
            (
                "shared_expert_intermediate_size",
                "shared_intermediate_size",
                "moe_shared_expert_intermediate_size",
                "share_expert_dim",
            )
        ),
        shared_count_key=fields.first(
            ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
        ),
        router_bias=Flag(default=False, key="topk_method", equals="noaux_tc"),
        extra_router_rows="zero_expert_num",
        optional=True,
    )


def _holds(fields: Fields) -> ExpertLayers | None:
    rules: dict[str, ExpertLayers] = {
        "first_k_dense_replace": after_first,
        "num_dense_layers": after_first,
        "moe_layer_freq": after_first,
        "moe_layer_interval": interval,
        "interleave_moe_layer_step": every_nth,
        "decoder_sparse_step": sparse_step,
        "mlp_only_layers": sparse_step,
        "expert_layer_period": period_offset,
    }
    return next((rule for key, rule in rules.items() if fields.has(key)), None)


def respelled(fields: Fields, traits: Architecture) -> Fields:
    """Return the fields with those of ``traits.spellings`` added under their usual names.

    If the file has the class's own spelling, its value has priority over a field with the usual name.
    """
    found = {usual: _at(fields, path) for usual, path in traits.spellings}
    known = {usual: value for usual, value in found.items() if value is not None}
    return Fields({**fields.values, **known}, fields.origin) if known else fields


def _at(fields: Fields, path: str) -> object:
    *sections, name = path.split(".")
    values = fields.values
    for section in sections:
        nested = mapping_of(values.get(section))
        if nested is None:
            return None
        values = nested
    return values.get(name)


_SPELLINGS = (
    ("hidden_size", ("n_embd", "d_model", "dim", "embed_dim")),
    ("num_attention_heads", ("n_head", "n_heads", "num_heads")),
    ("num_hidden_layers", ("n_layer", "n_layers", "num_layers")),
    (
        "intermediate_size",
        ("n_inner", "ffn_hidden_size", "ffn_dim", "d_ff", "ff_intermediate_size", "ffn_intermediate_size"),
    ),
    ("num_experts", ("moe_num_experts", "num_local_experts", "n_routed_experts")),
)
"""Usual fields, and the other names that some families use for them."""

WEIGHTS_ERROR = 0.06
"""Share of the weights by which the generic reading may be wrong, up or down. Of 112 known classes, 110 are within."""

_BIASES = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias")
_UNGATED = ("relu", "relu2", "xielu", "quick_gelu")
"""Activations that no published decoder uses with a gate."""
_GELU = "gelu"


def generic_architecture(fields: Fields) -> Architecture:
    """Estimate the traits of an unknown class from its fields.

    The error is small: attention, MLP and experts are most of the weights, and their fields have the same names in most
    classes. The parts that a class fixes in its code (norms, biases) are below one in a thousand of the weights. As a
    test, the rows of known classes are hidden, and one configuration of each is read this way
    (``tests/facts/test_generic_reading.py``). Of 132 classes 20 are refused. For the others the median error of the
    weights is 0.0002 %; nine in ten are within 0.7 %, and 19 in 20 within 4.4 %. Two are outside
    :data:`WEIGHTS_ERROR`: the first Qwen (+44 %) and BitNet (-19 %). The KV cache is exact in 107 of 112; it is too
    small for a class that decompresses latent keys (MiniCPM3) or has two attentions in a layer (LongCat-Flash).
    """
    spellings = _spellings(fields)
    known = respelled(fields, Architecture(spellings=spellings))
    gated = _is_gated(known)
    return Architecture(
        spellings=spellings,
        mixer=_mixer(known),
        gated_mlp=gated,
        intermediate_factor=None if gated and known.has("intermediate_size") else 4,
        attention_bias=Flag(default=False, key=_first_flag(known, _BIASES)),
        tied=known.has("transformers_version"),
        learned_positions=known.has("n_positions") and not gated,
        kv_heads=_kv_heads(known),
        window_rule=_window_rule(known),
        heads=_heads(known),
        in_blocks=known.has("block_configs"),
        widths=double_if_shared,
        shared_kv=known.has("num_kv_shared_layers"),
        gate=Gate.BY_FIELD,
        extra=LAYER_INPUTS if known.has("hidden_size_per_layer_input") else NO_EXTRA,
        moe=_generic_experts(known),
    )


def _spellings(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return where this file has the fields that are missing under their usual names."""
    found = ((usual, fields.first(others)) for usual, others in _SPELLINGS if not fields.has(usual))
    return tuple((usual, other) for usual, other in found if other is not None)


def _first_flag(fields: Fields, keys: tuple[str, ...]) -> str | None:
    """Return the first field that is true or false: some families use the same name for an object or a word."""
    return next((key for key in keys if isinstance(fields.values.get(key), bool)), None)


def _mixer(fields: Fields) -> Mixer | None:
    if fields.has("kv_lora_rank"):
        return latent_layers
    if mapping_of(fields.values.get("sparse_attention_config")) is not None:
        return block_sparse_layers
    return factored_layers if fields.has("share_q_dim") else None


def _is_gated(fields: Fields) -> bool:
    """Whether the MLP has a gate. Gated MLPs came with SiLU and RMS norms.

    GPT-style files without a gate name a GELU and a layer norm, or no width at all.
    """
    key = fields.first(("hidden_act", "hidden_activation", "activation_function", "activation", "hidden_activation_fn"))
    word = fields.values[key] if key is not None else ""
    if not isinstance(word, str) or word.startswith(_UNGATED):
        return not isinstance(word, str)
    if word.startswith(_GELU):
        return fields.has("rms_norm_eps") or fields.has("rms_norm_epsilon")
    return bool(word) or fields.has("intermediate_size") or fields.has("moe_intermediate_size")


def _kv_heads(fields: Fields) -> KvHeads:
    if fields.has("new_decoder_architecture"):
        return falcon
    if fields.has("multi_query_attention"):
        return chatglm
    return multi_query if fields.has("multi_query") else grouped


def _heads(fields: Fields) -> LayerHeads | None:
    rules: dict[str, LayerHeads] = {
        "global_head_dim": global_own,
        "swa_num_key_value_heads": sliding_own,
        "attention_other_setting": other_setting,
        "num_attention_heads_per_layer": listed,
    }
    return next((rule for key, rule in rules.items() if fields.has(key)), None)


def _window_rule(fields: Fields) -> WindowRule:
    if fields.has("hybrid_layer_pattern"):
        return WindowRule.HYBRID_PATTERN
    if fields.has("attention_chunk_size") and not fields.has("sliding_window"):
        return WindowRule.CHUNKED
    if fields.has("sliding_window_pattern") or fields.has("_sliding_window_pattern"):
        return WindowRule.PERIODIC
    return WindowRule.QWEN if fields.has("use_sliding_window") else WindowRule.NEVER
