"""Build an unknown tower from its tensors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.tensors.tensor import Tensor, is_dropped, is_of_tower, place

_MOST_POSITIONS = 4_096
"""A square of 896 pixels in patches of 14, the same as for a tower that is estimated from its fields."""

_AUDIO_POSITIONS = 1_500
"""Thirty seconds of sound as Whisper's encoder sees it, which most audio towers are."""

_JOINED = 4
"""Positions in a token, after the most common merging: two by two."""

_SECTIONS = ("vision_config", "visual", "audio_config", "speech_config", "audio_encoder_config")
_SOUND = ("audio_config", "speech_config", "audio_encoder_config")
_LARGEST_WIDTH = 100_000


@dataclass(frozen=True, slots=True)
class _Widths:
    layers: int
    hidden: int
    intermediate: int


def tower_from_tensors(
    whole: Fields, facts: ModelFacts, weights: tuple[Weight, ...], tensors: Sequence[Tensor]
) -> EncoderFacts:
    """The tower; its widths are those of its largest list of layers.

    Raises:
        InvalidInput: a field of the tower's section is ill-typed.
    """
    widths = _widths(tensors, facts)
    positions = _positions(whole)
    return EncoderFacts(
        weights=weights,
        layers=widths.layers,
        hidden=widths.hidden,
        intermediate=widths.intermediate,
        item_tokens=positions,
        output_tokens=max(1, positions // _JOINED),
    )


def tower_heads(whole: Fields) -> int:
    """Attention heads of the first tower that the configuration describes, 0 if it does not say.

    Raises:
        InvalidInput: the section is no object, or the count is absurd.
    """
    return size(tower_section(whole, *_SECTIONS), "num_attention_heads", "num_heads", "heads", default=0)


def _widths(tensors: Iterable[Tensor], facts: ModelFacts) -> _Widths:
    """Return the width of most vectors and the widest side of a matrix, from the tower's list with most elements."""
    stacks: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    for tensor in tensors:
        found = place(tensor.name)
        if found is not None and is_of_tower(found.stack) and not is_dropped(tensor.name, len(tensor.shape)):
            stacks[found.stack].append((found.number, tensor))
    if not stacks:
        return _Widths(1, facts.hidden, facts.hidden)
    largest = max(stacks.values(), key=lambda found: sum(tensor.elements for _, tensor in found))
    vectors = Counter(tensor.shape[0] for _, tensor in largest if len(tensor.shape) == 1)
    hidden = vectors.most_common(1)[0][0] if vectors else facts.hidden
    sides = [
        max(tensor.shape)
        for _, tensor in largest
        if len(tensor.shape) == 2 and "qkv" not in tensor.name  # noqa: PLR2004
    ]
    return _Widths(
        layers=len({number for number, _ in largest}),
        hidden=max(1, min(hidden, _LARGEST_WIDTH)),
        intermediate=max(1, min(max(sides, default=hidden), _LARGEST_WIDTH)),
    )


def _positions(whole: Fields) -> int:
    """Return the positions of the largest item, from the section's image size; the common number if there is none."""
    section = tower_section(whole, "vision_config")
    if section.has("image_size") and isinstance(section.values["image_size"], int):
        patch = size(section, "patch_size", default=14)
        return max(1, (size(section, "image_size", default=0) // patch) ** 2)
    sound = any(whole.has(key) for key in _SOUND) and not whole.has("vision_config")
    return _AUDIO_POSITIONS if sound else _MOST_POSITIONS
