"""The page with what mode Auto would have done: what is asked of the command, with whose rights, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from plimsoll.console.pages.replay import replayed
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Commands, Ran
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage
from plimsoll.console.web import page_text
from tests.support.console_pages import view_of, visit_of

LAW = {
    "law": "plimsoll",
    "requests": 1200,
    "goodput": 99.25,
    "errors": 0.0,
    "gpu_hours": 30.0,
    "usd": None,
    "changes": 4,
    "flips": 0,
    "fewest": 1,
    "most": 3,
    "ttft_p95_seconds": 0.4321,
}
DOCUMENT = {
    "summary": "Mode Auto: 37 % fewer GPU-hours than static 2; goodput 99.2 % instead of 99.9 %.",
    "input": {
        "begin": "2026-11-23T00:00:00Z",
        "known_percent": 96.5,
        "requests": 1200,
        "model": "a/b",
        "gpu": "l4-24gb",
        "gpus_per_replica": 1,
        "min_replicas": 1,
        "max_replicas": 4,
        "startup_seconds": 90.0,
        "ttft_seconds": 5.0,
        "tpot_seconds": 0.1,
    },
    "laws": [LAW, LAW | {"law": "static 2", "usd": 12.5, "fewest": 2, "most": 2, "ttft_p95_seconds": None}],
    "notes": ["No start-up was ever seen: 300 s are assumed."],
}
PATH = "/deployments/{namespace}/{name}/replay"
SETTINGS = ConsoleSettings(kubeconfig="/k", prometheus_url="http://p:9090")


class Played(Commands):
    """Answers like the command, and keeps what it was asked."""

    def __init__(self, ran: Ran | None = None) -> None:
        super().__init__()
        self.asked: list[tuple[list[str], object]] = []
        self.ran = ran or Ran(0, json.dumps(DOCUMENT), "replaying: plimsoll is done")

    async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:
        assert given == ""
        self.asked.append((list(arguments), bearer))
        return self.ran


async def page_of(
    span: str | None, commands: Commands, settings: ConsoleSettings = SETTINGS, name: str = "chat", **more: Any
) -> tuple[ConsolePage, str]:
    query = {} if span is None else {"span": (span,)}
    parts = {"namespace": "ml", "name": name}
    visit = visit_of(
        view_of(PATH), ClusterView(), query=query, parts=parts, settings=settings, commands=commands, **more
    )
    page = await replayed(visit)
    assert page.status == 404 or not page.is_live
    return page, page_text(page, visit, "/deployments/ml/chat/replay")


async def test_without_a_span_there_is_a_form_and_nothing_is_run() -> None:
    commands = Played()
    _, text = await page_of(None, commands)
    assert commands.asked == []
    assert "plimsoll simulate chat --from-prometheus=1h -n ml" in text


async def test_the_table_has_every_law_and_the_sentence_comes_first() -> None:
    commands = Played()
    page, text = await page_of("24h", commands)
    [(arguments, bearer)] = commands.asked
    assert arguments == [
        *("simulate", "chat", "--from-prometheus=24h", "-n", "ml", "-o", "json"),
        *("--prometheus-url=http://p:9090", "--kubeconfig=/k"),
    ]
    assert bearer is None
    assert f'<h2 id="answer">{DOCUMENT["summary"]}</h2>' in text
    first, second = page.values["answer"].lines
    assert (first.goodput, first.usd, first.replicas, first.ttft) == ("99.2 %", "unknown", "1-3", "432")
    assert (second.law, second.usd, second.replicas, second.ttft) == ("static 2", "12.50", "2", "unknown")
    assert "96.5 % of the time is known" in text
    assert "No start-up was ever seen" in text


async def test_a_person_who_signed_in_asks_with_their_own_rights() -> None:
    commands, bearer = Played(), object()
    await page_of("1h", commands, bearer=bearer)
    [(arguments, used)] = commands.asked
    assert used is bearer
    assert not any(each.startswith("--kubeconfig") for each in arguments)


@pytest.mark.parametrize(
    ("span", "settings", "said"),
    [
        ("2y", SETTINGS, "cannot be used"),
        ("--help", SETTINGS, "cannot be used"),
        ("1h", ConsoleSettings(), "The console knows no Prometheus"),
    ],
)
async def test_what_cannot_be_asked_runs_nothing(span: str, settings: ConsoleSettings, said: str) -> None:
    commands = Played()
    _, text = await page_of(span, commands, settings)
    assert commands.asked == []
    assert said in text


async def test_a_name_that_is_none_is_no_page_and_an_error_is_said_without_notes() -> None:
    commands = Played()
    page, _ = await page_of("1h", commands, name="-o")
    assert (page.status, commands.asked) == (404, [])
    failed = Played(Ran(2, "", "reading: what came is done\nerror: requests: 0 cannot be used. Nothing came."))
    _, text = await page_of("1h", failed)
    assert "Nothing came." in text
    assert "is done" not in text
