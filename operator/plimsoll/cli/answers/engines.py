"""The engine of an estimate, where it is to be chosen: the one with the better first row, and what the others offer."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.cli.answers.rows import AnswerRow, order_of, rows_of
from plimsoll.cli.questions.asked import EstimateQuestion
from plimsoll.cli.questions.types import answers, left_out
from plimsoll.domain.decisions.outcomes import Fit, Rejection
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_price, grouped
from plimsoll.engines.registry import engine_of
from plimsoll.placement.explain import place_words, rejection_sentence


def on_its_engine(question: EstimateQuestion) -> EstimateQuestion:
    """Return the question for the engine that does best, with a note on each other one; the same if it names one.

    An estimate knows no free GPUs, so engines are compared by the first row that each has. The user's list of engines
    comes first among those of which something fits.

    Raises:
        PlimsollError: no engine has an answer.
    """
    if not question.request.others:
        return question
    found: list[tuple[Request, AnswerRow]] = []
    notes, failed = list[str](), list[PlimsollError]()
    for request in question.request.on_each_engine:
        try:
            kept, _ = left_out(request, answers(request, question.gpus, question.split, question.share))
            found.append((request, rows_of(request, kept, question.owned)[0]))
        except PlimsollError as error:
            failed.append(error)
            notes.append(f"{_title(request)}: {error}")
    if not found:
        raise failed[0]
    (taken, row), *others = sorted(found, key=lambda each: _order(*each))
    said = [f"{_title(request)} was compared: {_words(each)}." for request, each in others]
    first = f"spec.engine.name auto: this is {_title(taken)}, {_words(row)}."
    return replace(question, request=taken, notes=(first, *said, *notes, *question.notes))


def _order(request: Request, row: AnswerRow) -> tuple[object, ...]:
    return row.fit is Fit.NO, request.engine_rank, order_of(row)


def _title(request: Request) -> str:
    return f"{engine_of(request.engine.name).title} {request.engine.version}"


def _words(row: AnswerRow) -> str:
    if isinstance(row.answer, Rejection):
        return f"{row.gpu.name} {rejection_sentence(row.answer)}"
    figures, price = row.answer.figures, row.price
    cost = "" if price is None else f" for ${format_price(price)}/h"
    return (
        f"{place_words(row.gpu.name, row.answer.split)}{cost}, fit {row.fit.value}, "
        f"{grouped(figures.kv_capacity_tokens)} tokens of KV cache"
    )
