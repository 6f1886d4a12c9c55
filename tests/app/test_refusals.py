"""Refused writes: since when, for which pool, and until when they are remembered."""

from __future__ import annotations

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.app.refusals import Refusals

FORBIDDEN = ClusterRefused("apply Deployment ns/chat", 403, "exceeded quota")
BUSY = ClusterRefused("apply Deployment ns/chat", 429, "too many requests")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("plimsoll.app.refusals.time.time", lambda: now[0])
    return now


def test_the_first_refusal_in_a_row_gives_the_time_and_the_latest_one_the_message(clock: list[float]) -> None:
    refusals = Refusals()
    refusals.note("a", "h100", FORBIDDEN)
    clock[0] += 60
    assert refusals.note("a", "h100", BUSY) == refusals.of("a")
    latest = refusals.of("a")
    assert latest is not None
    assert (latest.since, latest.status, latest.is_passing) == (1000.0, 429, True)
    refusals.ended("a")
    assert refusals.of("a") is None
    assert refusals.note("a", "h100", FORBIDDEN).since == 1060.0


def test_a_refused_workload_concerns_its_pool_and_anything_else_all_pools(clock: list[float]) -> None:
    refusals, pools = Refusals(), ("h100", "l4")
    assert refusals.note("a", "l4", FORBIDDEN).since_by_pool(pools) == {"l4": clock[0]}
    assert refusals.note("b", "", FORBIDDEN).since_by_pool(pools) == dict.fromkeys(pools, clock[0])


def test_the_time_of_a_refused_router_is_none_of_a_refused_engine(clock: list[float]) -> None:
    refusals = Refusals()
    assert refusals.note("a", "", FORBIDDEN, of_router=True).since_by_pool(("h100",)) == {}
    clock[0] += 86_400
    assert refusals.note("a", "h100", FORBIDDEN).since_by_pool(("h100",)) == {"h100": 87_400.0}
    clock[0] += 60
    assert refusals.note("a", "h100", FORBIDDEN).since_by_pool(("h100",)) == {"h100": 87_400.0}


def test_the_sentence_quotes_the_server_up_to_800_characters() -> None:
    said = Refusals().note("a", "h100", ClusterRefused("apply Deployment ns/chat", 403, "x" * 900)).sentence()
    assert said == f"The API server refused to apply Deployment ns/chat: {'x' * 800}"


def test_refusals_of_objects_that_are_gone_are_forgotten() -> None:
    refusals = Refusals()
    for uid in ("a", "b"):
        refusals.note(uid, "", FORBIDDEN)
    refusals.forget_all_but(["b"])
    assert refusals.of("a") is None
    assert refusals.of("b") is not None
