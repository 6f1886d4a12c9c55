"""Read how many weights share a scale, as each method writes it."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.facts.models.fields import Fields

_WHOLE_ROW = -1


def group_size(section: Fields, keys: Sequence[str] = ("group_size",)) -> int | None:
    """Inputs that share a scale; -1, the convention for one scale a channel, reads as None.

    Raises:
        InvalidInput: it is neither -1 nor a count.
    """
    key = section.first(keys)
    if key is None or (section.values[key] == _WHOLE_ROW and not isinstance(section.values[key], bool)):
        return None
    return section.integer((key,))


def block_shape(section: Fields, key: str) -> tuple[int, int] | None:
    """Outputs and inputs of one block, None if the method has no blocks.

    Raises:
        InvalidInput: it is not a pair of counts.
    """
    edges = section.items(key)
    if not edges:
        return None
    counts = [edge for edge in edges if isinstance(edge, int) and not isinstance(edge, bool) and 0 < edge <= _LARGEST]
    if len(edges) != 2 or len(counts) != 2:  # noqa: PLR2004
        raise section.refuse(key, "Give two whole numbers, e.g. [128, 128].")
    return counts[0], counts[1]


_LARGEST = 1_000_000
