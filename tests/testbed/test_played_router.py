"""The played router of the demonstration: it holds requests as a picker and Envoys do, and says so as a picker does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event
from typing import Any, cast

import pytest

from plimsoll.adapters.prometheus.router_scrape import queue_on
from testbed import demo_routing, played_router
from testbed.api_client import ApiClient, http_text
from testbed.played_router import PlayedRouter, PortTaken
from testbed.story import Story
from testbed.waiting import NotInTime, wait_until

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


def test_a_port_that_another_program_has_at_all_addresses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("0.0.0.0", 0), BaseHTTPRequestHandler) as other:  # noqa: S104 -- as many programs listen
        monkeypatch.setattr(played_router, "METRICS_PORT", other.server_port)
        with pytest.raises(PortTaken, match=f"port {other.server_port} of 127.* is taken"):
            PlayedRouter(cast("ApiClient", FakeClient()), "team", "chat", list)


@dataclass
class HoldsAlways:
    """A router whose requests nobody answers."""

    url: str = ""
    let_go: Event = field(default_factory=Event)
    serving: Callable[[], list[str]] = list

    def ask(self, question: str) -> str:
        self.let_go.wait(HANG_SECONDS)
        return question

    def end(self) -> None:
        self.let_go.set()


@dataclass
class EndsWhileItWaits:
    """A story that ends while it waits for the answer."""

    end: BaseException

    def tell(self, text: str) -> None: ...

    def does(self, *arguments: str) -> None: ...

    def types(self, command: str) -> None: ...

    def wait(self, question: Callable[[], object], what: str) -> None:
        if what == "an answer":
            assert not question(), "it is held"
            raise self.end


@pytest.mark.parametrize("end", [NotInTime("an answer"), KeyboardInterrupt()], ids=["late", "ctrl-c"])
def test_a_story_that_ends_while_a_request_is_held_does_not_wait_for_it(end: BaseException) -> None:
    router = HoldsAlways()
    with pytest.raises(type(end)):
        demo_routing.wake_from_zero(cast("PlayedRouter", router), cast("Story", EndsWhileItWaits(end)))
    assert router.let_go.is_set(), "the request was let go"
