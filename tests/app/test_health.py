"""Probes tell the truth: progress, not speed; a true picture, not a running process."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from plimsoll.app.health import (
    FAILED_PASSES,
    HOPELESS_SECONDS,
    STALLED_SECONDS,
    Beats,
    HealthServer,
    PassRecord,
    ProbeResult,
)
from testbed.ports import PortReservation


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_that_goes_on_for_long_is_alive_while_it_beats() -> None:
    clock = Clock()
    beats = Beats(clock)
    beats.beat("planning", "a pass begins")
    for number in range(100):
        beats.go_on("planning", f"object {number}")
        clock.now += STALLED_SECONDS / 2
        assert beats.stalled() == []


def test_work_without_progress_is_named_with_what_it_was_at() -> None:
    clock = Clock()
    beats = Beats(clock)
    beats.beat("planning", "rendering ns/llama")
    beats.beat("event loop", "going round")
    clock.now += STALLED_SECONDS + 1
    beats.beat("event loop", "going round")
    [said] = beats.stalled()
    assert said == "planning has made no progress for 61 s (at: rendering ns/llama)"


def test_a_loop_at_rest_owes_nothing() -> None:
    clock = Clock()
    beats = Beats(clock)
    beats.beat("planning", "writing")
    beats.rest("planning")
    beats.go_on("planning", "a write that ends late")
    clock.now += 10 * STALLED_SECONDS
    assert beats.stalled() == []


def test_failing_passes_end_readiness_soon_and_life_late() -> None:
    clock = Clock()
    record = PassRecord(clock)
    for _ in range(FAILED_PASSES - 1):
        record.failed(ValueError("x"))
    assert record.is_ready()
    record.failed(ValueError("x"))
    assert not record.is_ready()
    assert not record.is_hopeless()
    clock.now += HOPELESS_SECONDS + 1
    assert record.is_hopeless()
    record.succeeded()
    assert record.is_ready()
    assert not record.is_hopeless()


@pytest.fixture
def port() -> Iterator[int]:
    reservation = PortReservation()
    yield reservation.take()
    reservation.release()


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def broken() -> ProbeResult:
    raise RuntimeError("no idea")


def test_the_server_answers_for_each_probe_and_for_one_that_breaks(port: int) -> None:
    probes = {
        "/healthz": ProbeResult,
        "/readyz": lambda: ProbeResult(("pods were listed 900 s ago",), ("leading",)),
        "/broken": broken,
    }
    server = HealthServer(port, probes)
    try:
        assert ask(port, "/healthz?verbose") == (200, "ok\n")
        assert ask(port, "/readyz") == (500, "pods were listed 900 s ago\nleading\n")
        assert ask(port, "/broken") == (500, "the probe failed: RuntimeError: no idea\n")
        assert ask(port, "/metrics")[0] == 404
    finally:
        server.close()


def test_the_last_pass_is_the_last_one_that_succeeded() -> None:
    wall = Clock()
    record = PassRecord(Clock(), wall)
    record.failed(ValueError("x"))
    assert record.succeeded_at is None
    record.succeeded()
    before = wall.now
    wall.now += 60
    record.failed(ValueError("x"))
    assert record.succeeded_at == before
