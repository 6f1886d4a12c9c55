"""The answers of ``plimsoll estimate`` in the order of a reader: what fits first, and of it what one has or can get.

All that ``plimsoll estimate`` answers to one question, before anything of it is printed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.questions.asked import EstimateQuestion
from plimsoll.cli.questions.types import answers, left_out
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.latency import Performance
from plimsoll.domain.decisions.outcomes import Fit, Rejection, Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.options.speed import missed, speed_of
from plimsoll.placement.options.verdicts import NO_PRICE, Preference, preference

_ORDER = (Fit.SURE, Fit.PROBABLE)


class Standing(IntEnum):
    """How near a GPU type is to whoever asks, the nearest first."""

    OWN = 0
    """The cluster has it."""
    IN_SERVERS = 1
    """Its maker sells it for servers, and its price is known."""
    RARE = 2
    """It is made for workstations, games or devices, and in few servers."""
    UNPRICED = 3
    """Nobody is known to sell it."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer with US dollars an hour for one replica, and the replica's speed at the declared load.

    ``price`` is None if the type has no price, or if no engine would start. ``speed`` is None if it does not
    fit, or if the performance model does not cover it. ``is_owned`` says that the cluster has the type.
    """

    gpu: GpuType
    answer: Sized | Rejection
    price: Decimal | None
    speed: Performance | None
    is_owned: bool = False

    @property
    def standing(self) -> Standing:
        """How near the type is to whoever asks."""
        return _standing(self.gpu, is_owned=self.is_owned)

    @property
    def fit(self) -> Fit:
        """How well it fits; a rejection does not."""
        return self.answer.figures.fit if isinstance(self.answer, Sized) else Fit.NO

    def keeps(self, request: Request) -> bool:
        """Whether placement would take it: no price above the limit, and no slower than promised."""
        limit = request.constraints.max_hourly_price
        if limit is not None and (self.price is None or self.price > limit):
            return False
        return request.slo is None or not missed(request.slo, self.speed)


def _standing(gpu: GpuType, *, is_owned: bool) -> Standing:
    if is_owned:
        return Standing.OWN
    if gpu.price is None:
        return Standing.UNPRICED
    return Standing.IN_SERVERS if gpu.is_for_servers else Standing.RARE


def types_in_order(types: Iterable[GpuType], owned: Collection[str] = ()) -> tuple[GpuType, ...]:
    """Return GPU types as a list to choose from has them: in the order of the answers, by name, slices last."""

    def place(gpu: GpuType) -> tuple[bool, Standing, str]:
        is_owned = gpu.name in owned
        return gpu.is_slice and not is_owned, _standing(gpu, is_owned=is_owned), gpu.name

    return tuple(sorted(types, key=place))


def rows_of(
    request: Request, answers: Iterable[Sized | Rejection], owned: Collection[str] = ()
) -> tuple[AnswerRow, ...]:
    """Return the answers in order. ``owned`` are the names of the GPU types that the cluster has.

    What fits is first: the cluster's own types, then those common in servers, then all others, and types without a
    price last. Of each of these, what fits for sure comes before what fits probably, both by price as placement prefers
    them. What does not fit follows in the same groups, the nearest first, and then types without any estimate, by name.
    """
    types = {gpu.name: gpu for gpu in load_gpu_types()}
    rows = [_row(request, types, answer, owned) for answer in answers]
    return tuple(sorted(rows, key=order_of))


def _row(
    request: Request, types: Mapping[str, GpuType], answer: Sized | Rejection, owned: Collection[str]
) -> AnswerRow:
    if isinstance(answer, Rejection):
        return AnswerRow(types[answer.gpu_type], answer, None, None, answer.gpu_type in owned)
    gpu, split = answer.gpu, answer.split
    served = engine_of(request.engine.name).served_on(request, gpu)
    speed = None if answer.figures.fit is Fit.NO else speed_of(served, gpu, split, answer.settings)
    return AnswerRow(gpu, answer, hourly_price(gpu, split), speed, gpu.name in owned)


def order_of(row: AnswerRow) -> tuple[int, Standing, int, int, Preference]:
    """Return the place in the order: part of the table, standing, fit, missing bytes, and preference."""
    if isinstance(row.answer, Rejection):
        return 2, Standing.OWN, 0, 0, (NO_PRICE, 0, 0, 0, row.gpu.name)
    figures = row.answer.figures
    preferred = preference(row.gpu, row.answer.split, row.price)
    if row.fit is Fit.NO:
        return 1, row.standing, 0, figures.needed_bytes - figures.budget_bytes, preferred
    return 0, row.standing, _ORDER.index(row.fit), 0, preferred


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with its rows.

    ``shown`` are the rows of the table; ``excluded`` are the types that the manifest excludes, which only data names.
    ``split`` is the one that the user names. ``words`` are sentences about the excluded types. ``against`` are the
    answers of another engine to the same question; None if none is named, or if it refuses.
    """

    question: EstimateQuestion
    shown: tuple[AnswerRow, ...]
    excluded: tuple[AnswerRow, ...] = ()
    split: Split | None = None
    words: tuple[str, ...] = ()
    against: AnsweredQuestion | None = None

    @property
    def rows(self) -> tuple[AnswerRow, ...]:
        """All rows, those of the table first."""
        return (*self.shown, *self.excluded)

    @property
    def is_alone(self) -> bool:
        """Whether the table shows one GPU type, with its details."""
        return len(self.shown) == 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the question, on another engine's refusal, and on the types that are left out."""
        other = self.question.against
        refused = () if other is None or not other.refusal else (f"{other.title} is not compared: {other.refusal}",)
        return (*self.question.notes, *refused, *self.words)


def answered(question: EstimateQuestion) -> AnsweredQuestion:
    """Return the answers as sorted rows, on the GPU types and for the split that the question names.

    Raises:
        PlimsollError: the engine has no memory law for the model, or a GPU type is not catalogued. For the engine that
            is compared, this becomes its refusal.
    """
    request, owned = question.request, question.owned
    found = answers(request, question.gpus, question.split, question.share)
    # Without --gpu all types are checked: those that the manifest excludes would hide the others.
    kept, words = (found, ()) if question.gpus else left_out(request, found)
    excluded = [each for each in found if each not in kept]
    question, against = _against(question)
    return AnsweredQuestion(
        question,
        rows_of(request, kept, owned),
        rows_of(request, excluded, owned),
        question.split,
        tuple(words),
        against,
    )


def _against(question: EstimateQuestion) -> tuple[EstimateQuestion, AnsweredQuestion | None]:
    """Return the answers of the other engine, or the question with the refusal of its memory law."""
    other = question.against
    if other is None or other.question is None:
        return question, None
    try:
        return question, answered(other.question)
    except PlimsollError as error:
        return replace(question, against=replace(other, question=None, refusal=str(error))), None
