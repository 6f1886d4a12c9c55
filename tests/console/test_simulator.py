"""The simulator's page, without a cluster: its form, its answer, and what it refuses."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.cli.commands.simulate import Simulated, simulation_document, simulation_run_of
from plimsoll.console.drawing.timeline import HEIGHT, WIDTH, Axis, area, line, steps
from plimsoll.console.pages.commands import simulator
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Commands, Ran
from plimsoll.console.views.simulator import answer_of, form_of
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage, Tools, Visit
from plimsoll.console.web import page_text
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.workload import PRESETS
from tests.support.proposals import read_html

MODEL, GPU = "meta-llama/Llama-3.1-8B-Instruct", "l4-24gb"
ASKED = {"model": MODEL, "gpu": GPU, "rate": "1", "minutes": "15", "concurrency": "4", "context-length": "4096"}


@cache
def document() -> dict[str, Any]:
    simulation_run = simulation_run_of(
        Simulated(MODEL, GPU, concurrency=4, context_length=4096, requests_per_second=1, minutes=15)
    )
    return simulation_document(simulation_run, simulate(simulation_run))


class Played(Commands):
    """Answers like the command, and keeps the arguments."""

    def __init__(self, status: int = 0, out: str | None = None, err: str = "") -> None:
        super().__init__()
        self.ran: list[Sequence[str]] = []
        self._answer = Ran(status, json.dumps(document()) if out is None else out, err)

    async def run(self, arguments: Sequence[str], given: str = "", bearer: BearerAccess | None = None) -> Ran:
        assert (given, bearer) == ("", None)
        self.ran.append(arguments)
        return self._answer


async def html(query: dict[str, str], commands: Commands) -> str:
    visit = Visit(
        path="/simulator",
        query={key: (value,) for key, value in query.items()},
        parts={},
        person="",
        world=ClusterView(),
        cluster=cast("Any", None),
        tools=Tools(ConsoleSettings(), commands),
        now=1_790_000_000.0,
    )
    page = await simulator(visit)
    assert isinstance(page, ConsolePage)
    assert not page.is_live
    return page_text(page, visit, "/simulator")


async def test_without_a_question_there_is_a_form_and_nothing_is_run() -> None:
    commands = Played()
    text = await html({}, commands)
    assert '<form class="card" method="get" action="/simulator">' in text
    assert commands.ran == []
    assert "The question" not in text


async def test_the_question_is_the_address_and_the_answer_repeats_it() -> None:
    commands = Played()
    text = await html(ASKED, commands)
    assert commands.ran == [
        [
            "simulate",
            "--output=json",
            f"--gpu={GPU}",
            "--preset=chat",
            "--mode=Auto",
            "--requests-per-second=1",
            "--minutes=15",
            "--context-length=4096",
            "--concurrency=4",
            "--",
            MODEL,
        ]
    ]
    assert document()["summary"] in text
    assert f"{MODEL} on 1 \u00d7 {GPU}" in text
    assert f"{document()['input']['kv_tokens']:,} tokens, by the estimate" in text
    assert shlex.join(["plimsoll", "simulate", f"--gpu={GPU}", "--preset=chat", "--mode=Auto"]) in text
    assert document()["release"] in text
    assert f"weights {document()['input']['weights_bytes_per_gpu'] / 2**30:.1f} GiB" in text


async def test_every_event_and_every_figure_stands_as_text() -> None:
    text = await html(ASKED, Played())
    for event in document()["events"]:
        assert event["sentence"] in text
    last = document()["moments"][-1]
    assert f"{last['held_tokens']:,} / {last['hold_tokens']:,}" in text
    assert f"{document()['totals']['served']:,}" in text
    assert '<td class="num" data-label="first token, ms">unknown</td>' in text  # no request has come at the beginning


async def test_the_drawings_have_sentences_and_no_style_or_script() -> None:
    text = await html(ASKED, Played())
    drawings = re.findall(r'<svg class="timeline".*?</svg>', text, re.DOTALL)
    assert len(drawings) == 4
    for each in drawings:
        root = ET.fromstring(each)  # noqa: S314 - the console's own page
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert all(path.get("d") for path in root.iter("path"))
    main = text[text.index("<main") : text.index("</main>")]
    assert " style=" not in main
    assert "<script" not in main


async def test_presets_are_links_that_keep_the_model() -> None:
    text = await html(ASKED | {"preset": "agents"}, Played())
    for each in PRESETS:
        assert f"?model=meta-llama%2FLlama-3.1-8B-Instruct&amp;gpu={GPU}&amp;preset={each.name}" in text
    assert PRESETS[2].source.replace("'", "&#39;") in text
    assert 'placeholder="14,898"' in text


async def test_an_error_of_the_command_is_one_sentence() -> None:
    error = "error: requests-per-second: 500.0 cannot be used. Use 9.25 or less, or simulate fewer minutes.\n"
    text = await html(ASKED, Played(2, "", error))
    assert text.count("Requests a second: 500.0 cannot be used. Use 9.25 or less") == 2  # above, and at its field
    (marked,) = [each for each in read_html(text).all("input") if each.get("aria-invalid")]
    assert (marked["name"], marked["aria-describedby"]) == ("rate", "e-rate")
    assert "The question" not in text
    usage = "Usage: plimsoll simulate [OPTIONS] MODEL\n\nError: Invalid value for '--seed': 'x' is not an integer.\n"
    text = await html(ASKED, Played(2, "", usage))
    assert "Seed: &#39;x&#39; is not an integer." in text
    assert "Usage:" not in text


@pytest.mark.parametrize("model", ["/etc/passwd", "config.json", "--help", "../deployment.yaml", "someone/unknown"])
async def test_only_catalogued_models_are_asked_for(model: str) -> None:
    commands = Played()
    text = await html(ASKED | {"model": model}, commands)
    assert commands.ran == []
    assert "is not in the catalogue" in text


async def test_hostile_words_stay_text() -> None:
    hostile = '"><script>alert(1)</script>'
    text = await html({"model": hostile, "gpu": hostile, "rate": hostile, "mode": hostile, "preset": hostile}, Played())
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_values_that_look_like_options_stay_values() -> None:
    query = {"model": MODEL, "gpu": "--help", "rate": "--seed=3"}
    form = form_of("/simulator", lambda name: query.get(name, ""))
    assert "--gpu=--help" in form.arguments
    assert "--requests-per-second=--seed=3" in form.arguments
    assert form.arguments[-2:] == ("--", MODEL)


def test_the_answer_has_the_figures_of_the_document() -> None:
    answer, moments = answer_of(document()), document()["moments"]
    assert answer.axis.seconds == moments[-1]["at"] == 900
    assert len(answer.lines) == 25
    assert answer.lines[-1].tokens == f"{moments[-1]['held_tokens']:,} / {moments[-1]['hold_tokens']:,}"
    assert [each.number for each in answer.marks] == list(range(1, len(document()["events"]) + 1))
    labels = [each.at for each in answer.marks if each.label]
    assert all(after - before >= 16 for before, after in itertools.pairwise(labels))


def test_paths_begin_at_the_left_and_reach_the_top_at_the_most() -> None:
    axis, moments = Axis(60), [0.0, 30.0, 60.0]
    assert area(axis, moments, [0, 5, 10], 10, "kv").path == "M0.0 90L0.0 90.0 450.0 45.0 900.0 0.0 900.0 90z"
    assert line(axis, moments, [0, 5, 10], 10, "x").path == "M0.0 90.0 450.0 45.0 900.0 0.0"
    assert steps(axis, moments, [1, 2, 2], 2, "x").path == "M0.0 45.0H450.0V0.0H900.0V0.0"
    assert line(axis, moments, [-1, 20, 10], 10, "x").path == f"M0.0 {HEIGHT} 450.0 0.0 {WIDTH} 0.0"
    assert area(axis, [], [], 1, "x").path == line(axis, [], [], 1, "x").path == steps(axis, [], [], 1, "x").path == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(600, ["0", "1", "2"]), (1800, ["0", "5", "10"]), (14400, ["0", "30", "60"])]
)
def test_ticks_are_round_minutes(seconds: float, words: list[str]) -> None:
    ticks = Axis(seconds).ticks
    assert [each.words for each in ticks][:3] == words
    assert len(ticks) <= 13
    assert ticks[0].at == 0
