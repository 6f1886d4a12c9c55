"""Suggestions for a deployment that is placed: changes of its spec that would make it cheaper. None is ever made.

Each is judged like a placement, on GPUs that are free after the plan. Only candidates that the change can help are
judged: they cost less, and memory or speed is what rules them out today.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Option, Rejection, Split, Suggestion
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import WIDE, KvPrecision
from plimsoll.domain.public_words import Numbers, Reason, SuggestionKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import to_milliseconds
from plimsoll.engines.registry import engine_of
from plimsoll.memory.load import needed_tokens
from plimsoll.memory.weights import weights_bytes
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.placement.demands.pools import Decision, active
from plimsoll.placement.explain import place_words
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate, candidate_on, candidates
from plimsoll.placement.options.feasibility import hourly_price, judge, sized
from plimsoll.placement.options.speed import load_of, missed
from plimsoll.placement.options.verdicts import options, rank
from plimsoll.placement.places.place import room_of

LEAST_SAVING = Decimal("0.1")
"""The least part of the bill that a suggestion saves. Providers ask prices for one card that differ by more, and each
change restarts all engines and costs some quality. A mix of GPU types must save the same part
(:data:`~plimsoll.placement.solvers.formulation.MIXING`)."""

MOST_SUGGESTIONS = 3
"""The most suggestions for one deployment: as many as there are kinds of change."""

MOST_SEARCHES = 100
"""The most different placements for which one pass searches. A search takes about two milliseconds, and deployments of
one kind at one place share it. More new kinds come only with the first pass over a large cluster."""

_FP8_SHARE = 0.5
"""The part of a 16-bit cache that an fp8 cache takes at least."""

_TOLERANCE = 1.02
"""How much too large a candidate may look by its changed terms alone: the others follow the load a little."""

Relatives = Callable[[str], Sequence[ModelFacts]]
"""Returns the quantized checkpoints of the same model, by the name of one of them."""


def no_relatives(_: str) -> tuple[ModelFacts, ...]:
    """Return nothing: no other checkpoint is known."""
    return ()


@dataclass(frozen=True, slots=True)
class _Opening:
    """A candidate that costs less, the verdict on it, and its memory today."""

    candidate: Candidate
    verdict: Option | Rejection
    figures: MemoryEstimate


@dataclass(frozen=True, slots=True)
class _Change:
    """A changed request, and bounds of what the change can help: the least part of the cache and of a step's time."""

    kind: SuggestionKind
    request: Request
    numbers: Numbers = ()
    cache_share: float = 1.0
    time_share: float = 1.0


