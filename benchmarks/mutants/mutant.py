"""Values: a mutant, the result of its tests, and a known equivalent."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

EQUIVALENTS = Path(__file__).parent / "data" / "equivalents.json"


class Verdict(StrEnum):
    """The result of a mutant. ``UNDECIDED`` means that the time was up before its tests had run."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the lines that it changes, before and after it."""

    file: str
    function: str
    line: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that behaves like the original in everything that is promised. ``reason`` says why.

    It is known by its text without spaces: line numbers change, and the tool does not format what it changes.
    """

    file: str
    function: str
    before: str
    after: str
    reason: str

    def is_of(self, mutant: Mutant) -> bool:
        """Whether this is the mutant."""
        if (self.file, self.function) != (mutant.file, mutant.function):
            return False
        return (_plain(self.before), _plain(self.after)) == (_plain(mutant.before), _plain(mutant.after))


def changed_lines(original: str, mutated: str) -> tuple[str, str]:
    """Return the changed lines before and after, without their indentation."""
    lines = [line for line in difflib.ndiff(original.splitlines(), mutated.splitlines()) if line[:2] in ("- ", "+ ")]
    return _joined(lines, "- "), _joined(lines, "+ ")


def equivalents(path: Path = EQUIVALENTS) -> list[Equivalent]:
    """Return the known equivalents."""
    return [Equivalent(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def stale(known: list[Equivalent], root: Path) -> list[Equivalent]:
    """Return the equivalents whose original text is no longer in the file that they name."""
    return [entry for entry in known if not _stands(entry, root / entry.file)]


def _stands(entry: Equivalent, path: Path) -> bool:
    lines = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()} if path.is_file() else set()
    return set(entry.before.split("\n")) <= lines


def _plain(text: str) -> str:
    return "".join(text.split())


def _joined(lines: list[str], mark: str) -> str:
    return "\n".join(line[2:].strip() for line in lines if line.startswith(mark))
