"""The longest context a checkpoint declares, as the engine derives it."""

from __future__ import annotations

import math

from plimsoll.facts.models.fields import Fields, mapping_of

_LONGEST = 1_000_000_000
_UNSCALED = frozenset({"llama3", "longrope", "su"})
"""Rotary variants whose ``max_position_embeddings`` already is the scaled length. Source: vLLM, ``config/model.py``."""

_YARN = frozenset({"yarn", "deepseek_yarn"})

_POSITION_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Source: vLLM, ``transformers_utils/model_arch_config_convertor.py``."""

_UNNAMED_CONTEXT = 2048
"""The length that vLLM assumes if the file names none (``config/model.py``): Falcon, Bloom, Mamba."""


def max_context_tokens(fields: Fields, *, architecture: str) -> int:
    """Return the tokens of the longest sequence.

    YaRN multiplies its own original length; other scalings multiply the number of positions. Gemma 3 names a factor,
    but its length is already scaled. Source: vLLM, ``config/model.py`` (derivation of ``max_model_len``).

    Raises:
        InvalidInput: the length or the scaling is missing, ill-typed or absurd.
    """
    length = _declared(fields)
    if architecture.startswith("Gemma3"):
        return length
    factor = 1.0
    for scaling in _scalings(fields):
        kind = scaling.text("rope_type") or scaling.text("type") or "default"
        if kind in _UNSCALED:
            continue
        factor = scaling.number("factor", default=factor)
        if kind in _YARN:
            length = scaling.optional_integer(("original_max_position_embeddings",), largest=_LONGEST) or length
    return max(1, min(_LONGEST, math.floor(length * factor)))


def names_context(fields: Fields) -> bool:
    """Whether the file names a length at all. Where it names none, the engine takes the length that it is given."""
    return any(fields.has(key) for key in ("model_max_length", *_POSITION_KEYS))


def _declared(fields: Fields) -> int:
    """Return ``model_max_length`` where the family uses it (Command-R, Baichuan), else the smallest length named."""
    if fields.has("model_max_length"):
        return fields.integer(("model_max_length",), largest=_LONGEST)
    named = (fields.integer((key,), largest=_LONGEST) for key in _POSITION_KEYS if fields.has(key))
    return min(named, default=_UNNAMED_CONTEXT)


def _scalings(fields: Fields) -> tuple[Fields, ...]:
    """The rotary scaling: one object, or one for each layer type."""
    scaling = fields.section("rope_parameters") or fields.section("rope_scaling")
    if scaling is None:
        return ()
    nested = [Fields(inner, f"{scaling.origin}: {key}") for key, inner in _objects(scaling)]
    return tuple(nested) or (scaling,)


def _objects(scaling: Fields) -> list[tuple[str, dict[str, object]]]:
    found = ((key, mapping_of(value)) for key, value in scaling.values.items())
    return [(key, dict(inner)) for key, inner in found if inner is not None]
