"""``plimsoll top``: the same figures as the pages, readable without colours."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console

from plimsoll.console.sources.live import LiveSource
from plimsoll.console.sources.reader import Listener, Reader
from plimsoll.console.top import frame
from plimsoll.console.top.frame import BAR_CELLS, bar, picture
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.world import ClusterView, GapKind, KindGap
from plimsoll.domain.kubernetes_names import ObjectKey
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
        "\u25cb not serving",
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


def test_the_worst_come_first_and_the_rest_is_counted() -> None:
    world = ClusterView(heard=NOW, rows={row.key: row for row in ROWS.values()})
    text = printed(world, rows=2)
    assert "ml/none" in text
    assert "ml/over" in text
    assert "ml/fine" not in text
    assert "4 more deployments" in text
    assert "more deployments" not in printed(world)
    assert all(row.key.name in printed(world) for row in ROWS.values())


def test_missing_rights_are_sentences_and_no_zero() -> None:
    text = printed(ClusterView(heard=NOW, gaps=(KindGap("nodes", GapKind.FORBIDDEN, NOW),)))
    assert "You may not list nodes" in text
    assert "GPUs unknown" in text
    assert "$" not in text.split("unknown/h")[0].splitlines()[0].replace("$/H", "")


@pytest.mark.parametrize(("spare", "mark"), [(5, False), (0, False), (-1, True), (-3, True)])
def test_a_bar_has_its_line_and_marks_what_is_over_it(spare: int, mark: bool) -> None:  # noqa: FBT001 - a parameter
    text = bar(figures(spare)).plain
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
    await frame._show(screen, cast("Reader", reader), live, 1.0, is_once=True)  # noqa: SLF001 - without a terminal and a cluster
    live.close()
    assert all(f"ml/{row.key.name}" in out.getvalue() for row in ROWS.values())
    assert "Ctrl-C" not in out.getvalue()
