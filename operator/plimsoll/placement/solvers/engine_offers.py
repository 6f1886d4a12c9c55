"""The engines that were compared for a deployment: what each would get, and why one of them comes first.

Engines are ranked by the order of the sizes of a deployment (:mod:`plimsoll.placement.solvers.sizes`), with two more
points. The user's list of engines comes right after the replicas without a place. And a doubt about an estimate counts:
it is the same for all candidates of one engine, and another one for those of another engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from plimsoll.domain.decisions.outcomes import Option, Rejection
from plimsoll.domain.engines.engine_choice import EngineRefusal
from plimsoll.domain.public_words import EngineReason, Numbers, Reason
from plimsoll.domain.requests.serving import NOT_PREFERRED
from plimsoll.placement.explain import place_words
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.placement.places.place import per_million
from plimsoll.placement.solvers.protocol import Award

EngineScore = tuple[float, int, float, float, int]
"""The part of the load without a place; the place in the user's list; doubts; US dollars an hour; replicas."""


@dataclass(frozen=True, slots=True)
class RankedAward:
    """The best award on one engine, and its score among the awards of that engine."""

    award: Award
    own_score: tuple[float, float, float, int]

    @property
    def score(self) -> EngineScore:
        """The score among the awards of all engines; the least is the best."""
        missing, doubts, bill, replicas = self.own_score
        granted = sum(each.replicas for each in self.award.granted)
        doubted = sum(each.replicas for each in self.award.granted if each.choice.is_in_doubt)
        rank = self.award.demand.request.engine_rank
        return missing, rank, doubts + doubted / max(1, granted), bill, replicas

    @property
    def engine(self) -> str:
        """The name of the engine."""
        return self.award.demand.request.engine.name

    @property
    def option(self) -> Option | None:
        """Where its first replicas would run; None if none have a place."""
        kept = [pool.choice for pool in self.award.demand.kept if pool.choice is not None]
        return next((each.choice for each in self.award.granted), kept[0] if kept else None)


def only_offer(award: Award) -> tuple[EngineOffer, ...]:
    """Return the offer on the one engine that takes a spec, and why all others refuse it; empty if none do."""
    refused = award.demand.request.refused_engines
    return offers_of([RankedAward(award, (0.0, 0.0, 0.0, 0))], refused) if refused else ()


def offers_of(ranked: Sequence[RankedAward], refused: Iterable[EngineRefusal]) -> tuple[EngineOffer, ...]:
    """Return what was offered on each engine, that of the first award first.

    Args:
        ranked: the best award of each engine that may run the spec, the one that is taken first.
        refused: the engines that cannot run it.
    """
    taken, *others = ranked
    losing = sorted(others, key=lambda each: each.score)
    first = _taken(taken, losing[0] if losing else None)
    return (first, *(_lost(each, taken) for each in losing), *_refused(refused))


def _refused(refused: Iterable[EngineRefusal]) -> Iterator[EngineOffer]:
    for each in refused:
        numbers = (("field", each.field), ("value", each.value), ("fix", each.fix))
        yield EngineOffer(each.engine, "", EngineReason.FIELD_REFUSED, numbers)


def _offer(ranked: RankedAward, reason: EngineReason, numbers: Numbers = ()) -> EngineOffer:
    award = ranked.award
    request, kept = award.demand.request, [pool.place for pool in award.demand.kept if pool.replicas]
    places = [*kept, *(each.choice.target.place for each in award.granted)]
    missing = max(0, award.demand.missing - sum(each.replicas for each in award.granted))
    nearest = award.rejections if reason is EngineReason.NOTHING_FITS else ()
    words = tuple(dict.fromkeys(place_words(*place) for place in places))
    return EngineOffer(ranked.engine, str(request.engine.version), reason, numbers, words, missing, nearest)


