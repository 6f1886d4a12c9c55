"""What the live loop decides in drawn courses of events, with the figures that it decides from.

Nobody says that these decisions are the best ones: ``make bench-rebalance`` measures that. They are kept so that a
change of a law or of a constant shows the situations in which it decides otherwise. ``make goldens`` takes it over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance.decide import LoopResult, decide, kind_of
from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.signals.forecast import STEP_SECONDS, Past, Point, Season, expected_within, season_of, step_of
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.state.decisions import Keep, Wait
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from tests.support.engine_loads import LONG_AGO, NOW, Serves, moments, replica_model, summary, track
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import placed

KEPT_DECISIONS = Path(__file__).parent / "data" / "decisions.jsonl"
COURSES, TURNS = 100, 6
SEASONS = 60
DAY_SECONDS = 86_400.0
KINDS = (ChangeKind.ADD, ChangeKind.REMOVE, ChangeKind.MOVE, ChangeKind.RETUNE, ChangeKind.ROLL_BACK)
DIGITS = 5
"""Of each figure: as many as no rounding of a processor reaches."""


def kept_decisions() -> Iterator[tuple[Path, str]]:
    """The file with the decisions, a line for each turn, and with expectations of seasons, with its text."""
    lines = [*(line for seed in range(COURSES) for line in _course(seed)), *map(_season, range(SEASONS))]
    yield KEPT_DECISIONS, "".join(f"{json.dumps(line)}\n" for line in lines)


def _course(seed: int) -> Iterator[dict[str, Any]]:
    """Play some turns of one deployment. Its load changes once, and what it decides is carried out."""
    dice = Random(seed)  # noqa: S311 - a simulation
    replicas, model, policy = dice.randint(1, 4), _model(dice), _policy(dice)
    loads = _loads(dice)
    later = dice.choice((_loads(dice), [_easy(load) for load in loads]))
    change, memory, history = dice.randint(0, 3), LoopMemory(), _history(dice)
    startup, new, now = dice.choice((30.0, 240.0, 900.0)), dice.choice((0.0, 0.0, 100.0, 700.0)), NOW
    what_if = dice.choice((room_for_all, room_for_all, no_room))
    for turn in range(TURNS):
        serving = [(loads if turn < change else later)[index % 4] for index in range(replicas)]
        situation = Situation(
            DeclaredNeed(dice.choice((0, model.kv_tokens // 2, 2 * model.kv_tokens)), 60),
            placed(replicas, model=model, kv_capacity_tokens=model.kv_tokens, startup_seconds=startup),
            _summed(serving, policy, model, now, new, dice),
            history,
            now,
            policy,
            memory,
        )
        found = decide(situation, what_if(replicas))
        yield {"course": seed, "turn": turn, **_said(found), **_figures(situation)}
        memory = found.memory
        if not isinstance(found.decision, Keep | Wait) and policy.mode is Mode.AUTO:
            kind = kind_of(found.decision)
            history = history.recorded(ChangeRecord(now, kind))
            replicas += {ChangeKind.ADD: 1, ChangeKind.REMOVE: -1}.get(kind, 0)
        now += dice.choice((15.0, 60.0, 240.0))


def _loads(dice: Random) -> list[Serves]:
    """Four engines, alike or with one that is not, which serve little or more than they can."""
    usual = Serves(
        rate=dice.choice((0.0, dice.uniform(0, 2), dice.uniform(0, 6) ** 2)),
        prompt=dice.uniform(20, 6000),
        output=dice.choice((dice.uniform(0.3, 3), dice.uniform(2, 900), dice.uniform(2, 900))),
        cached=dice.choice((0.0, 0.0, 0.6)),
        token_seconds=dice.uniform(0.01, 0.09),
        first_token_seconds=dice.uniform(0.05, 3.0),
        waiting=dice.choice((0.0, 0.0, 0.0, dice.uniform(0, 9), dice.uniform(0, 90))),
        running=dice.uniform(0, 200),
        kv_usage=dice.choice((dice.uniform(0, 1), dice.uniform(0.9, 1))),
    )
    odd = replace(usual, rate=usual.rate * dice.uniform(0, 3), waiting=usual.waiting + dice.uniform(0, 30))
    return [usual, dice.choice((usual, usual, odd)), usual, usual]


def _easy(load: Serves) -> Serves:
    return replace(load, rate=load.rate / 20, waiting=0.0, running=load.running / 20, kv_usage=load.kv_usage / 20)


def _summed(
    serving: list[Serves], policy: RebalancePolicy, model: ReplicaModel, now: float, new: float, dice: Random
) -> LoadSummary:
    """The engines' samples, whose rates go up and down by chance; the last replica may have begun ``new`` s ago."""
    pods, since = [], {}
    for index, load in enumerate(serving):
        name, phase = f"p{index}", dice.choice((0.0, 0.0, 0.0, 40.0, 130.0))
        swing, period = dice.uniform(0, 0.3), dice.uniform(60, 900)
        began = now - new if new and index == len(serving) - 1 and index else LONG_AGO

        def came(at: float, load: Serves = load, swing: float = swing, period: float = period) -> float:
            steady = at - LONG_AGO
            return load.rate * (steady + swing * period * math.sin(steady / period) / 2)

        times = [at for at in moments(end=now, phase=phase) if at >= began]
        served = replace(load, capacity=dice.choice((model.kv_tokens, None)))
        changed, longer, ranks = now - dice.uniform(0, 900), dice.choice((0.0, 0.0, 1.5)), dice.choice((1, 1, 2))
        samples = [
            _over_ranks(_after(each, changed, longer * load.output * (came(each.at) - came(changed))), ranks)
            for each in track(served, times, came=came, pod=name).samples
        ]
        pods.append(PodSignals(name, tuple(samples)))
        since[name] = began
    summed = summary(*pods, now=now, window=policy.window_seconds, ready_since=since, capacity=model.kv_tokens)
    rates = tuple(sum(load.rate for load in serving) * dice.uniform(0.5, 3) for _ in range(8))
    season = Season(step_of(now) - 1, rates, dice.uniform(0.5, 1.5), dice.randint(2, 7), dice.uniform(0, 0.3))
    return replace(summed, season=dice.choice((None, season)))


