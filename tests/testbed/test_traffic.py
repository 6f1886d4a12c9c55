"""Users that notice every lost request, against a server that loses some on purpose."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from testbed.api_client import ApiClient
from testbed.traffic.completion import Answered, Question, ask
from testbed.traffic.endpoints import Endpoint, ready_endpoints
from testbed.traffic.tally import Tally, percentile
from testbed.traffic.traffic import NOTHING, Load, Traffic
from testbed.waiting import wait_until

QUESTION = Question("tiny", "prompt", 4)
PATIENCE_SECONDS = 60.0


class Server:
    """A server of completions: ``manner`` says how it answers, ``hold`` keeps its answers back."""

    def __init__(self) -> None:
        self.manner = "whole"
        self.hold = threading.Event()
        self.hold.set()
        self.bodies: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def slices(self) -> dict[str, Any]:
        ready = {"targetRef": {"name": "pod-0"}, "addresses": ["127.0.0.1"], "conditions": {"ready": True}}
        return {"items": [{"endpoints": [ready], "ports": [{"port": self.port}]}]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                server.bodies.append(json.loads(self.rfile.read(length)))
                server.hold.wait()
                self.send_response(503 if server.manner == "refused" else 200)
                self.end_headers()
                self.wfile.write(_answer(server.manner, server.bodies[-1]["max_tokens"]))

            @override
            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing."""

        return Handler


def _answer(manner: str, tokens: int) -> bytes:
    counted = tokens - 1 if manner == "short" else tokens
    events = [json.dumps({"choices": [{"text": "x"}]}) for _ in range(tokens)]
    events.append(json.dumps({"choices": [], "usage": {"completion_tokens": counted}}))
    events += [] if manner == "cut" else ["[DONE]"]
    return "".join(f"data: {event}\n\n" for event in events).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def traffic(server: Server) -> Iterator[Traffic]:
    client = cast("ApiClient", SimpleNamespace(get=lambda *_, **__: server.slices()))
    with Traffic(client, "here", "tiny") as running:
        yield running
        server.hold.set()


def test_a_whole_answer_is_served_and_its_times_are_known(server: Server) -> None:
    answered = ask("pod-0", "127.0.0.1", server.port, QUESTION)
    assert (answered.error, answered.tokens) == ("", 4)
    assert answered.first_token_seconds is not None
    assert 0 < answered.first_token_seconds <= answered.seconds
    [body] = server.bodies
    assert (body["model"], body["prompt"], body["max_tokens"], body["ignore_eos"]) == ("tiny", "prompt", 4, True)


@pytest.mark.parametrize(
    ("manner", "why"),
    [("refused", "status 503"), ("cut", "the stream ended early"), ("short", "3 tokens came of 4")],
)
def test_anything_less_is_lost_and_never_asked_again(server: Server, manner: str, why: str) -> None:
    server.manner = manner
    assert ask("pod-0", "127.0.0.1", server.port, QUESTION).error.startswith(why)
    assert len(server.bodies) == 1


def test_a_server_that_is_gone_loses_the_request(server: Server) -> None:
    server.close()
    assert "ConnectionRefusedError" in ask("pod-0", "127.0.0.1", server.port, QUESTION).error


def test_only_ready_endpoints_are_asked() -> None:
    def endpoint(name: str, **conditions: bool) -> dict[str, Any]:
        return {"targetRef": {"name": name}, "addresses": [f"10.1.0.{len(name)}"], "conditions": conditions}

    slices: list[dict[str, Any]] = [
        {"ports": [{"port": 8000}], "endpoints": [endpoint("a", ready=True), endpoint("bb", ready=False)]},
        {"ports": [{"port": 8000}], "endpoints": None},
        {"ports": None, "endpoints": [endpoint("ccc", ready=True)]},
    ]
    assert ready_endpoints(slices) == [Endpoint("a", "10.1.0.1", 8000)]


def test_the_load_can_be_changed_while_it_runs(server: Server, traffic: Traffic) -> None:
    traffic.set(Load(per_second=50, users=4, prompt_tokens=20, output_tokens=2))
    wait_until(lambda: traffic.tally.served() >= 5, PATIENCE_SECONDS, "five answers")
    traffic.set(Load(per_second=50, users=4, prompt_tokens=30, output_tokens=3))
    wait_until(lambda: server.bodies[-1]["max_tokens"] == 3, PATIENCE_SECONDS, "a longer answer")
    assert len(server.bodies[-1]["prompt"]) == 30
    assert traffic.tally.lost() == []

    traffic.set(NOTHING)
    wait_until(lambda: traffic.on_the_way() == 0, PATIENCE_SECONDS, "all answers")
    asked = len(server.bodies)
    assert traffic.tally.by_pod() == {"pod-0": asked}


def test_one_user_at_a_time_asks_each_pod_in_turn(server: Server) -> None:
    """None of them has a request when the next one comes."""
    slices = server.slices()
    [ready] = slices["items"][0]["endpoints"]
    slices["items"][0]["endpoints"] = [ready | {"targetRef": {"name": name}} for name in ("pod-0", "pod-1", "pod-2")]
    client = cast("ApiClient", SimpleNamespace(get=lambda *_, **__: slices))
    with Traffic(client, "here", "tiny") as traffic:
        traffic.set(Load(per_second=50, users=1, prompt_tokens=20, output_tokens=2))
        wait_until(lambda: traffic.tally.served() >= 9, PATIENCE_SECONDS, "nine answers")
        traffic.set(NOTHING)
        wait_until(lambda: traffic.on_the_way() == 0, PATIENCE_SECONDS, "all answers")
    each = traffic.tally.by_pod()
    assert set(each) == {"pod-0", "pod-1", "pod-2"}
    assert max(each.values()) - min(each.values()) <= 1


def test_there_are_never_more_requests_than_users(server: Server, traffic: Traffic) -> None:
    server.hold.clear()
    traffic.set(Load(per_second=100, users=3, prompt_tokens=20, output_tokens=2))
    wait_until(lambda: len(server.bodies) == 3, PATIENCE_SECONDS, "three requests")
    assert traffic.on_the_way() == 3
    server.hold.set()
    wait_until(lambda: traffic.tally.served() > 3, PATIENCE_SECONDS, "more answers")


def test_a_service_without_endpoints_loses_requests(server: Server) -> None:
    client = cast("ApiClient", SimpleNamespace(get=lambda *_, **__: {"items": []}))
    with Traffic(client, "here", "tiny") as users:
        users.set(Load(per_second=50, users=1, prompt_tokens=20, output_tokens=2))
        lost = wait_until(users.tally.lost, PATIENCE_SECONDS, "a lost request")
    assert lost[0].error == "the Service has no ready endpoint"
    assert server.bodies == []


def test_the_tally_counts_by_time_and_by_pod() -> None:
    tally, began = Tally(), time.time()
    for number, (pod, error) in enumerate([("a", ""), ("a", ""), ("b", ""), ("b", "cut")]):
        tally.add(Answered(pod, began + number, float(number), 0.1, 4, error))
    assert (tally.served(), tally.served(began + 1), len(tally.lost(began + 1))) == (3, 2, 1)
    assert tally.by_pod() == {"a": 2, "b": 1}
    assert tally.seconds() == [0, 1, 2]
    assert tally.line().startswith("3 served, 1 lost; seconds p50 1.0 p99 2.0")


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2), (75, 3), (76, 4), (100, 4)])
def test_a_percentile_is_a_value_that_was_seen(percent: int, value: float) -> None:
    assert percentile([1, 2, 3, 4], percent) == value


def test_no_values_have_no_percentile() -> None:
    assert percentile([], 50) == 0
