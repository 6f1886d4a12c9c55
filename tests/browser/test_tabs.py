"""The instruments of the browser tests see each defect of a page, and none in a clean one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from tests.browser.conftest import OpenTab
from tests.support.keyboard import keyboard_faults
from tests.support.served import FixedPage, served
from tests.support.tabs import AXE, NARROW
from tests.support.tour import stops_of, told_at

pytestmark = pytest.mark.browser

POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'"}
ELSEWHERE = "http://127.0.0.2:9/x.png"
"""Another origin, where nobody listens."""


def page(body: str, head: str = "", **headers: str) -> FixedPage:
    whole = (
        f"<!doctype html><html lang=en><head><title>T</title>{head}</head><body><main><h1>T</h1>{body}</main></body>"
    )
    return FixedPage(whole, headers=headers)


PAGES = {
    "/clean": page("<p>Words.</p>", **POLICY),
    "/message": page("", head="<script>console.log('a word')</script>"),
    "/error": page("", head="<script>throw new Error('a fault')</script>"),
    "/inline": page("<p style='color: red'>Words.</p>", **POLICY),
    "/foreign": page(f"<img alt='' src='{ELSEWHERE}'>"),
    "/wide": page("<div style='width: 500px'>Words.</div>"),
    "/script": page("", head="<script>document.title = 'run'</script>"),
    "/pale": page(
        "<p>Words.</p>",
        head="<style>@media (prefers-color-scheme: dark) {body {background: #000; color: #222}}</style>",
    ),
    "/nameless": page("<button></button>"),
    "/keys": page("<a href=/x>1</a> <button>2</button> <input aria-label=3><button disabled>4</button>"),
    "/no-keys": page("<a href=/x inert>1</a> <button id=bare>2</button>", head="<style>#bare {outline: 0}</style>"),
    "/tour": page(
        "<a href=/things/a/b>1</a> <a href=/things/c/d#e>2</a> <a href='/clean?sort=name'>3</a>"
        f"<a href='/clean?sort=age'>4</a> <a href='{ELSEWHERE}'>5</a>"
        "<nav aria-label=Views><a href=/tour>T</a> <a href=/clean>C</a></nav>"
    ),
}


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with served(PAGES) as where:
        yield where


def test_a_clean_page_has_no_complaint_and_no_barrier(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    assert tab.go("/clean") == 200
    assert (tab.barriers(), tab.complaints) == ([], [])


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/message", "messages", "log: a word"),
        ("/error", "errors", "a fault"),
        ("/inline", "violations", "style-src-attr blocked inline"),
        ("/foreign", "foreign", ELSEWHERE),
    ],
)
def test_each_kind_of_complaint_is_noted(tab_of: OpenTab, origin: str, path: str, kind: str, words: str) -> None:
    tab = tab_of(origin)
    tab.go(path)
    tab.page.wait_for_load_state("networkidle")
    assert any(words in line for line in getattr(tab, kind)), tab.complaints


def test_axe_sees_a_button_without_a_name(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    tab.go("/nameless")
    assert [line.split(":")[0] for line in tab.barriers()] == ["critical button-name"]


def test_a_scheme_is_the_one_that_was_asked_for(tab_of: OpenTab, origin: str) -> None:
    light, dark = tab_of(origin), tab_of(origin, scheme="dark")
    light.go("/pale")
    dark.go("/pale")
    assert light.barriers() == []
    assert "serious color-contrast" in dark.barriers()[0]


def test_a_page_that_is_too_wide_is_seen_only_where_the_window_is_narrow(tab_of: OpenTab, origin: str) -> None:
    wide, narrow, large = tab_of(origin), tab_of(origin, width=NARROW), tab_of(origin, zoom=4)
    for tab in (wide, narrow, large):
        tab.go("/wide")
    assert wide.scroll_width() == 1280
    assert narrow.scroll_width() > NARROW
    assert large.scroll_width() > 1280 / 4


def test_scripts_run_only_where_they_may(tab_of: OpenTab, origin: str) -> None:
    for javascript, title in ((True, "run"), (False, "T")):
        tab = tab_of(origin, javascript=javascript)
        tab.go("/script")
        assert tab.page.title() == title


def test_the_vendored_axe_is_the_published_file() -> None:
    digest = hashlib.sha256(AXE.read_bytes()).hexdigest()
    assert digest == "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


def test_the_keyboard_reaches_everything_that_shows_its_focus(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    tab.go("/keys")
    assert keyboard_faults(tab) == []


def test_an_element_that_tab_skips_and_one_without_a_mark_are_seen(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    tab.go("/no-keys")
    faults = keyboard_faults(tab)
    assert [each[:19] for each in faults] == ['missed: <a href="/x', "unmarked: <button i"], faults


def test_a_tour_takes_one_page_of_each_kind(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    tab.go("/tour")
    assert stops_of(tab) == ["/tour", "/clean", "/things/a/b", "/clean?sort=name"]


def test_a_tour_notes_what_its_stops_answer(tab_of: OpenTab, origin: str) -> None:
    tab = tab_of(origin)
    found = told_at(tab, ["/clean", "/tour"], lambda here: [here.page.title()] if "tour" in here.page.url else [])
    assert found == {"/tour": ["T"]}
