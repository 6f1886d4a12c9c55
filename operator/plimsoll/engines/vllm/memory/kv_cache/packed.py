"""Groups of caches with pages of different sizes in one block (DeepSeek-V4, GLM-5.3-Flash, Qwen4-Exp).

Every group draws its block ids from one pool, so a block has room for the widest group. Sources, in vLLM's
``v1/core/kv_cache_utils.py``: ``_get_packed_kv_cache_groups`` (0.32), ``_bucket_layers_by_page_size`` (0.23 to 0.26).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, Sequence
from enum import StrEnum
from math import lcm
from typing import NamedTuple

from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.kv_cache.groups import Grouping, Holding, Layers, Page

_STATES = (Holding.STATE, Holding.RING)


class Packing(StrEnum):
    """The rule for the size of a block that several groups share.

    ``TUPLES``: all page sizes of the full caches, each as often as the longest group has pages of one size.
    ``PAGE_SIZES``: each of these page sizes as often as in the group with the most pages of that size. A page of a
    window takes the next larger size. ``DENSE``: the size of the group with the most bytes.
    """

    TUPLES = "tuples"
    PAGE_SIZES = "pageSizes"
    DENSE = "dense"


class _Bucket(NamedTuple):
    """Layers in which a request holds the same number of blocks: how many have a page of each size."""

    page: Page
    here: Counter[int]
    everywhere: Counter[int]

    @property
    def balanced(self) -> bool:
        """Whether all its page sizes occur equally often, so that it can be divided."""
        return len(set(self.everywhere.values())) == 1

    @property
    def longest(self) -> int:
        return max(self.everywhere.values())

    @property
    def sizes(self) -> ItemsView[int, int]:
        return self.everywhere.items()


def packed_groups(layers: Sequence[Layers], packing: Packing) -> Grouping:
    """Return groups of about equal length, and the bytes of a block on this stage."""
    buckets = _buckets(layers)
    counts = _group_counts(buckets)
    groups = tuple((bucket.page, count) for bucket, count in zip(buckets, counts, strict=True))
    # The layers of a bucket go to its groups in turn, so the layers of a stage are spread evenly.
    widest = [
        Counter({size: ceil_div(number, count) for size, number in bucket.here.items()})
        for bucket, count in zip(buckets, counts, strict=True)
    ]
    stride = lcm(*(entry.page.stride_bytes for entry in layers if entry.here))
    block_bytes = _block_bytes(widest, _full_sizes(buckets), packing)
    return Grouping(ceil_div(block_bytes, stride) * stride, groups)


def _buckets(layers: Sequence[Layers]) -> list[_Bucket]:
    buckets: dict[tuple[Holding, int, int, bool], _Bucket] = {}
    for page, here, everywhere in layers:
        key = (page.holding, page.block_tokens, page.limit_tokens, page.whole)
        bucket = buckets.setdefault(key, _Bucket(page, Counter(), Counter()))
        bucket.here[page.page_bytes] += here
        bucket.everywhere[page.page_bytes] += everywhere
    return list(buckets.values())


def _group_counts(buckets: Sequence[_Bucket]) -> list[int]:
    """Return the number of groups of each bucket.

    A bucket whose several page sizes occur equally often stays whole. Others are divided into groups of about its
    length. States are divided further, until they fit the block that the rest needs. So are windows if no bucket sets a
    length.
    """
    whole = max((bucket.longest for bucket in buckets if bucket.balanced and len(bucket.everywhere) > 1), default=0)
    length = _least_padding([bucket.longest for bucket in buckets if bucket.balanced], whole) if whole else 0
    counts = [ceil_div(bucket.longest, length) if length and bucket.balanced else 1 for bucket in buckets]
    yields = [bucket.page.holding in _STATES or (_slides(bucket) and not length) for bucket in buckets]
    room = max(
        sum(size * ceil_div(number, bucket.everywhere.total() if small else count) for size, number in bucket.sizes)
        for bucket, count, small in zip(buckets, counts, yields, strict=True)
    )
    return [
        max(count, ceil_div(bucket.everywhere.total(), max(1, room // bucket.page.page_bytes))) if small else count
        for bucket, count, small in zip(buckets, counts, yields, strict=True)
    ]


def _slides(bucket: _Bucket) -> bool:
    return bucket.page.holding is Holding.WINDOW


def _least_padding(lengths: Sequence[int], smallest: int) -> int:
    """Return the length, at least ``smallest``, with the least padding if all ``lengths`` become multiples of it.

    Of several such lengths, return the largest.
    """
    return min(range(smallest, max(lengths) + 1), key=lambda length: (sum(-own % length for own in lengths), -length))


def _full_sizes(buckets: Sequence[_Bucket]) -> list[int]:
    """Return the page sizes of the caches that keep every token, smallest first."""
    return sorted({size for bucket in buckets if bucket.page.holding is Holding.FULL for size in bucket.everywhere})


def _block_bytes(groups: Sequence[Counter[int]], full_sizes: Sequence[int], packing: Packing) -> int:
    match packing:
        case Packing.TUPLES:
            longest = max((number for group in groups for number in group.values()), default=0)
            return sum(full_sizes) * longest
        case Packing.PAGE_SIZES:
            needed: Counter[int] = Counter()
            for group in groups:
                needed |= _padded(group, full_sizes)
            return _bytes(needed)
        case Packing.DENSE:
            return max(map(_bytes, groups), default=0)


def _padded(group: Counter[int], full_sizes: Sequence[int]) -> Counter[int]:
    padded: Counter[int] = Counter()
    for size, number in group.items():
        padded[next((larger for larger in full_sizes if larger >= size), size)] += number
    return padded


def _bytes(pages: Counter[int]) -> int:
    return sum(size * number for size, number in pages.items())
