"""The proxy that plays faults, with a small API server of the test's own behind it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

from testbed import fault_proxy
from testbed.api_client import ApiError, http_text
from testbed.fault_proxy import FaultProxy
from testbed.faults import (
    Cut,
    CutStream,
    Delay,
    EmptyList,
    Hang,
    Lines,
    Silence,
    Truncate,
    Verb,
    html,
    timeout_after_applying,
    too_many_requests,
)
from testbed.last_writes import LastWrite
from testbed.waiting import wait_until

WRITE = frozenset({Verb.WRITE})
PATIENCE_SECONDS = 60.0
LIST = {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "x"}, "items": [{"a": 1}, {"b": 2}]}


class Upstream(ThreadingHTTPServer):
    """Answers every read with a list, remembers writes, and sends watch lines when it is told to."""

    daemon_threads = True
    request_queue_size = 1024
    """Connections that may wait to be accepted. With the usual five, Linux drops some of hundreds that come at once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.written: list[str] = []
        self.lines: list[str] = []
        self.ended = False
        self.more = threading.Condition()

    def say(self, kind: str) -> None:
        with self.more:
            self.lines.append(json.dumps({"type": kind, "object": {}}, separators=(",", ":")))
            self.more.notify_all()

    def end(self) -> None:
        with self.more:
            self.ended = True
            self.more.notify_all()
        self.shutdown()

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Connections break here on purpose."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def do_GET(self) -> None:
        if "watch=true" in self.path:
            self.stream()
            return
        self.answer(json.dumps(LIST).encode())

    def do_PATCH(self) -> None:
        self.server.written.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(b"{}")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        while not self.server.ended:
            with self.server.more:
                self.server.more.wait_for(lambda: self.server.ended or len(self.server.lines) > sent)  # noqa: B023
                new, sent = self.server.lines[sent:], len(self.server.lines)
            for line in new:
                self.wfile.write(f"{len(line) + 1:x}\r\n{line}\n\r\n".encode())

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.end()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[FaultProxy]:
    with FaultProxy(f"http://127.0.0.1:{upstream.server_port}") as running:
        yield running


def read(proxy: FaultProxy, path: str = "/api/v1/pods") -> str:
    return http_text(f"{proxy.url}{path}", timeout=PATIENCE_SECONDS)


def write(proxy: FaultProxy, body: str = "x", path: str = "/apis/apps/v1/deployments/a") -> str:
    return http_text(f"{proxy.url}{path}", method="PATCH", body=body, timeout=PATIENCE_SECONDS)


class Watcher:
    """A watch through the proxy, read line by line in a thread."""

    def __init__(self, proxy: FaultProxy) -> None:
        where = urlsplit(proxy.url)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port)
        self.types: list[str] = []
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._connection.request("GET", "/api/v1/pods?watch=true")
            answer = self._connection.getresponse()
            while line := answer.readline():
                self.types.append(json.loads(line)["type"])
        except (OSError, http.client.HTTPException):
            pass
        finally:
            self._connection.close()
            self.ended.set()

    def wait(self, *types: str) -> None:
        wait_until(lambda: self.types == list(types), PATIENCE_SECONDS, f"{types}, not {self.types}")


def test_without_rules_everything_passes_and_is_recorded(proxy: FaultProxy, upstream: Upstream) -> None:
    assert json.loads(read(proxy)) == LIST
    write(proxy, "body")

    assert upstream.written == ["body"]
    assert [(seen.verb, seen.done, seen.status) for seen in proxy.exchanges] == [
        (Verb.READ, "passed", 200),
        (Verb.WRITE, "passed", 200),
    ]


def test_answers_of_its_own_hit_only_what_matches(proxy: FaultProxy, upstream: Upstream) -> None:
    with proxy.fault(too_many_requests(3), verbs=WRITE, path="/deployments/a$") as rule:
        with pytest.raises(ApiError, match="429") as refused:
            write(proxy)
        assert "TooManyRequests" in str(refused.value)
        write(proxy, "other", "/apis/apps/v1/deployments/b")
        read(proxy, "/apis/apps/v1/deployments/a")
        assert rule.hits == 1
    write(proxy, "again")
    assert upstream.written == ["other", "again"]


