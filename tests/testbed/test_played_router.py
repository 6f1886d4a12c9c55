"""The played router of the demonstration: it holds requests as a picker and Envoys do, and says so as a picker does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from plimsoll.adapters.prometheus.router_scrape import queue_on
from testbed.api_client import ApiClient, http_text
from testbed.played_router import PlayedRouter
from testbed.waiting import wait_until

QUESTION = json.dumps({"model": "chat", "prompt": "x"})
HANG_SECONDS = 120.0


def _pod(namespace: str, name: str, **status: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}


@dataclass
class FakeClient:
    """The pickers of two namespaces, and what is written to them."""

    written: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)

    def cached_pods(self, label_selector: str) -> list[dict[str, Any]]:
        assert label_selector == "plimsoll.dev/picker=chat"
        return self.pods

    def merge_patch(self, path: str, patch: dict[str, Any]) -> None:
        self.written.append((path, patch))


@dataclass
class Played:
    """A router, its cluster and its replicas."""

    router: PlayedRouter
    client: FakeClient
    replicas: list[str]

    def queue(self) -> float:
        """Return the queue as the operator reads it."""
        return queue_on(http_text(f"http://{self.router.address}:9090/metrics"))


@pytest.fixture
def played() -> Iterator[Played]:
    client, replicas = FakeClient(), list[str]()
    with PlayedRouter(cast("ApiClient", client), "team", "chat", lambda: replicas) as router:
        yield Played(router, client, replicas)


def test_requests_wait_while_nobody_serves_and_are_answered_by_whoever_comes(played: Played) -> None:
    assert played.queue() == 0.0
    with ThreadPoolExecutor(2) as clients:
        asked = [clients.submit(played.router.ask, QUESTION) for _ in range(2)]
        wait_until(lambda: played.queue() == 2.0, HANG_SECONDS, "both held")
        assert not any(each.done() for each in asked)
        played.replicas.append("chat-1")
        assert [json.loads(each.result(HANG_SECONDS))["servedBy"] for each in asked] == ["chat-1", "chat-1"]
    assert played.queue() == 0.0
    assert json.loads(played.router.ask(QUESTION))["servedBy"] == "chat-1", "the next one does not wait"


def test_the_end_of_the_router_holds_nobody(played: Played) -> None:
    with ThreadPoolExecutor(1) as clients:
        asked = clients.submit(played.router.answer)
        wait_until(lambda: played.queue() == 1.0, HANG_SECONDS, "held")
        played.router.end()
        assert json.loads(asked.result(HANG_SECONDS))["servedBy"] is None


def test_its_own_pickers_get_its_address_and_those_of_a_neighbour_keep_theirs(played: Played) -> None:
    address = played.router.address
    played.client.pods = [
        _pod("team", "new", podIP="10.244.0.7"),
        _pod("team", "starts"),
        _pod("team", "known", podIP=address),
        _pod("neighbour", "theirs", podIP="10.244.0.8"),
    ]
    wait_until(lambda: played.client.written, HANG_SECONDS, "an address")
    path, patch = played.client.written[0]
    assert path == "/api/v1/namespaces/team/pods/new/status"
    assert patch == {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    assert {each for each, _ in played.client.written} == {path}
