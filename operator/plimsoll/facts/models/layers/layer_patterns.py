"""Which layers of a hybrid model have attention, a recurrence, an MLP or experts."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.layers.expert_layers import at_offset
from plimsoll.facts.models.layers.parts import LayerPart, Role
from plimsoll.facts.models.traits import Architecture, Recurrent

_CHARACTERS = {"M": Role.RECURRENT, "*": Role.ATTENTION, "-": Role.MLP, "E": Role.EXPERTS}

_TYPES = {
    "attention": Role.ATTENTION,
    "full_attention": Role.ATTENTION,
    "indexed_attention": Role.ATTENTION,
    "deepseek_sparse_attention": Role.ATTENTION,
    "qwen_sparse_attention": Role.ATTENTION,
    "mamba": Role.RECURRENT,
    "mamba2": Role.RECURRENT,
    "linear_attention": Role.RECURRENT,
    "conv": Role.RECURRENT,
    "hybrid": Role.BOTH,
    "mlp": Role.MLP,
    "moe": Role.EXPERTS,
}
"""Layer types as configurations spell them, before and after Transformers 5 renamed them."""

_TYPE_KEYS = ("layers_block_type", "layer_types")
_COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers")
_ATTENTION_KEYS = ("attn_layer_indices", "full_attn_idxs")
_INTERVAL_KEYS = ("full_attention_interval", "layer_group_size")
PATTERN = "hybrid_override_pattern"


def layer_count(fields: Fields, *, largest: int) -> int:
    """Return the number of decoder layers: the file's number, or the number of listed layer types."""
    if fields.first(_COUNT_KEYS) is None:
        listed = fields.first(_TYPE_KEYS)
        if listed is not None and 0 < len(fields.texts(listed)) <= largest:
            return len(fields.texts(listed))
    return fields.integer(_COUNT_KEYS, largest=largest)


def has_attention(traits: Architecture) -> bool:
    """Whether any layer of the class has attention heads."""
    return traits.recurrent is None or traits.recurrent.roles is not recurrent_only


def layer_roles(name: str, fields: Fields, traits: Architecture, layers: int) -> tuple[Role, ...]:
    """The role of every layer, first to last.

    Raises:
        InvalidInput: a pattern is missing, ill-typed or too short.
        UnsupportedModel: a layer of another type.
    """
    recurrent = traits.recurrent
    if recurrent is None:
        return (Role.ATTENTION,) * layers
    return recurrent.roles(name, fields, recurrent, layers)


def mlp_layers(roles: tuple[Role, ...], traits: Architecture) -> tuple[bool, ...]:
    """Return for every layer whether it has an MLP or experts.

    In a pattern by characters each layer has only one part. Purely recurrent models have no MLP, and Zamba 2 has its
    MLP inside the shared block.
    """
    recurrent = traits.recurrent
    if recurrent is None:
        return (True,) * len(roles)
    if recurrent.roles is by_characters:
        return tuple(role in (Role.MLP, Role.EXPERTS) for role in roles)
    return (recurrent.roles not in (recurrent_only, shared_block),) * len(roles)


def expert_characters(fields: Fields, layers: int) -> tuple[bool, ...]:
    """For every layer of a pattern by characters (or by types), whether it is a mixture of experts."""
    pattern = fields.text(PATTERN)
    if pattern is not None:
        return tuple(character == "E" for character in pattern[:layers].ljust(layers))
    types = fields.texts(fields.first(_TYPE_KEYS) or _TYPE_KEYS[0])
    return tuple(kind == "moe" for kind in (*types, *("",) * layers)[:layers])


def in_one_module(part: LayerPart, traits: Architecture) -> LayerPart:
    """Return the part with the checkpoint's names: in Nemotron-H every part of a layer is named ``mixer``."""
    recurrent = traits.recurrent
    if recurrent is None or recurrent.roles is not by_characters:
        return part
    return LayerPart(
        tuple(replace(weight, name=_renamed(weight.name, recurrent.module)) for weight in part.weights), part.caches
    )


def _renamed(name: str, module: str) -> str:
    outer, _, inner = name.partition(".")
    return f"{module}.{inner}" if outer in ("self_attn", "mlp") else name


def _where(attention: tuple[bool, ...]) -> tuple[Role, ...]:
    return tuple(Role.ATTENTION if here else Role.RECURRENT for here in attention)


