"""The figures of one turn for metrics: they change at every scrape, and no decision reads them again."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.state.situation import Situation


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """One deployment at one moment. None: not known.

    Attributes:
        decision: the class of the decision, and ``reason`` its public word.
        reason: see ``decision``.
        diagnosis: what limits the replicas, or what else is wrong.
        target: replicas that are wanted.
        startup_seconds: the longest start-up seen.
        slowness: measured time per token over the performance model's.
        needed: replicas that the load needs now.
        arrivals: requests a second.
        capacity: requests a second that one replica carries.
        waiting: requests in queues, those of the gateway included.
        expected: requests a second that the days before let expect when a new replica serves; None: no more than now.
        at_gateway: those of them that wait at the gateway; None if there is none or its queue is unknown.
        running: requests in batches.
        kv_use: KV cache in use, 0 to 1.
        used_tokens: KV tokens in use in the pods that report, and ``held_tokens`` the KV cache that these pods have.
        held_tokens: see ``used_tokens``.
        slots: requests that these pods run at the same time at most; None if the engine's limit is not known.
        preempted_share: requests that lost their blocks over those that got a first token.
        ttft_seconds: mean time to the first token.
        token_seconds: mean time between two tokens.
        percentile: the promised percentile of the times, 50, 95 or 99; None: their mean is promised.
        ttft_percentile: that of the time to the first token in seconds.
        token_percentile: that of the time between two tokens.
    """

    decision: str
    reason: str
    diagnosis: str
    target: int
    startup_seconds: float | None
    slowness: float
    needed: int | None = None
    arrivals: float | None = None
    capacity: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_use: float | None = None
    ttft_seconds: float | None = None
    token_seconds: float | None = None
    at_gateway: float | None = None
    expected: float | None = None
    used_tokens: float | None = None
    held_tokens: int | None = None
    slots: int | None = None
    preempted_share: float | None = None
    percentile: int | None = None
    ttft_percentile: float | None = None
    token_percentile: float | None = None

    @property
    def pressure(self) -> float | None:
        """Needed replicas over wanted ones: above 1 there are too few."""
        return None if self.needed is None or not self.target else self.needed / self.target


def live_figures(situation: Situation, decided: LoopResult, target: int) -> LiveFigures:
    """Return the figures of a turn. ``target`` is the number of replicas that is wanted after it."""
    traffic, wish = situation.load.traffic, decided.wish
    capacity = None if wish is None else wish.capacity
    held, queue = situation.load.held_tokens, situation.load.gateway
    return LiveFigures(
        decision=type(decided.decision).__name__,
        reason=decided.decision.reason.value,
        diagnosis=decided.kind.value,
        target=target,
        startup_seconds=decided.memory.startup_seconds,
        slowness=decided.memory.slowness,
        needed=None if wish is None else wish.replicas,
        arrivals=None if traffic is None else traffic.arrivals.per_second,
        capacity=None if capacity is None else capacity.per_second,
        waiting=None if traffic is None else traffic.waiting,
        running=None if traffic is None else traffic.running,
        preempted_share=None if traffic is None else traffic.preempted_share,
        kv_use=None if traffic is None or not held else traffic.used_tokens / held,
        ttft_seconds=None if traffic is None else traffic.ttft_seconds,
        token_seconds=None if traffic is None else traffic.token_seconds,
        at_gateway=queue.waiting if queue is not None and queue.is_known else None,
        expected=None if wish is None or wish.coming is None else wish.coming.per_second,
        used_tokens=None if traffic is None else traffic.used_tokens,
        held_tokens=None if traffic is None or not held else held,
        slots=_slots(situation),
        percentile=None if situation.placement.model is None else situation.placement.model.slo.percentile,
        ttft_percentile=None if traffic is None or traffic.ttft_percentile is None else traffic.ttft_percentile.seconds,
        token_percentile=None
        if traffic is None or traffic.token_percentile is None
        else traffic.token_percentile.seconds,
    )


def _slots(situation: Situation) -> int | None:
    traffic, model = situation.load.traffic, situation.placement.model
    return None if traffic is None or model is None else traffic.pods * model.limits.sequences
