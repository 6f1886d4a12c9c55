"""The advice of ``plimsoll estimate``: the cheapest GPUs that fit, and the fastest that do not cost much more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum

from plimsoll.cli.answers.rows import AnswerRow
from plimsoll.cli.split_words import split_words
from plimsoll.domain.decisions.outcomes import Fit
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.sizing import Sized

MOST_TIMES = 4
"""How many times the cheapest price the fastest may cost. Without a limit it would always be the newest card."""


class Advice(StrEnum):
    """The words of ``advice`` in ``-o json``. Words are added, and never renamed."""

    CHEAPEST = "Cheapest"
    """The lowest price an hour of all that fit."""
    CHEAPEST_IN_SERVERS = "CheapestInServers"
    """The same without cards that few sellers put into servers, if the cheapest is one of these."""
    CHEAPEST_OWNED = "CheapestOwned"
    """The lowest price an hour of the GPU types that the cluster has."""
    FASTEST = "Fastest"
    """The fewest milliseconds a token, for at most :data:`MOST_TIMES` times that price."""


def advice(request: Request, rows: Sequence[AnswerRow]) -> Mapping[Advice, AnswerRow]:
    """Return the rows to look at first, in the order of the words; empty if nothing with a price fits.

    If something fits for sure, only that is advised. What placement would refuse for its price or its speed never is.
    """
    kept = [row for row in rows if row.fit is not Fit.NO and row.price is not None and row.keeps(request)]
    best = [row for row in kept if row.fit is Fit.SURE] or kept
    return dict(_picked(best)) if best else {}


def _picked(rows: Sequence[AnswerRow]) -> Iterator[tuple[Advice, AnswerRow]]:
    cheapest = min(rows, key=_dollars)
    owned = [row for row in rows if row.is_owned]
    if owned:
        yield Advice.CHEAPEST_OWNED, min(owned, key=_dollars)
    yield Advice.CHEAPEST, cheapest
    usual = [row for row in rows if row.gpu.is_for_servers] or rows
    first = min(usual, key=_dollars)
    if first is not cheapest:
        yield Advice.CHEAPEST_IN_SERVERS, first
    quick = [row for row in usual if row.speed is not None and _dollars(row) <= MOST_TIMES * _dollars(first)]
    if quick:
        yield Advice.FASTEST, min(quick, key=_seconds)


def advice_sentence(request: Request, rows: Sequence[AnswerRow]) -> str:
    """Return the advice in one sentence, with figures."""
    found = advice(request, rows)
    if not found:
        return _nothing(rows)
    cheapest, in_servers = found[Advice.CHEAPEST], found.get(Advice.CHEAPEST_IN_SERVERS)
    only = "" if cheapest.fit is Fit.SURE else ", but only probably"
    first = cheapest if in_servers is None else in_servers
    which = "fits" if first is cheapest else "is common in servers"
    parts = [f"Cheapest that {which}{only}: {_words(first)}"]
    if Advice.CHEAPEST_OWNED in found:
        owned = found[Advice.CHEAPEST_OWNED]
        parts = [f"Cheapest that this cluster has{only}: {_words(owned)}"]
        parts += [] if owned is first else [f"cheapest that {which}: {_words(first)}"]
    if Advice.FASTEST in found:
        limit = f"fastest under ${MOST_TIMES * _dollars(first):.2f}/h"
        quick = found[Advice.FASTEST]
        parts.append(f"{limit}: {'the same' if quick is first else _words(quick)}")
    if first is not cheapest:
        parts.append(f"cheaper, in few servers: {_words(cheapest)}")
    return f"{'; '.join(parts)}."


def _nothing(rows: Sequence[AnswerRow]) -> str:
    fitting = [row for row in rows if row.fit is not Fit.NO]
    if fitting:
        known = any(row.price is not None for row in fitting)
        why = "placement would refuse each for its price or its speed" if known else "none of them has a price"
        return f"{len(fitting)} of {len(rows)} GPU types fit, but {why}."
    nearest = next((row for row in rows if isinstance(row.answer, Sized)), None)
    near = "" if nearest is None else f" The nearest is {_place(nearest)}."
    return f"None of {len(rows)} GPU types fits this load.{near}"


def _words(row: AnswerRow) -> str:
    return f"{_place(row)}, ${_dollars(row):.2f}/h{_source(row)}, {speed_words(row)}"


def speed_words(row: AnswerRow) -> str:
    """Return the milliseconds of a token at the declared load, or that they are not known."""
    return "speed not known" if row.speed is None else f"{1000 * row.speed.tpot_seconds:.1f} ms a token"


def _source(row: AnswerRow) -> str:
    """Return a doubt about the price, if one or two providers alone ask it."""
    market = None if row.gpu.price is None else row.gpu.price.market
    return " (asked by one or two providers)" if market is not None and market.is_thin else ""


def _place(row: AnswerRow) -> str:
    return f"{row.answer.split.gpus} x {row.gpu.name} ({split_words(row.answer.split)})"


def _dollars(row: AnswerRow) -> Decimal:
    return row.price or Decimal(0)


def _seconds(row: AnswerRow) -> tuple[float, Decimal]:
    return (0.0 if row.speed is None else row.speed.tpot_seconds), _dollars(row)