def test_a_timeout_after_applying_applies(proxy: FaultProxy, upstream: Upstream) -> None:
    with proxy.fault(timeout_after_applying(), nth=2):
        write(proxy, "first")
        with pytest.raises(ApiError, match="504"):
            write(proxy, "second")
        write(proxy, "third")
    with proxy.fault(html()):
        assert write(proxy, "never").startswith("<html>")
    assert upstream.written == ["first", "second", "third"]


def test_shares_are_seeded(proxy: FaultProxy) -> None:
    def refused() -> list[bool]:
        with proxy.fault(html(), share=0.5, seed=3):
            return ["html" in read(proxy) for _ in range(20)]

    first = refused()
    assert 4 < sum(first) < 16
    assert refused() == first


def test_lists_are_emptied_and_cut_short(proxy: FaultProxy) -> None:
    with proxy.fault(EmptyList(), times=1):
        assert json.loads(read(proxy)) == {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}
        assert json.loads(read(proxy)) == LIST
    with proxy.fault(Truncate()), pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(read(proxy))


def test_cuts_lose_the_request_or_the_answer(proxy: FaultProxy, upstream: Upstream) -> None:
    with proxy.fault(Cut(), times=1), pytest.raises(OSError, match=r".*"):
        write(proxy, "lost")
    with proxy.fault(Cut(applied=True)), pytest.raises(OSError, match=r".*"):
        write(proxy, "answer lost")
    assert upstream.written == ["answer lost"]


class Sleeps:
    """The module asyncio for the proxy, where a sleep takes as long as the test says; ``asked`` keeps its seconds."""

    def __init__(self, until: int) -> None:
        self.asked: list[float] = []
        self._until, self._all = until, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        """Sleep until so many sleep."""
        self.asked.append(seconds)
        if len(self.asked) >= self._until:
            self._all.set()
        await self._all.wait()


