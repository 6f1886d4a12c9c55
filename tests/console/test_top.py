"""``plimsoll top``: the same figures as the pages, readable without colours."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from rich.console import Console

from plimsoll.console.sources.live import LiveSource
from plimsoll.console.sources.reader import Listener, Reader
from plimsoll.console.top import frame
from plimsoll.console.top.document import picture_document
from plimsoll.console.top.frame import BAR_CELLS, budget_bar, fitting, picture
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.world import ClusterView, GapKind, KindGap
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.severity import Severity
from tests.console.test_states import ROWS, figures
from tests.support.console_pages import chat, chat_pod, world_of
from tests.support.proposals import NOW


def printed(world: ClusterView, uses: dict[ObjectKey, LiveUse] | None = None, rows: int = 50) -> str:
    out = io.StringIO()
    Console(file=out, width=220, no_color=True).print(picture(world, uses or {}, NOW, rows))
    return out.getvalue()


def test_the_picture_has_the_fleet_and_the_figures_of_each_deployment() -> None:
    text = printed(world_of(chat(), pods=[chat_pod()]))
    for words in (
        "GPUs 1/12  placed 1/1  $0.42/h",
        "\u25cf live",
        "ml/chat",
        "\u25cb starting",
        "l4-24gb \u00d7 1",
        "19.8/20.2",
    ):
        assert words in text
    (line,) = [line for line in text.splitlines() if "ml/chat" in line]
    assert line.count("unknown") >= 3, "live use that nobody measured"


def test_live_use_is_shown_where_it_is_known() -> None:
    use = LiveUse(
        kv=SampledFigure(0.93, NOW - 5),
        running=SampledFigure(3.0, NOW - 5),
        max_sequences=6,
        waiting=SampledFigure(3.0, NOW - 5),
    )
    (line,) = [
        line for line in printed(world_of(chat()), {ObjectKey("ml", "chat"): use}).splitlines() if "ml/ch" in line
    ]
    assert ("93 %" in line, "50 %" in line) == (True, True)
    assert "prefixes that a cache only keeps for later requests count as free" in printed(world_of(chat()))


def test_the_worst_come_first_and_the_rest_is_counted() -> None:
    world = ClusterView(heard=NOW, rows={row.key: row for row in ROWS.values()})
    text = printed(world, rows=2)
    assert "ml/none" in text
    assert "ml/slow" in text
    assert "ml/fine" not in text
    assert "5 more deployments" in text
    assert "more deployments" not in printed(world)
    assert all(row.key.name in printed(world) for row in ROWS.values())


def test_missing_rights_are_sentences_and_no_zero() -> None:
    text = printed(ClusterView(heard=NOW, gaps=(KindGap("nodes", GapKind.FORBIDDEN, NOW),)))
    assert "You may not list nodes" in text
    assert "GPUs unknown" in text
    assert "$" not in text.split("unknown/h")[0].splitlines()[0].replace("$/H", "")


@pytest.mark.parametrize(("spare", "mark"), [(5, False), (0, False), (-1, True), (-3, True)])
def test_a_bar_has_its_line_and_marks_what_is_over_it(spare: int, mark: bool) -> None:  # noqa: FBT001 - a parameter
    text = budget_bar(figures(spare)).plain
    assert len(text) == BAR_CELLS
    assert text.count("|") == 1
    assert ("!" in text) is mark
    assert text.startswith("WWWWWW")


class Loaded:
    """A reader that has read everything."""

    def __init__(self, world: ClusterView) -> None:
        self.world = world

    def listen(self) -> Listener:
        return Listener(set())


async def test_one_picture_has_all_deployments_and_ends() -> None:
    out = io.StringIO()
    screen = Console(file=out, width=220, height=5, no_color=True)
    reader: Any = Loaded(ClusterView(heard=NOW, rows={row.key: row for row in ROWS.values()}))
    live = LiveSource(None)
    shown = frame.Pictures(screen, once=frame.printed)
    await frame._show(cast("Reader", reader), live, shown)  # noqa: SLF001 - without a terminal and a cluster
    live.close()
    assert all(f"ml/{row.key.name}" in out.getvalue() for row in ROWS.values())
    assert "Ctrl-C" not in out.getvalue()


async def test_a_picture_as_data_has_the_same_figures_and_null_for_what_nobody_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader: Any = Loaded(world_of(chat(), pods=[chat_pod()]))
    live = LiveSource(None)
    shown = frame.Pictures(Console(file=io.StringIO()), once=frame.documented)
    await frame._show(cast("Reader", reader), live, shown)  # noqa: SLF001 - without a terminal and a cluster
    live.close()
    found = json.loads(capsys.readouterr().out)
    (only,) = found["deployments"]
    assert (found["formatVersion"], only["namespace"], only["name"], only["gpuType"]) == (1, "ml", "chat", "l4-24gb")
    assert (only["state"], only["hourlyPrice"], only["kvCacheInUse"]) == ("starting", "0.42", None)
    assert {each["gpuType"]: each["gpus"] for each in found["gpuTypes"]} == {"h100-sxm-80gb": 8, "l4-24gb": 4}


def test_a_stale_figure_is_null_as_data() -> None:
    key, world = ObjectKey("ml", "chat"), world_of(chat())
    for age, expected in ((5.0, 0.93), (1e6, None)):
        (only,) = picture_document(world, {key: LiveUse(kv=SampledFigure(0.93, NOW - age))}, NOW)["deployments"]
        assert only["kvCacheInUse"] == expected


async def test_a_single_picture_of_a_cluster_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "FIRST_SECONDS", 0.01)
    reader: Any = Loaded(ClusterView(gaps=(KindGap("nodes", GapKind.LOADING, NOW),)))
    live = LiveSource(None)
    shown = frame.Pictures(Console(file=io.StringIO()), once=frame.printed)
    with pytest.raises(SourceUnavailable, match="The API server has not answered"):
        await frame._show(cast("Reader", reader), live, shown)  # noqa: SLF001 - without a terminal and a cluster
    live.close()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 60), (200, 16)])
def test_a_terminal_shows_as_many_deployments_as_it_has_lines_for(width: int, height: int) -> None:
    names = (f"chat-for-the-customers-of-all-the-shops-{number}" for number in range(20))
    keys = [ObjectKey("a-team-with-a-long-name", name) for name in names]
    world = ClusterView(heard=NOW, rows={key: replace(ROWS[Severity.FINE], key=key) for key in keys})
    out = io.StringIO()
    screen = Console(file=out, width=width, height=height, no_color=True)
    screen.print(fitting(screen, world, {}, NOW), crop=False)
    lines = out.getvalue().splitlines()
    assert len(lines) <= height
    shown = sum(1 for key in keys if str(key) in out.getvalue())
    assert f"{len(keys) - shown} more deployments" in out.getvalue()
    assert lines[-1] == "Ctrl-C ends"
    longer = Console(file=io.StringIO(), width=width, height=200, no_color=True)
    again = longer.render_lines(picture(world, {}, NOW, shown + 1), pad=False)
    assert len(again) + 1 > height, "one more would not fit"
