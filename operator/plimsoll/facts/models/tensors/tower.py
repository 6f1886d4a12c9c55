"""Build an unknown tower from its tensors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.generic_tower import JOINED, MOST_POSITIONS, SOUND_SECTIONS
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.tensors.tensor import Tensor, is_dropped, is_of_tower, place

_AUDIO_POSITIONS = 1_500
"""Thirty seconds of sound as Whisper's encoder sees it, which most audio towers are."""

_LARGEST_WIDTH = 100_000


def tower_from_tensors(
    whole: Fields, facts: ModelFacts, weights: tuple[Weight, ...], tensors: Sequence[Tensor]
) -> EncoderFacts:
    """The tower; its widths are those of its largest list of layers.

    Raises:
        InvalidInput: a field of the tower's section is ill-typed.
    """
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
