"""Additions under drawn loads: chance is no help, and longer requests are another load."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.signals.counted import Level, level_of
from plimsoll.rebalance.signals.metrics import COUNTS, EngineSample, PodSignals
from plimsoll.rebalance.signals.tracks import Track
from plimsoll.rebalance.state.additions import braked, called_by, with_results
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason
from plimsoll.rebalance.state.history import AdditionResult, ChangeHistory, ChangeKind, ChangeRecord, Verdict
from plimsoll.rebalance.state.situation import Situation
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, summary
from tests.support.live_situations import AUTO, situation
from tests.support.tables import everything

PERIOD = 15.0
SERVES_AFTER = 100.0
BEGIN = NOW + SERVES_AFTER
LONGEST = 1230.0
LOOKS = (135, 150, 180, 240, 300, 420, 540, 715)
"""Seconds after the addition serves. The last one is after the time for which samples are held."""

RUNS, BY_CHANCE = 12, 3
"""Courses of each drawn load, and in how many of them chance may mislead: a look that is wrong in one of forty is so
in more than three of twelve courses in one of 500 cases, if three looks are independent."""

PROMPT, ANSWER = 1000.0, 200.0


@dataclass(frozen=True)
class World:
    """One load: ``rate`` requests a second in all, on so many replicas, to which one is added.

    From the moment on at which the new one serves, the rate is ``served`` times as high, each pod has ``kv_after`` of
    its KV cache in use, and prompts and answers are ``longer`` times as long. ``noise`` is that of the readings: a part
    of a tenth of the KV cache, and of the square root of a queue.
    """

    rate: float
    rest: int
    seed: int = 0
    waiting: float = 0.0
    served: float = 1.0
    kv: float = 0.97
    kv_after: float = 0.97
    longer: float = 1.0
    noise: float = 0.0

    def courses(self) -> Iterator[World]:
        return (replace(self, seed=RUNS * self.seed + number) for number in range(RUNS))

    def samples(self) -> list[PodSignals]:
        rng = Random(self.seed)  # noqa: S311 - a draw that can be repeated
        return [
            PodSignals(f"p{number}", tuple(self._samples(rng, is_new=number == self.rest)))
            for number in range(self.rest + 1)
        ]

    def _samples(self, rng: Random, *, is_new: bool) -> Iterator[EngineSample]:
        prompts = answers = begun = 0.0
        at = (BEGIN if is_new else NOW - 900) + rng.random() * PERIOD
        queue = 0.0 if is_new else self.waiting / self.rest
        while at < BEGIN + LONGEST:
            is_after = at >= BEGIN
            pods, times = (self.rest + 1, self.served) if is_after else (self.rest, 1.0)
            length = self.longer if is_after else 1.0
            came = poisson(rng, PERIOD * self.rate * times / pods)
            begun, prompts = begun + came, prompts + sum_of(rng, came, length * PROMPT)
            answers += sum_of(rng, came, length * ANSWER)
            kv = (self.kv_after if is_after else self.kv) + rng.gauss(0, 0.1) * self.noise
            yield EngineSample(
                at=at,
                kv_usage=min(1.0, max(0.0, kv)),
                waiting=max(0.0, queue + rng.gauss(0, 1) * self.noise * math.sqrt(queue)),
                running=8.0,
                kv_capacity_tokens=KV_TOKENS,
                prompt_tokens_total=prompts,
                generation_tokens_total=answers,
                finished_total=begun,
                finished_prompt_tokens_total=prompts,
                finished_output_tokens_total=answers,
                first_tokens_total=begun,
            )
            at += PERIOD


def poisson(rng: Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    count, left = 0, rng.expovariate(1.0)
    while left < mean:
        count, left = count + 1, left + rng.expovariate(1.0)
    return count


def sum_of(rng: Random, count: int, mean: float) -> float:
    """The sum of lengths that vary as much as they are long."""
    return mean * (rng.gammavariate(count, 1.0) if count else 0.0)


def looked(
    world: World, reason: DecisionReason, looks: tuple[int, ...] = LOOKS, again: Again | None = None
) -> tuple[Verdict, bool]:
    """The verdict on the addition at last, and whether at any look one more would be made for the same figure."""
    pods, passed = world.samples(), False
    window = looks[0] if again else min(120, looks[0])
    before = seen(pods, world.rest, NOW, ChangeHistory(), window)
    called = called_by(reason, before)
    assert called is not None
    serves = AdditionResult(Verdict.SERVES, BEGIN)
    mark = ChangeRecord(NOW, ChangeKind.ADD, reason.value, world.rest + 1, 1, called, serves)
    facts = before
    history = ChangeHistory((mark,))
    for seconds in looks:
        facts = seen(pods, world.rest + 1, BEGIN + seconds, history, window, again)
        history = with_results(facts)
        passed |= braked(AddReplica(reason, (), 1), replace(facts, history=history)) is None
    result = history.changes[0].result
    assert result is not None
    return result.verdict, passed


@dataclass(frozen=True)
class Again:
    """The first pod begins again so many seconds after the addition serves: in another pod, or as a new container."""

    seconds: float
    name: str

    def of(self, pod: PodSignals, now: float) -> tuple[list[PodSignals], float]:
        """The pods that are read now, the last of which serves, and since when it does."""
        end = BEGIN + self.seconds
        old, new = ([each for each in pod.samples if (each.at > end) is is_new] for is_new in (False, True))
        if now <= end:
            return [pod], LONG_AGO
        new = [_less(each, new[0]) for each in new[1:]]
        if self.name == pod.pod:
            return [PodSignals(pod.pod, (*old, *new))], end
        return [PodSignals(pod.pod, tuple(old)), PodSignals(self.name, tuple(new))], end


def _less(sample: EngineSample, begin: EngineSample) -> EngineSample:
    names = [each for each in COUNTS if each.endswith("_total") and getattr(sample, each) is not None]
    return replace(sample, **{each: getattr(sample, each) - getattr(begin, each) for each in names})


def seen(
    pods: list[PodSignals],
    replicas: int,
    now: float,
    history: ChangeHistory,
    window: int = 120,
    again: Again | None = None,
) -> Situation:
    first, served = ([pods[0]], LONG_AGO) if again is None else again.of(pods[0], now)
    known = [
        PodSignals(pod.pod, tuple(each for each in pod.samples if now - 660 <= each.at <= now))
        for pod in (*first, *pods[1:replicas])
    ]
    since = {pod.pod: LONG_AGO for pod in pods[:replicas]} | ({pods[replicas - 1].pod: BEGIN} if now > NOW else {})
    since.pop(pods[0].pod)
    since[first[-1].pod] = served
    load = summary(*known, expected=since, now=now, ready_since=since, window=window)
    policy = replace(AUTO, window_seconds=window)
    return situation(load=load, replicas=replicas, ready=replicas, now=now, history=history, policy=policy)


QUEUE, KV = DecisionReason.SUSTAINED_QUEUE, DecisionReason.SUSTAINED_KV_PRESSURE
RATES = st.floats(math.log(4 / 60), math.log(20)).map(math.exp)
DRAWN = settings(max_examples=16 if everything() else 2, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A draw is of twelve courses of up to forty pods."""


