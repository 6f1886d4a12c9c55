"""The page of a deployment says which address clients call, who chooses the replica, and what the caches found."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.console.views.load.live_use import EnginePod, PodLast, use_of
from plimsoll.console.views.words import percent
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample
from tests.support.console_pages import Answering, chat, chat_pod, opened, view_of, visit_of, world_of
from tests.support.proposals import Seen

PAGE = "/deployments/{namespace}/{name}"
GATEWAY = {"name": "shared", "namespace": "infra", "controller": "example.com/c", "accepted": True}
NOW = 10_000.0


async def _seen(**routing: Any) -> str:
    body = chat()
    if routing:
        body["status"]["routing"] = routing
    view = view_of(PAGE)
    cluster: Any = Answering({"inferencedeployments": body})
    page = await opened(view, visit_of(view, world_of(body, pods=[chat_pod()]), cluster=cluster))
    assert isinstance(page, Seen)
    return " ".join(page.text.split())


async def test_without_a_router_there_is_the_address_alone() -> None:
    text = await _seen()
    assert "Address http://llama-8b.default.svc:8000/v1" in text
    assert "Router" not in text


async def test_behind_a_gateway_the_page_names_it_the_picker_and_the_replicas_to_choose_from() -> None:
    ready = {"endpoints": 3, "pickerReady": True, "gateway": GATEWAY}
    text = await _seen(mode="Gateway", state="Ready", **ready)
    for words in (
        "Router requests go through it (mode Gateway)",
        "Gateway infra/shared admits the route, says example.com/c",
        "Picker answers",
        "Endpoints 3 replicas",
    ):
        assert words in text


async def test_what_is_wrong_is_said_as_text_whatever_a_controller_writes() -> None:
    message = "Gateway infra/shared does not admit the HTTPRoute (<script>alert(1)</script>)."
    refused = GATEWAY | {"accepted": False}
    text = await _seen(mode="Gateway", state="NotReady", pickerReady=False, gateway=refused, message=message)
    assert "Gateway infra/shared does not admit the route" in text
    assert "Picker does not answer" in text
    assert f"Why {message}" in text


def _share(*counters: tuple[float | None, float | None]) -> str:
    samples = [
        EngineSample(NOW - 60 + 10 * index, running=1, prefix_queried_tokens_total=asked, prefix_hit_tokens_total=found)
        for index, (asked, found) in enumerate(counters)
    ]
    key = ObjectKey("ns", "a")
    return percent(use_of([EnginePod(key)], {key: PodLast.of(samples, NOW)}, NOW).found_share)


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        (((1000, 100), (1500, 400), (2000, 850)), "75 %"),
        (((1000, 100),), "unknown"),
        (((1000, 100), (1000, 100)), "unknown"),
        (((None, None), (None, None)), "unknown"),
        (((5000, 4000), (0, 0), (400, 100)), "25 %"),
        (((0, 0), (float("nan"), 0), (100, 0)), "0 %"),
    ],
    ids=["growth counts", "one sample", "nobody asked", "no such series", "the engine began again", "no number"],
)
def test_the_share_found_is_that_of_the_tokens_looked_up_in_the_time_of_the_samples(
    counters: tuple[tuple[float | None, float | None], ...], said: str
) -> None:
    assert _share(*counters) == said
