"""Positions: the tables of rotary embeddings, and the longest context that a checkpoint declares."""

from __future__ import annotations

import math

from plimsoll.domain.models.caches import AttentionCache, IndexerCache, LatentCache
from plimsoll.domain.models.model import ModelFacts
from plimsoll.facts.models.fields import Fields, mapping_of

_LONGEST = 1_000_000_000

_WIDE_CLASSES = ("GptOssForCausalLM", "DeepseekV4ForCausalLM", "DeepseekV41ForCausalLM")
"""Classes that keep their tables in 32 bits (``models/gpt_oss.py``, ``models/deepseek_v4``, ``deepseek_v41``)."""

_WITHOUT_TABLES = (
    "JambaForCausalLM",
    "KimiK3ForConditionalGeneration",
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "PhiForCausalLM",
    "Starcoder2ForCausalLM",
)
"""Classes without a table: their attention rotates nothing, or Transformers' modules compute the values anew."""

_HALF_ROTATED = ("ChatGLMModel", "ChatGLMForConditionalGeneration")
"""Classes that rotate half of a head although no field says it (``models/chatglm.py``)."""

_VIDEO_FACTOR = 4
"""Multimodal positions may be larger than the number of tokens: vLLM makes the table four times as long
(``rotary_embedding/mrope.py``)."""

_INTERLEAVED = "mrope_interleaved"
"""Models whose positions are never larger than the number of tokens. Releases before 0.32 still made the table four
times as long (``models/qwen3_vl.py``, ``mrope_positions_factor``): Qwen3.5 logged 0.09 GiB more, Qwen3-VL 0.19."""

_INTERLEAVED_CLASSES = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
"""Classes for which that is the default (Transformers' ``Qwen3VLTextConfig``): an embedding model without the field
logged 0.19 GiB more on 0.11.0."""

_SHARE = "partial_rotary_factor"
_WHOLE_HEAD = "proportional"
"""A rotation that does not rotate most of a head, but keeps a table for the whole head (Gemma 4)."""


def rotary_bytes(fields: Fields, facts: ModelFacts) -> int:
    """Return the bytes of all tables of ``facts`` in its 16-bit type: cosine and sine for every position.

    There is one table for each different rotation, and layers of one kind share it. Windows may have their own table;
    full attention has another, longer by its factor. An indexer has a second table if its interleaving differs from
    that of its attention. Source: vLLM 0.32, ``model_executor/layers/rotary_embedding``; checked against the buffers of
    its modules.

    Raises:
        InvalidInput: a field of the scaling is ill-typed.
    """
    positions = fields.optional_integer(("max_position_embeddings", "n_positions", "seq_length"), largest=_LONGEST)
    learned = any(each.name == "embed_positions" for each in facts.embedding)
    if positions is None or learned or facts.architecture in _WITHOUT_TABLES:
        return 0
    scaling = fields.section("rope_scaling") or fields.section("rope_parameters")
    nested = [] if scaling is None else [key for key in scaling.values if mapping_of(scaling.values[key]) is not None]
    if scaling is not None and nested:
        values = sum(_nested_values(key, scaling.section(key), facts, positions) for key in nested)
    else:
        values = _values(fields, scaling, facts, positions)
    return values * (4 if facts.architecture in _WIDE_CLASSES else 2)


def older_rotary_bytes(fields: Fields, facts: ModelFacts) -> int:
    """Return the bytes that releases before 0.32 keep in addition to :func:`rotary_bytes`.

    Raises:
        InvalidInput: a field of the scaling is ill-typed.
    """
    scaling = fields.section("rope_scaling") or fields.section("rope_parameters")
    if scaling is None:
        interleaved = facts.architecture in _INTERLEAVED_CLASSES
    else:
        interleaved = scaling.has("mrope_section") and scaling.flag(_INTERLEAVED, default=False)
    if not interleaved:
        return 0
    return rotary_bytes(fields, facts) * (_VIDEO_FACTOR - 1)


def _values(fields: Fields, scaling: Fields | None, facts: ModelFacts, positions: int) -> int:
    width = _rotary_width(fields, scaling, facts)
    original = fields.optional_integer(("original_max_position_embeddings",), largest=_LONGEST)
    tables = 1 + _has_second_table(fields, facts)
    rows = tables * _rows(scaling, positions, original)
    return width * (rows + (positions if fields.has("rope_local_base_freq") else 0))


def _has_second_table(fields: Fields, facts: ModelFacts) -> bool:
    """Whether windows or compressed tokens rotate with another base, or an indexer rotates in another order."""
    indexes = any(isinstance(cache, IndexerCache) for cache in facts.caches())
    uncompressed = [ratio == 0 for ratio in fields.items("compress_ratios")[: facts.layers]]
    return (
        fields.has("swa_rope_theta")
        or (indexes and not fields.flag("indexer_rope_interleave", default=False))
        or (any(uncompressed) and not all(uncompressed))
    )


def _rotary_width(fields: Fields, scaling: Fields | None, facts: ModelFacts) -> int:
    """Return the number of rotated elements of a head; 0 if nothing is rotated."""
    stated = fields.optional_integer(("qk_rope_head_dim", "rotary_dim"), smallest=0, largest=_LONGEST)
    if stated is not None:
        return stated
    for cache in facts.caches():
        if isinstance(cache, LatentCache):
            return cache.rope
        if isinstance(cache, AttentionCache):
            return int(cache.key_dim * _share(fields, scaling, facts))
    return 0


def _share(fields: Fields, scaling: Fields | None, facts: ModelFacts) -> float:
    usual = 0.5 if facts.architecture in _HALF_ROTATED else 1.0
    share = fields.number(_SHARE, default=fields.number("rope_pct", default=usual))
    return share if scaling is None else scaling.number(_SHARE, default=share)


def _nested_values(key: str, scaling: Fields | None, facts: ModelFacts, positions: int) -> int:
    attention = [cache for cache in facts.caches() if isinstance(cache, AttentionCache)]
    own = [cache for cache in attention if (cache.window_tokens is not None) == ("sliding" in key)] or attention
    if not own or scaling is None:
        return 0
    whole = scaling.text("rope_type") == _WHOLE_HEAD
    share = 1.0 if whole else scaling.number(_SHARE, default=1.0)
    return int(own[0].key_dim * share) * _rows(scaling, positions, None)


def _rows(scaling: Fields | None, positions: int, declared: int | None) -> int:
    """Return the positions of one table; ``declared`` is the original length if it is outside the scaling object."""
    if scaling is None:
        return positions
    kind = scaling.text("rope_type") or scaling.text("type") or "default"
    original = scaling.optional_integer(("original_max_position_embeddings",), largest=_LONGEST) or declared
    factor = scaling.number("factor", default=1.0)
    match kind:
        case "linear":
            return int(positions * factor)
        case "yarn" | "deepseek_yarn":
            return int((original or positions) * factor)
        case "longrope" | "su":
            return positions + (original or 0)
        case _ if scaling.has("mrope_section") and not scaling.flag(_INTERLEAVED, default=False):
            return positions * _VIDEO_FACTOR
        case _:
            return positions


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
    """Whether the file names a length at all. If it names none, the engine takes the length that it is given."""
    return any(fields.has(key) for key in ("model_max_length", *_POSITION_KEYS))


def _declared(fields: Fields) -> int:
    """Return ``model_max_length`` if the family uses it (Command-R, Baichuan), else the smallest length named."""
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
