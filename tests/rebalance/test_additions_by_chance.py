"""Additions under drawn loads: chance is no help, and longer requests are another load."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.state.additions import braked, called_by, with_results
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason
from plimsoll.rebalance.state.history import AdditionResult, ChangeHistory, ChangeKind, ChangeRecord, Verdict
from plimsoll.rebalance.state.situation import Situation
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, summary
from tests.support.live_situations import AUTO, situation
from tests.support.tables import examples

PERIOD = 15.0
SERVES_AFTER = 100.0
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
        begin = NOW + SERVES_AFTER
        rng = Random(self.seed)  # noqa: S311 - a draw that can be repeated
        return [
            PodSignals(f"p{number}", tuple(self._samples(rng, begin, is_new=number == self.rest)))
            for number in range(self.rest + 1)
        ]

    def _samples(self, rng: Random, begin: float, *, is_new: bool) -> Iterator[EngineSample]:
        prompts = answers = begun = 0.0
        at = (begin if is_new else NOW - 900) + rng.random() * PERIOD
        queue = 0.0 if is_new else self.waiting / self.rest
        while at < NOW + SERVES_AFTER + LOOKS[-1]:
            is_after = at >= begin
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


def looked(world: World, reason: DecisionReason) -> tuple[Verdict, bool]:
    """The verdict on the addition at last, and whether at any look one more would be made for the same figure."""
    pods, passed = world.samples(), False
    before = seen(pods, world.rest, NOW, ChangeHistory())
    called = called_by(reason, before)
    assert called is not None
    serves = AdditionResult(Verdict.SERVES, NOW + SERVES_AFTER)
    mark = ChangeRecord(NOW, ChangeKind.ADD, reason.value, world.rest + 1, 1, called, serves)
    facts = before
    history = ChangeHistory((mark,))
    for seconds in LOOKS:
        facts = seen(pods, world.rest + 1, NOW + SERVES_AFTER + seconds, history)
        history = with_results(facts)
        passed |= braked(AddReplica(reason, (), 1), replace(facts, history=history)) is None
    result = history.changes[0].result
    assert result is not None
    return result.verdict, passed


def seen(pods: list[PodSignals], replicas: int, now: float, history: ChangeHistory) -> Situation:
    known = [
        PodSignals(pod.pod, tuple(each for each in pod.samples if now - 660 <= each.at <= now))
        for pod in pods[:replicas]
    ]
    since = {pod.pod: LONG_AGO for pod in known[:-1]} | {known[-1].pod: NOW + SERVES_AFTER if now > NOW else LONG_AGO}
    load = summary(*known, now=now, ready_since=since)
    return situation(load=load, replicas=replicas, ready=replicas, now=now, history=history, policy=AUTO)


QUEUE, KV = DecisionReason.SUSTAINED_QUEUE, DecisionReason.SUSTAINED_KV_PRESSURE
RATES = st.floats(math.log(4 / 60), math.log(20)).map(math.exp)
DRAWN = settings(max_examples=examples(8), deadline=None, phases=(Phase.explicit, Phase.generate))


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
    assert {verdict for verdict, _ in found} <= {Verdict.DOES_NOT_HELP, Verdict.HELPS}, "in time, all are judged"


@DRAWN
@example(rate=4 / 60, rest=1, seed=0)
@given(rate=st.floats(1, 4), rest=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_the_neighbour_that_serves_more_with_each_replica_is_not_held_back(rate: float, rest: int, seed: int) -> None:
    """More requests come than are served all along, so the queue does not fall."""
    world = World(rate * rest, rest, seed, waiting=10.0 * rest, served=(rest + 1) / rest, noise=0.1)
    found = [looked(each, QUEUE) for each in world.courses()]
    assert sum(verdict is not Verdict.HELPS for verdict, _ in found) <= BY_CHANCE


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
