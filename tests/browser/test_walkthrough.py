"""An admin's first minute: three questions, each answered from the start page, and a proposal approved by keyboard.

docs/console.md describes this walk for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from testbed import people
from testbed.approvals import APPROVER
from testbed.console_process import ConsoleProcess
from testbed.scene import TEAM_A, Scene, add_load
from testbed.scene import scene as small_cluster
from tests.browser.conftest import OpenTab
from tests.support.keyboard import keyboard_faults
from tests.support.planes import borrowed_plane
from tests.support.tabs import NARROW, Tab

pytestmark = [pytest.mark.cluster, pytest.mark.browser, pytest.mark.story]

ADMIN = "lena"
MOST_TABS = 60
"""Presses of the Tab key: more than any page of the console has places to go."""


@pytest.fixture(scope="module")
def busy() -> Iterator[Scene]:
    """A cluster of its own: the load and the approval change it."""
    with small_cluster(borrowed_plane) as running:
        # However the load is measured on a busy machine, it is this one replica that is proposed.
        bounds = '{"spec": {"rebalancing": {"mode": "Recommend", "maxReplicas": 2}}}'
        running.control_plane.kubectl("patch", "infd", "llama-70b", "-n", TEAM_A, "--type=merge", "-p", bounds)
        add_load(running)
        yield running


@pytest.fixture(scope="module")
def console(busy: Scene) -> Iterator[ConsoleProcess]:
    kubeconfig = people.admin(busy.control_plane, ADMIN)
    role = (f"--clusterrole={APPROVER}", f"--user={ADMIN}")
    busy.control_plane.kubectl("create", "rolebinding", "approvers", "-n", TEAM_A, *role)
    with busy.console(kubeconfig, "--allow-approvals") as running:
        yield running


def start(console: ConsoleProcess, tab_of: OpenTab, **how: Any) -> Tab:
    tab = tab_of(console.origin, **how)
    assert tab.go(console.entry) == 200
    tab.page.get_by_role("link", name="Review").first.wait_for()
    return tab


def group(tab: Tab, title: str) -> Locator:
    """The items under a title of the inbox."""
    return tab.page.locator(f"h2:has-text('{title}') + ul.items")


def test_the_start_page_reads_in_the_order_of_trouble(console: ConsoleProcess, tab_of: OpenTab) -> None:
    """What a screen reader says, from the heading to the answer of each question."""
    expect(start(console, tab_of).page.get_by_role("main")).to_match_aria_snapshot(
        f"""
        - heading "Inbox" [level=1]
        - list:
          - listitem: 1 down
          - listitem: 1 / 0 over / near the load line
        - heading /Down/ [level=2]
        - list:
          - listitem:
            - paragraph:
              - link "{TEAM_A}/too-big"
        - heading /In trouble/ [level=2]
        - list:
          - listitem:
            - paragraph:
              - link "{TEAM_A}/qwen-7b"
            - paragraph: /of the KV cache is in use, and \\d+ requests? wait/
        - heading /Proposals to decide/ [level=2]
        - list:
          - listitem:
            - paragraph:
              - link "{TEAM_A}/llama-70b"
            - paragraph:
              - link /Review/
        - heading /Over the load line/ [level=2]
        - list:
          - listitem:
            - paragraph:
              - link "{TEAM_A}/forced"
        """
    )


def test_who_is_over_its_line_is_on_the_start_page(console: ConsoleProcess, tab_of: OpenTab) -> None:
    tab = start(console, tab_of)
    expect(tab.page.locator(".cards li", has_text="over / near the load line")).to_contain_text("1")
    item = group(tab, "Over the load line").locator("li.item")
    expect(item).to_have_count(1)
    expect(item.get_by_role("link", name=f"{TEAM_A}/forced", exact=True)).to_be_visible()
    expect(item).to_contain_text("GiB over")
    tab.go("/fleet")
    expect(tab.page.locator("li.node", has_text="h100-0")).to_contain_text("GiB over the line")


def test_why_something_is_not_placed_is_on_the_start_page_with_what_helps(
    console: ConsoleProcess, tab_of: OpenTab
) -> None:
    item = group(start(console, tab_of), "Down").locator("li.item")
    expect(item.get_by_role("link", name=f"{TEAM_A}/too-big", exact=True)).to_be_visible()
    expect(item).to_contain_text("the load needs 8,388,608")
    expect(item).to_contain_text("lower spec.contextLength from 131072 to")


def test_what_an_approval_costs_is_on_the_start_page_and_all_of_it_one_click_away(
    console: ConsoleProcess, tab_of: OpenTab
) -> None:
    tab = start(console, tab_of)
    costs = group(tab, "Proposals to decide").locator("dl.costs")
    for words in ("$6.86", "$20.62", "others touched"):
        expect(costs).to_contain_text(words)
    tab.page.get_by_role("link", name="Review").click()
    expect(tab.page.locator("section[aria-labelledby=changes]")).to_contain_text("$20.62")
    expect(tab.page.get_by_role("button", name="Approve this change")).to_be_visible()


@pytest.mark.parametrize("how", [{}, {"scheme": "dark"}, {"width": NARROW}], ids=["light", "dark", "narrow"])
def test_the_page_of_a_proposal_has_no_barrier(console: ConsoleProcess, tab_of: OpenTab, how: dict[str, Any]) -> None:
    tab = start(console, tab_of, **how)
    tab.page.get_by_role("link", name="Review").click()
    tab.page.get_by_role("button", name="Approve this change").wait_for()
    assert tab.barriers() == []
    assert tab.scroll_width() <= how.get("width", 1280)
    if not how:
        assert keyboard_faults(tab) == []
    assert tab.complaints == []


def test_a_proposal_is_approved_by_keyboard_in_the_persons_own_name(
    busy: Scene, console: ConsoleProcess, tab_of: OpenTab
) -> None:
    """This is the last test of the file: it changes the cluster."""
    tab = start(console, tab_of)
    press_to(tab, "a.review")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("button", name="Approve this change").wait_for()
    press_to(tab, "input[name=reason]")
    tab.page.keyboard.type("long prompts will stay")
    press_to(tab, "button[value=approve]")
    tab.page.keyboard.press("Enter")
    answers = tab.page.locator("section[aria-labelledby=answers]")
    expect(answers).to_contain_text(f"approve by {ADMIN}")
    expect(answers).to_contain_text("CarriedOut")
    path = f"/apis/plimsoll.dev/v1alpha1/namespaces/{TEAM_A}/placementapprovals"
    (made,) = busy.control_plane.client.get(path)["items"]
    assert (made["spec"]["by"], made["spec"]["reason"]) == (ADMIN, "long prompts will stay")
    assert tab.complaints == []


def press_to(tab: Tab, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MOST_TABS):
        tab.page.keyboard.press("Tab")
        if tab.page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{MOST_TABS} presses of Tab do not reach {selector}")
