"""A tour of the console: every page that its navigation leads to, and one page of each kind that those link to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

from tests.support.tabs import Tab

NAVIGATION = "nav[aria-label='Views'] a"
_LINKS_OF_THE_CONTENT = "main a[href]"
_ANSWERS = (HTTPStatus.OK, HTTPStatus.NOT_FOUND)


def stops_of(tab: Tab) -> list[str]:
    """The paths of a tour that begins at the open page.

    Two pages are of the same kind when the first part of their path, the number of its parts, and the names of their
    parameters are the same: one deployment stands for all.
    """
    stops = links(tab, NAVIGATION)
    for stop in tuple(stops):
        tab.go(stop)
        known = {kind_of(each) for each in stops}
        for link in links(tab, _LINKS_OF_THE_CONTENT):
            if kind_of(link) not in known:
                known.add(kind_of(link))
                stops.append(link)
    return stops


def links(tab: Tab, selector: str) -> list[str]:
    """Paths of our own that these elements link to, each once, without fragments."""
    found = tab.page.locator(selector).evaluate_all("links => links.map(link => link.href)")
    ours = [urlsplit(each)._replace(fragment="") for each in found if each.startswith(f"{tab.origin}/")]
    return list(dict.fromkeys(each._replace(scheme="", netloc="").geturl() for each in ours))


def kind_of(path: str) -> tuple[str, int, tuple[str, ...]]:
    """First part of a path, number of its parts, and names of its parameters."""
    parts = urlsplit(path)
    words = parts.path.strip("/").split("/")
    names = sorted(each.partition("=")[0] for each in parts.query.split("&") if each)
    return words[0], len(words), tuple(dict.fromkeys(names))


def told_at(tab: Tab, stops: Sequence[str], question: Callable[[Tab], list[str]]) -> dict[str, list[str]]:
    """Go to each stop and ask; gives the answers that are not empty, by their stop. A stop may be missing (404)."""
    return dict(_answers(tab, stops, question))


def _answers(tab: Tab, stops: Sequence[str], question: Callable[[Tab], list[str]]) -> Iterator[tuple[str, list[str]]]:
    for stop in stops:
        status = tab.go(stop)
        answer = question(tab) if status in _ANSWERS else [f"HTTP status {status}"]
        if answer:
            yield stop, answer
