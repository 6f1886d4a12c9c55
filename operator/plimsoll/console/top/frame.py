"""One picture of the terminal, and how it is kept fresh."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from plimsoll.adapters.cluster.client import Cluster
from plimsoll.cli.listing import Cell, Listing, bar, figure, name
from plimsoll.cli.screen import print_document
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.live import LiveSource, live_source
from plimsoll.console.sources.reader import Reader
from plimsoll.console.top.document import picture_document
from plimsoll.console.views.deployments import DeploymentLine, lines_of
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.fleet import TypeStrip, strips_of
from plimsoll.console.views.frame import freshness_of
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure, uses_of
from plimsoll.console.views.load.pressure import asked_of, pods_of
from plimsoll.console.views.states import Pressures, Summary, pressures_of, summary_of
from plimsoll.console.views.words import UNKNOWN, count, dollars, gib, percent, split_words
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey

BAR_CELLS = 24
STRIP_CELLS = 32

_COLOURS = {"good": "green", "warn": "yellow", "bad": "red", "muted": "bright_black"}
_LETTERS = (("W", "blue"), ("K", "cyan"), ("A", "yellow"), ("O", "magenta"))
_LEGEND = "W weights  K KV cache needed  A activations  O graphs, overhead  m margin  . spare  | load line  ! over it"
_KV_LEGEND = "KV  KV cache in use: prefixes that a cache only keeps for later requests count as free"


def picture(world: ClusterView, uses: Mapping[ObjectKey, LiveUse], now: float, rows: int) -> RenderableType:
    """Return the terminal's picture.

    Args:
        world: everything that the person may see.
        uses: the live use by deployment; one that is missing is unknown.
        now: POSIX seconds.
        rows: the most deployments that are shown, worst first.
    """
    pressures = pressures_of(uses, now)
    lines = lines_of(world.rows.values(), pressures, now)
    return Group(
        _headline(world, pressures, now),
        *_gaps(world, now),
        *_strips(world),
        _table(lines[:rows], uses, now),
        *_acknowledged(lines[:rows]),
        Text(_LEGEND, "italic"),
        Text(_KV_LEGEND, "italic"),
        *_more(len(lines) - rows),
    )


def _headline(world: ClusterView, pressures: Pressures, now: float) -> Text:
    fresh = freshness_of(world, now)
    colour = "green" if fresh.kind == "live" else "bold red"
    return Text.assemble(
        ("Plimsoll  ", "bold"), _summary(summary_of(world, pressures)), "  ", (f"{fresh.symbol} {fresh.word}", colour)
    )


def _summary(summary: Summary) -> str:
    gpus = UNKNOWN if summary.gpus is None else f"{count(summary.gpus_taken)}/{count(summary.gpus)}"
    return (
        f"GPUs {gpus}  placed {summary.placed}/{summary.deployments}  {dollars(summary.bill)}/h  "
        f"down {summary.down}  in trouble {summary.troubled}  waiting {summary.waiting}  over {summary.over}  "
        f"near {summary.near}"
    )


def _gaps(world: ClusterView, now: float) -> Iterator[Text]:
    complaint = "" if world.operator is None else world.operator.complaint(now)
    if complaint:
        yield Text(complaint, style="bold red")
    for gap in world.gaps:
        yield Text(gap.sentence, style="yellow")


def _strips(world: ClusterView) -> Iterator[Listing]:
    strips = strips_of(world)
    if not strips:
        return
    figures = map(figure, ("FREE", "OURS", "OTHERS", "NODES"))
    table = Listing((name("GPU TYPE"), bar("GPUS", STRIP_CELLS), *figures))
    most = max(strip.gpus for strip in strips)
    for strip in strips:
        numbers = (strip.free, strip.ours, strip.others, strip.nodes)
        table.add(strip.gpu_type, partial(_strip, strip, most), *map(count, numbers))
    yield table


def _strip(strip: TypeStrip, most: int, length: int) -> Text:
    def cells(gpus: int) -> int:
        return -(-gpus * length // most) if most else 0

    ours, others = cells(strip.ours), cells(strip.others)
    free = max(0, cells(strip.gpus) - ours - others)
    return Text.assemble(("#" * ours, "blue"), ("x" * others, "bright_black"), ("." * free, "dim"))


_COLUMNS = (
    name("DEPLOYMENT"),
    name("STATE"),
    name("GPU"),
    bar("ONE GPU", BAR_CELLS),
    *map(figure, ("NEED/MAY GiB", "KV", "BATCH", "WAIT", "READY", "$/H")),
)


def _table(lines: list[DeploymentLine], uses: Mapping[ObjectKey, LiveUse], now: float) -> Listing:
    table = Listing(_COLUMNS)
    for line in lines:
        table.add(*_row(line, uses.get(line.row.key, LiveUse()), now))
    return table


def _acknowledged(lines: list[DeploymentLine]) -> Iterator[Text]:
    """Yield what people know of, of these deployments."""
    for line in lines:
        if line.state.judged.known is not None:
            yield Text(f"{line.row.key}: {line.state.judged.known.words()}")


def _row(line: DeploymentLine, use: LiveUse, now: float) -> tuple[Cell, ...]:
    row, state = line.row, line.state
    place = "none" if row.gpu_type is None or row.split is None else f"{row.gpu_type} {split_words(row.split)}"
    figures = row.figures
    return (
        Text(str(row.key)),
        Text(f"{state.symbol} {state.word}", style=_COLOURS.get(state.kind, "")),
        place,
        Text("no estimate", style="bright_black") if figures is None else partial(budget_bar, figures),
        "" if figures is None else f"{gib(figures.upper)}/{gib(figures.budget)}",
        _figure(use.kv, now, percent),
        _figure(use.sequence_slots, now, percent),
        _figure(use.waiting, now, "{:,.0f}".format),
        row.summary or UNKNOWN,
        dollars(row.hourly_price),
    )


def budget_bar(figures: Figures, length: int = BAR_CELLS) -> Text:
    """Return one GPU as text: a letter for each part, readable without colours."""
    cells: list[tuple[str, str]] = []
    reached = 0
    for look, size in (*zip(_LETTERS, figures.terms, strict=True), (("m", "bright_black"), figures.margin)):
        reached += size
        filled = min(length, round(length * reached / figures.usable)) if figures.usable else 0
        cells += [look] * (filled - len(cells))
    cells += [(".", "dim")] * (length - len(cells))
    if figures.usable:
        cells[max(0, min(length - 2, length * figures.budget // figures.usable))] = ("|", "bold")
    if figures.spare < 0:
        cells[-1] = ("!", "red")
    return Text.assemble(*cells)


def _figure(sample: SampledFigure | None, now: float, words: Callable[[float], str]) -> Text:
    if sample is None:
        return Text(UNKNOWN, style="bright_black")
    return Text(words(sample.value), style="bright_black" if sample.is_stale(now) else "")


def _more(left: int) -> Iterator[Text]:
    if left > 0:
        yield Text(f"{left:,} more deployments", style="bright_black")


HOW_TO_END = Text("Ctrl-C ends", style="bright_black")
"""The last line of a picture that is kept fresh. A single picture ends by itself."""

FIRST_SECONDS = 60.0
"""How long a single picture waits until the cluster is read."""


Uses = Mapping[ObjectKey, LiveUse]


def printed(screen: Console, world: ClusterView, uses: Uses, now: float) -> None:
    """Print one picture with all deployments."""
    screen.print(picture(world, uses, now, len(world.rows)), crop=False)


def documented(_screen: Console, world: ClusterView, uses: Uses, now: float) -> None:
    """Print the same as JSON."""
    print_document("json", picture_document(world, uses, now))


@dataclass(frozen=True, slots=True)
class Pictures:
    """How pictures are shown: every ``seconds`` anew until Ctrl-C, or one that ``once`` prints."""

    screen: Console
    seconds: float = 2.0
    once: Callable[[Console, ClusterView, Uses, float], None] | None = None


def watch(settings: ConsoleSettings, fallback: str, pictures: Pictures) -> None:
    """Show the fleet until Ctrl-C, or once."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(settings, fallback, pictures))


