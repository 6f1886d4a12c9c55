"""Engines side by side: what each holds on a GPU type, how fast it serves, and which of two is ahead.

Where the engine of an estimate is to be chosen, it is the one with the better first row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.cli.answers.rows import AnsweredQuestion, AnswerRow, order_of, rows_of
from plimsoll.cli.answers.sentences import at_once
from plimsoll.cli.questions.asked import EstimateQuestion
from plimsoll.cli.questions.types import answers, left_out
from plimsoll.cli.split_words import split_document
from plimsoll.domain.decisions.outcomes import Fit, Rejection
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_price
from plimsoll.engines.registry import engine_of
from plimsoll.placement.explain import place_words, rejection_sentence
from plimsoll.placement.options.sizing import Sized

_FITS = {Fit.SURE: "fits", Fit.PROBABLE: "probably fits", Fit.NO: "does not fit"}
_SAME = 0.005
"""Figures that differ by less, as a share, are called equal."""


def _title(request: Request) -> str:
    return f"{engine_of(request.engine.name).title} {request.engine.version}"


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine on one GPU type: its request, and the row of its answer."""

    request: Request
    row: AnswerRow

    @property
    def title(self) -> str:
        """The engine with its release."""
        return _title(self.request)

    @property
    def tokens(self) -> int | None:
        """The tokens of the KV cache; None without an estimate, or for a model without a cache."""
        answer = self.row.answer
        if isinstance(answer, Rejection) or not self.request.model.keeps_cache:
            return None
        return max(0, answer.figures.kv_capacity_tokens)

    @property
    def milliseconds(self) -> str:
        """The time of a token. A question mark says that it is not validated; a dash that it is not known."""
        speed = self.row.speed
        return "-" if speed is None else f"{1000 * speed.tpot_seconds:.1f}{'' if speed.validated else '?'}"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table, after the GPU type."""
        row, tokens = self.row, self.tokens
        return (
            self.title,
            str(row.answer.split.tensor_parallel),
            row.fit.value.lower(),
            "-" if tokens is None else f"{tokens:,}",
            at_once(self.request, row.answer) if isinstance(row.answer, Sized) else "-",
            self.milliseconds,
            "-" if row.price is None else f"{row.price:.2f}",
        )

    @property
    def words(self) -> str:
        """The engine's answer in one sentence."""
        answer, speed = self.row.answer, self.row.speed
        where = place_words(self.row.gpu.name, answer.split)
        if isinstance(answer, Rejection):
            return f"{self.title} on {where}: {rejection_sentence(answer)}."
        parts = [_FITS[self.row.fit]]
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} KV tokens, {at_once(self.request, answer)} full requests")
        if speed is not None:
            known = "" if speed.validated else " (not validated)"
            parts.append(f"{1000 * speed.tpot_seconds:.1f} ms a token{known}")
        if self.row.price is not None:
            parts.append(f"${format_price(self.row.price)}/h")
        return f"{self.title} on {where}: {', '.join(parts)}."

    def document(self) -> dict[str, Any]:
        """Return the same as data."""
        answer, speed = self.row.answer, self.row.speed
        return {
            "engine": {"name": self.request.engine.name, "version": str(self.request.engine.version)},
            **split_document(answer.split),
            "fit": self.row.fit.value,
            "message": rejection_sentence(answer) if isinstance(answer, Rejection) else None,
            "kvCapacityTokens": self.tokens,
            "tpotSeconds": None if speed is None else speed.tpot_seconds,
            "validated": None if speed is None else speed.validated,
            "hourlyPrice": None if self.row.price is None else float(self.row.price),
        }


@dataclass(frozen=True, slots=True)
class TwoEngines:
    """The engine of the question and another one, on the same GPU type."""

    own: EngineRow
    other: EngineRow

    @property
    def short(self) -> str:
        """A few words below the verdict of a row."""
        row, tokens = self.other.row, self.other.tokens
        held = "" if tokens is None or row.fit is Fit.NO else f", {tokens:,} tokens, {self.other.milliseconds} ms"
        return f"{self.other.title}: {_FITS[row.fit]}{held}"

    def sentences(self) -> Iterator[str]:
        """Yield what each engine would do, and which of them is ahead."""
        yield self.own.words
        yield self.other.words
        if self.own.row.fit is not Fit.NO and self.other.row.fit is not Fit.NO:
            yield from self._ahead()

    def _ahead(self) -> Iterator[str]:
        tokens, speeds = (self.own.tokens, self.other.tokens), (self.own.row.speed, self.other.row.speed)
        if tokens[0] and tokens[1]:
            yield self._compared(tokens[0], tokens[1], "Both hold as many tokens.", "holds {0:.0f} % more tokens than")
        if speeds[0] is not None and speeds[1] is not None:
            yield self._compared(
                speeds[0].tpot_seconds,
                speeds[1].tpot_seconds,
                "Both are as fast.",
                "takes {0:.0f} % longer for a token than",
            )

    def _compared(self, own: float, other: float, equal: str, more: str) -> str:
        """Return a sentence on two figures above 0. ``more`` has a place for the percentage."""
        share = max(own, other) / min(own, other) - 1
        if share < _SAME:
            return equal
        first, second = (self.own, self.other) if own > other else (self.other, self.own)
        return f"{first.title} {more.format(100 * share)} {second.title}."


def two_engines(answer: AnsweredQuestion, row: AnswerRow) -> TwoEngines | None:
    """Return a row next to that of the other engine; None if none is named, or if it has no answer."""
    if answer.against is None:
        return None
    rows = {each.gpu.name: each for each in answer.against.rows}
    found, request = rows.get(row.gpu.name), answer.against.question.request
    return None if found is None else TwoEngines(EngineRow(answer.question.request, row), EngineRow(request, found))


def on_its_engine(question: EstimateQuestion) -> EstimateQuestion:
    """Return the question for the engine that does best, with a note on each other one; the same if it names one.

    An estimate knows no free GPUs, so engines are compared by the first row that each has. The user's list of engines
    comes first among those of which something fits.

    Raises:
        PlimsollError: no engine has an answer.
    """
    if not question.request.others:
        return question
    found, notes, failed = list[EngineRow](), list[str](), list[PlimsollError]()
    for request in question.request.on_each_engine:
        try:
            kept, _ = left_out(request, answers(request, question.gpus, question.split, question.share))
            found.append(EngineRow(request, rows_of(request, kept, question.owned)[0]))
        except PlimsollError as error:
            failed.append(error)
            notes.append(f"{_title(request)}: {error}")
    if not found:
        raise failed[0]
    taken, *others = sorted(found, key=_order)
    first, said = f"spec.engine.name auto: this is {taken.words}", (f"Compared with {each.words}" for each in others)
    return replace(question, request=taken.request, notes=(first, *said, *notes, *question.notes))


def _order(found: EngineRow) -> tuple[object, ...]:
    return found.row.fit is Fit.NO, found.request.engine_rank, order_of(found.row)