def recurrent_only(_name: str, _fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Every layer is recurrent and has no MLP (Mamba)."""
    return (Role.RECURRENT,) * layers


def parallel(_name: str, _fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Every layer has both, side by side (Falcon-H1)."""
    return (Role.BOTH,) * layers


def by_characters(name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """A letter of ``hybrid_override_pattern`` a layer: ``M`` recurrent, ``*`` attention, ``-`` MLP, ``E`` experts.

    Raises:
        InvalidInput: the pattern or the list of types is missing or too short.
        UnsupportedModel: a layer of another type.
    """
    if not fields.has(PATTERN):
        return _required_types(name, fields, layers)
    pattern = fields.text(PATTERN) or ""
    if len(pattern) < layers:
        raise fields.refuse(PATTERN, f"Write a character for each of the {layers} layers.")
    for character in pattern[:layers]:
        if character not in _CHARACTERS:
            raise UnsupportedModel(name, f"layers of the type {character!r} ({PATTERN})")
    return tuple(_CHARACTERS[character] for character in pattern[:layers])


def shared_block(name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Layers of the type ``hybrid``: a recurrence, and one shared block of attention and MLP (Zamba 2).

    Raises:
        InvalidInput: the list of types is missing or too short.
        UnsupportedModel: a layer of another type.
    """
    return _required_types(name, fields, layers)


def _required_types(name: str, fields: Fields, layers: int) -> tuple[Role, ...]:
    roles = _by_types(name, fields, layers)
    if not roles:
        raise fields.refuse(_TYPE_KEYS[0], f"List a type for each of the {layers} layers.")
    return roles


def _by_types(name: str, fields: Fields, layers: int) -> tuple[Role, ...]:
    """The roles that the configuration lists; none if it lists nothing."""
    key = fields.first(_TYPE_KEYS)
    types = fields.texts(key) if key is not None else ()
    if key is None or not types:
        return ()
    if len(types) < layers:
        raise fields.refuse(key, f"List a type for each of the {layers} layers.")
    for kind in types[:layers]:
        if kind not in _TYPES:
            raise UnsupportedModel(name, f"layers of the type {shown(kind)} ({key})")
    return tuple(_TYPES[kind] for kind in types[:layers])


def by_numbers(name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Attention in the layers whose numbers are listed (``attn_layer_indices``, ``full_attn_idxs``)."""
    return _by_types(name, fields, layers) or _where(_listed(fields, layers))


def by_period(name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Attention if ``layer % attn_layer_period == attn_layer_offset`` (Jamba)."""
    listed = _by_types(name, fields, layers)
    if listed:
        return listed
    return _where(at_offset(fields, "attn_layer", layers, period=8, offset=4))


def by_codes(name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Attention in the layers with 1 in ``attn_type_list`` (MiniMax)."""
    return _by_types(name, fields, layers) or _where(_coded(fields, layers))


def every_nth(name: str, fields: Fields, recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Attention in every n-th layer: ``full_attention_interval``, ``layer_group_size``."""
    listed = _by_types(name, fields, layers)
    if listed:
        return listed
    every = fields.optional_integer(_INTERVAL_KEYS) or recurrent.every
    whole = layers // every * every if recurrent.rest_attends else layers
    return _where(tuple((layer + 1) % every == 0 or layer >= whole for layer in range(layers)))


def outside_kda_layers(_name: str, fields: Fields, _recurrent: Recurrent, layers: int) -> tuple[Role, ...]:
    """Attention in the layers that ``linear_attn_config.kda_layers`` leaves out, counted from 1."""
    section = fields.section("linear_attn_config")
    delta = section.items("kda_layers") if section is not None else ()
    return _where(tuple(layer + 1 not in delta for layer in range(layers)))


def _listed(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return for every layer whether it is listed. Without a list LFM2 has attention in all layers, Bamba in none."""
    key = fields.first(_ATTENTION_KEYS)
    if key is None:
        return ("conv_L_cache" in fields.values,) * layers
    listed = fields.items(key)
    return tuple(layer in listed for layer in range(layers))


def _coded(fields: Fields, layers: int) -> tuple[bool, ...]:
    codes = fields.items("attn_type_list")
    if len(codes) < layers:
        raise fields.refuse("attn_type_list", f"List 0 or 1 for each of the {layers} layers.")
    return tuple(code == 1 for code in codes[:layers])
