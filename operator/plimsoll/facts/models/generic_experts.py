"""The mixture of experts of an unknown class."""

from __future__ import annotations

from plimsoll.facts.models.expert_layers import after_first, every_nth, interval, period_offset, sparse_step
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.traits import ExpertLayers, Flag, Moe

_SWITCHES = ("is_moe", "use_moe", "enable_moe_block")
"""Fields that turn experts off, even if the file gives a number of experts."""


def generic_experts(fields: Fields) -> Moe | None:
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
