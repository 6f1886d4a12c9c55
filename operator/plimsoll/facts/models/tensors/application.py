"""Combine facts with the checkpoint's tensors: use the tensors of unknown classes, compare those of known classes.

An unknown tower is built from its tensors. The weights of a known class are compared with those that are stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import EncoderFacts, Evidence, LayerKind, ModelFacts, Weight
from plimsoll.domain.units import format_gib
from plimsoll.facts.models.encoders.generic_tower import JOINED, MOST_POSITIONS, SOUND_SECTIONS
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import numbered
from plimsoll.facts.models.tensors.reading import TensorWeights, weights_from_tensors
from plimsoll.facts.models.tensors.tensor import Tensor, is_dropped, is_of_tower, place

LARGEST_DIFFERENCE = 0.01
"""Largest accepted difference, as a share of the weights: padded vocabularies and dropped scales stay below it."""


def difference(facts: ModelFacts, weights: TensorWeights) -> str | None:
    """Return a sentence if the sums differ by more than a hundredth; None if they agree."""
    ours, stored = _of_facts(facts), _of_tensors(weights)
    expected, found = sum(ours.values()), sum(stored.values())
    if abs(found - expected) <= LARGEST_DIFFERENCE * expected:
        return None
    part = max(ours, key=lambda name: abs(stored[name] - ours[name]))
    return (
        f"The checkpoint stores {format_gib(found)} of weights that the engine would load, {format_gib(expected)} "
        f"follow from config.json; most of the difference is in the {part} ({format_gib(stored[part])} stored, "
        f"{format_gib(ours[part])} expected). The estimate goes by config.json."
    )


def _of_facts(facts: ModelFacts) -> dict[str, int]:
    layers = [_bytes(kind.weights) for kind in facts.kinds]
    return {
        "layers": sum(layers[kind] for kind in facts.order),
        "embeddings": _bytes((*facts.embedding, *facts.head)),
        "tower": _bytes(facts.encoder.weights) if facts.encoder is not None else 0,
    }


def _of_tensors(weights: TensorWeights) -> dict[str, int]:
    return {
        "layers": sum(count * _bytes(layer) for layer, count in Counter(weights.layers).items()),
        "embeddings": _bytes((*weights.embedding, *weights.head)),
        "tower": _bytes(weights.tower),
    }


def _bytes(weights: Iterable[Weight]) -> int:
    return sum(weight.count * weight.storage.bytes_of(weight.outputs, weight.inputs) for weight in weights)


def unreadable(facts: ModelFacts) -> str:
    """Return the remark for a list of tensors that cannot be used."""
    return (
        f"The names of the checkpoint's tensors do not show the {facts.layers} layers that config.json declares: the "
        "weights are computed from config.json."
    )


def with_tensors(facts: ModelFacts, whole: Fields, fields: Fields, tensors: Sequence[Tensor]) -> ModelFacts | None:
    """Return the facts with the weights of the tensors. The caches still come from the configuration.

    Args:
        facts: the facts from the configuration alone.
        whole: the configuration, for the tower's section.
        fields: the language model's part of it.
        tensors: the tensors of every file of the checkpoint.

    Returns:
        The facts; None if the tensors cannot be assigned to layers.

    Raises:
        InvalidInput: a field of the tower's section is ill-typed.
    """
    known = facts.evidence is Evidence.KNOWN
    weights = weights_from_tensors(
        _kept(fields, tensors),
        checkpoint=facts.checkpoint,
        hidden=facts.hidden,
        heads=facts.heads,
        kv_heads=[_kv_heads(facts.kinds[kind]) for kind in facts.order],
        experts=facts.experts.experts if facts.experts is not None else 0,
        tied=facts.tied_embeddings if known else _declared_tie(fields),
        tower_heads=tower_heads(whole),
    )
    if weights is None:
        return None
    if known:
        remark = difference(facts, weights)
        counted = facts.parameters if facts.parameters is not None else weights.elements
        return replace(facts, parameters=counted, remarks=facts.remarks if remark is None else (*facts.remarks, remark))
    tower = _tower_from_tensors(whole, facts, weights.tower, tensors) if weights.tower else None
    return _taken_over(facts, weights, tower)


def _kept(fields: Fields, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the tensors, without GPTQ's order of inputs if it is the natural one: ``gptq_marlin`` drops it."""
    section = fields.section("quantization_config")
    if section is None or section.values.get("desc_act") is True:
        return tensors
    return [tensor for tensor in tensors if not tensor.name.endswith(".g_idx")]