_WINS = {
    EngineReason.NOTHING_FITS: EngineReason.MORE_ROOM,
    EngineReason.LESS_ROOM: EngineReason.MORE_ROOM,
    EngineReason.LESS_PREFERRED: EngineReason.PREFERRED,
    EngineReason.LESS_SURE: EngineReason.SURER_FIT,
    EngineReason.HIGHER_COST: EngineReason.LOWER_COST,
    EngineReason.LATER_IN_ORDER: EngineReason.FIRST_IN_ORDER,
}
"""Why an engine is taken, by why the best one of the others is not."""


def _taken(taken: RankedAward, second: RankedAward | None) -> EngineOffer:
    if second is None:
        return _offer(taken, EngineReason.ONLY_ENGINE)
    if taken.option is None and taken.award.demand.missing > 0:
        return _offer(taken, EngineReason.NO_PLACE)
    reason = _reason_against(second, taken)
    cache = _smaller_cache(second, taken)
    if cache and reason is not EngineReason.LESS_PREFERRED:
        return _offer(taken, EngineReason.MORE_CACHE, (("other", second.engine), *cache))
    return _offer(taken, _WINS[reason], (("other", second.engine), *_compared(reason, taken, second)))


def _lost(lost: RankedAward, taken: RankedAward) -> EngineOffer:
    reason = _reason_against(lost, taken)
    return _offer(lost, reason, (("other", taken.engine), *_compared(reason, lost, taken)))


def _reason_against(lost: RankedAward, taken: RankedAward) -> EngineReason:
    """Return the first point of the scores in which an award is worse than the one that is taken."""
    missing, rank, doubts, bill, _ = lost.score
    if missing > taken.score[0] or (lost.option is None and lost.award.demand.missing > 0):
        fits = any(isinstance(each, Option) for each in lost.award.demand.options.verdicts)
        return EngineReason.LESS_ROOM if fits else EngineReason.NOTHING_FITS
    if rank > taken.score[1]:
        return EngineReason.LESS_PREFERRED
    if doubts > taken.score[2]:
        return EngineReason.LESS_SURE
    return EngineReason.HIGHER_COST if bill > taken.score[3] else EngineReason.LATER_IN_ORDER


def _compared(reason: EngineReason, this: RankedAward, other: RankedAward) -> Numbers:
    """Return the figures of both that decide, or that the user's list names only one of them."""
    if reason is EngineReason.LESS_PREFERRED:
        return (("unlisted", 1),) if NOT_PREFERRED in (this.score[1], other.score[1]) else ()
    if this.option is None or other.option is None:
        return ()
    if reason is EngineReason.LESS_SURE:
        return ("fit", this.option.estimate.fit.value), ("other_fit", other.option.estimate.fit.value)
    if reason is not EngineReason.HIGHER_COST:
        return ()
    costs = (("cost", f"{this.score[3]:.4f}"), ("other_cost", f"{other.score[3]:.4f}"))
    million = per_million(this.option), per_million(other.option)
    return (*costs, ("million", million[0]), ("other_million", million[1])) if all(million) else costs


_ABOUT_CACHE = (Reason.TOO_LITTLE_VRAM, Reason.KV_CACHE_TOO_SMALL)


def _smaller_cache(lost: RankedAward, taken: RankedAward) -> Numbers:
    """Return the KV cache of both at the place that is taken, if that is what rules the other engine out there."""
    option = taken.option
    if option is None:
        return ()
    for each in lost.award.demand.options.verdicts:
        is_there = isinstance(each, Rejection) and (each.gpu_type, each.split) == option.target.place
        if is_there and isinstance(each, Rejection) and each.reason in _ABOUT_CACHE and each.figures is not None:
            return (
                ("place", place_words(*option.target.place)),
                ("tokens", option.estimate.kv_capacity_tokens),
                ("other_tokens", each.figures.estimate.kv_capacity_tokens),
                ("need_tokens", each.figures.estimate.kv_needed_tokens),
            )
    return ()
