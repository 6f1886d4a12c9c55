"""The mixture-of-experts part of a configuration: which layers hold experts, how many, how wide."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.domain.models.model import ExpertFacts
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.traits import Moe


def expert_facts(fields: Fields, moe: Moe, sparse: Sequence[bool]) -> ExpertFacts:
    """Read the experts of the layers that ``sparse`` marks.

    Raises:
        InvalidInput: a count or width is missing, ill-typed, or more experts are asked per token than there are.
    """
    experts = fields.integer(moe.experts_keys)
    width = fields.uniform_integer(moe.width_keys)
    return ExpertFacts(
        layers=sum(sparse),
        experts=experts,
        experts_per_token=fields.uniform_integer(moe.per_token_keys, largest=experts),
        intermediate=width,
        shared_intermediate=_shared_width(fields, moe, width),
    )


def _shared_width(fields: Fields, moe: Moe, width: int) -> int:
    count = 1
    if moe.shared_count_key is not None:
        count = moe.shared_count_default
        if fields.has(moe.shared_count_key):
            count = fields.uniform_integer((moe.shared_count_key,), smallest=0)
    if moe.shared_width_key is not None and (fields.has(moe.shared_width_key) or moe.shared_count_key is None):
        return count * (fields.optional_integer((moe.shared_width_key,), smallest=0) or 0)
    return count * width if moe.shared_count_key is not None else 0


def expert_layers(fields: Fields, moe: Moe | None, layers: int) -> tuple[bool, ...]:
    """For every layer, whether it holds experts. A list of the layers goes before the rule of the class.

    Raises:
        InvalidInput: a step or a list of layers is ill-typed.
    """
    if moe is None or (moe.optional and (fields.optional_integer(moe.experts_keys, smallest=0) or 0) <= 1):
        return (False,) * layers
    listed = _listed(fields, layers)
    if listed is not None:
        return listed
    return (True,) * layers if moe.holds is None else moe.holds(fields, layers)


def after_first(fields: Fields, layers: int) -> tuple[bool, ...]:
    """All but the first ``first_k_dense_replace``; ``moe_layer_freq`` is a step, or a list with 1 for a sparse layer.

    Raises:
        InvalidInput: a field is ill-typed, or the list too short.
    """
    dense = fields.optional_integer(("first_k_dense_replace", "num_dense_layers"), smallest=0) or 0
    frequency = fields.values.get("moe_layer_freq")
    if isinstance(frequency, list | tuple):
        if len(frequency) < layers:
            raise fields.refuse("moe_layer_freq", f"List 0 or 1 for each of the {layers} layers.")
        return tuple(bool(entry) for entry in frequency[:layers])
    step = fields.optional_integer(("moe_layer_freq",)) or 1
    return tuple(layer >= dense and layer % step == 0 for layer in range(layers))


def all_but_first(_fields: Fields, layers: int) -> tuple[bool, ...]:
    """All but the first layer (Step 3)."""
    return tuple(layer > 0 for layer in range(layers))


def sparse_step(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Every ``decoder_sparse_step``-th layer that is not in ``mlp_only_layers``.

    Raises:
        InvalidInput: a field is ill-typed.
    """
    step = fields.optional_integer(("decoder_sparse_step",)) or 1
    dense_only = _layer_set(fields, "mlp_only_layers")
    return tuple(layer not in dense_only and (layer + 1) % step == 0 for layer in range(layers))


def every_nth(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Every ``interleave_moe_layer_step``-th (Llama 4).

    Raises:
        InvalidInput: the step is ill-typed.
    """
    step = fields.optional_integer(("interleave_moe_layer_step",)) or 1
    return tuple((layer + 1) % step == 0 for layer in range(layers))


def interval(fields: Fields, layers: int) -> tuple[bool, ...]:
    """From ``moe_layer_start_index`` to ``moe_layer_end_index``, every ``moe_layer_interval``-th (Ernie 4.5).

    Source: vLLM, ``models/ernie45_moe.py``.

    Raises:
        InvalidInput: a field is ill-typed.
    """
    first = fields.optional_integer(("moe_layer_start_index",), smallest=0) or 0
    key = "moe_layer_end_index"  # -1 is the last layer
    last = None if fields.values.get(key) == -1 else fields.optional_integer((key,), smallest=0)
    step = fields.optional_integer(("moe_layer_interval",)) or 1
    end = layers - 1 if last is None else last
    return tuple(first <= layer <= end and (layer + 1) % step == 0 for layer in range(layers))


def period_offset(fields: Fields, layers: int) -> tuple[bool, ...]:
    """``layer % expert_layer_period == expert_layer_offset`` (Jamba).

    Raises:
        InvalidInput: a field is ill-typed.
    """
    return at_offset(fields, "expert_layer", layers, period=2, offset=1)


def at_offset(fields: Fields, name: str, layers: int, *, period: int, offset: int) -> tuple[bool, ...]:
    """The layers at one place of each period, by fields that begin with ``name``. The defaults are ``JambaConfig``'s.

    Raises:
        InvalidInput: a field is ill-typed.
    """
    every = fields.optional_integer((f"{name}_period",)) or period
    stated = fields.optional_integer((f"{name}_offset",), smallest=0)
    place = offset if stated is None else stated
    return tuple(layer % every == place for layer in range(layers))


def _listed(fields: Fields, layers: int) -> tuple[bool, ...] | None:
    """The layers as the file lists them: by type, or by number."""
    types = fields.texts("mlp_layer_types")
    if types:
        if len(types) < layers:
            raise fields.refuse("mlp_layer_types", f"List a type for each of the {layers} layers.")
        return tuple(kind != "dense" for kind in types[:layers])
    if fields.has("moe_layers_enum"):
        numbers = _numbers(fields, "moe_layers_enum")
        return tuple(layer in numbers for layer in range(layers))
    if fields.items("moe_layers"):
        numbers = _layer_set(fields, "moe_layers")
        return tuple(layer in numbers for layer in range(layers))
    return None


def _numbers(fields: Fields, key: str) -> set[int]:
    """Layers as one string, ``4,5,6`` (Step 3.5), or as a list."""
    if not isinstance(fields.values[key], str):
        return _layer_set(fields, key)
    words = [word.strip() for word in (fields.text(key) or "").split(",")]
    if not all(word.isdecimal() and len(word) <= len(str(_LARGEST_LAYER)) for word in words):
        raise fields.refuse(key, "List each layer once, by its number.")
    return {int(word) for word in words}


_LARGEST_LAYER = 9_999


def _layer_set(fields: Fields, key: str) -> set[int]:
    entries = fields.items(key)
    indices = {entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)}
    if len(indices) != len(entries):
        raise fields.refuse(key, "List each layer once, by its number.")
    return indices
