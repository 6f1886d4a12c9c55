"""Every page with names and numbers as long as real ones: nothing is cut, and a phone shows load line and price.

The application is the console's own; its cluster is played, so that no control plane is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import OpenTab
from tests.support import long_names
from tests.support.legible import illegible, lines_of
from tests.support.played_console import PlayedConsole, played_console
from tests.support.tabs import Tab
from tests.support.tour import told_at

pytestmark = pytest.mark.browser

PHONE = 390
WINDOWS = (1280, 1440)

_OF = f"/deployments/{long_names.NAMESPACE}"
EVERY_COLUMN = "&".join(f"column={each}" for each in ("need", "room", "kv", "batch", "replicas", "price", "age"))
PAGES = (
    "/",
    "/fleet",
    f"/fleet?q={long_names.SMALL}",
    "/deployments",
    "/deployments?sort=-price",
    *(f"{_OF}/{name}" for name in long_names.NAMES),
    f"{_OF}/{long_names.UNPLACED}/acknowledge",
    f"/proposals/{long_names.NAMESPACE}/{long_names.PROPOSAL}",
    f"/proposals/{long_names.NAMESPACE}/{long_names.UNPLACED}-000000000000",
    "/changes",
    "/changes?since=7d",
    "/pressure",
    "/calculator",
    "/calculator?model=meta-llama/Llama-3.1-8B-Instruct",
    "/calculator?model=meta-llama/Llama-3.1-8B-Instruct&gpu=l4-24gb",
    "/what-if",
    "/what-if?change=-l4-24gb",
    "/simulator",
    "/simulator?model=meta-llama/Llama-3.1-8B-Instruct&gpu=l4-24gb",
    "/accuracy",
    "/words",
    f"{_OF}/none-such",
)


@pytest.fixture(scope="module")
def console() -> Iterator[PlayedConsole]:
    with played_console() as running:
        yield running


Enter = Callable[[int], Tab]


@pytest.fixture
def enter(console: PlayedConsole, tab_of: OpenTab) -> Enter:
    """Open the start page in a window of this width, without scripts: pages stay as they are."""

    def entered(width: int) -> Tab:
        tab = tab_of(console.origin, width=width, javascript=False)
        assert tab.go(console.entry) == 200
        return tab

    return entered


@pytest.mark.parametrize("width", [*WINDOWS, PHONE])
def test_nothing_is_cut_beyond_the_window_or_broken_folded_or_not(enter: Enter, width: int) -> None:
    def cut(tab: Tab) -> list[str]:
        scroll = [f"{tab.scroll_width()} px"] if tab.scroll_width() > width else []
        return [*scroll, *illegible(tab)]

    def faults(tab: Tab) -> list[str]:
        long = [name for name in long_names.NAMES if lines_of(tab, name) > 2] if width in WINDOWS else []
        folded = cut(tab)
        tab.page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        return [*(f"{name} takes more than two lines" for name in long), *folded, *cut(tab)]

    assert told_at(enter(width), PAGES, faults) == {}


def test_every_name_is_in_the_list(enter: Enter) -> None:
    tab = enter(WINDOWS[0])
    tab.go("/deployments")
    assert [lines_of(tab, name) for name in long_names.NAMES].count(0) == 0


def within(tab: Tab, *found: Locator) -> None:
    """Assert that elements are on the screen from edge to edge, without scrolling sideways."""
    for each in found:
        each.scroll_into_view_if_needed()
        box = each.bounding_box()
        assert box is not None, f"{each} is not shown"
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE
    assert tab.scroll_width() <= PHONE
    assert tab.page.evaluate("scrollX") == 0


def test_a_phone_shows_load_line_need_and_price_of_each_deployment(enter: Enter) -> None:
    tab = enter(PHONE)
    tab.go("/deployments")
    for name in long_names.NAMES[:3]:
        card = tab.page.locator("tbody tr", has_text=name)
        within(tab, card.locator("svg line.line"), card.get_by_text(" / 72.8").or_(card.get_by_text(" / 20.2")))
        within(tab, card.get_by_text("$12,288.00"), card.get_by_text("1,000/1,000"))


@pytest.mark.parametrize(
    "path", [f"{_OF}/{long_names.SERVING}", "/calculator?model=meta-llama/Llama-3.1-8B-Instruct&gpu=l4-24gb"]
)
def test_a_phone_shows_the_memory_of_one_gpu_with_its_words(enter: Enter, path: str) -> None:
    tab = enter(PHONE)
    tab.go(path)
    small = tab.page.locator(".small-bar")
    within(tab, small.locator("line.line"), small.get_by_text("needs "), small.get_by_text("load line "))
    assert not tab.page.locator(".bar.big").is_visible()


def test_a_phone_shows_the_price_of_each_candidate(enter: Enter) -> None:
    tab = enter(PHONE)
    tab.go(f"{_OF}/{long_names.SERVING}")
    row = tab.page.locator("table.candidates tr.chosen")
    within(tab, row.locator("line.line"), row.get_by_text("19.8 / 20.2"), row.get_by_text("$0.42"))


@pytest.mark.parametrize("width", [*WINDOWS, PHONE])
def test_the_navigation_is_one_line_and_leads_everywhere(enter: Enter, width: int) -> None:
    tab = enter(width)
    header = tab.page.locator("header.top")
    assert (header.bounding_box() or {"height": 999})["height"] < 60
    if width == PHONE:
        header.locator("summary").click()
    shown = header.get_by_role("navigation").get_by_role("link")
    assert "Accuracy" in shown.all_inner_texts()
    assert all(each.is_visible() for each in shown.all())
