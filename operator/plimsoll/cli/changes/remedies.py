"""Changes after which a load fits one GPU type for sure. The memory law checks each of them before it is offered.

They come in the order of their cost: flags of the engine, other numbers, a smaller load, more GPUs, another GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice, product
from typing import Any, NamedTuple

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.changes.changes import (
    MOST_PERCENT,
    STEPS,
    RequestChange,
    fewer_features,
    narrow_cache,
    other_engines,
    other_numbers,
    shortest_context,
    with_context,
    with_requests,
    with_sequences,
    with_share,
    with_step,
)
from plimsoll.cli.split_words import split_options, split_words
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, Rejection, Split
from plimsoll.domain.public_words import WISHED
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, counted
from plimsoll.engines.registry import engine_of
from plimsoll.memory.inverse import by_law, largest, longest_context, most_sequences
from plimsoll.memory.weights import weights_bytes
from plimsoll.placement.options.candidates import splits_for
from plimsoll.placement.options.divisibility import replica_refusal
from plimsoll.placement.options.feasibility import hourly_price, may_fit, wishes_refusal
from plimsoll.placement.options.sizing import Sized, best_on, fit_of

MOST_REMEDIES = 10
"""The most remedies for one GPU type."""

_FAR_ABOVE = 1.25
"""Weights this many times above the budget never fit. Kernels keep experts in up to a tenth less than their shapes."""


@dataclass(frozen=True, slots=True)
class RemedyAnswer:
    """One change, or several together, and the answer with them, which fits for sure."""

    changes: tuple[RequestChange, ...]
    answer: Sized

    @property
    def short(self) -> str:
        """The changes and the number of GPUs, for a table."""
        return f"fits with {' and '.join(each.brief or each.words for each in self.changes)} on {self._place}"

    @property
    def sentence(self) -> str:
        """The changes, how to write them, and the figures with them."""
        figures = self.answer.figures
        need = f"needs {figures.computed_bytes / GIB:.2f} of {figures.budget_bytes / GIB:.2f} GiB"
        options = f" ({self._options})" if self._options else ""
        return f"{self._words}{options}: {need} on {self._place}"

    def document(self) -> dict[str, Any]:
        """The same as data."""
        split = self.answer.split
        return {
            "message": self.sentence,
            "model": next((each.checkpoint for each in self.changes if each.checkpoint), None),
            "options": self._options,
            "tensorParallel": split.tensor_parallel,
            "pipelineParallel": split.pipeline_parallel,
            "dataParallel": split.data_parallel,
            "neededBytes": self.answer.figures.computed_bytes,
            "budgetBytes": self.answer.figures.budget_bytes,
        }

    @property
    def _words(self) -> str:
        return " and ".join(each.words for each in self.changes)

    @property
    def _options(self) -> str:
        return " ".join(each.option for each in self.changes if each.option)

    @property
    def _place(self) -> str:
        return f"{counted(self.answer.split.gpus, 'GPU')} ({split_words(self.answer.split)})"


@dataclass(frozen=True, slots=True)
class _Question:
    """One GPU type, and the split that the command line names; None for any that the manifest allows."""

    gpu: GpuType
    split: Split | None

    def nearest_place(self, request: Request) -> tuple[GpuType, Split]:
        """Return the GPU type and the split that is nearest to fit, for a request that runs on some split."""
        found = best_on(request, self.gpu, self._splits(request))
        return self.gpu, found.split

    def fitting(self, request: Request) -> Sized | None:
        """Return the split with the fewest GPUs that fits for sure; None if none does."""
        splits = (split for split in self._splits(request) if self._may_hold(request, split))
        hopeful = [split for split in splits if may_fit(request, self.gpu, split)]
        found = best_on(request, self.gpu, hopeful) if hopeful else None
        return found if isinstance(found, Sized) and found.figures.fit_by_figures is Fit.SURE else None

    def _may_hold(self, request: Request, split: Split) -> bool:
        """Whether the weights may fit by their shapes. That is quick to find, and rules out most hopeless splits."""
        if request.engine.residency is not None:
            return True
        budget = self.gpu.usable_bytes * request.engine.gpu_memory_utilization_percent // 100
        return weights_bytes(request.model, request.precision, split) <= _FAR_ABOVE * budget

    def runs(self, request: Request) -> bool:
        """Whether the GPU has what the numbers of the request ask for."""
        engine = engine_of(request.engine.name)
        return not engine.missing_capability(request, self.gpu)

    def _splits(self, request: Request) -> list[Split]:
        named = splits_for(request) if self.split is None else (self.split,)
        largest = max(1, self.gpu.scale_up_gpus)
        allowed = (split for split in named if wishes_refusal(request, self.gpu, split) is None)
        small = (split for split in allowed if split.shape.gpus_per_pod <= largest)
        return [split for split in small if replica_refusal(request, self.gpu.name, split) is None]


def remedies(
    request: Request, gpu: GpuType, answer: Sized | Rejection, split: Split | None, *, at_length: bool = True
) -> Iterator[RemedyAnswer]:
    """Yield remedies in the order of their cost. Several changes together come only if fewer are not enough.

    Args:
        request: the load as the user asked.
        gpu: the GPU type.
        answer: the answer without any change, which does not fit for sure.
        split: the split that the command line names.
        at_length: whether flags of the engine are tried, too. A table has no time for them.
    """
    if isinstance(answer, Rejection) and answer.reason in WISHED:
        return
    asked, question = by_law(_pinned(request, answer)), _Question(gpu, split)
    yield from _fewer_sequences(asked, question)
    if at_length:
        yield from _other_flags(asked, question, answer)
    if not _is_hopeful(asked, question):
        return
    for stage in _stages(asked, question):
        found = (remedy for way, step in stage for remedy in step(way, question))
        first = next(found, None)
        if first is not None:
            yield first
            yield from found
            return


def _pinned(request: Request, answer: Sized | Rejection) -> Request:
    """Return the request of an engine without an operator with its defaults named, so that each can be changed."""
    if not request.engine.own_defaults or not isinstance(answer, Sized):
        return request
    return request.limited(answer.settings.limits)


def first_remedy(request: Request, gpu: GpuType, answer: Sized | Rejection, split: Split | None) -> RemedyAnswer | None:
    """Return the first remedy; None if nothing that is tried is enough."""
    return next(remedies(request, gpu, answer, split, at_length=False), None)


def all_remedies(
    request: Request, gpu: GpuType, answer: Sized | Rejection, split: Split | None
) -> tuple[RemedyAnswer, ...]:
    """Return the first :data:`MOST_REMEDIES` remedies, and after them the cheapest other GPU that holds the load."""
    found = tuple(islice(remedies(request, gpu, answer, split), MOST_REMEDIES))
    if isinstance(answer, Rejection) and answer.reason in WISHED:
        return found
    return (*found, *_other_gpu(by_law(request), gpu))


def _is_hopeful(asked: Request, question: _Question) -> bool:
    """Whether the smallest load fits with the fewest bits on any split. It spares the search of most hopeless types."""
    least = with_context(asked, min(asked.shape.context_tokens, shortest_context(asked))).request
    wide = replace(question, split=None) if question.split is not None else question
    ways = _ways(least, question)
    smallest = (with_requests(way.request, 1).request for way in (_Way((), least), *ways, *_narrower(ways)))
    return any(each.fitting(request) is not None for request in smallest for each in {question, wide})


class _Way(NamedTuple):
    """Changes that are made already, and the request with them."""

    changes: tuple[RequestChange, ...]
    request: Request

    def then(self, change: RequestChange) -> _Way:
        """Return the way with one more change."""
        return _Way((*self.changes, change), change.request)


_Step = Callable[[_Way, _Question], Iterator[RemedyAnswer]]


def _stages(asked: Request, question: _Question) -> Iterator[Iterable[tuple[_Way, _Step]]]:
    """Yield what is tried with one change, with two, with three and with four: a way, and the step after it."""
    none, one = [_Way((), asked)], _ways(asked, question)
    two = _narrower(one)
    yield chain(product(one, [_checked]), product(none, [_smaller_load, _more_gpus]))
    in_turn = (product(one, [step]) for step in (_more_gpus, _smaller_load))
    yield chain(product(two, [_checked]), *in_turn, product(none, [_much_smaller_load]))
    yield chain(product(two, [_more_gpus, _smaller_load]), product(one, [_much_smaller_load]))
    yield product(two, [_much_smaller_load])


def _ways(asked: Request, question: _Question) -> list[_Way]:
    return [_Way((), asked).then(change) for change in other_numbers(asked, runs=question.runs(asked))]


def _narrower(ways: Sequence[_Way]) -> list[_Way]:
    return [way.then(change) for way in ways for change in narrow_cache(way.request)]


def _other_flags(asked: Request, question: _Question, answer: Sized | Rejection) -> Iterator[RemedyAnswer]:
    """Yield single flags of the engine with which it fits on the split that was asked about."""
    if not isinstance(answer, Sized):
        return
    here = replace(question, split=answer.split)
    if answer.figures.fit_of_step is Fit.NO:
        yield from _single(with_step(asked, answer.figures.least_step_tokens), here)
    yield from islice(_smaller_steps(asked, here, answer.settings.limits.step_tokens), 1)
    yield from _larger_share(asked, here)
    for change in (*other_engines(asked, question.gpu), *fewer_features(asked)):
        yield from _single(change, here)


def _smaller_steps(asked: Request, question: _Question, today: int) -> Iterator[RemedyAnswer]:
    """Yield smaller steps, the largest first. The engine may need a larger one than is asked for."""
    for tokens in STEPS:
        found = _single(with_step(asked, tokens), question) if tokens < today else ()
        yield from (each for each in found if each.answer.settings.limits.step_tokens == tokens)


def _larger_share(asked: Request, question: _Question) -> Iterator[RemedyAnswer]:
    shares = range(asked.engine.gpu_memory_utilization_percent + 1, MOST_PERCENT + 1)
    first = bisect_left(
        shares, 1, key=lambda percent: int(question.fitting(with_share(asked, percent).request) is not None)
    )
    if first < len(shares):
        found = _single(with_share(asked, shares[first]), question)
        yield from (each for each in found if each.answer.settings.gpu_memory_utilization_percent == shares[first])


def _other_gpu(asked: Request, than: GpuType) -> Iterator[RemedyAnswer]:
    """Yield the cheapest GPU type that is sold for servers and holds the load as it is, with its price."""
    found: list[tuple[Decimal, Sized]] = []
    for gpu in load_gpu_types():
        if gpu.name == than.name or gpu.is_slice or not gpu.is_for_servers or gpu.price is None:
            continue
        sized = _Question(gpu, None).fitting(asked)
        price = None if sized is None else hourly_price(gpu, sized.split)
        if sized is not None and price is not None:
            found.append((price, sized))
    if found:
        price, sized = min(found, key=lambda pair: pair[0])
        words = f"{sized.gpu.name} at ${price:.2f} an hour"
        yield RemedyAnswer((RequestChange(words, f"--gpu {sized.gpu.name}", asked),), sized)


def _fewer_sequences(asked: Request, question: _Question) -> Iterator[RemedyAnswer]:
    """Yield a lower number of sequences, if the manifest fixes more than the load has."""
    fixed = asked.engine.limits.sequences
    if fixed <= asked.shape.concurrency:
        return
    place = question.nearest_place(asked)

    def fits(count: int) -> bool:
        return fit_of(with_sequences(asked, count).request, *place) is Fit.SURE

    fewer = largest(fits, asked.shape.concurrency, fixed)
    if fewer is not None and fewer < fixed:
        yield from _single(with_sequences(asked, fewer), question)


def _single(change: RequestChange, question: _Question) -> Iterator[RemedyAnswer]:
    return _checked(_Way((change,), change.request), question)


def _checked(way: _Way, question: _Question) -> Iterator[RemedyAnswer]:
    found = question.fitting(way.request)
    if found is not None:
        yield RemedyAnswer(way.changes, found)


def _more_gpus(way: _Way, question: _Question) -> Iterator[RemedyAnswer]:
    """Yield another split, if the command line names one that is too small."""
    if question.split is None:
        return
    found = _Question(question.gpu, None).fitting(way.request)
    if found is not None and found.split != question.split:
        change = RequestChange(split_words(found.split), split_options(found.split), way.request)
        yield RemedyAnswer(way.then(change).changes, found)


def _smaller_load(way: _Way, question: _Question) -> Iterator[RemedyAnswer]:
    """Yield fewer requests, and a shorter context, each alone."""
    request, shape = way.request, way.request.shape
    if shape.concurrency > 1 and question.fitting(with_requests(request, 1).request) is not None:
        fewer = most_sequences(request, *question.nearest_place(request), fit_of, most=shape.concurrency)
        if fewer is not None and fewer.value < shape.concurrency:
            yield from _checked(way.then(with_requests(request, fewer.value)), question)
    yield from _shorter(way, question)


def _much_smaller_load(way: _Way, question: _Question) -> Iterator[RemedyAnswer]:
    return _shorter(way.then(with_requests(way.request, 1)), question)


def _shorter(way: _Way, question: _Question) -> Iterator[RemedyAnswer]:
    """Yield a shorter context, if one that is long enough fits."""
    request, shortest = way.request, shortest_context(way.request)
    if request.shape.context_tokens <= shortest or question.fitting(with_context(request, shortest).request) is None:
        return
    shorter = longest_context(request, *question.nearest_place(request), fit_of)
    if shorter is not None and shortest <= shorter.value < request.shape.context_tokens:
        yield from _checked(way.then(with_context(request, shorter.value)), question)