def _kv_heads(kind: LayerKind) -> int:
    return next((cache.kv_heads for cache in kind.caches if isinstance(cache, AttentionCache)), 0)


def _declared_tie(fields: Fields) -> bool | None:
    key = fields.first(("tie_word_embeddings", "tie_embedding"))
    return fields.flag(key, default=False) if key is not None else None


def _taken_over(facts: ModelFacts, weights: TensorWeights, encoder: EncoderFacts | None) -> ModelFacts:
    layers = zip(weights.layers, facts.order, strict=True)
    kinds, order = numbered(LayerKind(layer, facts.kinds[kind].caches) for layer, kind in layers)
    return replace(
        facts,
        kinds=kinds,
        order=order,
        embedding=weights.embedding,
        head=weights.head,
        encoder=encoder,
        tied_embeddings=weights.tied,
        evidence=Evidence.TENSORS,
        parameters=weights.elements,
    )


_AUDIO_POSITIONS = 1_500
"""Thirty seconds of sound as Whisper's encoder sees it, which most audio towers are."""

_LARGEST_WIDTH = 100_000


def _tower_from_tensors(
    whole: Fields, facts: ModelFacts, weights: tuple[Weight, ...], tensors: Sequence[Tensor]
) -> EncoderFacts:
    """The tower; its widths are those of its largest list of layers."""
    layers, hidden, intermediate = _widths(tensors, facts)
    positions = _positions(whole)
    return EncoderFacts(
        weights=weights,
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        item_tokens=positions,
        output_tokens=max(1, positions // JOINED),
    )


def tower_heads(whole: Fields) -> int:
    """Attention heads of the first tower that the configuration describes, 0 if it does not say.

    Raises:
        InvalidInput: the section is no object, or the count is absurd.
    """
    section = tower_section(whole, "vision_config", "visual", *SOUND_SECTIONS)
    return size(section, "num_attention_heads", "num_heads", "heads", default=0)


def _widths(tensors: Iterable[Tensor], facts: ModelFacts) -> tuple[int, int, int]:
    """Return layers, the width of most vectors and the widest side of a matrix, of the list with most elements."""
    stacks: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    for tensor in tensors:
        found = place(tensor.name)
        if found is not None and is_of_tower(found.stack) and not is_dropped(tensor.name, len(tensor.shape)):
            stacks[found.stack].append((found.number, tensor))
    if not stacks:
        return 1, facts.hidden, facts.hidden
    largest = max(stacks.values(), key=lambda found: sum(tensor.elements for _, tensor in found))
    vectors = Counter(tensor.shape[0] for _, tensor in largest if len(tensor.shape) == 1)
    hidden = vectors.most_common(1)[0][0] if vectors else facts.hidden
    sides = [
        max(tensor.shape)
        for _, tensor in largest
        if len(tensor.shape) == 2 and "qkv" not in tensor.name  # noqa: PLR2004
    ]
    widest = max(sides, default=hidden)
    layers = len({number for number, _ in largest})
    return layers, max(1, min(hidden, _LARGEST_WIDTH)), max(1, min(widest, _LARGEST_WIDTH))


def _positions(whole: Fields) -> int:
    """Return the positions of the largest item, from the section's image size; the common number if there is none."""
    section = tower_section(whole, "vision_config")
    if section.has("image_size") and isinstance(section.values["image_size"], int):
        patch = size(section, "patch_size", default=14)
        return max(1, (size(section, "image_size", default=0) // patch) ** 2)
    sound = any(whole.has(key) for key in SOUND_SECTIONS) and not whole.has("vision_config")
    return _AUDIO_POSITIONS if sound else MOST_POSITIONS