@DRAWN
@example(rate=4 / 60, rest=1, noise=0.0, seed=0)
@example(rate=4 / 60, rest=30, noise=0.1, seed=1)
@given(rate=RATES, rest=st.integers(1, 39), noise=st.floats(0, 0.1), seed=st.integers(0, 10**6))
def test_chance_lets_no_further_addition_pass_however_few_requests_come(
    rate: float, rest: int, noise: float, seed: int
) -> None:
    """Requests wait for something that replicas do not give. A pod reads its figures with noise."""
    world = World(rate, rest, seed, waiting=10.0 * rest, noise=noise)
    found = [looked(each, QUEUE) for each in world.courses()]
    assert sum(passed for _, passed in found) <= BY_CHANCE
    assert Verdict.SERVES not in {verdict for verdict, _ in found}, "in time, all are judged"


@DRAWN
@example(rate=4 / 60, rest=1, seed=0)
@given(rate=st.floats(1, 4), rest=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_the_neighbour_that_serves_more_with_each_replica_is_not_held_back(rate: float, rest: int, seed: int) -> None:
    """More requests come than are served all along, so the queue does not fall."""
    world = World(rate * rest, rest, seed, waiting=10.0 * rest, served=(rest + 1) / rest, noise=0.1)
    found = [looked(each, QUEUE) for each in world.courses()]
    assert sum(verdict is not Verdict.HELPS for verdict, _ in found) <= BY_CHANCE


@pytest.mark.parametrize("rate", [20 / 60, 25 / 60, 30 / 60])
def test_an_addition_that_seems_to_help_stays_although_chance_may_explain_it(rate: float) -> None:
    """In ten minutes, 200 to 300 requests come: a sixth more of them is less than two and a half deviations.

    The courses are always the same ones, because a draw of so few may be any.
    """
    helps, looks = World(rate, 6, waiting=60.0, served=7 / 6, noise=0.1), (540, 715)

    def taken_back(world: World) -> int:
        found = [looked(replace(world, seed=seed), QUEUE, looks)[0] for seed in range(50)]
        return sum(verdict is Verdict.DOES_NOT_HELP for verdict in found)

    assert taken_back(helps) <= 15
    assert taken_back(replace(helps, served=1.0)) >= 20


@DRAWN
@example(rate=2.0, rest=1, times=2.0, seed=0)
@example(rate=2.0, rest=39, times=1.5, seed=0)
@given(rate=st.floats(2, 5), rest=st.integers(1, 39), times=st.floats(1.5, 2.0), seed=st.integers(0, 10**6))
def test_longer_requests_are_another_load_and_no_sign_that_an_addition_does_not_help(
    rate: float, rest: int, times: float, seed: int
) -> None:
    """No more requests come. As each is longer, as much of each KV cache is in use as before."""
    after = min(0.97, 0.9 * times * times * rest / (rest + 1))
    longer = World(rate * rest, rest, seed, kv=0.9, kv_after=after, longer=times, noise=0.1)
    alike = replace(longer, longer=1.0, kv_after=0.9)
    found = [looked(each, KV)[0] for each in longer.courses()]
    assert sum(verdict is not Verdict.HELPS for verdict in found) <= BY_CHANCE
    neighbours = [looked(each, KV)[0] for each in alike.courses()]
    assert sum(verdict is not Verdict.DOES_NOT_HELP for verdict in neighbours) <= BY_CHANCE


@DRAWN
@example(rate=2.0, rest=8, name="p0", seconds=540.0, seed=0)
@example(rate=2.0, rest=8, name="other", seconds=540.0, seed=0)
@given(
    rate=st.floats(2, 4),
    rest=st.integers(2, 8),
    name=st.sampled_from(["p0", "other"]),
    seconds=st.floats(300, 540),
    seed=st.integers(0, 10**6),
)
def test_what_pods_served_that_ended_or_began_again_is_not_missed_in_the_result(
    rate: float, rest: int, name: str, seconds: float, seed: int
) -> None:
    """The requests of such a pod are in no count, so counting begins after it."""
    again = Again(seconds, name)
    helps = World(rate * rest, rest, seed, waiting=10.0 * rest, served=(rest + 1) / rest, noise=0.1)
    looks = (600, 645, 690, 900, 1215)
    found = [looked(each, QUEUE, looks, again)[0] for each in helps.courses()]
    assert sum(verdict is not Verdict.HELPS for verdict in found) <= BY_CHANCE
    neighbours = [looked(each, QUEUE, looks, again)[0] for each in replace(helps, served=1.0).courses()]
    assert sum(verdict is not Verdict.DOES_NOT_HELP for verdict in neighbours) <= BY_CHANCE


@DRAWN
@example(rate=200 / 60, rest=4, seed=0)
@given(rate=st.floats(3, 10), rest=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_with_a_short_window_nothing_that_was_counted_before_is_the_result(rate: float, rest: int, seed: int) -> None:
    """Pods are read every 15 s, so for a while less than the usual time is counted since the addition serves."""
    looks = (30, 35, 40, 45, 60, 120, 300, 600)
    helps = World(rate, rest, seed, waiting=10.0 * rest, served=(rest + 1) / rest, noise=0.1)
    found = [looked(each, QUEUE, looks)[0] for each in helps.courses()]
    assert sum(verdict is not Verdict.HELPS for verdict in found) <= BY_CHANCE


def test_of_one_reading_it_is_not_known_how_far_it_is_from_the_mean() -> None:
    readings = [EngineSample(at=NOW + at, kv_usage=0.5, waiting=waiting) for at, waiting in ((0, 2.0), (15, 6.0))]
    pods = [Track("a", readings)]
    assert level_of(pods, lambda each: each.waiting or 0.0, NOW) == Level(6.0, math.inf)
    both = level_of(pods, lambda each: each.waiting or 0.0, NOW - 1)
    assert both is not None
    assert both.mean == 4.0
    assert both.error**2 == pytest.approx(8.0)


@pytest.mark.parametrize(("tokens", "most"), [(4_500, 1e9), (2**52, 2**63 - 1)])
def test_tokens_that_no_engine_reads_make_no_number_that_the_status_cannot_have(tokens: float, most: float) -> None:
    samples = tuple(
        EngineSample(
            at=at,
            kv_usage=0.97,
            waiting=10.0,
            prompt_tokens_total=part * tokens,
            generation_tokens_total=part * tokens,
            finished_total=9.0 * part,
            finished_output_tokens_total=part * tokens,
            first_tokens_total=9.0 * part,
        )
        for at, part in ((NOW - 60, 0.0), (NOW, 1.0))
    )
    load = summary(PodSignals("p0", samples))
    called = called_by(QUEUE, situation(load=load, replicas=1, ready=1, policy=AUTO))
    assert called is not None
    assert 0 < called.read_tokens <= most
