"""Small view models: words, splits, rows, pods, gaps, names, pages of lists, the frame and the map of the fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.console.rendering import environment, rendered
from plimsoll.console.views import words
from plimsoll.console.views.fleet import NODES_AT_ONCE, fleet_of, strips_of
from plimsoll.console.views.frame import frame_of, freshness_of
from plimsoll.console.views.paging import ListPage, is_name, part_of
from plimsoll.console.views.proposals.inbox import counts_of
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.words import split_words
from plimsoll.console.views.world import ClusterView, GapKind, KindGap, pod_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB
from testbed.fleet import gpu_node
from tests.support.console_pages import H100_NODE, L4_NODE, chat, chat_pod, page_of, world_of
from tests.support.proposals import NOW, read_html
from tests.support.tables import every_case


def test_figures_are_words_and_what_nobody_knows_is_unknown() -> None:
    assert [words.gib(size) for size in (0, GIB, 1536 * GIB, None)] == ["0.0", "1.0", "1,536.0", "unknown"]
    assert [words.signed_gib(size) for size in (GIB, -7.14 * GIB)] == ["+1.0", "-7.1"]
    assert [words.count(number) for number in (0, 33184, None)] == ["0", "33,184", "unknown"]
    assert [words.times(part, whole) for part, whole in ((27, 10), (1, 0))] == ["2.7\u00d7", "unknown"]
    assert [words.percent(share) for share in (0.934, 0.0, None)] == ["93 %", "0 %", "unknown"]
    assert [words.dollars(price) for price in ("3.43", None)] == ["$3.43", "unknown"]
    assert [words.clock(at) for at in (0.0, None)] == ["1970-01-01 00:00:00 UTC", "unknown"]


@every_case(
    ("seconds", "said"),
    [
        (None, "unknown"), (-5, "0 s"), (4.9, "4 s"), (60, "1 min"), (90, "90 s"), (120, "2 min"), (3600, "1 h"),
        (5400, "90 min"), (7200, "2 h"), (86_400, "1 d"), (200_000, "2 d"),
    ],
)  # fmt: skip
def test_an_age_has_one_unit(seconds: float | None, said: str) -> None:
    assert words.age(seconds) == said


def test_a_split_is_said_with_what_is_unusual_about_it() -> None:
    assert split_words(Split(2)) == "\u00d7 2"
    assert split_words(Split(4, 2)) == "\u00d7 4 \u00d7 2 stages"
    assert split_words(Split(1, 1, 8)) == "\u00d7 1 \u00d7 8 engines"
    assert split_words(Split(8, expert_parallel=True)) == "\u00d7 8 whole experts"


def test_a_row_has_the_status_in_short() -> None:
    row = row_of(chat())
    assert (row.key, row.uid, row.version) == (ObjectKey("ml", "chat"), "u1", "7")
    assert (row.gpu_type, row.split, row.hourly_price) == ("l4-24gb", Split(1), "0.42")
    assert row.ready is not None
    assert (row.ready.status, row.ready.reason) == ("False", "CreatingPods")
    assert [(pool.name, pool.replicas, pool.ready) for pool in row.pools] == [("l4-24gb-tp1", 1, 0)]
    assert (row.is_placed, row.is_behind, row.complaints) == (True, False, ())


@pytest.mark.parametrize("status", [None, {}], ids=str)
def test_a_deployment_without_a_status_is_behind_and_has_no_figures(status: dict[str, Any] | None) -> None:
    row = row_of({**chat(), "status": status})
    assert (row.figures, row.gpu_type, row.hourly_price, row.ready) == (None, None, None, None)
    assert row.is_behind


def test_a_part_that_cannot_be_read_is_named_and_the_rest_stays() -> None:
    body = chat()
    body["status"]["estimate"]["weightsBytes"] = "many"
    row = row_of(body)
    assert row.figures is None
    assert len(row.complaints) == 1
    assert "estimate" in row.complaints[0]
    assert row.gpu_type == "l4-24gb"


def test_a_pod_is_ours_by_its_label_and_holds_its_gpus() -> None:
    pod = pod_of(chat_pod())
    assert pod is not None
    assert (pod.owner, pod.pool, pod.node, pod.is_ready) == (ObjectKey("ml", "chat"), "l4-24gb-tp1", "l4-0", True)
    assert (pod.holds("nvidia.com/gpu"), pod.holds("amd.com/gpu")) == (1, 0)
    other = chat_pod()
    other["metadata"]["labels"] = {}
    found = pod_of(other)
    assert found is not None
    assert not found.is_ours


def test_a_pod_that_has_ended_or_holds_nothing_is_left_out() -> None:
    assert pod_of(chat_pod(phase="Succeeded")) is None
    assert pod_of(chat_pod(phase="Failed")) is None
    idle = chat_pod()
    idle["metadata"]["labels"], idle["spec"]["containers"] = {}, [{}]
    assert pod_of(idle) is None


def test_a_pod_says_what_it_waits_for() -> None:
    unbound = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    pulling = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    initializing = {"name": "engine", "state": {"waiting": {"reason": "PodInitializing"}}}
    for status, said in (
        ({"conditions": [unbound]}, "0/2 nodes are available"),
        ({"conditions": [], "containerStatuses": [pulling]}, "ErrImagePull: no such image"),
        ({"containerStatuses": [pulling | {"name": "a"}, initializing]}, "container a: ErrImagePull: no such image"),
        ({}, ""),
    ):
        pod = pod_of(chat_pod(**status))
        assert pod is not None
        assert pod.waits_for == said


@pytest.mark.parametrize("reason", GapKind)
def test_every_gap_is_one_sentence_about_its_kind(reason: GapKind) -> None:
    gap = KindGap("placementproposals", reason, NOW, "ml", "", "plimsoll.dev")
    assert "placementproposals.plimsoll.dev" in gap.sentence
    assert gap.sentence.endswith(".")
    if reason is GapKind.FORBIDDEN:
        assert "in the namespace ml" in gap.sentence
        assert "in all namespaces" in replace(gap, namespace="").sentence


@every_case(("name", "good"), [
    ("a", True), ("chat-1.b", True), ("", False), ("-a", False), ("a-", False), ("A", False), ("a/b", False),
    ("..", False), ("a\n", False), ("\u0430", False), ("a" * 253, True), ("a" * 254, False), ("a%2f", False),
])  # fmt: skip
def test_only_names_of_kubernetes_are_names(name: str, good: bool) -> None:  # noqa: FBT001 - a parameter
    assert is_name(name) is good


@every_case(("asked", "number"), [
    ((), 1), (("2",), 2), (("3",), 3), (("9",), 3), (("0",), 1), (("-1",), 1), (("x",), 1), (("\u0662",), 1),
    (("9" * 5000,), 1),
])  # fmt: skip
def test_a_page_of_a_list_is_always_one_that_there_is(asked: tuple[str, ...], number: int) -> None:
    part = part_of(range(25), "/p", {"page": asked, "q": ("a b", "\u00e9&")}, size=10)
    assert (part.number, part.pages, part.total) == (number, 3, 25)
    assert list(part.items) == list(range(25))[(number - 1) * 10 : number * 10]
    assert bool(part.previous) is (number > 1)
    assert bool(part.following) is (number < 3)
    assert all(each in ("", f"/p?q=a+b&q=%C3%A9%26&page={number - 1}") for each in (part.previous,))


def test_an_empty_list_has_one_page() -> None:
    part: ListPage[str] = part_of([], "/p", {})
    assert (part.number, part.pages, part.previous, part.following) == (1, 1, "", "")


def test_the_menu_marks_where_one_is() -> None:
    entries = [("/", "Inbox"), ("/deployments", "Deployments")]
    frame = frame_of(ClusterView(heard=NOW), "/deployments/ml/chat", entries, {"/": 3}, NOW + 4)
    assert [(item.is_here, item.count, item.is_urgent) for item in frame.menu] == [
        (False, 3, True),
        (True, None, False),
    ]
    assert (frame.freshness.kind, frame.freshness.symbol, frame.freshness.word) == ("live", "\u25cf", "live")
    assert frame.banners == ()
    assert [item.is_here for item in frame_of(ClusterView(), "/deploymentsx", entries, {}, NOW).menu] == [False, False]


def test_silence_for_a_minute_is_not_live_even_without_an_error() -> None:
    assert freshness_of(ClusterView(heard=NOW), NOW + 60).kind == "live"
    assert freshness_of(ClusterView(heard=NOW), NOW + 61).kind == "stale"
    assert freshness_of(ClusterView(), NOW).kind == "stale"


def test_banners_name_what_is_missing_once() -> None:
    gaps = (KindGap("inferencedeployments", GapKind.FORBIDDEN, NOW), KindGap("nodes", GapKind.FORBIDDEN, NOW))
    (banner,) = frame_of(ClusterView(heard=NOW, gaps=gaps), "/", (), {}, NOW).banners
    assert banner.words.startswith("You may not list inferencedeployments")
    loading = (KindGap("pods", GapKind.LOADING, NOW), KindGap("nodes", GapKind.LOADING, NOW))
    (banner,) = frame_of(ClusterView(gaps=loading), "/", (), {}, NOW).banners
    assert banner.words.endswith("first time: nodes, pods.")


def test_the_navigation_counts_what_the_person_may_see() -> None:
    assert counts_of(world_of(chat()), NOW) == {"/": 1, "/deployments": 1}
    assert counts_of(ClusterView(), NOW) == {"/": 0, "/deployments": 0}


def test_a_missing_value_of_a_template_is_an_error_and_text_is_escaped() -> None:
    with pytest.raises(Exception, match="undefined"):
        rendered("missing.html")
    template = environment().from_string("{{ word }} {{ 1024|count }}")
    assert template.render(word="<b>&") == "&lt;b&gt;&amp; 1,024"


def test_the_map_names_who_holds_a_node_and_what_is_free() -> None:
    other = chat_pod("train")
    other["metadata"]["labels"] = {}
    world = world_of(chat(), pods=[chat_pod(), other])
    assert world.fleet is not None
    found = fleet_of(world, world.fleet, "/fleet", {})
    assert found.part is not None
    cards = {card.node.name: card for card in found.part.items}
    assert [(holder.letter, holder.gpus, holder.key) for holder in cards["l4-0"].holders] == [
        ("a", 1, ObjectKey("ml", "chat")),
        ("", 1, None),
    ]
    assert cards["l4-0"].holders[0].words == "needs 19.8, line 20.2 GiB"
    assert cards["h100-0"].holders == ()
    assert [(strip.gpu_type, strip.free, strip.ours, strip.others) for strip in found.strips] == [
        ("h100-sxm-80gb", 8, 0, 0),
        ("l4-24gb", 2, 1, 1),
    ]
    assert strips_of(world) == found.strips
    assert strips_of(ClusterView()) == ()


def test_the_map_is_filtered_by_type_and_words() -> None:
    world = world_of(nodes=[H100_NODE, L4_NODE])
    assert world.fleet is not None
    for query, names in (
        ({"type": ("l4-24gb",)}, ["l4-0"]),
        ({"q": ("H100",)}, ["h100-0"]),
        ({"q": ("h100 l4",)}, []),
    ):
        part = fleet_of(world, world.fleet, "/fleet", query).part
        assert part is not None
        assert [card.node.name for card in part.items] == names


def test_many_nodes_open_as_strips_and_the_nodes_of_a_type_come_on_demand() -> None:
    nodes = [gpu_node(f"l4-{number}", "L4", 4) for number in range(NODES_AT_ONCE + 1)]
    world = world_of(nodes=nodes)
    assert world.fleet is not None
    assert fleet_of(world, world.fleet, "/fleet", {}).part is None
    part = fleet_of(world, world.fleet, "/fleet", {"type": ("l4-24gb",)}).part
    assert part is not None
    assert (len(part.items), part.total, part.pages) == (NODES_AT_ONCE, NODES_AT_ONCE + 1, 2)
    few = world_of(nodes=nodes[:NODES_AT_ONCE])
    assert few.fleet is not None
    assert fleet_of(few, few.fleet, "/fleet", {}).part is not None


async def test_a_node_with_unhealthy_gpus_is_shown_with_their_number() -> None:
    less = gpu_node("less-0", "L4", 3)
    less["status"]["capacity"] = {**less["status"]["allocatable"], "nvidia.com/gpu": "4"}
    text = (await page_of("/fleet", world_of(nodes=(less,)))).text
    assert "3 free" in text
    assert "1 unhealthy" in text
    assert "unhealthy" not in (await page_of("/fleet", world_of(nodes=(gpu_node("whole-0", "L4", 4),)))).text


async def test_without_nodes_the_fleet_page_names_the_missing_right() -> None:
    gap = KindGap("nodes", GapKind.FORBIDDEN, NOW)
    seen = await page_of("/fleet", ClusterView(heard=NOW, gaps=(gap,)))
    assert "You may not list nodes in all namespaces" in seen.text
    assert "Without nodes there is no map" in seen.text
    assert "You may not list" not in (await page_of("/fleet", world_of(chat()))).text


async def test_a_name_that_is_none_is_not_asked_for() -> None:
    seen = await page_of(
        "/deployments/{namespace}/{name}",
        ClusterView(heard=NOW),
        parts={"namespace": "..", "name": "x"},
        cluster=object(),
    )
    assert read_html(seen.html).all("h1") != []
    assert "x" in seen.text
