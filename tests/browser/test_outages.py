"""The console while the API server or Prometheus is away: it says so, shows no zero, and comes back by itself."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from testbed import people
from testbed.scene import Scene
from tests.browser.conftest import OpenTab

pytestmark = [pytest.mark.cluster, pytest.mark.browser]


def test_an_open_page_outlives_the_api_server(scene: Scene, tab_of: OpenTab) -> None:
    with scene.console(people.admin(scene.control_plane, "olga")) as console:
        tab = tab_of(console.origin)
        tab.go(console.entry)
        tab.go("/deployments")
        row = tab.page.get_by_role("row").filter(has_text="llama-70b").filter(has_text="a100-sxm")
        gone = tab.page.get_by_text("The API server does not answer")
        expect(row).to_have_count(1)
        expect(gone).to_have_count(0)
        scene.control_plane.stop_apiserver()
        try:
            expect(gone).to_be_visible()
            expect(gone).to_contain_text(re.compile(r"This is the last state, .* old"))
            expect(row).to_have_count(1)
        finally:
            scene.control_plane.start_apiserver()
        expect(gone).to_have_count(0)
        expect(row).to_have_count(1)
        assert tab.complaints == []


def test_a_page_whose_console_has_ended_says_so(scene: Scene, tab_of: OpenTab) -> None:
    with scene.console(people.admin(scene.control_plane, "olga")) as console:
        tab = tab_of(console.origin)
        tab.go(console.entry)
        cut = tab.page.get_by_text("The console does not answer")
        expect(cut).to_be_hidden()
        console.stop()
        expect(cut).to_be_visible()


def test_without_prometheus_live_figures_are_never_zero_and_come_back(scene: Scene, tab_of: OpenTab) -> None:
    with scene.console(people.admin(scene.control_plane, "olga")) as console:
        tab = tab_of(console.origin)
        tab.go(console.entry)
        tab.go("/pressure")
        group = tab.page.get_by_role("rowgroup").filter(has_text="llama-8b")
        gone = tab.page.get_by_text("No Prometheus since")
        live = re.compile(r"\b[56]\d(\.\d)? ?%")  # the scene fills about 60 % of this cache
        expect(group).to_contain_text(live)
        scene.prometheus.kill()
        try:
            expect(gone).to_be_visible()
            # The operator's sentence is of its last decision, which may be older than the load.
            words = re.sub(r"\d+ % of the KV cache is in use", "", group.inner_text())
            assert not re.search(r"(?<![\d.,])0(\.0)? ?%", words), words
        finally:
            scene.prometheus.start()
        expect(gone).to_have_count(0)
        expect(group).to_contain_text(live)
        assert tab.complaints == []
