"""The one style of tables, for a terminal of any width. Names and figures are never cut, and never broken in two.

A table that fits has a line for each row; prose is wrapped between words, and a bar takes what is left. What does not
fit has a block for each row instead: its name, and below it each figure with its title.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

GAP = 2
"""Columns of space between two cells, and before the titles of a block."""

LEAST_BAR = 12
"""The least width of a bar. A shorter one says nothing, and is left out."""

LEAST_PROSE = 24
"""The width that prose gets at least, if it is as long: narrower columns are hard to read."""

Bar = Callable[[int], Text]
"""A bar, drawn at a given number of cells."""

Cell = str | Text | Bar


class _Kind(Enum):
    NAME = auto()
    FIGURE = auto()
    PROSE = auto()
    BAR = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """A title, and how the cells below it are treated. ``most`` is the width of a bar at most."""

    title: str
    kind: _Kind
    most: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether a cell is one piece, which is never broken."""
        return self.kind in (_Kind.NAME, _Kind.FIGURE)


def name(title: str) -> Column:
    """A column of names and words: as wide as the longest."""
    return Column(title, _Kind.NAME)


def figure(title: str) -> Column:
    """A column of figures, right-justified: as wide as the longest."""
    return Column(title, _Kind.FIGURE)


def prose(title: str) -> Column:
    """A column of sentences, wrapped between words."""
    return Column(title, _Kind.PROSE)


def bar(title: str, most: int) -> Column:
    """A column of bars, each of ``most`` cells at most. It has what the others leave, or is left out."""
    return Column(title, _Kind.BAR, most)


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[Cell, ...]
    note: Text | None
    style: str


