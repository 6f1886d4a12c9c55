"""Every state has a word and a symbol next to its colour, and the worst comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from plimsoll.console.views.deployments import deployments_of
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.proposals.inbox import OUTDATED, counts_of, groups_of, inbox_of
from plimsoll.console.views.rows import DeploymentRow, LiveRow, row_of
from plimsoll.console.views.states import mark_of, pressures_of, summary_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.cluster.fleet import Fleet, IgnoredNode
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import NodeReason
from plimsoll.domain.units import GIB
from plimsoll.status.severity import LoadLine, Severity, Sign, Signs, load_line
from tests.support.console_pages import H100_NODE, chat, chat_pod, deployment_page, page_of, world_of
from tests.support.proposals import ID, NAME, NOW, OTHER_ID, proposal
from tests.support.tables import every_case

READY = {"Ready": Sign("True", "Serving", "Serves.")}
STARTS = {"Ready": Sign("False", "CreatingPods", "0 of 1 pod exists.", NOW - 60)}
REFUSED = {
    "Ready": Sign("False", "NoGpuFits", "Nothing fits.", NOW - 60),
    "Planned": Sign("False", "NoGpuFits", "Nothing fits.", NOW - 60),
    "Stalled": Sign("True", "NoGpuFits", "Nothing fits.", NOW - 60),
}
WAITS = {"Ready": Sign("False", "WaitingForGpus", "1 replica has no place.", NOW - 900)}
MISSES = READY | {"Troubled": Sign("True", "PromiseMissed", "A token takes 90 ms.", NOW - 600)}


def figures(spare: int = 5, **more: Any) -> Figures:
    """10 GiB expected with 1 GiB of margin, and so much to spare."""
    return Figures(6 * GIB, 2 * GIB, GIB, GIB, GIB, GIB, (11 + spare) * GIB, 24 * GIB, 100, 250, **more)


def row(
    name: str = "a", *, spare: int | None = 5, conditions: Mapping[str, Sign] = MappingProxyType(READY), **more: Any
) -> DeploymentRow:
    own = None if spare is None else figures(spare)
    line = LoadLine.WITHIN if own is None else load_line(own.lower, own.upper, own.budget, own.override)
    placed: dict[str, Any] = {"gpu_type": "l4-24gb", "split": Split(1), "figures": own}
    signs = Signs(conditions, line=line)
    return DeploymentRow(
        ObjectKey("ml", name), "u", "1", "model", is_behind=False, **(placed | {"signs": signs} | more)
    )


HOMELESS: dict[str, Any] = {"gpu_type": None, "split": None, "spare": None}
ROWS = {
    Severity.OUTAGE: row("none", **HOMELESS, conditions=REFUSED),
    Severity.TROUBLE: row("slow", conditions=MISSES),
    Severity.WAITING: row("waits", **HOMELESS, conditions=WAITS),
    Severity.OVER: row("over", spare=-3),
    Severity.NEAR: row("near", spare=-1),
    Severity.PASSING: row("starts", conditions=STARTS),
    Severity.FINE: row("fine"),
}


@every_case("severity", Severity)
def test_each_state_has_a_symbol_a_word_and_a_class(severity: Severity) -> None:
    mark = mark_of(ROWS[severity])
    assert mark.severity is severity
    assert mark.symbol
    assert mark.word
    assert mark.kind in ("good", "warn", "bad", "muted")


def test_no_two_of_these_states_share_their_word() -> None:
    assert len({mark_of(each).word for each in ROWS.values()}) == len(Severity)


@pytest.mark.parametrize("severity", Severity)
async def test_the_list_shows_each_state_by_word(severity: Severity) -> None:
    each = ROWS[severity]
    seen = await page_of("/deployments", ClusterView(heard=NOW, rows={each.key: each}))
    mark = mark_of(each)
    assert f"{mark.symbol} {mark.word}" in seen.text
    assert {entry.get("class") for entry in seen.all("span")} >= {f"state {mark.kind}"}
    assert all("aria-label" in svg for svg in seen.all("svg") if svg.get("role") == "img")


def test_the_list_is_worst_first_then_by_least_room_and_filtered_by_the_address() -> None:
    rows = [*ROWS.values(), row("tight", spare=1)]
    world = ClusterView(rows={each.key: each for each in rows})
    found = deployments_of(world, "/deployments", {})
    assert [line.row.key.name for line in found.part.items] == [
        "none", "slow", "waits", "over", "near", "starts", "tight", "fine",
    ]  # fmt: skip
    assert found.part.items[0].bar is None
    assert found.part.items[1].bar is not None
    near = deployments_of(world, "/deployments", {"state": ("near its line",)})
    assert [line.row.key.name for line in near.part.items] == ["near"]
    assert [choice.word for choice in near.choices if choice.is_chosen] == ["near its line"]
    both = deployments_of(world, "/deployments", {"q": (" TIGHT  model ",)})
    assert [line.row.key.name for line in both.part.items] == ["tight"]
    assert (both.total, both.search) == (8, "TIGHT  model")
    assert deployments_of(world, "/deployments", {"q": ("nothing",)}).part.items == ()


def test_a_state_that_no_deployment_has_stays_chosen() -> None:
    """Else the page would show an empty list under the word "all"."""
    world = ClusterView(rows={each.key: each for each in (ROWS[Severity.FINE],)})
    found = deployments_of(world, "/deployments", {"state": ("near its line",)})
    assert [(choice.word, choice.count) for choice in found.choices if choice.is_chosen] == [("near its line", 0)]
    odd = deployments_of(world, "/deployments", {"state": ("an odd word",)})
    assert [choice.word for choice in odd.choices if choice.is_chosen] == ["an odd word"]


def test_the_summary_counts_what_the_person_may_see_and_never_makes_up_a_price() -> None:
    rows = [row("a", hourly_price="0.42"), row("b", hourly_price="1.5"), row("c"), row("d", hourly_price="odd")]
    rows += [row("e", hourly_price="NaN"), *ROWS.values()]
    found = summary_of(ClusterView(rows={each.key: each for each in rows}))
    assert (found.deployments, found.placed, found.bill, found.unpriced) == (12, 10, "1.92", 8)
    assert (found.down, found.troubled, found.waiting, found.over, found.near) == (1, 1, 1, 1, 1)
    assert (found.gpus, found.gpus_taken) == (None, None)
    nothing = summary_of(world_of(pods=[chat_pod(node="h100-0")], nodes=[H100_NODE]))
    assert (nothing.gpus, nothing.gpus_taken, nothing.bill) == (8, 1, None)


async def test_unknown_figures_are_said_as_unknown_and_never_as_zero() -> None:
    seen = await page_of("/", ClusterView(heard=NOW, rows={ROWS[Severity.FINE].key: ROWS[Severity.FINE]}))
    assert "unknown GPUs taken" in seen.text
    assert "unknown per hour, without 1 of unknown price" in seen.text
    assert "Nothing needs a person" in seen.text


def test_the_inbox_has_what_alerts_and_nothing_else() -> None:
    """Warnings of a place stay on its page: no alert fires for them, and nobody has to decide."""
    rows = [*ROWS.values(), row("odd", complaints=("bad",)), row("forced", warnings=("a", "b"))]
    rows += [row("lies", spare=-7, warnings=("by an admin's figure",))]
    items = inbox_of(ClusterView(rows={each.key: each for each in rows}), NOW)
    assert [(item.key.name, item.word) for item in items if item.key] == [
        ("none", "NoGpuFits"),
        ("slow", "PromiseMissed"),
        ("waits", "WaitingForGpus"),
        ("lies", "over its line"),
        ("over", "over its line"),
    ]
    assert all(item.symbol and item.word for item in items)
    assert [(item.message, item.details) for item in items if item.word == "over its line"] == [
        ("One GPU needs 11.0 GiB, and the engine may use 4.0 GiB: 7.0 GiB over.", ("by an admin's figure",)),
        ("One GPU needs 11.0 GiB, and the engine may use 8.0 GiB: 3.0 GiB over.", ()),
    ]


@pytest.mark.parametrize(
    ("conditions", "seconds"), [(REFUSED, 0), (MISSES, 600), (WAITS, 900), (STARTS, 1800)], ids=str
)
def test_a_state_is_in_the_inbox_from_the_moment_at_which_its_alert_fires(
    conditions: dict[str, Sign], seconds: float
) -> None:
    begun = {kind: replace(sign, since=NOW - seconds) for kind, sign in conditions.items()}
    world = ClusterView(rows={ObjectKey("ml", "a"): row(conditions=begun)})
    assert len(inbox_of(world, NOW)) == 1
    assert inbox_of(world, NOW - 1) == ()


def test_requests_that_wait_for_a_full_cache_are_in_the_inbox_and_above_an_estimate() -> None:
    full = LiveUse(kv=SampledFigure(0.9, NOW), waiting=SampledFigure(3.0, NOW))
    world = ClusterView(rows={each.key: each for each in (ROWS[Severity.OVER], row("chat"))})

    def inbox(use: LiveUse) -> list[tuple[str, str]]:
        items = inbox_of(world, NOW, pressures_of({ObjectKey("ml", "chat"): use}, NOW))
        return [(item.key.name, item.word) for item in items if item.key]

    assert inbox(full) == [("chat", "KV cache full"), ("over", "over its line")]
    (item, _) = inbox_of(world, NOW, pressures_of({ObjectKey("ml", "chat"): full}, NOW))
    assert item.message.startswith("90 % of the KV cache is in use, and 3 requests wait. What helps: ")
    for quiet in (
        replace(full, waiting=SampledFigure(0.0, NOW)),
        replace(full, kv=SampledFigure(0.89, NOW)),
        replace(full, kv=SampledFigure(0.9, NOW - 61)),
        LiveUse(),
    ):
        assert inbox(quiet) == [("over", "over its line")]


async def test_the_navigation_counts_what_the_inbox_shows() -> None:
    world = ClusterView(heard=NOW, rows={each.key: each for each in ROWS.values()})
    seen = await page_of("/", world)
    assert counts_of(world, NOW)["/"] == len(inbox_of(world, NOW)) == 4
    assert "Inbox 4" in seen.text


def test_a_deployment_is_over_its_line_once_however_many_warnings_it_has() -> None:
    """The number of the group is that of the card on the same page."""
    world = ClusterView(rows={each.key: each for each in (row("over", spare=-7, warnings=("a", "b")), row("fine"))})
    items = inbox_of(world, NOW)
    assert [(group.title, group.total) for group in groups_of(items, items)] == [("Over the load line", 1)]
    assert summary_of(world).over == 1


def test_nodes_that_somebody_wants_out_are_not_in_the_inbox() -> None:
    ignored = tuple(IgnoredNode(reason.value, reason, "why") for reason in NodeReason)
    items = inbox_of(ClusterView(fleet=replace(Fleet(), ignored=ignored)), NOW)
    assert {item.word for item in items} == {reason.value for reason in NodeReason} - {"Cordoned", "Leaving"}


async def test_gauges_and_verdicts_of_a_deployments_page_have_words() -> None:
    body = chat()
    seen = await deployment_page(body)
    assert "\u25cf chosen" in seen.text
    assert "\u2713 fits" in seen.text
    assert "\u25cb starting" in seen.text
    assert "KV cache unknown" in seen.text
    assert "batch unknown" in seen.text
    assert "\u25cf serves" in seen.text
    assert row_of(body).is_behind is False
    assert "Spec the operator has read the newest one (generation 1)" in seen.text
    assert "Fit it fits, also with the whole error band" in seen.text
    assert "Why here, and not elsewhere" in seen.text
    body["metadata"]["generation"] = 2
    assert "The operator has not seen your last change yet" in (await deployment_page(body)).text


async def test_an_admins_figure_is_named_next_to_the_fit_that_it_makes() -> None:
    body = chat()
    body["status"]["estimate"]["overrideBytes"] = 7 * GIB
    seen = (await deployment_page(body)).text
    assert "also with the whole error band, by an admin's figure: 7.0 GiB" in seen.replace("\u2019", "'")


async def test_what_was_never_judged_is_not_called_without_a_place() -> None:
    """A spec that cannot be used, and one that is suspended before its first placement."""
    body = chat()
    for name in ("placement", "rejections", "pools", "estimate"):
        body["status"].pop(name, None)
    seen = (await deployment_page(body)).text
    assert "Why nowhere" not in seen
    assert "No candidate was judged yet" in seen


async def test_a_deployment_without_a_place_is_asked_why_nowhere() -> None:
    body = chat()
    del body["status"]["placement"]
    seen = (await deployment_page(body)).text
    assert "Why it has no place" in seen
    assert "Why here" not in seen


def test_of_several_proposals_the_newest_comes_first_and_the_others_say_that_they_are_outdated() -> None:
    old = proposal(createdAt="2026-11-24T01:00:00Z")
    new = proposal(createdAt="2026-11-24T01:30:00Z", id=OTHER_ID)
    new["metadata"] = {**new["metadata"], "name": f"chat-{OTHER_ID}"}
    live = LiveRow("Recommend", "ArrivalsExceedCapacity", "3 replicas are needed.", proposal_id=OTHER_ID)
    key = ObjectKey("ml", "chat")

    def shown(*bodies: Any, **more: Any) -> list[tuple[str, bool]]:
        world = ClusterView(rows={key: replace(row("chat"), **more)}, proposals=bodies)
        return [(item.proposal, OUTDATED in item.details) for item in inbox_of(world, NOW) if item.proposal]

    assert shown(old, new, live=live) == [(f"chat-{OTHER_ID}", False), (NAME, True)]
    assert shown(old, live=replace(live, proposal_id=ID)) == [(NAME, False)]
    assert shown(old) == [(NAME, False)]