def _after(sample: EngineSample, changed: float, tokens: float) -> EngineSample:
    """The sample where answers have been longer since a moment, by so many tokens together."""
    if sample.at <= changed or not tokens:
        return sample
    totals = ("generation_tokens_total", "finished_output_tokens_total", "token_gaps_total")
    return replace(sample, **{name: getattr(sample, name) + tokens for name in totals})


def _over_ranks(sample: EngineSample, ranks: int) -> EngineSample:
    """The sample of an engine with so many data-parallel ranks, whose use goes up and down."""
    if ranks == 1:
        return sample
    use, queue = sample.kv_usage or 0.0, sample.waiting or 0.0
    swing = 1 + 0.3 * math.sin(sample.at / 40)
    uses = (min(1.0, use * swing), *(use / 3 for _ in range(ranks - 1)))
    return replace(sample, rank_usages=uses, rank_queues=(queue * swing, *(0.0 for _ in range(ranks - 1))))


def _model(dice: Random) -> ReplicaModel:
    usual = replica_model(dice.choice((40_000, 400_000)), dice.choice((16, 64, 256)))
    promised = Slo(ttft_seconds=dice.choice((None, 0.5, 2.0, 5.0)), tpot_seconds=dice.choice((None, 0.02, 0.05, 0.1)))
    return replace(usual, slo=promised).limited(StepLimits(dice.choice((2048, 8192))))


def _policy(dice: Random) -> RebalancePolicy:
    least = dice.randint(0, 2)
    return RebalancePolicy(
        mode=dice.choice((Mode.AUTO, Mode.AUTO, Mode.RECOMMEND)),
        min_replicas=max(1, least),
        max_replicas=dice.randint(3, 9),
        changes_per_hour=dice.choice((2, 6, 60)),
        reversals_per_hour=dice.choice((0, 2, 20)),
        window_seconds=dice.choice((60, 120, 300)),
        cooldown_seconds=dice.choice((0, 10, 60)),
    )