@dataclass(slots=True)
class Listing:
    """A table: its columns, the first of which names the row, and its rows."""

    columns: tuple[Column, ...]
    rows: list[_Row] = field(default_factory=list)

    def add(self, *cells: Cell, note: str | Text | None = None, style: str = "") -> None:
        """Add a row. A ``note`` is a sentence below it; cells that are left out at the end are empty."""
        filled = (*cells, *("" for _ in self.columns[len(cells) :]))
        self.rows.append(_Row(filled, None if note is None else _text(note), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for this width."""
        width = options.max_width
        widths = self._widths(width)
        lines = self._blocks(width) if widths is None else self._lines(widths, width)
        for line in lines:
            line.rstrip()
            # A picture that fills the screen shows nothing beyond its edge: there, a name that is longer is folded.
            line.no_wrap, line.overflow = not console.is_alt_screen, "fold" if console.is_alt_screen else "ignore"
            yield line

    def _widths(self, width: int) -> list[int] | None:
        """Return the width of each column, 0 for a bar that is left out; None if the row does not fit in a line.

        Columns of prose share what is left; those that need less than their share come first.
        """
        least = [self._least(index) for index in range(len(self.columns))]
        left = width - 1 - sum(least) - GAP * (sum(1 for each in least if each) - 1)
        if left < 0:
            return None
        wanting = [index for index, column in enumerate(self.columns) if column.kind is _Kind.PROSE]
        wanting.sort(key=lambda index: self._longest(index) - least[index])
        for shares, index in zip(range(len(wanting), 0, -1), wanting, strict=True):
            more = min(left // shares, self._longest(index) - least[index])
            least[index], left = least[index] + more, left - more
        for index, column in enumerate(self.columns):
            if column.kind is _Kind.BAR and left >= LEAST_BAR + GAP:
                least[index] = min(column.most, left - GAP)
                left -= least[index] + GAP
        return least

    def _least(self, index: int) -> int:
        column = self.columns[index]
        if column.kind is _Kind.BAR:
            return 0
        if column.is_whole:
            return self._longest(index)
        words = [len(word) for row in self.rows for word in _text(row.cells[index]).plain.split()]
        return max([len(column.title), min(LEAST_PROSE, self._longest(index)), *words])

    def _longest(self, index: int) -> int:
        cells = (_text(row.cells[index]).cell_len for row in self.rows)
        return max([len(self.columns[index].title), *cells])

    def _lines(self, widths: Sequence[int], width: int) -> Iterator[Text]:
        titles = tuple(Text(column.title) for column in self.columns)
        yield from self._line([[title] for title in titles], widths, "bold")
        for row in self.rows:
            cells = [_drawn(cell, size) for cell, size in zip(row.cells, widths, strict=True)]
            wrapped = (
                [cell] if column.is_whole else list(wrap(cell, size))
                for column, cell, size in zip(self.columns, cells, widths, strict=True)
            )
            yield from self._line(list(wrapped), widths, row.style)
            yield from _noted(row, width)

    def _line(self, cells: Sequence[Sequence[Text]], widths: Sequence[int], style: str) -> Iterator[Text]:
        """Yield the lines of one row, whose cells are lines themselves."""
        for number in range(max(map(len, cells))):
            line = Text(" ")
            for column, lines, size in zip(self.columns, cells, widths, strict=True):
                if not size:
                    continue
                cell = lines[number] if number < len(lines) else Text()
                space = " " * (size - cell.cell_len)
                parts = (space, cell) if column.kind is _Kind.FIGURE else (cell, space)
                line = Text.assemble(line, *parts, " " * GAP)
            line.stylize_before(style)
            yield line

    def _blocks(self, width: int) -> Iterator[Text]:
        for row in self.rows:
            first, *others = row.cells
            head = Text.assemble(" ", _text(first))
            head.stylize_before(f"bold {row.style}".strip())
            yield head
            yield from self._pairs(others, width)
            yield from _noted(row, width)

    def _pairs(self, cells: Sequence[Cell], width: int) -> Iterator[Text]:
        """Yield the cells with their titles: as many in a line as fit, then prose that is longer than a line."""
        line, long = _indented(), list[Text]()
        for column, cell in zip(self.columns[1:], cells, strict=True):
            text = _text(cell)
            pair = Text.assemble((f"{column.title}: ", "dim"), text)
            if column.kind is _Kind.PROSE and 1 + GAP + pair.cell_len > width:
                long.append(pair)
            elif text.plain:
                if line.plain.strip() and line.cell_len + GAP + pair.cell_len > width:
                    yield line
                    line = _indented()
                line = Text.assemble(line, " " * GAP if line.plain.strip() else "", pair)
        if line.plain.strip():
            yield line
        for pair in long:
            for each in wrap(pair, width - 1 - GAP, GAP):
                yield Text.assemble(_indented(), each)


def _indented() -> Text:
    return Text(" " * (1 + GAP))


def _noted(row: _Row, width: int) -> Iterator[Text]:
    if row.note is not None:
        for each in wrap(row.note, width - 2 * GAP - 1):
            yield Text.assemble(_indented(), each)


def _text(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text(cell) if isinstance(cell, str) else Text()


def _drawn(cell: Cell, size: int) -> Text:
    return cell(size) if callable(cell) and size else _text(cell)


def wrap(text: Text, width: int, hanging: int = 0) -> Iterator[Text]:
    """Yield the lines of a text, broken between words alone; those after the first are indented by ``hanging``.

    A word that is wider than the line stays whole.
    """
    for paragraph in text.split("\n", allow_blank=True):
        line_width, indent = max(1, width), ""
        rest = paragraph
        while rest.cell_len > line_width:
            at = _break(rest.plain, line_width)
            if at is None:
                break
            head, rest = rest.divide([at])
            head.rstrip()
            yield Text.assemble(indent, head)
            rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :] if rest.plain[:1] == " " else rest
            indent, line_width = " " * hanging, max(1, width - hanging)
        yield Text.assemble(indent, rest)


def _break(text: str, width: int) -> int | None:
    """Return where to break: at the last space within the width, else at the first one after it; None without one."""
    lead = len(text) - len(text.lstrip())
    at = text.rfind(" ", lead + 1, width + 1)
    if at < 0:
        at = text.find(" ", max(lead + 1, width))
    return None if at < 0 else at


def sentences(lines: Iterable[str | Text], width: int) -> Iterator[Text]:
    """Yield lines of prose, wrapped between words; what follows an indented or listed line is indented as well."""
    for line in lines:
        text = _text(line)
        lead = len(text.plain) - len(text.plain.lstrip(" "))
        hanging = lead + 2 if lead or text.plain.startswith("- ") else 0
        yield from wrap(text, width, hanging)
