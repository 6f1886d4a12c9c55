"""The groups of layers that share block ids. Source: vLLM, ``v1/core/kv_cache_utils.py``, ``get_kv_cache_groups``.

The pages of a block: one layer's part of it, and which layers may share a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.units import ceil_div


class Holding(StrEnum):
    """The tokens for which a layer keeps data. This decides the engine's spec class, and so the group."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    CROSS = "cross"
    STATE = "state"
    RING = "ring"


@dataclass(frozen=True, slots=True)
class Page:
    """One layer's part of one block, which the engine calls a spec. Layers with equal pages may share a group.

    ``shape`` separates layers that keep the same number of bytes in different forms. ``limit_tokens`` is the window,
    the chunk or the encoder's length, and 1 for states that are saved during a prefill. ``can_be_padded`` is false for
    latent attention, whose kernels read whole rows. A block of packed pages is a multiple of ``stride_bytes``.
    States that every rank holds ``whole`` are in separate groups.
    """

    holding: Holding
    shape: tuple[str | int, ...]
    block_tokens: int
    page_bytes: int
    limit_tokens: int = 0
    can_be_padded: bool = True
    stride_bytes: int = 1
    whole: bool = False


_LOCAL = (Holding.WINDOW, Holding.CHUNK)


class Layers(NamedTuple):
    """Layers with equal pages: their number in this stage, and in the whole model."""

    page: Page
    here: int
    everywhere: int


class Grouping(NamedTuple):
    """Each page with the number of its groups. ``block_bytes`` are the bytes of one block id on this rank."""

    block_bytes: int
    groups: tuple[tuple[Page, int], ...]


def group_layers(layers: Sequence[Layers], model: str, *, hybrid_manager: bool = True) -> Grouping:
    """Group the model's layers as the engine does.

    Without ``hybrid_manager``, windows and chunks are charged as full attention, as with some KV connectors.

    Raises:
        UnsupportedModel: the pages cannot be made equal, which the engine refuses too.
    """
    if not hybrid_manager:
        layers = _without_hybrid_manager(layers, model)
    if not layers:
        return Grouping(0, ())
    if _is_one_type(layers):
        return _one_group(layers)
    unified = _unify(layers)
    if unified is not None:
        return _hybrid_groups(unified)
    promoted = _promoted(layers)
    if not _is_one_type(promoted):
        raise UnsupportedModel(model, "latent attention together with caches whose pages are no multiple of its own")
    return _one_group(promoted)


def _is_one_type(layers: Sequence[Layers]) -> bool:
    """Whether every layer needs the same number of blocks. Their pages may have different sizes."""
    first = layers[0].page
    if first.holding is Holding.STATE:
        return all(
            entry.page.holding is Holding.STATE and entry.page.page_bytes == first.page_bytes for entry in layers
        )
    kinds = {(entry.page.holding, entry.page.limit_tokens, entry.page.block_tokens) for entry in layers}
    return len(kinds) == 1


def _one_group(layers: Sequence[Layers]) -> Grouping:
    return Grouping(sum(entry.page.page_bytes * entry.here for entry in layers), ((layers[0].page, 1),))


def _promoted(layers: Sequence[Layers]) -> list[Layers]:
    """Return the layers with windows and chunks charged as full attention, with its block length."""
    blocks = {entry.page.block_tokens for entry in layers if entry.page.holding is Holding.FULL}
    if not blocks:
        return list(layers)
    return [_promote(entry, min(blocks)) if entry.page.holding in _LOCAL else entry for entry in layers]


def _promote(entry: Layers, block_tokens: int) -> Layers:
    page_bytes = entry.page.page_bytes * block_tokens // entry.page.block_tokens
    page = replace(entry.page, holding=Holding.FULL, limit_tokens=0, block_tokens=block_tokens, page_bytes=page_bytes)
    return entry._replace(page=page)


def _without_hybrid_manager(layers: Sequence[Layers], model: str) -> Sequence[Layers]:
    if not layers or _is_one_type(layers):
        return layers
    promoted = _promoted(layers)
    if not _is_one_type(promoted) or any(len(_limits(layers, holding)) > 1 for holding in _LOCAL):
        raise UnsupportedModel(model, "caches or windows of several kinds without the hybrid KV cache manager")
    return promoted


def _limits(layers: Sequence[Layers], holding: Holding) -> set[int]:
    return {entry.page.limit_tokens for entry in layers if entry.page.holding is holding}


def _unify(layers: Sequence[Layers]) -> list[Layers] | None:
    """Return the layers with equal pages: small pages get longer blocks or padding. None where that is impossible."""
    largest = max(entry.page.page_bytes for entry in layers)
    unified = [entry._replace(page=_enlarge(entry.page, largest)) for entry in layers]
    return unified if all(entry.page.page_bytes == largest for entry in unified) else None


def _enlarge(page: Page, page_bytes: int) -> Page:
    ratio, rest = divmod(page_bytes, page.page_bytes)
    if page.holding is Holding.STATE or (rest and page.can_be_padded):
        return replace(page, page_bytes=page_bytes)
    if rest:
        return page
    return replace(page, block_tokens=page.block_tokens * ratio, page_bytes=page_bytes)


def _hybrid_groups(layers: Sequence[Layers]) -> Grouping:
    buckets: dict[Page, Layers] = {}
    for page, here, everywhere in layers:
        known = buckets.get(page, Layers(page, 0, 0))
        buckets[page] = Layers(page, known.here + here, known.everywhere + everywhere)
    size = group_size([bucket.everywhere for bucket in buckets.values()])
    groups = [(bucket, ceil_div(bucket.everywhere, size)) for bucket in buckets.values()]
    # The layers of a bucket go to its groups in turn, so the layers of a stage are spread evenly.
    widest = max(ceil_div(bucket.here, count) for bucket, count in groups)
    return Grouping(widest * layers[0].page.page_bytes, tuple((bucket.page, count) for bucket, count in groups))


def group_size(layers: Sequence[int]) -> int:
    """Return the layers of a group: the smallest bucket, or the largest if it is less than 1.5 times as large."""
    smallest, largest = min(layers), max(layers)
    return largest if largest < 1.5 * smallest else smallest
