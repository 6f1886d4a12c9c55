"""Every page of the console in a real browser, against a real API server with the operator's own statuses.

The tour follows the navigation, so that a new page is tested as soon as it has an entry there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from plimsoll.console.views.frame import freshness_of
from plimsoll.console.views.world import ClusterView
from testbed import people
from testbed.console_process import ConsoleProcess
from testbed.scene import OTHERS_POD, TEAM_A, TEAM_B, Scene
from tests.browser.conftest import OpenTab
from tests.support import tables
from tests.support.keyboard import keyboard_faults
from tests.support.tabs import NARROW, Tab
from tests.support.tour import NAVIGATION, links, stops_of, told_at

pytestmark = [pytest.mark.cluster, pytest.mark.browser]

UNPLACED = "too-big"
OF_TEAM_A = ("llama-8b", "llama-70b", "qwen-7b", UNPLACED, TEAM_A)
OF_TEAM_B = "long-context"
ZOOM = 2
NOW = 1_800_000_000.0
PLACED = f"/deployments/{TEAM_A}/llama-70b"
BY_HAND = (PLACED, f"/deployments/{TEAM_A}/none-such", "/deployments?q=none-such", "/deployments?state=none-such")
"""Pages that no link may lead to: one with a bar and pods, one that does not exist, and empty lists."""

MOST_STOPS = 3
"""What a test of the tour goes to in the usual run, after the first one has been everywhere."""

MOST_WITH_AXE = 5
"""The same, where all rules of axe are asked: they take most of the time of the tour."""

TABS = 20
FETCH_AGAIN = """() => new Promise(done => {
  document.addEventListener('htmx:after:swap', () => done(true), {once: true});
  htmx.trigger(document.body, 'changed');
})"""
"""Does what the event stream does, and waits for the new page."""

COLOURS = "color-contrast"
"""The only rule of axe whose answer depends on the colour scheme."""

Enter = Callable[..., Tab]


@pytest.fixture(scope="module")
def console(scene: Scene) -> Iterator[ConsoleProcess]:
    """The console of somebody who may read everything."""
    with scene.console(people.admin(scene.control_plane, "ada")) as running:
        yield running


@pytest.fixture
def enter(tab_of: OpenTab, console: ConsoleProcess) -> Enter:
    """Open the address that the console printed, and wait until it has read the cluster."""

    def entered(**how: object) -> Tab:
        tab = tab_of(console.origin, **how)
        assert tab.go(console.entry) == 200
        tab.page.get_by_text(UNPLACED).first.wait_for()
        return tab

    return entered


@pytest.fixture(scope="module")
def tour() -> list[str]:
    """The stops of the tour, once the first test has found them."""
    return []


@pytest.fixture
def stops(tour: list[str], enter: Enter) -> list[str]:
    if not tour:
        tour += dict.fromkeys([*stops_of(enter()), *BY_HAND])
    return tour


@pytest.fixture
def some_stops(stops: list[str], request: pytest.FixtureRequest) -> list[str]:
    """A few stops of the tour, others for each test and each day; ``make test-browser`` goes to all."""
    return tables.drawn(stops, MOST_STOPS, request.node.name)


def test_the_tour_sees_every_entry_of_the_navigation_and_one_deployment(enter: Enter, stops: list[str]) -> None:
    entries = links(enter(), NAVIGATION)
    assert entries[0] == "/"
    assert len(entries) >= 3
    assert stops[: len(entries)] == entries
    assert any(stop.startswith(f"/deployments/{TEAM_A}/") for stop in stops), stops


def test_no_page_makes_the_browser_complain_and_axe_finds_no_barrier(enter: Enter, stops: list[str]) -> None:
    tab = enter()
    assert told_at(tab, stops, lambda _: []) == {}
    assert told_at(tab, [PLACED, *tables.drawn(stops, MOST_WITH_AXE, "axe")], Tab.barriers) == {}
    assert complaints_of(tab) == []


def test_the_colours_of_the_dark_scheme_have_contrast(enter: Enter, some_stops: list[str]) -> None:
    tab = enter(scheme="dark")
    assert told_at(tab, some_stops, lambda here: here.barriers(COLOURS)) == {}
    assert complaints_of(tab) == []


def complaints_of(tab: Tab) -> list[str]:
    """Complaints without the browser's own note about the page that does not exist."""
    return [line for line in tab.complaints if "404 (Not Found)" not in line]


def too_wide(tab: Tab, width: int) -> list[str]:
    return [f"{tab.scroll_width()} px in a window of {width} px"] if tab.scroll_width() > width else []


def test_at_320_pixels_nothing_is_cut_off_and_axe_finds_no_barrier(enter: Enter, some_stops: list[str]) -> None:
    tab = enter(width=NARROW)
    assert told_at(tab, some_stops, lambda here: [*too_wide(here, NARROW), *here.barriers(without=(COLOURS,))]) == {}


@pytest.mark.parametrize(
    "world", [ClusterView(), ClusterView(heard=NOW - 3 * 3600)], ids=["none yet", "three hours old"]
)
def test_at_320_pixels_the_age_of_the_data_is_not_cut_off(enter: Enter, world: ClusterView) -> None:
    tab = enter(width=NARROW)
    sign = freshness_of(world, NOW)
    write = "(shown, words) => { shown.textContent = words; }"

    def faults(here: Tab) -> list[str]:
        here.page.locator(".freshness").evaluate(write, f"{sign.symbol} {sign.word}")
        return too_wide(here, NARROW)

    assert told_at(tab, ["/fleet", "/deployments"], faults) == {}