def _history(dice: Random) -> ChangeHistory:
    marks = (ChangeRecord(NOW - dice.uniform(0, 5000), dice.choice(KINDS)) for _ in range(dice.randint(0, 3)))
    return ChangeHistory(tuple(sorted(marks, key=lambda mark: mark.at)))


def _said(found: LoopResult) -> dict[str, Any]:
    decision = found.decision
    said: dict[str, Any] = {"decision": type(decision).__name__, "reason": decision.reason, "kind": found.kind}
    if not isinstance(decision, Keep | Wait):
        held = getattr(decision, "limits", decision)
        said |= {name: getattr(held, name) for name in ("count", "sequences", "step_tokens") if hasattr(held, name)}
    if found.wish is not None:
        wish = found.wish
        said["wish"] = [wish.replicas, wish.need, wish.enough, _rounded(wish.rate), wish.kept]
    return said | {"numbers": {name: _rounded(value) for name, value in decision.numbers}}


def _figures(situation: Situation) -> dict[str, Any]:
    """What the load is taken for, and what a replica carries of it: with its promises kept, and at the most."""
    traffic, model = situation.load.traffic, situation.placement.model
    if traffic is None:
        return {"load": situation.load.state}
    rates = [_rounded(rate.per_second) for rate in (traffic.steady, traffic.recent, traffic.latest, traffic.arrivals)]
    now = traffic.waiting, traffic.running, traffic.used_tokens, traffic.served
    seconds = traffic.ttft_seconds, traffic.token_seconds, traffic.preempted_share
    said = {
        "load": situation.load.state,
        "rates": rates,
        "now": [_rounded(each) for each in now],
        "seconds": [_rounded(each) for each in seconds],
        "ranks": [[_rounded(usage) for usage in load.rank_uses] for load in traffic.loads if load.rank_uses],
    }
    if traffic.lengths is None or model is None:
        return said
    carried = [capacity_of(model, traffic.lengths, promised=promised) for promised in (True, False)]
    return said | {
        "lengths": [_rounded(each) for name, each in vars_of(traffic.lengths).items() if name != "behind"],
        "carries": [[_rounded(each.running), _rounded(each.per_second), each.limit, each.bound] for each in carried],
    }


def _season(seed: int) -> dict[str, Any]:
    """What is expected in the next hour after some days with a morning each."""
    dice = Random(seed)  # noqa: S311 - a simulation
    days, noise, hole = dice.randint(1, 8), dice.choice((0.0, 0.1, 0.5)), dice.choice((0.0, 0.0, 0.2))
    midnight = NOW // DAY_SECONDS * DAY_SECONDS
    now = midnight + dice.uniform(6, 10) * 3600
    begin, height = dice.uniform(6, 10) * 3600, dice.uniform(1, 30)

    def rate(at: float) -> float:
        into = (at - midnight) % DAY_SECONDS
        level = 1 + height * max(0.0, min(1.0, (into - begin) / 5400))
        return level * (1 + noise * dice.uniform(-1, 1))

    steps = range(int((midnight - days * DAY_SECONDS) // STEP_SECONDS), int(now // STEP_SECONDS) + 1)
    points = [Point(step * STEP_SECONDS, rate(step * STEP_SECONDS)) for step in steps if dice.random() >= hole]
    startup = dice.choice((300.0, 900.0, 1800.0))
    season = season_of(Past().with_points(points, now), now, startup, startup + 1200)
    said: dict[str, Any] = {"season": seed}
    if season is None:
        return said
    found = expected_within(season, now, startup, rate(now))
    said |= {"today": _rounded(season.today), "days": season.days, "error": _rounded(season.error)}
    said |= {
        "rates": [_rounded(each) for each in (season.at(now + 600 * step) for step in range(-2, 8)) if each is not None]
    }
    return said | ({} if found is None else {"expected": _rounded(found.per_second), "at": _rounded(found.at - now)})


def vars_of(value: Any) -> dict[str, Any]:
    """The fields of an object with slots."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
