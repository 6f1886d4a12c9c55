"""The frame of every page: navigation, freshness, banners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plimsoll.console.views.words import Sign, age, clock
from plimsoll.console.views.world import ClusterView, GapKind

STALE_SECONDS = 60
"""Older figures are grey."""


@dataclass(frozen=True, slots=True)
class MenuItem:
    """An entry of the navigation."""

    path: str
    word: str
    is_here: bool
    count: int | None = None
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class Banner:
    """A sentence above the page; ``kind`` is bad or note."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The frame of one page."""

    menu: tuple[MenuItem, ...]
    freshness: Sign
    banners: tuple[Banner, ...]


def frame_of(
    world: ClusterView, path: str, pages: Sequence[tuple[str, str]], counts: Mapping[str, int], now: float
) -> PageFrame:
    """Return the frame.

    Args:
        world: what the person sees.
        path: the page that is shown.
        pages: the path and the word of every entry.
        counts: figures of entries, by path.
        now: POSIX seconds.
    """
    menu = tuple(MenuItem(each, word, _is_here(each, path), counts.get(each), each == "/") for each, word in pages)
    return PageFrame(menu, freshness_of(world, now), tuple(_banners(world, now)))


def _is_here(entry: str, path: str) -> bool:
    return entry == path or (entry != "/" and path.startswith(f"{entry}/"))


def freshness_of(world: ClusterView, now: float) -> Sign:
    """Return how old the data are. Watches say at least once a minute that nothing has changed."""
    if not world.heard:
        return Sign("\u25cb", "no answer of the API server yet", "stale")
    old = age(now - world.heard)
    if world.is_stale or now - world.heard > STALE_SECONDS:
        return Sign("\u25cb", f"last state, {old} old", "stale")
    return Sign("\u25cf", "live", "live")


def _banners(world: ClusterView, now: float) -> Iterator[Banner]:
    broken = next((gap for gap in world.gaps if gap.reason is GapKind.UNREACHABLE), None)
    if broken is not None:
        words = f"The API server does not answer since {clock(broken.since)}. This is the last state, "
        yield Banner("bad", f"{words}{age(now - world.heard)} old. The console asks again by itself.")
    elif world.is_loading:
        yield Banner("note", _loading(world))
    if world.operator is not None and (complaint := world.operator.complaint(now)):
        yield Banner("bad" if world.operator.exists else "note", complaint)
    for gap in world.gaps:
        if gap.reason in (GapKind.FORBIDDEN, GapKind.ABSENT) and gap.kind not in ("nodes", "pods"):
            yield Banner("note", gap.sentence)


def _loading(world: ClusterView) -> str:
    failing = next((gap for gap in world.gaps if gap.reason is GapKind.LOADING and gap.message), None)
    if failing is not None:
        return f"The API server cannot be reached: {failing.message}. The console asks again by itself."
    kinds = sorted({gap.kind for gap in world.gaps if gap.reason is GapKind.LOADING})
    return f"The console reads the cluster for the first time: {', '.join(kinds)}."