@dataclass(slots=True)
class Suggester:
    """Finds suggestions on what one plan left free. Equal questions of one pass are answered once.

    A changed deployment starts its new engines before it stops the old ones, so it needs GPUs that are free now.
    """

    fleet: Fleet
    left: Ledger
    memo: Memo
    relatives: Relatives = no_relatives
    _openings: dict[int, tuple[Option, tuple[_Opening, ...]]] = field(default_factory=dict, init=False)
    _found: dict[tuple[object, ...], tuple[Suggestion, ...]] = field(default_factory=dict, init=False)

    def advised(self, decision: Decision) -> Decision:
        """Return the decision with suggestions, if this pass has placed all replicas on one GPU type and split."""
        if not decision.placed_now or decision.missing or decision.change_blocked:
            return decision
        pools = active(decision.pools)
        choice, request = decision.choice, decision.request
        if choice is None:
            return decision
        # The admin's figure for the memory holds, whatever the load and the precision are.
        if len(pools) != 1 or not pools[0].replicas or request.overrides.memory_per_gpu_bytes is not None:
            return decision
        found = self._suggestions(request.with_replicas(pools[0].replicas), choice)
        return replace(decision, suggestions=found) if found else decision

    def _suggestions(self, request: Request, choice: Option) -> tuple[Suggestion, ...]:
        openings = tuple(
            each
            for each in self._openings_of(request, choice)
            if room_of(request, each.candidate, self.fleet, self.left) >= request.replicas
        )
        if not openings:
            return ()
        # The options of one kind of request are the same objects, so a choice tells its kind.
        key = (id(choice), request.replicas, tuple(each.candidate.target.place for each in openings))
        if key not in self._found:
            if len(self._found) >= MOST_SEARCHES:
                return ()
            fleet, left = self.fleet, self.left
            roomy = tuple(
                each
                for each in candidates(request, fleet)
                if _is_within(each, choice) or room_of(request, each, fleet, left) >= request.replicas
            )
            self._found[key] = tuple(_search(request, choice, openings, roomy, fleet, self.relatives))
        return self._found[key]

    def _openings_of(self, request: Request, choice: Option) -> tuple[_Opening, ...]:
        known = self._openings.get(id(choice))
        if known is None:
            if len(self._openings) >= MOST_SEARCHES:
                return ()
            known = self._openings[id(choice)] = choice, tuple(self._cheaper(request, choice))
        return known[1]

    def _cheaper(self, request: Request, choice: Option) -> Iterator[_Opening]:
        """Yield the candidates that save enough, and that a change could open."""
        types = {gpu.name: gpu for gpu in self.fleet.gpu_types()}
        for verdict in options(request, self.fleet, self.memo).verdicts:
            if not _is_open_to_change(verdict, choice):
                continue
            name = verdict.gpu.name if isinstance(verdict, Option) else verdict.gpu_type
            restricted = request.constraints.restricts_capacity
            candidate = candidate_on(types[name], verdict.split, self.fleet, restricted=restricted)
            if _saves(candidate, choice):
                yield _Opening(candidate, verdict, sized(request, types[name], verdict.split, self.memo)[1])


def _is_within(candidate: Candidate, choice: Option) -> bool:
    """Whether the GPUs that the choice has are enough for it."""
    return candidate.gpu.name == choice.gpu.name and candidate.split.gpus <= choice.split.gpus


def _is_open_to_change(verdict: Option | Rejection, choice: Option) -> bool:
    if isinstance(verdict, Option):
        return verdict.doubts > choice.doubts
    return verdict.reason in (Reason.KV_CACHE_TOO_SMALL, Reason.TOO_LITTLE_VRAM, Reason.TOO_SLOW)


def _saves(candidate: Candidate | Option, choice: Option) -> bool:
    price = hourly_price(candidate.gpu, candidate.split)
    if price is not None and choice.hourly_price is not None:
        return price <= (1 - LEAST_SAVING) * choice.hourly_price
    same_type = candidate.gpu.name == choice.gpu.name
    return same_type and candidate.split.gpus <= (1 - LEAST_SAVING) * choice.split.gpus


def _search(
    request: Request,
    choice: Option,
    openings: Sequence[_Opening],
    roomy: Sequence[Candidate],
    fleet: Fleet,
    relatives: Relatives,
) -> Iterator[Suggestion]:
    """Yield the best place of each kind of change, the largest saving first."""
    best: dict[SuggestionKind, tuple[_Change, Option]] = {}
    for change in _changes(request, relatives):
        option = _opened(change, request, choice, openings, roomy, fleet)
        if option is not None and (change.kind not in best or rank(option) < rank(best[change.kind][1])):
            best[change.kind] = change, option
    ordered = sorted(best.values(), key=lambda pair: (rank(pair[1]), pair[0].kind))
    for change, option in ordered[:MOST_SUGGESTIONS]:
        yield _suggestion(change, option, choice, request.replicas)


def _opened(
    change: _Change,
    request: Request,
    choice: Option,
    openings: Sequence[_Opening],
    roomy: Sequence[Candidate],
    fleet: Fleet,
) -> Option | None:
    """Return the place that the change gets among those with room; None if it saves too little, or is less sure."""
    if not any(_may_fit(change, request, each) and _may_be_fast(change, each) for each in openings):
        return None
    try:
        judged = (judge(change.request, candidate, fleet) for candidate in roomy)
        options = [each for each in judged if isinstance(each, Option)]
    except PlimsollError:  # no law covers the changed request
        return None
    best = min(options, key=lambda each: (each.doubts, rank(each)), default=None)
    return best if best is not None and best.doubts <= choice.doubts and _saves(best, choice) else None


