"""Which counts of replicas fit on nodes together, each replica whole on one node, as rows of a linear programme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Row = tuple[Mapping[int, int], int]
"""For each size the slots that one replica takes, and the slots that there are."""


def divide_each_other(sizes: Sequence[int]) -> bool:
    """Whether each size divides every larger one, as 1, 2, 4 and 8 do."""
    return all(larger % size == 0 for size, larger in pairwise(sizes))


def slot_rows(sizes: Sequence[int], nodes: Mapping[int, int]) -> Iterator[Row]:
    """Yield one row for each size k: the replicas of at least k GPUs take no more slots of k than the nodes have.

    If the sizes divide each other, counts that obey all rows fit: place the largest replicas first, anywhere. They
    take whole slots of every smaller size, so what they leave has as many of these slots as the row says.
    """
    for size in sizes:
        takes = {each: each // size for each in sizes if each >= size}
        yield takes, sum(count * (free // size) for free, count in nodes.items())


def total_row(sizes: Sequence[int], nodes: Mapping[int, int]) -> Row:
    """Return the one row that looks at the sum of free GPUs, as if all of them were on one node."""
    return {size: size for size in sizes}, sum(free * count for free, count in nodes.items())


def patterns(sizes: Sequence[int], free: int) -> list[dict[int, int]]:
    """Return every way to fill a node's free GPUs to which no replica can be added."""
    found: list[dict[int, int]] = []
    _fill(sorted(sizes, reverse=True), free, {}, found)
    return found


def _fill(sizes: Sequence[int], free: int, begun: dict[int, int], found: list[dict[int, int]]) -> None:
    if not sizes:
        if free < min(begun):
            found.append({size: count for size, count in begun.items() if count})
        return
    for count in range(free // sizes[0], -1, -1):
        _fill(sizes[1:], free - count * sizes[0], {**begun, sizes[0]: count}, found)
