"""The mixture-of-experts part of a configuration."""

from __future__ import annotations

from plimsoll.domain.model import ExpertFacts
from plimsoll.facts.fields import Fields
from plimsoll.facts.traits import Moe, MoeRule


def expert_facts(fields: Fields, moe: Moe, layers: int) -> ExpertFacts | None:
    """Read the experts; None where the configuration leaves every layer dense.

    Raises:
        InvalidInput: a count or width is missing, ill-typed, or more experts are asked per token than there are.
    """
    moe_layers = _moe_layers(fields, moe.rule, layers)
    if not moe_layers:
        return None
    experts = fields.integer(moe.experts_keys)
    per_token = fields.integer(("num_experts_per_tok", "experts_per_token"), largest=experts)
    width = fields.integer((moe.width_key,))
    return ExpertFacts(
        layers=moe_layers,
        experts=experts,
        experts_per_token=per_token,
        intermediate=width,
        shared_intermediate=_shared_width(fields, moe, width),
        has_bias=moe.expert_bias,
    )


def _shared_width(fields: Fields, moe: Moe, width: int) -> int:
    if moe.shared_width_key is not None:
        return fields.optional_integer((moe.shared_width_key,), smallest=0) or 0
    if moe.shared_count_key is not None:
        return width * (fields.optional_integer((moe.shared_count_key,), smallest=0) or 0)
    return 0


def _moe_layers(fields: Fields, rule: MoeRule, layers: int) -> int:
    match rule:
        case MoeRule.ALL:
            return layers
        case MoeRule.AFTER_FIRST:
            dense = fields.optional_integer(("first_k_dense_replace",), smallest=0) or 0
            return max(0, layers - dense)
        case MoeRule.SPARSE_STEP:
            step = fields.optional_integer(("decoder_sparse_step",)) or 1
            dense_only = _dense_only(fields)
            return sum(layer not in dense_only and (layer + 1) % step == 0 for layer in range(layers))


def _dense_only(fields: Fields) -> set[int]:
    entries = fields.items("mlp_only_layers")
    indices = {entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)}
    if len(indices) != len(entries):
        raise fields.refuse("mlp_only_layers", "List each layer once, by its number.")
    return indices
