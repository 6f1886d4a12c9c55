"""Check that the sizes of a configuration together describe a model that can exist."""

from __future__ import annotations

from plimsoll.domain.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.parameters import count_parameters

MOST_PARAMETERS = 10**14
"""Fifty times the largest published model. Each field alone may be possible while their product is a mistake."""


def check_size(facts: ModelFacts, fields: Fields) -> None:
    """Refuse sizes that no model has.

    Raises:
        InvalidInput: more parameters than any model; the error names the field that contributes most.
    """
    total = count_parameters(facts)
    if total > MOST_PARAMETERS:
        most = f"at most {MOST_PARAMETERS:.0e}"
        raise fields.refuse(_largest(facts, fields), f"The sizes make {total:.1e} parameters; give {most} in all.")


MOST_TOWER_PARAMETERS = 10**12
"""More than a hundred times the largest published vision or audio tower."""


def check_tower_size(tower: EncoderFacts, fields: Fields) -> None:
    """Refuse a vision or audio tower that no model has.

    Raises:
        InvalidInput: more parameters than any tower; the error names the tower's section.
    """
    total = sum(weight.parameters for weight in tower.weights)
    if total > MOST_TOWER_PARAMETERS:
        section = fields.first(("vision_config", "thinker_config", "audio_config", "encoder_config")) or "vision_config"
        most = f"at most {MOST_TOWER_PARAMETERS:.0e}"
        raise fields.refuse(section, f"The sizes of the tower make {total:.1e} parameters; give {most} in all.")


def _largest(facts: ModelFacts, fields: Fields) -> str:
    """Return the field that adds most of the parameters."""
    tables = sum(weight.parameters for weight in (*facts.embedding, *facts.head))
    if 2 * tables > count_parameters(facts):
        return fields.first(("vocab_size", "padded_vocab_size")) or "vocab_size"
    if facts.experts is not None:
        routed = fields.first(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"))
        return routed or "num_experts"
    return fields.first(("hidden_size", "n_embd")) or "hidden_size"
