"""Findings that people know of, in the console: the page that acknowledges one, and where it stands afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.acknowledge import LENGTHS, acknowledge, acknowledging
from plimsoll.console.pages.live import deployment
from plimsoll.console.pages.proposal import LONGEST_REASON
from plimsoll.console.top.document import picture_document
from plimsoll.console.top.frame import picture
from plimsoll.console.views.proposals.inbox import Concern, counts_of, inbox_of
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage, Redirect
from plimsoll.domain.units import to_rfc3339
from plimsoll.status.severity import Pressure
from tests.support.proposals import NOW, FakeCluster, Seen, seen, visit_of

FORM = {"until": "4h", "finding": "WaitingForGpus", "generation": "3", "reason": "a node comes"}
SINCE = to_rfc3339(NOW - 3600)
PATH = "/deployments/ml/chat/acknowledge"
WORDS = f"WaitingForGpus is acknowledged by lena until {to_rfc3339(NOW + 3600)}: noon"
KNOWN = {
    "finding": "WaitingForGpus", "generation": 3, "severity": "waiting", "serves": False, "by": "lena",
    "until": to_rfc3339(NOW + 3600), "approval": "a", "reason": "noon",
}  # fmt: skip


def body(*known: dict[str, Any], reason: str = "WaitingForGpus", status: str = "False") -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "reason": reason, "message": "1 has no place."}
    head = {"name": "chat", "namespace": "ml", "uid": "u", "generation": 3, "resourceVersion": "1"}
    conditions = [ready | {"lastTransitionTime": SINCE}]
    return {"metadata": head, "spec": {}, "status": {"conditions": conditions, "acknowledged": list(known)}}


def cluster_of(*bodies: dict[str, Any]) -> FakeCluster:
    return FakeCluster({"inferencedeployments": list(bodies)})


def world_of(stored: dict[str, Any]) -> ClusterView:
    row = row_of(stored)
    return ClusterView(rows={row.key: row})


async def shown(stored: dict[str, Any], **how: Any) -> Seen:
    visit = visit_of(cluster_of(stored), "chat", **how)
    return seen(await acknowledging(visit), visit)


async def sent(cluster: FakeCluster, **fields: str) -> ConsolePage | Redirect:
    return await acknowledge(visit_of(cluster, "chat", form=FORM | fields))


def test_what_is_acknowledged_stands_apart_with_name_end_and_reason_and_counts_for_nobody() -> None:
    [item] = inbox_of(world_of(body(KNOWN)), NOW)
    assert (item.order, item.details, item.acknowledge) == (Concern.ACKNOWLEDGED, (f"{WORDS}.",), "")
    assert counts_of(world_of(body(KNOWN)), NOW)["/"] == 0
    for stored, at in ((body(), NOW), (body(KNOWN), NOW + 3600)):
        [item] = inbox_of(world_of(stored), at)
        assert (item.order, item.acknowledge) == (Concern.WAITING, PATH)
        assert counts_of(world_of(stored), at)["/"] == 1


def test_what_only_the_engines_say_right_now_cannot_be_acknowledged() -> None:
    world = world_of(body(reason="Serving", status="True"))
    [item] = inbox_of(world, NOW, dict.fromkeys(world.rows, Pressure(0.95, 3)))
    assert (item.order, item.acknowledge) == (Concern.IN_TROUBLE, "")


def test_top_says_it_below_its_table_and_as_data() -> None:
    out = Console(width=120)
    with out.capture() as printed:
        out.print(picture(world_of(body(KNOWN)), {}, NOW, 5))
    assert f"ml/chat: {WORDS}" in " ".join(printed.get().split())
    said = {"by": "lena", "until": to_rfc3339(NOW + 3600)}
    for stored, expected in ((body(KNOWN), said), (body(), None)):
        [line] = picture_document(world_of(stored), {}, NOW)["deployments"]
        assert line["acknowledged"] == expected


async def test_the_page_of_a_deployment_says_it_or_leads_to_the_form() -> None:
    for stored, words, leads in ((body(KNOWN), WORDS, False), (body(), "Acknowledge", True)):
        visit = visit_of(cluster_of(stored), "chat")
        page = seen(await deployment(visit), visit)
        assert words in page.text
        assert (PATH in [each.get("href") for each in page.all("a")]) is leads


async def test_the_form_names_what_it_shows_and_a_read_only_console_has_the_command() -> None:
    page = await shown(body())
    [form] = page.all("form")
    fields = {each.get("name"): each.get("value") for each in page.all("input")}
    assert (form["action"], fields["finding"], fields["generation"]) == (PATH, "WaitingForGpus", "3")
    assert [each["value"] for each in page.all("option")] == [value for value, _ in LENGTHS]
    page = await shown(body(), allow=False)
    assert page.all("form") == []
    assert "plimsoll acknowledge chat -n ml --finding WaitingForGpus --until 4h --reason '...'" in page.text
    for stored, words in ((body(KNOWN), WORDS), (body(reason="Serving", status="True"), "nothing to acknowledge")):
        page = await shown(stored)
        assert page.all("form") == []
        assert words in page.text


async def test_a_missing_right_is_named_in_the_place_of_the_form() -> None:
    cluster = cluster_of(body())
    cluster.lacking = frozenset({"approve"})
    visit = visit_of(cluster, "chat")
    page = seen(await acknowledging(visit), visit)
    assert page.all("form") == []
    assert "You do not have the verb approve on the InferenceDeployment ml/chat." in page.text


async def test_a_sent_form_creates_it_in_the_persons_name() -> None:
    cluster = cluster_of(body())
    found = await sent(cluster)
    assert isinstance(found, Redirect)
    assert found.to == "/deployments/ml/chat"
    [made] = cluster.created
    assert made["spec"] == {
        "deployment": "chat", "decision": "acknowledge", "finding": "WaitingForGpus", "generation": 3, "by": "alex",
        "until": to_rfc3339(NOW + 4 * 3600), "reason": "a node comes",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bodies", "fields", "status", "words"),
    [
        ([body()], {"generation": "2"}, 409, "Nothing was written: the spec has changed since this page was shown."),
        ([body()], {"finding": "NoGpuFits"}, 409, "NoGpuFits is not what is wrong. Write WaitingForGpus"),
        ([], {}, 404, "chat"),
    ],
)
async def test_a_form_about_something_else_writes_nothing(
    bodies: list[dict[str, Any]], fields: dict[str, str], status: int, words: str
) -> None:
    cluster = cluster_of(*bodies)
    visit = visit_of(cluster, "chat", form=FORM | fields)
    page = await acknowledge(visit)
    assert isinstance(page, ConsolePage)
    assert page.status == status
    assert words in seen(page, visit).text
    assert cluster.created == []


async def test_a_refusal_of_the_api_server_is_shown() -> None:
    cluster = cluster_of(body())
    cluster.refusals = {"create": ClusterRefused("create", 403, "you may not")}
    page = await sent(cluster)
    assert isinstance(page, ConsolePage)
    assert (page.status, page.values["banner"]) == (403, "The API server refused it: you may not")


@pytest.mark.parametrize("fields", [{"until": "99d"}, {"until": ""}, {"reason": "x" * (LONGEST_REASON + 1)}])
async def test_a_forged_form_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ConsoleRefusal):
        await sent(cluster_of(body()), **fields)