def _may_fit(change: _Change, request: Request, opening: _Opening) -> bool:
    """Whether the changed terms may fit. It spares the estimates of hopeless candidates."""
    figures, split, changed = opening.figures, opening.candidate.split, change.request
    share = change.cache_share * (_FP8_SHARE if request.may_narrow_cache else 1)
    need = figures.needed_bytes - figures.kv_cache_bytes * (1 - share)
    if changed.model is not request.model:
        need -= weights_bytes(request.model, request.precision, split)
        need += weights_bytes(changed.model, changed.precision, split)
    return need <= figures.budget_bytes * _TOLERANCE


def _may_be_fast(change: _Change, opening: _Opening) -> bool:
    """Whether a candidate that is too slow may become fast enough."""
    verdict = opening.verdict
    if isinstance(verdict, Option):
        miss = dict(missed(INTERACTIVE, verdict.performance)) if verdict.is_slow else {}
    else:
        miss = dict(verdict.numbers) if verdict.reason is Reason.TOO_SLOW else {}
    return not miss or int(miss["milliseconds"]) * change.time_share <= int(miss["limit"])


def _changes(request: Request, relatives: Relatives) -> Iterator[_Change]:
    """Yield the changes to judge. What engines reported holds for the engines of today, and is left out."""
    fresh = replace(request, observed=(), failed_starts=())
    if request.kv_precision in WIDE and not request.may_narrow_cache:
        narrow = replace(fresh, kv_precision=KvPrecision.FP8)
        yield _Change(SuggestionKind.NARROW_KV_CACHE, narrow, cache_share=_FP8_SHARE, time_share=_FP8_SHARE)
    shape = request.shape
    if shape.expected_prompt_tokens is None and not shape.guaranteed:
        load = load_of(request)
        prompt, output = int(load.prompt_tokens), int(load.output_tokens)
        expecting = replace(shape, expected_prompt_tokens=prompt, expected_output_tokens=output)
        yield _Change(
            SuggestionKind.EXPECTED_LENGTHS,
            replace(fresh, shape=expecting),
            (("prompt", prompt), ("output", output)),
            cache_share=needed_tokens(expecting) / needed_tokens(shape),
        )
    if request.model.source is not FactsSource.INLINE:
        yield from _other_checkpoints(fresh, relatives(request.model.name))


def _other_checkpoints(request: Request, published: Sequence[ModelFacts]) -> Iterator[_Change]:
    """Yield the smaller checkpoints of the same model that the release can load. The KV cache keeps its precision."""
    engine, release = engine_of(request.engine.name), request.engine.version
    today = weights_bytes(request.model, request.precision, Split(1))
    for facts in published:
        precision = facts.checkpoint.precision
        model = engine.loaded(facts, request.engine)
        share = weights_bytes(model, precision, Split(1)) / today
        if share < 1 and engine.release_refusal(model, precision, release) is None:
            yield _Change(
                SuggestionKind.OTHER_CHECKPOINT,
                replace(request, model=model, precision=precision),
                (("model", facts.name), ("precision", precision.value)),
                time_share=share,
            )


def _suggestion(change: _Change, option: Option, choice: Option, replicas: int) -> Suggestion:
    prices = option.hourly_price, choice.hourly_price
    numbers: list[tuple[str, int | str]] = [
        *change.numbers,
        ("place", place_words(*option.target.place)),
        ("gpus", (choice.split.gpus - option.split.gpus) * replicas),
    ]
    for name, found in (("tpot", option.performance), ("tpot_now", choice.performance)):
        if found is not None:
            numbers.append((name, to_milliseconds(found.tpot_seconds)))
    return Suggestion(
        kind=change.kind,
        numbers=tuple(numbers),
        hourly_saving=None if None in prices else ((prices[1] or 0) - (prices[0] or 0)) * Decimal(replicas),
        tpot_seconds=None if option.performance is None else option.performance.tpot_seconds,
    )