def test_delays_add_up_with_other_faults(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(1)
    monkeypatch.setattr(fault_proxy, "asyncio", sleeps)
    with proxy.fault(Delay(20)), proxy.fault(html()), proxy.fault(Delay(30)):
        assert "html" in read(proxy)
    assert sleeps.asked == [20, 30]


def test_what_hangs_is_let_go_with_its_rule(proxy: FaultProxy) -> None:
    rule = proxy.add(Hang(), verbs=WRITE)
    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(write, proxy)
        wait_until(lambda: rule.hits, PATIENCE_SECONDS, "the request at the proxy")
        assert json.loads(read(proxy)) == LIST
        assert not hanging.done()
        proxy.remove(rule)
        with pytest.raises(OSError, match=r".*"):
            hanging.result(PATIENCE_SECONDS)


@pytest.mark.parametrize(("applied", "arrived"), [(False, ["first"]), (True, ["first", "last"])])
def test_a_last_write_gets_no_answer_and_none_comes_after_it(
    proxy: FaultProxy, upstream: Upstream, *, applied: bool, arrived: list[str]
) -> None:
    last = proxy.hold(LastWrite("/deployments/", "PATCH", "/deployments/a$", 2, applied))
    write(proxy, "first")
    with ThreadPoolExecutor() as pool:
        held = [pool.submit(write, proxy, "last")]
        wait_until(lambda: last.is_held, PATIENCE_SECONDS, "the write held")
        held.append(pool.submit(write, proxy, "later", "/apis/apps/v1/deployments/b"))
        wait_until(
            lambda: [seen.done for seen in proxy.writes()].count("lost") == 2 - applied,
            PATIENCE_SECONDS,
            "the later one held",
        )
        write(proxy, "elsewhere", "/api/v1/pods/a")
        assert not any(one.done() for one in held)
        proxy.let_go()
        assert all(isinstance(one.exception(PATIENCE_SECONDS), OSError) for one in held)
    assert upstream.written == [*arrived, "elsewhere"]
    write(proxy, "alive again")
    assert upstream.written[-1] == "alive again"


def test_lines_of_a_watch_are_dropped_and_repeated(proxy: FaultProxy, upstream: Upstream) -> None:
    watcher = Watcher(proxy)
    upstream.say("ADDED")
    watcher.wait("ADDED")
    with (
        proxy.fault(Lines(frozenset({"DELETED"}))),
        proxy.fault(Lines(frozenset({"MODIFIED"}), copies=3)),
    ):
        for kind in ("DELETED", "MODIFIED", "ADDED"):
            upstream.say(kind)
        watcher.wait("ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "ADDED")
    upstream.say("DELETED")
    wait_until(lambda: watcher.types[-1] == "DELETED", PATIENCE_SECONDS, "the line after the rule")


def test_a_watch_is_cut_after_so_many_lines(proxy: FaultProxy, upstream: Upstream) -> None:
    with proxy.fault(CutStream(after_lines=2)):
        watcher = Watcher(proxy)
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            upstream.say(kind)
        assert watcher.ended.wait(PATIENCE_SECONDS)
    assert watcher.types == ["ADDED", "MODIFIED"]


def test_a_silent_watch_stays_open_and_stays_silent(proxy: FaultProxy, upstream: Upstream) -> None:
    watcher = Watcher(proxy)
    upstream.say("ADDED")
    watcher.wait("ADDED")
    with proxy.fault(Silence()) as rule:
        upstream.say("MODIFIED")
        wait_until(lambda: rule.hits, PATIENCE_SECONDS, "a line that is held")
    upstream.say("DELETED")
    assert json.loads(read(proxy)) == LIST
    assert watcher.types == ["ADDED"]
    assert not watcher.ended.is_set()
    proxy.cut_streams()
    assert watcher.ended.wait(PATIENCE_SECONDS)


def test_nobody_gets_through_a_partition(proxy: FaultProxy, upstream: Upstream) -> None:
    watcher = Watcher(proxy)
    upstream.say("ADDED")
    watcher.wait("ADDED")
    with proxy.partition():
        assert watcher.ended.wait(PATIENCE_SECONDS)
        with pytest.raises(OSError, match=r".*"):
            read(proxy)
    assert json.loads(read(proxy)) == LIST


def test_of_many_writes_at_once_only_the_one_that_kills_gets_through(proxy: FaultProxy, upstream: Upstream) -> None:
    deaths: list[int] = []
    proxy.arm(lambda: deaths.append(1))
    with ThreadPoolExecutor(20) as pool:
        ended = [pool.submit(write, proxy, str(number)) for number in range(20)]
        assert all(isinstance(one.exception(PATIENCE_SECONDS), OSError) for one in ended)
    assert len(deaths) == len(upstream.written) == len(proxy.killed_at) == 1
    proxy.disarm()
    write(proxy, "alive again")
    proxy.arm(lambda: deaths.append(2), at="^(?!.*/leases)")
    write(proxy, "a lease", "/apis/coordination.k8s.io/v1/leases/x")
    assert deaths == [1]
    with pytest.raises(OSError, match=r".*"):
        write(proxy, "the last one")
    assert deaths == [1, 2]
    proxy.disarm()
    write(proxy, "alive again")
    assert upstream.written[-1] == "alive again"


def test_three_hundred_requests_at_once_pass(
    proxy: FaultProxy, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is answered before all are there: nobody waits for another's answer."""
    monkeypatch.setattr(fault_proxy, "asyncio", Sleeps(300))
    watchers = [Watcher(proxy) for _ in range(20)]
    with proxy.fault(Delay(1), verbs=frozenset({Verb.READ})), ThreadPoolExecutor(300) as pool:
        answers = list(pool.map(lambda _: read(proxy), range(300)))
    assert all(json.loads(answer) == LIST for answer in answers)
    upstream.say("ADDED")
    for watcher in watchers:
        watcher.wait("ADDED")
