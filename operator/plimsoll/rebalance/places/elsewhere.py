"""When another place is looked for, and what is remembered of it: a search judges every GPU type and split."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import format_price, to_milliseconds, to_percent
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import Tenant, serving
from plimsoll.placement.explain import place_words
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.transition.hypothesis import Market, WhatIf
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose_load
from plimsoll.rebalance.diagnosis.judging import Judged
from plimsoll.rebalance.guard import cooldown_seconds
from plimsoll.rebalance.law.capacity import capacity_of
from plimsoll.rebalance.law.promise import Figure, unreachable
from plimsoll.rebalance.places.better import Cheaper, Faster, bill_of, cheaper_place, faster_place, only_engine
from plimsoll.rebalance.places.sites import Site
from plimsoll.rebalance.state.decisions import DecisionReason
from plimsoll.rebalance.state.history import ChangeKind
from plimsoll.rebalance.state.memory import LoopMemory, Sought
from plimsoll.rebalance.state.situation import Situation

LOOK_SECONDS = 300
"""How often a deployment may look for another place. The moments of different deployments are spread over this time."""

ALIKE = 1.15
"""Loads whose figures differ by no more than about this factor are taken for equal: nothing is looked for again."""

SLOW_MOVE_SECONDS = 24 * 3600.0
"""How long a deployment that had to move for a promise is not moved for the price. What made the place that it left too
slow may come back at the same time of the next day."""


def elsewhere(
    diagnosis: Diagnosis, situation: Situation, judged: Judged, what_if: WhatIf
) -> tuple[Diagnosis, LoopMemory]:
    """Return the diagnosis with the place to go to, and the memory of the search.

    A promise that is out of reach asks for a faster place. A deployment with nothing wrong may have a cheaper one.
    """
    if diagnosis.kind is not DiagnosisKind.TOO_SLOW:
        if not _is_content(diagnosis, situation) or not _is_worth_a_look(judged, what_if.tenant.request.key):
            return diagnosis, judged.memory
        search = _search(situation, judged, what_if) if _is_calm(situation, judged) else None
        return (diagnosis, judged.memory) if search is None else search.cheaper(diagnosis)
    search = _search(situation, judged, what_if)
    if search is None or what_if.tenant.request.slo is None:
        return diagnose_load(situation, judged), judged.memory
    return search.faster(diagnosis)


def on_other_engine(tenant: Tenant, market: Market) -> Diagnosis | None:
    """Return the diagnosis that another engine has a place for all replicas; None: none has."""
    found = only_engine(tenant, market)
    if found is None:
        return None
    request, option = found
    price, place = option.hourly_price, option.target.place
    bill: Numbers = () if price is None else (("only_bill", format_price(price * request.replicas)),)
    numbers: Numbers = (*_titles(tenant, request.engine.name), ("to_place", place_words(*place)), *bill)
    numbers = (*numbers, ("to_replicas", request.replicas))
    reason = DecisionReason.OTHER_ENGINE_FITS
    return Diagnosis(DiagnosisKind.OUTGROWN, reason, numbers, request.replicas, place, request.engine.name)


def _titles(tenant: Tenant, engine: str) -> Numbers:
    """Return the names of the engine that runs, and of another one, for sentences."""
    return ("from_engine", engine_of(tenant.request.engine.name).title), ("to_engine", engine_of(engine).title)


def _is_worth_a_look(judged: Judged, key: ObjectKey) -> bool:
    """Whether a cheaper place is known already, or the moment for a look has come."""
    known = judged.memory.sought
    return _is_due(judged, key) or (known is not None and known.place is not None)


def _is_due(judged: Judged, key: ObjectKey) -> bool:
    before, looks = judged.memory.turn_before, judged.memory.looks
    return before is not None and bool(looks) and before < moment_of(key, before) <= looks[-1].until


def moment_of(key: ObjectKey, after: float) -> float:
    """Return the next moment after another one (POSIX seconds) at which a deployment may look for another place."""
    shift = zlib.crc32(str(key).encode()) % LOOK_SECONDS
    return (math.floor((after - shift) / LOOK_SECONDS) + 1) * LOOK_SECONDS + shift


@dataclass(frozen=True, slots=True)
class _Search:
    situation: Situation
    judged: Judged
    what_if: WhatIf
    here: Site

    @property
    def rate(self) -> float:
        """The most requests a second of the looks that are remembered."""
        return max(look.rate for look in self.judged.memory.looks)

    def faster(self, diagnosis: Diagnosis) -> tuple[Diagnosis, LoopMemory]:
        traffic, known = self.situation.load.traffic, self._known(DecisionReason.PROMISE_OUT_OF_REACH)
        figure = None if traffic is None else unreachable(self.here.replica, self.here.lengths, traffic)
        if known is None or (self._is_due() and known.digest != self._digest(self._market())):
            known = self._find_faster(figure)
        memory = replace(self.judged.memory, sought=known)
        numbers = (*diagnosis.numbers, ("place", place_words(*self.here.place)), *known.numbers)
        found = replace(diagnosis, place=known.place, replicas=known.replicas, engine=known.engine)
        return replace(found, numbers=numbers), memory

    def _find_faster(self, figure: Figure | None) -> Sought:
        market, reason = self._market(), DecisionReason.PROMISE_OUT_OF_REACH
        digest = self._digest(market)
        found = figure and faster_place(self.situation, self.what_if.tenant, market, self.here, figure, self.rate)
        if not found:
            return Sought(reason, digest)
        numbers: Numbers = (
            ("to_place", place_words(*found.site.place)),
            ("to_replicas", found.replicas),
            ("to_ms", to_milliseconds(found.seconds)),
        )
        option = found.site.option
        bill = bill_of(self.what_if.tenant.pools, market, hourly_price)
        if bill and option.hourly_price is not None:
            to_bill = option.hourly_price * found.replicas
            numbers = (*numbers, ("bill", format_price(bill)), ("to_bill", format_price(to_bill)))
        return self._sought(reason, digest, found, numbers)

    def _sought(self, reason: DecisionReason, digest: int, found: Cheaper | Faster, numbers: Numbers) -> Sought:
        """Return what was found. Of another engine, what a replica holds and carries says why it is the better one."""
        site, tenant = found.site, self.what_if.tenant
        if site.engine == tenant.request.engine.name:
            return Sought(reason, digest, site.place, found.replicas, numbers)
        carries = round(60 * site.capacity(learned=True).per_second)
        holds = (("to_kv_tokens", site.model.kv_tokens), ("from_kv_tokens", self.here.model.kv_tokens))
        numbers = (*numbers, *_titles(tenant, site.engine), *holds, ("to_per_minute", carries))
        return Sought(reason, digest, site.place, found.replicas, numbers, site.engine)

    def cheaper(self, diagnosis: Diagnosis) -> tuple[Diagnosis, LoopMemory]:
        """Return the diagnosis that a cheaper place is free, if there is one."""
        known, market = self._known(DecisionReason.CHEAPER_PLACE), self._market()
        if market.is_contended:
            return diagnosis, self.judged.memory
        if self._is_due() and (known is None or known.digest != self._digest(market)):
            known = self._find_cheaper(market)
        memory = replace(self.judged.memory, sought=known)
        if known is None or known.place is None:
            return diagnosis, memory
        numbers = (*diagnosis.numbers, ("place", place_words(*self.here.place)), *known.numbers)
        kind, reason = DiagnosisKind.CHEAPER_ELSEWHERE, DecisionReason.CHEAPER_PLACE
        return Diagnosis(kind, reason, numbers, known.replicas, known.place, known.engine), memory

    def _find_cheaper(self, market: Market) -> Sought:
        digest, reason = self._digest(market), DecisionReason.CHEAPER_PLACE
        tenant, decision = self.what_if.tenant, self.what_if.decision
        found = cheaper_place(self.situation, tenant, decision, market, self.here, self.rate)
        if found is None:
            return Sought(reason, digest)
        numbers: Numbers = (
            ("bill", format_price(found.bill)),
            ("to_bill", format_price(found.to_bill)),
            ("saving_percent", to_percent(1 - found.to_bill / found.bill)),
            ("to_place", place_words(*found.site.place)),
            ("to_replicas", found.replicas),
        )
        return self._sought(reason, digest, found, numbers)

    def _known(self, reason: DecisionReason) -> Sought | None:
        known = self.judged.memory.sought
        return known if known is not None and known.reason == reason else None

    def _market(self) -> Market:
        assert self.what_if.market is not None  # noqa: S101 - checked by the caller
        return self.what_if.market()

    def _is_due(self) -> bool:
        return _is_due(self.judged, self.what_if.tenant.request.key)

    def _digest(self, market: Market) -> int:
        """Return a number that stands for what is free, for the prices and for the load."""
        lengths = self.here.lengths
        figures = (self.rate, lengths.prompt, lengths.output, lengths.cached, lengths.in_cache, self.here.slowness)
        rounded = tuple(round(math.log(max(each, 1e-3), ALIKE)) for each in figures)
        tenant, policy = self.what_if.tenant, self.situation.policy
        engines = tuple((each.engine.name, each.engine_rank) for each in (tenant.request, *tenant.request.alternatives))
        return hash((market.digest, rounded, tenant.request.replicas, tenant.spec, policy, engines))


def _search(situation: Situation, judged: Judged, what_if: WhatIf) -> _Search | None:
    """Return the search from the first active pool, which the loop learns about; None: too little is known."""
    traffic, wish, model = situation.load.traffic, judged.wish, judged.model
    pools = serving(what_if.tenant.pools)
    if traffic is None or traffic.lengths is None or wish is None or wish.capacity is None or model is None:
        return None
    if not pools or what_if.market is None or what_if.tenant.request.total is not None:
        return None
    hope = wish.capacity.per_second / capacity_of(model, traffic.lengths).per_second
    place, memory = pools[0].target.place, judged.memory
    startup = memory.expected_startup_seconds
    here = Site(place, model, traffic.lengths, memory.slowness, hope, startup)
    return _Search(situation, judged, what_if, here)


def _is_content(diagnosis: Diagnosis, situation: Situation) -> bool:
    """Whether nothing is to be changed here. Replicas that are idle because the user asks for them stay."""
    is_least = situation.placement.replicas <= situation.policy.min_replicas
    return diagnosis.kind is DiagnosisKind.NOTHING_TO_CHANGE or (diagnosis.kind is DiagnosisKind.IDLE and is_least)


def _is_calm(situation: Situation, judged: Judged) -> bool:
    """Whether the load has been steady, all is known of it, and nothing has been changed for the cool-down."""
    placement, traffic, memory, now = situation.placement, situation.load.traffic, judged.memory, situation.now
    if traffic is None or traffic.waiting >= 1 or traffic.preempted_share or situation.unknown or situation.stuck:
        return False
    if placement.ready != placement.replicas or placement.new_replicas or placement.updating:
        return False
    last, wait = situation.history.clamped(now).last(*ChangeKind), cooldown_seconds(situation)
    is_steady = now - memory.looks[0].at >= wait and (last is None or now - last >= wait)
    return is_steady and memory.missed_since is None and not _moved_for_a_promise(situation)


def _moved_for_a_promise(situation: Situation) -> bool:
    slow = DecisionReason.PROMISE_OUT_OF_REACH.value
    marks = situation.history.clamped(situation.now).changes
    return any(mark.reason == slow and situation.now - mark.at < SLOW_MOVE_SECONDS for mark in marks)
