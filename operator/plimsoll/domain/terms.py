"""The terms of an estimate: one name, its bytes, and the lines that show how the bytes come about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class TermName(NamedTuple):
    """The names of one term: ``key`` for programs (in snake case) and ``title`` for people.

    An ``optional`` term is left out of sums in words where it is 0, and stands after the others.
    """

    key: str
    title: str
    optional: bool = False


WEIGHTS = TermName("weights", "weights")
ADAPTERS = TermName("adapters", "LoRA slots", optional=True)
KV_CACHE = TermName("kv_cache", "KV cache")
ACTIVATIONS = TermName("activations", "activations")
CUDA_GRAPHS = TermName("cuda_graphs", "CUDA graphs")
OVERHEAD = TermName("overhead", "overhead")
LEARNED = TermName("learned", "learned", optional=True)


class Line(NamedTuple):
    """A part of a term: a label, a formula with its numbers, and its bytes if it counts in the sum."""

    label: str
    formula: str
    size_bytes: int | None = None


class Derivation(NamedTuple):
    """How the bytes of a term come about: the formula of the whole, and the lines that add up to it."""

    formula: str = ""
    lines: tuple[Line, ...] = ()


def _no_derivation() -> Derivation:
    return Derivation()


@dataclass(frozen=True, slots=True)
class Term:
    """One term of an estimate.

    ``derive`` makes the formula and the lines. A planning pass makes thousands of estimates and reads no line, so the
    lines are made only when they are read. Two terms are equal if their names and bytes are equal.
    """

    name: TermName
    size_bytes: int
    derive: Callable[[], Derivation] = field(default=_no_derivation, compare=False, repr=False)

    def plus(self, line: Line) -> Term:
        """Return the term with one more line, and with the bytes of that line."""

        def derive() -> Derivation:
            before = self.derive()
            return before._replace(lines=(*before.lines, line))

        return Term(self.name, self.size_bytes + (line.size_bytes or 0), derive)
