"""All that ``plimsoll estimate`` answers to one question, before anything of it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.cli.answers.rows import Row, rows_of
from plimsoll.cli.questions.asked import Question
from plimsoll.cli.questions.types import left_out
from plimsoll.domain.outcomes import Rejection, Split
from plimsoll.placement.sizing import Sized


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its rows.

    ``shown`` are the rows of the table; ``excluded`` are the types that the manifest excludes, which only data names.
    ``split`` is the one that the user names. ``words`` are sentences about the excluded types.
    """

    question: Question
    shown: tuple[Row, ...]
    excluded: tuple[Row, ...] = ()
    split: Split | None = None
    words: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, those of the table first."""
        return (*self.shown, *self.excluded)

    @property
    def is_alone(self) -> bool:
        """Whether the table shows one GPU type, with its details."""
        return len(self.shown) == 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the question, and on the types that are left out."""
        return (*self.question.notes, *self.words)


def answered(
    question: Question, found: Sequence[Sized | Rejection], gpus: Sequence[str], split: Split | None
) -> Answered:
    """Return the answers as sorted rows. ``gpus`` and ``split`` are what the user names."""
    # Without --gpu all types are checked: those that the manifest excludes would hide the others.
    kept, words = (found, ()) if gpus else left_out(question.request, found)
    excluded = [each for each in found if each not in kept]
    return Answered(question, rows_of(question.request, kept), rows_of(question.request, excluded), split, tuple(words))
