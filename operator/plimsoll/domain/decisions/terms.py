"""The terms of an estimate: one name, its bytes, and the lines that show how the bytes come about.

Beside them: the figures of the KV cache, doubts that no figure removes, and whose engines taught the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

from plimsoll.domain.public_words import Numbers


@dataclass(frozen=True, slots=True)
class CacheLoad:
    """The requests that a cache is sized for, and the bytes of one of them.

    Layers with full attention grow with every token. Layers with a window, and those with a recurrent state, stop
    growing. All bytes are of one GPU, in whole blocks, so ``growing_bytes`` is a little more than the tokens times
    ``growing_bytes_per_token``.

    Attributes:
        requests: requests of one engine that are counted.
        tokens: the length of each.
        percent: how much of their cache is kept: 100, or more to hold what is longer than the mean.
        growing_bytes_per_token: bytes of one more token in the layers that grow.
        growing_bytes: bytes of one request in these layers.
        bounded_bytes: bytes of one request in the layers that stop growing.
        total_bytes: the whole cache, with the block that the engine keeps unused.
        shared_bytes: what is left out of it, because requests share the beginning of their prompts.
        of_steps: requests end with the step that reads their end. Then the one request that is counted stands for the
            tokens of the running steps and of what they have begun, and the other requests wait.
    """

    requests: int
    tokens: int
    percent: int
    growing_bytes_per_token: Fraction
    growing_bytes: int
    bounded_bytes: int
    total_bytes: int
    of_steps: bool = False
    shared_bytes: int = 0

    @property
    def request_bytes(self) -> int:
        """Bytes of one request."""
        return self.growing_bytes + self.bounded_bytes


class TermName(NamedTuple):
    """The names of one term: ``key`` for programs (in snake case) and ``title`` for people.

    An ``optional`` term is left out of sums in words if it is 0, and stands after the others.
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


class DoubtKind(StrEnum):
    """The cause of a doubt. Part of the API: kinds are added, and never renamed."""

    GENERIC_READING = "GenericReading"
    """The model class has no row here: its fields were read as most classes use them."""
    NEWER_RELEASE = "NewerRelease"
    """The release of the engine is newer than the newest known memory law."""
    RELEASE_NOT_MEASURED = "ReleaseNotMeasured"
    """The law of the release was read in its sources alone: no start of it was compared with the estimate."""
    FEW_STARTS = "FewStarts"
    """Few starts of models with such layers are known, and they differ."""
    POOLING_NOT_MEASURED = "PoolingNotMeasured"
    """No start of a model that embeds, ranks or classifies was compared with the estimate."""
    NOT_MEASURED = "NotMeasured"
    """Something about the model, the card, the split and the model runner was never measured together."""
    SHARED_MEMORY = "SharedMemory"
    """The GPU shares the memory of its host, where anything else may take it."""
    TRANSFORMERS_BACKEND = "TransformersBackend"
    """The release does not implement the model class: it can load it only through its generic backend."""
    NOT_IN_RELEASE = "NotInRelease"
    """The release as published cannot load the model: only an image of the user's own can."""
    REMOTE_CODE = "RemoteCode"
    """The engine may start only if it may run code of the model's repository."""
    FLOAT32 = "Float32"
    """The engine computes in float32, and its kernels may need more shared memory than the card has."""
    FILES_NOT_KNOWN = "FilesNotKnown"
    """The engine starts with an option only if the repository of the model has a file that is not known here."""
    OPTIONS_NOT_CHECKED = "OptionsNotChecked"
    """The engine starts with an option only under conditions that are not checked here."""
    UNFOLLOWED_OPTIONS = "UnfollowedOptions"
    """The command of an engine has options that can change the memory and that no law covers."""


class Doubt(NamedTuple):
    """One doubt, with the figures of its sentence."""

    kind: DoubtKind
    numbers: Numbers = ()


@dataclass(frozen=True, slots=True)
class Teacher:
    """Whose engines taught something: the deployment's own, or those of ``names`` or of so many other ``namespaces``.

    ``names`` are other deployments of the same namespace. Those of other namespaces are counted and not named.
    """

    names: tuple[str, ...] = ()
    namespaces: int = 0

    @property
    def is_own(self) -> bool:
        """Whether the deployment's own engines taught it."""
        return not self.names and not self.namespaces


OWN = Teacher()