async def _watch(settings: ConsoleSettings, fallback: str, pictures: Pictures) -> None:
    live = live_source(settings.prometheus_url or "")
    fallbacks = (fallback,) if fallback else ()
    async with (
        Cluster(settings.kubeconfig, settings.context) as cluster,
        Reader(cluster, settings.namespaces, fallbacks, settings.operator) as reader,
    ):
        try:
            await _show(reader, live, pictures)
        finally:
            live.close()


async def _show(reader: Reader, live: LiveSource, pictures: Pictures) -> None:
    screen = pictures.screen
    if pictures.once is not None:
        await _read(reader)
        world = reader.world
        if world.is_loading:
            raise SourceUnavailable(f"The API server has not answered within {FIRST_SECONDS:.0f} s.")
        pictures.once(screen, world, await _uses(world, live), time.time())
        return
    with Live(console=screen, screen=True, auto_refresh=False) as terminal, reader.listen() as listener:
        while True:
            world = reader.world
            terminal.update(fitting(screen, world, await _uses(world, live), time.time()), refresh=True)
            await listener.wait(pictures.seconds)
            await asyncio.sleep(min(1.0, pictures.seconds))


def fitting(screen: Console, world: ClusterView, uses: Uses, now: float) -> RenderableType:
    """Return the picture with as many deployments as the terminal has lines for, one at least."""
    rows = max(1, min(screen.height, len(world.rows)))
    while True:
        shown = Group(picture(world, uses, now, rows), HOW_TO_END)
        lines = len(screen.render_lines(shown, pad=False))
        if rows == 1 or lines <= screen.height:
            return shown
        # Not all lines are of deployments, so this share is never too small.
        rows = max(1, min(rows - 1, rows * screen.height // lines))


async def _read(reader: Reader) -> None:
    """Wait until every kind was read once, or refused."""
    with contextlib.suppress(TimeoutError), reader.listen() as listener:
        async with asyncio.timeout(FIRST_SECONDS):
            while reader.world.is_loading:
                await listener.wait(FIRST_SECONDS)


async def _uses(world: ClusterView, live: LiveSource) -> dict[ObjectKey, LiveUse]:
    asked = asked_of(world.rows.values(), world.pods)
    return uses_of(asked, await live.last(pods_of(asked, asked)), time.time())
