"""The lines of a log that say something about an engine's start.

A log is read line by line, with limits for the length of a line and for the number of lines that are kept. So a log of
any size, with any content, is read in one go with little memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST_LINE = 65_536
"""Characters of a line that are read. The longest lines of a start, vLLM's configuration and SGLang's arguments, have
about 10,000 and 20,000."""

MOST_LINES = 4_000
MOST_CHARACTERS = 2_000_000
"""Lines that are kept, and their characters; later lines are left out. An engine of 64 ranks prints fewer."""

_MOMENT = r"\d{4}-\d\d-\d\dT[\d:.]{8,20}"

_SENDER = r"[\w.-]{1,255} [^\s\[\]:]{1,200}\[\d{1,10}\]"

_TOOLS = (
    r"\[pod/[^\]\s]{1,600}\] ",
    rf"{_MOMENT}(?:Z|[+-]\d\d:\d\d) ",
    r"std(?:out|err) [FP] ",
    r"[\w.-]{1,200} +\| ",
    rf"(?:[A-Z][a-z]{{2}} [ \d]\d [\d:.]{{8,20}}|{_MOMENT}[+-]\d{{4}}) {_SENDER}: ",
    r"\([^()]{1,120}\) ",
)
"""The words in front of an engine's own line: those of ``kubectl logs --prefix --timestamps``, of a node's own files,
of Compose and of the journal, and its process or Ray's actor: ``(EngineCore_DP0 pid=99) ``."""

_BY_TOOLS = rf"^(?:{'|'.join(_TOOLS)}){{0,6}}"
"""Several of them, in any order: tools are put behind one another."""


def line_that_begins(front: str, words: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of a line that begins with words, after the logger's ``front`` and what tools put before it.

    A request that is logged holds texts of strangers, and none of them begins a line.
    """
    return re.compile(f"{_BY_TOOLS}{front}(?:{words})", flags)


_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")

DEVICE_NAME = re.compile(r"device_name=([A-Za-z0-9_.-]{1,80}?)(?:,|\.json)")
"""The GPU's name in the name of a kernel's file, which vLLM and SGLang name alike."""


class LastStart:
    """The lines of the last start in a log, as they come.

    Args:
        marks: every line that matters holds one of these texts.
        begins: the first line of a start, at which all earlier lines are forgotten.
    """

    def __init__(self, marks: Sequence[str], begins: re.Pattern[str]) -> None:
        self._marks, self._begins = marks, begins
        self._kept: list[str] = []
        self._length = 0
        self.began = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that were kept, without colours. ``began`` is the number of the first one in the log."""
        return tuple(self._kept)

    def add(self, number: int, line: str) -> None:
        """Keep a line of the log if it matters."""
        text = line[:LONGEST_LINE]
        if not any(mark in text for mark in self._marks):
            return
        text = _COLOURS.sub("", text).rstrip()
        if self._begins.search(text):
            self._kept.clear()
            self._length = 0
        if not self._kept:
            self.began = number
        if len(self._kept) < MOST_LINES and self._length + len(text) < MOST_CHARACTERS:
            self._kept.append(text)
            self._length += len(text)

    def of(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Return what is kept of a whole log."""
        for number, line in enumerate(lines):
            self.add(number, line)
        return self.lines


def until(lines: Sequence[str], last: re.Pattern[str]) -> Sequence[str]:
    """Return the lines as far as the first one that a pattern finds; all of them if it finds none."""
    end = next((place for place, line in enumerate(lines) if last.search(line)), len(lines))
    return lines[: end + 1]


def first_match(lines: Iterable[str], *patterns: re.Pattern[str]) -> str | None:
    """Return the first group of the first line that one of the patterns finds; None if no line has it."""
    found = (pattern.search(line) for line in lines for pattern in patterns)
    return next((each[1] for each in found if each is not None), None)