def test_at_a_zoom_of_200_percent_nothing_is_cut_off(enter: Enter, some_stops: list[str]) -> None:
    tab = enter(zoom=ZOOM)
    assert told_at(tab, some_stops, lambda here: too_wide(here, 1280 // ZOOM)) == {}


def test_tab_reaches_everything_and_the_focus_is_seen(enter: Enter, some_stops: list[str]) -> None:
    assert told_at(enter(), some_stops, keyboard_faults) == {}


def test_the_first_link_skips_to_the_content(enter: Enter, some_stops: list[str]) -> None:
    def skips(tab: Tab) -> list[str]:
        tab.page.keyboard.press("Tab")
        link = tab.page.locator(":focus")
        is_shown = link.is_visible() and (link.bounding_box() or {"x": -1})["x"] >= 0
        tab.page.keyboard.press("Enter")
        arrived = tab.page.locator(":focus").evaluate("element => element.localName")
        return [] if (is_shown, arrived) == (True, "main") else [f"shown: {is_shown}, then in {arrived}"]

    assert told_at(enter(), some_stops, skips) == {}


def test_without_scripts_every_page_says_the_same(enter: Enter, some_stops: list[str]) -> None:
    with_scripts, without = enter(), enter(javascript=False)

    def differs(tab: Tab) -> list[str]:
        with_scripts.go(tab.page.url)
        shown, wanted = headings(tab), headings(with_scripts)
        return [] if shown and shown == wanted else [f"{shown} instead of {wanted}"]

    assert told_at(without, some_stops, differs) == {}


def headings(tab: Tab) -> list[str]:
    return tab.page.locator("main").locator("h1, h2, h3").all_inner_texts()


def test_without_colours_each_verdict_is_still_a_word(enter: Enter, some_stops: list[str]) -> None:
    tab = enter(forced_colors=True)
    seen: list[str] = []

    def wordless(here: Tab) -> list[str]:
        found = here.page.locator(".state:visible, .banner:visible").all_inner_texts()
        seen.extend(found)
        return [each for each in found if not re.search(r"[a-z]{2}", each)]

    assert told_at(tab, [PLACED, *some_stops], wordless) == {}
    assert seen, "no page shows a verdict"


def test_a_tenant_sees_nothing_of_another_team(scene: Scene, tab_of: OpenTab, some_stops: list[str]) -> None:
    bea = people.tenant(scene.control_plane, "bea", TEAM_B)
    with scene.console(bea, "--namespace", TEAM_B) as console:
        tab = tab_of(console.origin)
        tab.go(console.entry)
        tab.go("/deployments")
        tab.page.get_by_text(OF_TEAM_B).first.wait_for()
        own = [stop for stop in stops_of(tab) if stop in some_stops or TEAM_B in stop]
        assert told_at(tab, own, lambda here: [name for name in OF_TEAM_A if name in here.page.content()]) == {}
        assert tab.complaints == []
        answers = {name: tab.go(f"/deployments/{TEAM_A}/{name}") for name in ("llama-8b", "none-such")}
        assert answers == {"llama-8b": 403, "none-such": 403}, "the answer does not say what exists"
        assert tab.barriers() == []


def test_somebody_without_rights_reads_which_right_is_missing(scene: Scene, tab_of: OpenTab) -> None:
    with scene.console(people.stranger(scene.control_plane, "carl")) as console:
        tab = tab_of(console.origin)
        tab.go(console.entry)
        tab.go("/deployments")
        tab.page.get_by_text("may not list inferencedeployments").first.wait_for()
        content = tab.page.content()
        assert [name for name in (*OF_TEAM_A, OF_TEAM_B, OTHERS_POD) if name in content] == []
        assert tab.barriers() == []


def test_what_somebody_has_opened_stays_open_when_the_page_is_fetched_again(enter: Enter) -> None:
    tab = enter()
    tab.go(PLACED)
    details = tab.page.locator("#candidates ~ * details, #candidates details").first
    details.locator("summary").first.click()
    expect(details).to_have_attribute("open", "")
    assert tab.page.evaluate(FETCH_AGAIN)
    expect(details).to_have_attribute("open", "")


def test_a_disputed_place_is_asked_about_with_one_click(enter: Enter) -> None:
    """The question changes nothing, and its answer is the plan of the real cluster."""
    tab = enter()
    tab.go(PLACED)
    candidate = tab.page.locator("table.candidates details", has=tab.page.get_by_text("What if it were there?")).first
    candidate.locator("summary").click()
    candidate.get_by_role("link", name="What if it were there?").click()
    expect(tab.page.get_by_role("heading", name="1 moves")).to_be_visible()
    expect(tab.page.get_by_role("region", name="Changes")).to_contain_text(PLACED.rpartition("/")[2])


def test_twenty_visible_tabs_do_not_hang_the_console(enter: Enter, console: ConsoleProcess) -> None:
    first = enter().page
    tabs = [first.context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto(f"{console.origin}/fleet")
    for tab in (first, *tabs):
        assert tab.evaluate(FETCH_AGAIN)
        expect(tab.get_by_text("The console does not answer")).to_be_hidden()
