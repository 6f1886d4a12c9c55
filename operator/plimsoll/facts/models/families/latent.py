"""Classes with multi-head latent attention. Sources: as in :mod:`plimsoll.facts.models.architectures`."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.facts.models.extras.embeddings import NGRAM
from plimsoll.facts.models.extras.hyper_connections import ENGRAM, HYPER_CONNECTIONS
from plimsoll.facts.models.layers.expert_layers import after_first
from plimsoll.facts.models.mixers.compressed import compressed_layers, shared_compressed_layers
from plimsoll.facts.models.mixers.latent import latent_layers
from plimsoll.facts.models.traits import YES, Architecture, Flag, Gate, Moe

_BY_METHOD = Flag(default=False, key="topk_method", equals="noaux_tc")
_CORRECTED = Moe(holds=after_first, shared_count_key="n_shared_experts", router_bias=YES)
_DEEPSEEK_V2 = Architecture(
    mixer=latent_layers,
    moe=Moe(
        holds=after_first,
        shared_count_key="n_shared_experts",
        router_bias=_BY_METHOD,
        optional=True,
    ),
)
_DEEPSEEK = replace(_DEEPSEEK_V2, moe=replace(_CORRECTED, router_bias=_BY_METHOD))
_HUNYUAN_V4 = Architecture(
    mixer=latent_layers,
    gate=Gate.ELEMENTS,
    sinks=YES,
    extra=HYPER_CONNECTIONS,
    moe=Moe(holds=after_first, shared_count_key="n_shared_experts", router_bias=YES, router_fp32=True),
)
_LONGCAT = Architecture(
    spellings=(("num_hidden_layers", "num_layers"), ("intermediate_size", "ffn_hidden_size")),
    mixer=latent_layers,
    sublayers=2,
    norms=4,
    moe=Moe(
        width_keys=("expert_ffn_hidden_size", "moe_intermediate_size"),
        extra_router_rows="zero_expert_num",
        router_bias=YES,
        router_fp32=True,
        beside_dense=True,
    ),
)

LATENT: dict[str, Architecture] = {
    "DeepseekV2ForCausalLM": _DEEPSEEK_V2,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _DEEPSEEK,
    "GlmMoeDsaForCausalLM": _DEEPSEEK,
    "Glm4MoeLiteForCausalLM": replace(_DEEPSEEK, moe=replace(_CORRECTED, router_fp32=True)),
    "MistralLarge3ForCausalLM": _DEEPSEEK,
    "AXK1ForCausalLM": Architecture(mixer=latent_layers, norms=3, moe=_CORRECTED),
    "PanguUltraMoEForCausalLM": Architecture(
        mixer=latent_layers,
        norms=4,
        moe=Moe(
            holds=after_first,
            shared_count_key="n_shared_experts",
            router_bias=Flag(default=False, key="router_enable_expert_bias"),
        ),
    ),
    "SarvamMLAForCausalLM": Architecture(
        mixer=latent_layers,
        moe=Moe(
            holds=after_first,
            shared_count_key="num_shared_experts",
            shared_count_default=1,
            router_bias=Flag(default=True, key="moe_router_enable_expert_bias"),
        ),
    ),
    "HYV4ForCausalLM": _HUNYUAN_V4,
    "LongcatFlashForCausalLM": _LONGCAT,
    "LongcatFlashNgramForCausalLM": replace(_LONGCAT, extra=NGRAM),
    "MiniCPM3ForCausalLM": Architecture(mixer=latent_layers, latent_cache=False, tied=True),
    "DeepseekV4ForCausalLM": Architecture(
        mixer=compressed_layers,
        extra=HYPER_CONNECTIONS,
        moe=Moe(shared_count_key="n_shared_experts"),
    ),
    "DeepseekV41ForCausalLM": Architecture(
        mixer=shared_compressed_layers,
        extra=ENGRAM,
        moe=Moe(shared_count_key="n_shared_experts", router_bias=YES),
    ),
}
"""Traits by class name, as ``architectures`` of a configuration spells it."""
