"""The terms of an estimate: one name, its bytes, and the lines that show how the bytes come about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from plimsoll.domain.cache_load import CacheLoad


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
CACHE_SCRATCH = TermName("cache_scratch", "cache kernels", optional=True)
LEARNED = TermName("learned", "learned", optional=True)


class Line(NamedTuple):
    """A part of a term: a label, a formula with its numbers, and its bytes if it counts in the sum."""

    label: str
    formula: str
    size_bytes: int | None = None


class Derivation(NamedTuple):
    """How the bytes of a term come about: the formula of the whole, and the lines that add up to it.

    ``cache`` is the declared load in figures, for the term of the KV cache.
    """

    formula: str = ""
    lines: tuple[Line, ...] = ()
    cache: CacheLoad | None = None


def _nothing(_: object) -> Derivation:
    return Derivation()


class Term(NamedTuple):
    """One term of an estimate. Two terms are equal if their names and bytes are equal.

    A planning pass makes thousands of estimates and reads no line. So a term keeps only a function, ``explain``, and
    its argument, ``about``: :meth:`derive` makes the lines on demand.
    """

    name: TermName
    size_bytes: int
    explain: Callable[[Any], Derivation] = _nothing
    about: Any = None

    def derive(self) -> Derivation:
        """Return the formula and the lines."""
        return self.explain(self.about)

    def plus(self, line: Line) -> Term:
        """Return the term with one more line, and with the bytes of that line."""
        return Term(self.name, self.size_bytes + (line.size_bytes or 0), _with_line, (self, line))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])

    def __repr__(self) -> str:
        return f"Term({self.name.key}, {self.size_bytes})"


def _with_line(corrected: tuple[Term, Line]) -> Derivation:
    term, line = corrected
    before = term.derive()
    return before._replace(lines=(*before.lines, line))
