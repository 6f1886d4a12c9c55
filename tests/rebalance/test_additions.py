"""Additions as hypotheses: what does not serve, or changes nothing, is taken back, and tried again after a pause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from plimsoll.api.v1alpha1.status import ChangeStatus
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.units import to_rfc3339
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.signals.traffic import Rate
from plimsoll.rebalance.state.additions import (
    IN_VAIN,
    brake_of,
    braked,
    called_by,
    has_risen,
    is_better,
    pause_seconds,
    replicas_without,
    with_results,
)
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, RemoveReplica, Wait
from plimsoll.rebalance.state.history import AdditionResult, Called, ChangeHistory, ChangeKind, ChangeRecord, Verdict
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.situation import Newcomer, Serving, Situation
from plimsoll.rebalance.why import sentence
from plimsoll.status.record.loop import MARK
from tests.support.engine_loads import NOW, Serves, moments, pod, replica_model, summary, traffic
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import AUTO, BUSY, CAPACITY, EASY, situation
from tests.support.tables import examples

CLOCK_SECONDS = 5.0
TRY_SECONDS = 1800.0
FIRST_PAUSE_SECONDS = 1800.0
LONGEST_PAUSE_SECONDS = 4800.0
PATIENT_SECONDS = 900.0

STEP, STARTUP = 30.0, 90.0
COUNTED = 600
PULL = "ErrImagePull: manifest unknown"
MORE = Serves(rate=1.16 * CAPACITY, running=0.5, kv_usage=0.001)
"""One replica more is needed than serve. So few run at a scrape that it teaches nothing of their speed."""

FULL = Serves(rate=0.0, running=1, kv_usage=0.97)
DO_NOT_SERVE, DO_NOT_HELP = DecisionReason.ADDITIONS_DO_NOT_SERVE, DecisionReason.ADDITIONS_DO_NOT_HELP


@dataclass(frozen=True)
class Fate:
    """The pods of an addition: after how long they serve (None: never), and what is said of them."""

    seconds: float | None = STARTUP
    words: str = ""
    failures: int = 0


SERVES, SILENT, FAILS = Fate(), Fate(None), Fate(None, PULL, failures=2)
ONCE = Fate(None, "KeyError: 'x'", failures=1)
LOST = Fate(None, "0/3 nodes are available")


@dataclass
class Pod:
    born: float
    fate: Fate

    def serves(self, now: float) -> bool:
        return self.fate.seconds is not None and now >= self.born + self.fate.seconds


@dataclass
class Course:
    """One deployment under a load, whose additions have these fates, and the last one from then on.

    The load is one for each pod, or ``is_shared`` by all.
    """

    fates: list[Fate]
    load: Serves = MORE
    is_shared: bool = False
    policy: Any = AUTO
    startup: float | None = STARTUP
    now: float = NOW
    model: Any = field(default_factory=replica_model)
    pods: list[Pod] = field(default_factory=lambda: [Pod(0.0, SERVES)])
    wanted: int = 1
    history: ChangeHistory = field(default_factory=ChangeHistory)
    memory: LoopMemory = field(default_factory=LoopMemory)
    said: list[LoopResult] = field(default_factory=list)
    peak: int = 1
    additions: int = 0
    step: float = STEP

    @property
    def serving(self) -> list[Pod]:
        return [pod for pod in self.pods if pod.serves(self.now)]

    def situation(self) -> Situation:
        serving = self.serving
        starting = [pod for pod in self.pods if pod not in serving]
        load = replace(self.load, rate=self.load.rate / len(serving)) if self.is_shared else self.load
        return situation(
            *[load for _ in serving],
            replicas=self.wanted,
            policy=self.policy,
            history=self.history,
            memory=replace(self.memory, startup_seconds=self.startup),
            now=self.now,
            model=self.model,
            settled_since=max(pod.born + (pod.fate.seconds or 0) for pod in serving),
            starting_since=tuple(pod.born for pod in starting),
            newcomers=tuple(Newcomer(pod.born, pod.fate.words, pod.fate.failures) for pod in starting),
            serving=tuple(
                Serving(f"p{index}", "n", pod.born + (pod.fate.seconds or 0), pod.born)
                for index, pod in enumerate(serving)
            ),
        )

    def play(self, seconds: float) -> Course:
        for _ in range(round(seconds / self.step)):
            self.turn()
        return self

    def turn(self) -> None:
        self.now += self.step
        decided = decide(self.situation(), room_for_all(self.wanted))
        self.said.append(decided)
        self.memory, self.history = decided.memory, decided.history
        change = decided.decision
        before = len(self.serving)
        if isinstance(change, AddReplica | RemoveReplica):
            self.wanted += change.count if isinstance(change, AddReplica) else -change.count
            self.history = decided.recorded(self.now, self.wanted)
        if isinstance(change, AddReplica):
            fate = self.fates[min(self.additions, len(self.fates) - 1)]
            self.additions += 1
            self.pods += [Pod(self.now, fate) for _ in range(change.count)]
        if isinstance(change, RemoveReplica):
            by_service = sorted(self.pods, key=lambda pod: (not pod.serves(self.now), pod.born))
            self.pods = by_service[: self.wanted]
        if isinstance(change, RemoveReplica) and change.reason is DO_NOT_SERVE:
            assert len(self.serving) == before, "what serves is never taken back"
        self.peak = max(self.peak, len(self.pods))
        self.history = restarted(self.history)

    def kinds(self) -> list[str]:
        return [mark.kind.value for mark in self.history.changes]

    @property
    def reasons(self) -> set[DecisionReason]:
        return {each.decision.reason for each in self.said}


def restarted(history: ChangeHistory) -> ChangeHistory:
    """The history as another process reads it from the status, which has whole seconds."""
    entries = (ChangeStatus.model_validate(MARK.fields(mark)) for mark in history.changes)
    return ChangeHistory(tuple(map(MARK.read, entries)))


def test_what_a_status_says_of_an_addition_reads_back_as_it_was() -> None:
    course = Course([FAILS], policy=replace(AUTO, dollars_per_hour=None)).play(600)
    assert restarted(course.history) == course.history
    assert any(mark.result is not None and mark.result.words == PULL for mark in course.history.changes)
    entry = MARK.fields(course.history.changes[0])
    for broken in ({"verdict": "Guess"}, {"at": "soon"}, {"in_a_row": -4}, {"after": -1}):
        read = MARK.read(ChangeStatus.model_validate(entry | {"result": entry["result"] | broken}))
        assert read.result is None, "it is judged anew"


@pytest.mark.parametrize(
    ("fate", "last_taken_back"),
    [(FAILS, 300), (ONCE, 420), (SILENT, PATIENT_SECONDS + 260), (LOST, PATIENT_SECONDS + 260)],
)
def test_additions_that_never_serve_stop_after_two_and_all_but_one_are_taken_back_in_time(
    fate: Fate, last_taken_back: float
) -> None:
    course = taken_back(Course([fate]))
    assert course.now - NOW <= last_taken_back
    assert (course.kinds().count("Add"), course.peak, course.wanted) == (2, 3, 2)
    assert "One goes on trying until 20" in sentence(course.said[-1].decision)
    course.play(STEP)
    wait = course.said[-1].decision
    assert (type(wait), wait.reason) == (Wait, DO_NOT_SERVE)
    words = sentence(wait)
    assert "no replica of 2 additions began to serve" in words
    assert (fate.words or "nothing says why: look at the events and the log of a pod that is not ready") in words
    assert "One goes on trying until 20" in words
    assert "; the next try comes at 20" in words
    begun = course.now
    while course.wanted == 2:
        course.turn()
    assert TRY_SECONDS - 2 * STEP <= course.now - begun <= TRY_SECONDS + STEP
    assert (course.kinds(), course.peak, course.wanted) == (["Add", "Add", "TakeBack", "TakeBack"], 3, 1)
    assert sentence(course.said[-1].decision).endswith("What does not serve is taken back.")


@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize("fate", [FAILS, ONCE, SILENT, LOST])
def test_one_addition_that_takes_all_the_room_is_taken_back_once_its_pods_had_all_their_time(
    fate: Fate, most: int
) -> None:
    """No second one can follow it. Its pods held GPUs for ever."""
    load = replace(MORE, rate=(most + 1) * CAPACITY)
    course = taken_back(Course([fate], load=load, policy=replace(AUTO, max_replicas=most)))
    assert (
        PATIENT_SECONDS <= course.now - NOW <= PATIENT_SECONDS + STARTUP + 2 * STEP + (0 if most > 2 else TRY_SECONDS)
    )
    assert (course.additions, course.peak) == (1, most)
    assert course.wanted == (2 if most > 2 else 1), "one goes on trying for a while"
    course.play(STEP)
    assert "no replica of 1 addition began to serve" in sentence(course.said[-1].decision)
    course.play(TRY_SECONDS + 2 * STEP if most > 2 else 0)
    assert course.wanted == 1
    course.fates, course.additions = [SERVES], 0
    course.play(FIRST_PAUSE_SECONDS + STARTUP + 4 * STEP)
    assert len(course.serving) >= 2, "the next try serves"


@pytest.mark.parametrize("late", [STARTUP, PATIENT_SECONDS - STEP, PATIENT_SECONDS + 300])
def test_one_addition_that_serves_in_the_end_is_no_longer_in_vain(late: float) -> None:
    load = replace(MORE, rate=3 * CAPACITY)
    course = Course([Fate(late)], load=load, policy=replace(AUTO, max_replicas=2)).play(PATIENT_SECONDS + 900)
    assert (course.kinds(), len(course.serving)) == (["Add"], 2)
    assert brake_of(course.situation()) is None


def taken_back(course: Course) -> Course:
    """Play until something is taken back."""
    while "TakeBack" not in course.kinds() and course.now < NOW + 3600:
        course.turn()
    return course


@pytest.mark.parametrize("fate", [FAILS, ONCE, SILENT, LOST])
def test_what_is_mended_meanwhile_serves_without_another_addition(fate: Fate) -> None:
    course = taken_back(Course([fate]))
    course.play(TRY_SECONDS / 2)
    course.pods[-1].fate = Fate(course.now - course.pods[-1].born + STEP)
    course.fates = [SERVES]
    course.play(2 * STEP)
    assert (course.kinds().count("TakeBack"), len(course.serving)) == (1, 2)
    assert course.wanted == 3, "the load asks for more, and no pause holds it back"
    course.play(600)
    assert brake_of(course.situation()) is None
    assert len(course.serving) > 3


@pytest.mark.parametrize("fate", [FAILS, SILENT])
def test_one_try_follows_each_pause_and_the_pauses_grow(fate: Fate) -> None:
    course = Course([fate])
    tries: list[float] = []
    ends: list[float] = []
    for _ in range(round(9 * 3600 / STEP)):
        wanted = course.wanted
        course.turn()
        if course.wanted > wanted:
            tries.append(course.now)
        elif course.wanted < wanted:
            ends.append(course.now)
    assert ends[1] - ends[0] >= TRY_SECONDS
    assert all(end - begun >= TRY_SECONDS for begun, end in zip(tries[2:], ends[2:], strict=False))
    pauses = [later - earlier for earlier, later in zip(ends[1:], tries[2:], strict=False)]
    allowed = [min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**index) for index in range(len(pauses))]
    assert len(pauses) >= 4
    assert all(at_least <= pause <= at_least + 2 * STEP for pause, at_least in zip(pauses, allowed, strict=True))
    assert course.peak == 3, "one more than serves, after the first two"


@pytest.mark.parametrize("fate", [FAILS, SILENT])
def test_a_second_addition_while_the_first_still_starts_counts_as_the_second_in_a_row(fate: Fate) -> None:
    """More requests come while nothing is known of the first one."""
    course = Course([fate]).play(STEP)
    course.load = replace(BUSY, rate=1.5 * BUSY.rate)
    course.play(1.5 * STARTUP)
    known = course.additions
    assert known >= 2
    course.play(500)
    assert course.additions == known, "none after the first verdict, because the second is awaited and fails, too"
    verdicts = {mark.result.verdict for mark in course.history.changes if mark.result is not None}
    assert verdicts == {Verdict.DOES_NOT_SERVE}


def test_one_addition_that_fails_counts_once_whatever_was_undone_before_it_served() -> None:
    """The load fell while the first one started, and rose again. One bad node holds back no further replica."""
    undone = ChangeRecord(NOW - 900, ChangeKind.ADD, "R", 2, added=1)
    fails = ChangeRecord(NOW - 200, ChangeKind.ADD, "R", 2, added=1)
    pod_of_it = (Newcomer(NOW - 190, PULL, 2),)
    between = ChangeRecord(NOW - 500, ChangeKind.REMOVE, "R", 1)
    facts = situation(EASY, replicas=2, newcomers=pod_of_it, history=ChangeHistory((undone, between, fails)))
    assert [mark.result and mark.result.in_a_row for mark in with_results(facts).changes] == [None, None, 1]
    both = replace(facts, history=ChangeHistory((undone, replace(fails, replicas=3))))
    both = replace(both, placement=replace(both.placement, replicas=3, newcomers=(*pod_of_it, *pod_of_it)))
    assert [mark.result and mark.result.in_a_row for mark in with_results(both).changes] == [1, 2], "two that stay fail"


@pytest.mark.parametrize(
    ("arrivals", "served", "before", "now", "better"),
    [
        (0, 0, 97, FULL, False),
        (200, 200, 97, FULL, False),
        (60, 60, 97, replace(FULL, rate=1.0), False),
        (60, 60, 97, replace(FULL, rate=1.1), False),
        (20, 20, 97, replace(FULL, rate=1.0), True),
        (60, 20, 97, replace(FULL, rate=1.0), True),
        (200, 200, 97, replace(FULL, kv_usage=0.8), True),
        (0, 0, 97, replace(FULL, kv_usage=0.93), False),
        (200_000, 24_000, 97, replace(FULL, rate=420.0), False),
        (200_000, 24_000, 97, replace(FULL, rate=450.0), True),
    ],
    ids=str,
)
def test_an_addition_helps_if_its_figure_falls_more_is_served_or_more_come_and_not_if_fewer_come(
    arrivals: int, served: int, before: int, now: Serves, *, better: bool
) -> None:
    called = Called("kv_percent", before, arrivals, served, COUNTED)
    assert bool(is_better(added_to(2, called), situation(now))) is better


def added_to(replicas: int, called: Called, added: int = 1) -> ChangeRecord:
    """An addition that led to so many replicas, as long ago as samples are held."""
    return ChangeRecord(NOW - COUNTED, ChangeKind.ADD, "SustainedQueue", replicas, added, called)


@pytest.mark.parametrize("replicas", [2, 5, 10, 11, 40])
@pytest.mark.parametrize("figure", ["kv_percent", "waiting"])
def test_an_addition_that_does_all_that_it_can_helps_however_many_there_were(figure: str, replicas: int) -> None:
    """The load spreads over one replica more: each holds that much less, or so many more requests are served."""
    before = replicas - 1
    called = Called(figure, 97 if figure == "kv_percent" else 40 * before, 200 * before, 60 * before, COUNTED)
    pods = {
        "kv_percent": (replace(FULL, kv_usage=0.97 * before / replicas), FULL),
        "waiting": (replace(BUSY, rate=1.0, waiting=40), replace(BUSY, rate=before / replicas, waiting=40)),
    }
    helps, in_vain = pods[figure]
    mark = added_to(replicas, called)
    assert is_better(mark, situation(*[helps] * replicas))
    assert not is_better(mark, situation(*[in_vain] * replicas))


@pytest.mark.parametrize(("replicas", "added", "times"), [(2, 1, 1.4), (7, 6, 3.5), (7, 7, 1.4)])
def test_an_addition_with_which_clearly_more_is_served_helps_although_it_could_do_more(
    replicas: int, added: int, times: float
) -> None:
    """The queue stays, because more requests come than are served. The new replicas may be slower ones."""
    mark = added_to(replicas, Called("waiting", 40, 9000, 600, COUNTED), added)

    def served(factor: float) -> Situation:
        return situation(*[replace(BUSY, rate=10 * factor / replicas, waiting=40)] * replicas)

    assert is_better(mark, served(times))
    assert not is_better(mark, served(1.05))
    unknown = replace(mark, added=0, called=Called("waiting", 30, 9000, 600))
    assert not is_better(unknown, served(1.05)), "nothing is known of its share of the load"


@settings(max_examples=examples(8), deadline=None, phases=(Phase.explicit, Phase.generate))
@example(fates=[SILENT, SERVES, FAILS, FAILS, SERVES])
@given(fates=st.lists(st.sampled_from([SERVES, SILENT, FAILS, Fate(250.0)]), min_size=1, max_size=3))
def test_whatever_becomes_of_additions_what_serves_stays_and_no_more_than_two_in_a_row_fail(fates: list[Fate]) -> None:
    course = Course([*fates, SERVES], policy=replace(AUTO, max_replicas=6))
    course.play(12_000)
    assert len(course.serving) >= 2, "the last ones serve, whatever came before"
    failed = [mark for mark in course.history.changes if mark.result and mark.result.verdict is Verdict.DOES_NOT_SERVE]
    assert all(later.at - earlier.at >= STEP for earlier, later in pairwise(failed))
    if not {SILENT, FAILS} & {*fates}:
        assert "TakeBack" not in course.kinds()
        assert (course.wanted, len(course.serving)) == (6, 6)
    if {*fates} == {SERVES}:
        assert course.reasons.isdisjoint(IN_VAIN.values()), "an honest deployment never meets the brake"


def test_while_the_last_one_goes_on_the_status_says_why_it_does_not_serve_and_not_that_replicas_start() -> None:
    course = taken_back(Course([FAILS])).play(STEP)
    course.load = EASY
    course.play(300)
    said = course.said[-1].decision
    assert (type(said), said.reason) == (Wait, DO_NOT_SERVE)
    assert PULL in sentence(said)
    assert "One goes on trying until 20" in sentence(said)
    starting = Course([Fate(250.0)]).play(3 * STEP).said[-1].decision
    assert sentence(starting) == "Waiting: 1 of 2 replicas is ready; a start-up is expected to take 90 s."


def test_a_replica_of_which_nothing_is_said_may_start_for_longer_than_one_that_failed_twice() -> None:
    """A first start-up is expected to take 300 s, and is stuck after 450. A lost image is known at once."""
    for fate, early in ((SILENT, [None]), (FAILS, [Verdict.DOES_NOT_SERVE])):
        course = Course([fate], startup=None)
        while course.wanted == 1:
            course.turn()
        course.play(360)
        assert [mark.result and mark.result.verdict for mark in course.history.changes if mark.added][:1] == early
        course.play(120)
        assert course.history.changes[0].result is not None


def test_a_first_start_that_takes_longer_than_anybody_knew_is_waited_for() -> None:
    """Expected are 300 s, stuck are 450 s; it takes 800 s, and each addition as long."""
    course = Course([Fate(800.0)], load=replace(MORE, rate=2.2 * CAPACITY), is_shared=True, startup=None).play(1500)
    assert "TakeBack" not in course.kinds()
    assert len(course.serving) >= 3


@pytest.mark.parametrize("before", [0.0, 1.0, CLOCK_SECONDS - 1, CLOCK_SECONDS, CLOCK_SECONDS + 1, 60.0])
@pytest.mark.parametrize("startup", [0.5, 1.0, 4.0])
def test_a_replica_that_served_just_before_an_addition_is_none_of_its(before: float, startup: float) -> None:
    first = NOW + STEP - before
    course = Course([FAILS], pods=[Pod(first - startup, Fate(startup))])
    while course.wanted == 1 and course.now < NOW + 600:
        course.turn()
    assert course.wanted == 2
    course.play(300)
    assert {mark.result and mark.result.verdict for mark in course.history.changes if mark.added} == {
        Verdict.DOES_NOT_SERVE
    }


def test_a_pod_that_comes_up_after_all_ends_the_brake() -> None:
    course = Course([FAILS])
    while "TakeBack" not in course.kinds():
        course.turn()
    assert brake_of(course.situation()) is not None
    course.pods[0] = Pod(course.now, Fate(0.0))  # e.g. moved by a drain: what it needs is there again
    course.fates = [SERVES]
    course.play(2 * STEP)
    assert brake_of(course.situation()) is None
    assert course.wanted > 1


def test_who_wants_a_least_number_gets_it_whatever_became_of_earlier_additions() -> None:
    course = Course([FAILS]).play(600)
    course.policy = replace(AUTO, min_replicas=4)
    course.turn()
    assert (course.wanted, course.said[-1].decision.reason) == (4, DecisionReason.BELOW_MIN_REPLICAS)
    course.play(600)
    assert course.wanted == 4


def test_an_addition_whose_replicas_went_before_it_was_judged_holds_nothing_back() -> None:
    course = Course([FAILS])
    while len(course.history.changes) < 2:
        course.turn()
    course.wanted, course.pods = 1, course.pods[:1]  # e.g. somebody wrote another number
    course.fates = [SERVES]
    course.play(3 * STEP)
    assert course.wanted > 1


def _made(kind: ChangeKind, replicas: int, added: int = 0, verdict: Verdict | None = None) -> ChangeRecord:
    result = None if verdict is None else AdditionResult(verdict, NOW - TRY_SECONDS, 2, words=PULL)
    return ChangeRecord(NOW - TRY_SECONDS - 100, kind, "R", replicas, added=added, result=result)


VAIN = Verdict.DOES_NOT_SERVE


@pytest.mark.parametrize(
    ("replicas", "changes", "wanted"),
    [
        (4, (_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)), 1),
        (4, (_made(ChangeKind.ADD, 2, 1, Verdict.SERVES), _made(ChangeKind.ADD, 4, 2, VAIN)), 2),
        (3, (_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN), _made(ChangeKind.REMOVE, 3)), 1),
        (
            2,
            (
                _made(ChangeKind.ADD, 2, 1, VAIN),
                _made(ChangeKind.ADD, 4, 2, VAIN),
                _made(ChangeKind.REMOVE, 2),
                _made(ChangeKind.ADD, 4, 2),
                _made(ChangeKind.REMOVE, 2),
            ),
            1,
        ),
        (5, (_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)), 5),
        (6, (_made(ChangeKind.ADD, 4, 2, VAIN), _made(ChangeKind.TAKE_BACK, 1), _made(ChangeKind.ADD, 6, 1, VAIN)), 5),
        (4, (_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.MOVE, 2), _made(ChangeKind.ADD, 4, 2, VAIN)), 2),
        (4, (_made(ChangeKind.ADD, 3, 2, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)), 2),
    ],
)
def test_what_is_taken_back_are_the_last_additions_in_vain_and_no_number_of_somebody_else(
    replicas: int, changes: tuple[ChangeRecord, ...], wanted: int
) -> None:
    failing = tuple(Newcomer(NOW - 1890, PULL, 2) for _ in range(replicas - 1))
    facts = situation(EASY, replicas=replicas, history=ChangeHistory(changes), newcomers=failing)
    assert replicas_without(facts) == wanted
    assert replicas_without(replace(facts, now=NOW - 1)) == min(replicas, wanted + 1), "one goes on for half an hour"


def test_the_last_addition_in_vain_goes_on_for_half_an_hour_from_the_take_back_on() -> None:
    changes = ChangeHistory((_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)))
    failing = tuple(Newcomer(NOW - 1890, PULL, 2) for _ in range(3))
    for now, until in ((NOW - 1.0, to_rfc3339(NOW - 1 + 1800)), (NOW, None)):
        facts = situation(EASY, replicas=4, history=changes, newcomers=failing, now=now)
        numbers = dict(decide(facts, room_for_all(4)).decision.numbers)
        assert (numbers.get("until"), numbers["next_try"]) == (until, "")


@pytest.mark.parametrize(("failures", "seconds"), [(0, PATIENT_SECONDS), (1, 1.5 * STARTUP), (2, 60.0)])
def test_pods_have_their_time_before_they_are_taken_back_and_the_less_the_more_often_they_failed(
    failures: int, seconds: float
) -> None:
    changes = ChangeHistory((_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)))

    def without(age: float) -> int:
        pods = tuple(Newcomer(NOW - age, "", failures) for _ in range(3))
        memory = LoopMemory(startup_seconds=STARTUP)
        return replicas_without(situation(EASY, replicas=4, history=changes, newcomers=pods, memory=memory))

    assert (without(seconds), without(seconds + 1)) == (4, 1)


def test_additions_in_vain_are_taken_back_down_to_the_minimum_and_not_at_it() -> None:
    changes = ChangeHistory((_made(ChangeKind.ADD, 2, 1, VAIN), _made(ChangeKind.ADD, 4, 2, VAIN)))
    pods = tuple(Newcomer(NOW - 1890, PULL, 2) for _ in range(3))

    def decided(least: int) -> object:
        policy = replace(AUTO, min_replicas=least)
        return decide(
            situation(EASY, replicas=4, history=changes, newcomers=pods, policy=policy), room_for_all(4)
        ).decision

    found = [decided(least) for least in (1, 3, 4)]
    assert [each.count if isinstance(each, RemoveReplica) else 0 for each in found] == [3, 1, 0]


def test_a_number_that_people_write_is_not_taken_back() -> None:
    course = Course([FAILS])
    while "TakeBack" not in course.kinds():
        course.turn()
    course.wanted = 5
    course.pods += [Pod(course.now, FAILS) for _ in range(4)]
    course.play(3600)
    assert course.wanted >= 5


def test_additions_that_change_nothing_are_judged_taken_back_and_tried_again() -> None:
    """97 % of the KV cache of every engine is in use, and nothing comes."""
    course = Course([SERVES], load=FULL)
    course.play(STARTUP + AUTO.window_seconds - STEP)
    assert (course.kinds(), course.wanted) == (["Add"], 2), "it has not served for a whole window"
    course.play(6 * STEP)
    assert (course.kinds(), course.wanted, course.peak) == (["Add", "TakeBack"], 1, 2)
    made = course.history.changes[0]
    assert made.called is not None
    assert made.result is not None
    assert (made.called.figure, made.called.value) == ("kv_percent", 97)
    assert (made.result.verdict, made.result.value, made.result.in_a_row) == (Verdict.DOES_NOT_HELP, 97, 1)
    course.turn()
    words = sentence(course.said[-1].decision)
    assert words.startswith("Nothing is added (SustainedKvPressure): with 1 addition the used percent of the KV cache ")
    assert "went from 97 to 97, and no more requests come" in words
    course.play(4 * 3600)
    assert course.peak == 2
    assert 3 <= course.additions <= 4


def _later(kind: ChangeKind, replicas: int, added: int = 0) -> ChangeRecord:
    return ChangeRecord(NOW - 200, kind, "R", replicas, added=added)


@pytest.mark.parametrize(
    ("replicas", "later", "judged"),
    [
        (2, [], True),
        (1, [], False),  # somebody wrote another number
        (1, [_later(ChangeKind.REMOVE, 1)], False),
        (2, [_later(ChangeKind.REMOVE, 1), _later(ChangeKind.ADD, 2, 1)], False),
        (1, [_later(ChangeKind.TAKE_BACK, 1)], False),
        (2, [_later(ChangeKind.MOVE, 2)], False),
        (2, [_later(ChangeKind.RETUNE, 2)], False),
        (2, [_later(ChangeKind.ROLL_BACK, 2)], False),
        (2, [_later(ChangeKind.ADD, 3, 1), _later(ChangeKind.REMOVE, 2)], True),
        (2, [_later(ChangeKind.ADD, 3, 1), _later(ChangeKind.TAKE_BACK, 2)], True),
        (2, [_later(ChangeKind.REPLACE, 2)], True),
        (3, [_later(ChangeKind.ADD, 3, 1)], True),
    ],
    ids=str,
)
def test_an_addition_is_judged_only_while_its_replicas_are_there_as_it_made_them(
    replicas: int, later: list[ChangeRecord], *, judged: bool
) -> None:
    """The KV cache of all that serves is as full as before. That is no effect of replicas that went meanwhile."""
    serves = AdditionResult(Verdict.SERVES, NOW - COUNTED)
    mark = replace(added_to(2, Called("kv_percent", 97, 60, 60, COUNTED)), at=NOW - COUNTED - STARTUP, result=serves)
    facts = situation(*[FULL] * replicas, replicas=replicas, history=ChangeHistory((mark, *later)))
    history = with_results(facts)
    result = history.changes[0].result
    assert result is not None
    assert result.verdict is (Verdict.DOES_NOT_HELP if judged else Verdict.SERVES)
    held = braked(AddReplica(DecisionReason.SUSTAINED_KV_PRESSURE, (), 1), replace(facts, history=history))
    assert (held is not None and held.reason is DO_NOT_HELP) is (judged and replicas == 2), "a later one serves"


@pytest.mark.parametrize(
    ("verdict", "seconds", "load", "passes"),
    [
        (Verdict.NOT_KNOWN, 3599, FULL, False),
        (Verdict.NOT_KNOWN, 3600, FULL, True),
        (Verdict.NOT_KNOWN, 60, replace(FULL, rate=4.0), True),
        (Verdict.HELPS, 60, FULL, True),
    ],
    ids=str,
)
def test_after_an_addition_of_which_nothing_is_known_none_follows_for_an_hour_or_until_another_load(
    verdict: Verdict, seconds: float, load: Serves, *, passes: bool
) -> None:
    """What serves stays: only an addition in vain is taken back."""
    result = AdditionResult(verdict, NOW - seconds, value=97)
    mark = replace(added_to(2, Called("kv_percent", 97, 60, 60, COUNTED)), at=NOW - 5000, result=result)
    facts = situation(load, load, replicas=2, history=ChangeHistory((mark,)))
    assert (with_results(facts), replicas_without(facts)) == (facts.history, 2)
    held = braked(AddReplica(DecisionReason.SUSTAINED_KV_PRESSURE, (), 1), facts)
    assert (held is None) is passes
    if held is not None:
        assert sentence(held).endswith(
            "with 1 addition the used percent of the KV cache went from 97 to 97, and it is not known yet whether that "
            f"helps. It stays; the next try comes at {to_rfc3339(NOW + 1)}."
        )
    assert restarted(facts.history) == facts.history


def test_an_addition_is_judged_by_what_was_counted_after_it_however_short_the_window_is() -> None:
    """Requests served are counted over 30 s at least."""
    course = Course([SERVES], load=FULL, policy=replace(AUTO, window_seconds=8), step=5).play(STARTUP + 300)
    made = course.history.changes[0]
    assert made.result is not None
    assert made.result.verdict is Verdict.DOES_NOT_HELP
    assert 30 <= made.result.at - (made.at + STARTUP) < 30 + 2 * 5


def test_another_load_ends_the_brake_at_once() -> None:
    course = Course([SERVES], load=FULL).play(600)
    assert course.said[-1].decision.reason is DO_NOT_HELP
    course.load = replace(BUSY, kv_usage=0.97)
    course.play(4 * STEP)
    assert course.wanted > 1


def test_additions_that_help_are_not_judged_in_vain_while_more_come() -> None:
    """The load of each pod stays at its most, as if requests came as fast as replicas do: what is served grows."""
    course = Course([SERVES], load=replace(BUSY, waiting=40, kv_usage=0.97)).play(3000)
    assert course.reasons.isdisjoint({DO_NOT_HELP, DO_NOT_SERVE})
    assert course.wanted == AUTO.max_replicas


def test_a_promise_that_no_replica_keeps_is_not_bought_with_more_of_them() -> None:
    model = replace(replica_model(), slo=Slo(ttft_seconds=0.01))
    course = Course([SERVES], load=replace(EASY, rate=4.0), is_shared=True, model=model).play(900)
    assert course.history.changes[0].called == Called("ttft_ms", 200, 240, 240, 600, 52_800_000)
    assert (course.kinds()[-1], course.wanted) == ("TakeBack", 1)
    assert course.said[-1].decision.reason is DO_NOT_HELP


@pytest.mark.parametrize(
    ("in_a_row", "verdict", "seconds"),
    [
        (1, Verdict.DOES_NOT_SERVE, 0),
        (2, Verdict.DOES_NOT_SERVE, 1800),
        (3, Verdict.DOES_NOT_SERVE, 3600),
        (10**6, Verdict.DOES_NOT_SERVE, 4800),
        (1, Verdict.DOES_NOT_HELP, 3600),
        (2, Verdict.DOES_NOT_HELP, 4800),
    ],
)
def test_pauses_double_up_to_a_bound(in_a_row: int, verdict: Verdict, seconds: float) -> None:
    assert pause_seconds(AdditionResult(verdict, NOW, in_a_row)) == seconds


@pytest.mark.parametrize(
    ("now", "before", "window", "has_risen_"),
    [
        (126, 100, 6000, True),
        (124, 100, 6000, False),
        (200, 100, 6000, True),
        (130, 100, 60, False),
        (200, 100, 60, True),
        (80, 100, 6000, False),
        (1, 0, 60, False),
        (10, 0, 60, True),
    ],
)
def test_a_load_has_risen_by_a_quarter_and_by_more_than_chance(
    now: float, before: float, window: float, *, has_risen_: bool
) -> None:
    """Requests a minute, each counted over so many seconds."""
    rate = Rate(now / 60, window)
    seen = replace(traffic(Serves()), steady=rate, middle=rate, recent=rate, latest=rate)
    assert has_risen(before, seen, window) is has_risen_


def test_a_clock_set_back_makes_no_pause_longer() -> None:
    result = AdditionResult(Verdict.DOES_NOT_SERVE, NOW + 90_000, 2)
    history = ChangeHistory((ChangeRecord(NOW + 90_000, ChangeKind.ADD, "R", 2, added=1, result=result),)).clamped(NOW)
    brake = brake_of(situation(BUSY, history=history, replicas=1))
    assert brake is not None
    assert brake.ends == NOW + FIRST_PAUSE_SECONDS


def test_additions_within_a_minute_are_one_with_all_that_they_added() -> None:
    history = ChangeHistory()
    for index in range(5):
        history = history.recorded(ChangeRecord(NOW + index, ChangeKind.ADD, "R", 2 + 2 * index, added=2))
    assert [(mark.replicas, mark.added) for mark in history.changes] == [(2, 2), (10, 8)]


def test_additions_within_a_minute_are_for_what_the_last_but_one_was_for_if_that_is_known() -> None:
    """The figure that called first was seen before any of them could change it."""
    first, second = Called("waiting", 40, 600, 600), Called("kv_percent", 97, 700, 700)
    for before, after, kept in ((first, second, first), (None, second, second), (first, None, first)):
        history = ChangeHistory()
        for index, called in enumerate((None, before, after)):
            history = history.recorded(ChangeRecord(NOW + index, ChangeKind.ADD, "R", 2, 1, called))
        assert history.changes[-1].called == kept


def test_no_more_are_added_in_an_hour_than_the_limit_allows() -> None:
    course = Course([SERVES], policy=replace(AUTO, additions_per_hour=3)).play(3000)
    assert course.wanted == 4
    wait = course.said[-1].decision
    assert (type(wait), wait.reason) == (Wait, DecisionReason.ADDITIONS_PER_HOUR_SPENT)
    assert sentence(wait).endswith(
        "3 replicas were added in the last hour, and spec.rebalancing.limits.additionsPerHour allows 3."
    )
    assert course.play(1500).wanted > 4


@pytest.mark.parametrize(("replicas", "wanted"), [(None, 0), (0, 0), (3, 3)])
def test_a_change_without_a_number_wanted_none_that_is_known(replicas: int | None, wanted: int) -> None:
    assert ChangeRecord(NOW, ChangeKind.ADD, replicas=replicas).wanted == wanted


@pytest.mark.parametrize(("replicas", "serves"), [(1, True), (2, True), (3, False), (None, True)])
def test_an_addition_serves_when_as_many_replicas_do_as_were_wanted_then(replicas: int | None, *, serves: bool) -> None:
    mark = ChangeRecord(NOW - 30, ChangeKind.ADD, replicas=replicas, added=1)
    seen = situation(BUSY, BUSY, replicas=2, history=ChangeHistory((mark,)))
    [judged] = with_results(seen).changes
    assert (judged.result == AdditionResult(Verdict.SERVES, NOW)) is serves


@pytest.mark.parametrize(
    ("before", "last", "helps"), [(0.5, 0.5, True), (0.97, 0.97, False), (0.5, 0.97, None), (0.97, 0.5, None)]
)
def test_a_last_reading_that_is_unlike_the_others_decides_nothing(
    before: float, last: float, *, helps: bool | None
) -> None:
    """Two pods have so much of their KV cache in use at all scrapes but the last one."""
    pods = [pod(name, replace(FULL, kv_usage=before), moments(600)) for name in ("a", "b")]
    pods = [replace(each, samples=(*each.samples[:-1], replace(each.samples[-1], kv_usage=last))) for each in pods]
    serves = AdditionResult(Verdict.SERVES, NOW - 300)
    mark = ChangeRecord(NOW - 320, ChangeKind.ADD, replicas=2, added=1, called=Called("kv_percent", 97), result=serves)
    assert is_better(mark, replace(situation(FULL, FULL, replicas=2), load=summary(*pods))) is helps


@pytest.mark.parametrize(("used", "better"), [(0.719, True), (0.725, False), (0.8, False)])
def test_a_tenth_less_of_the_kv_cache_in_use_is_measured_to_the_percent(used: float, *, better: bool) -> None:
    called = Called("kv_percent", 80, 60, 60, COUNTED)
    assert bool(is_better(added_to(2, called), situation(*[replace(FULL, kv_usage=used)] * 2))) is better


@pytest.mark.parametrize(("times", "better"), [(0.5, True), (1.0, False), (3.5, True), (1.3, False)])
def test_less_that_is_read_explains_no_figure_and_clearly_more_of_it_is_another_load(
    times: float, *, better: bool
) -> None:
    """60 requests a minute read as many tokens as ``times`` says, over what was read when the addition was called for.

    The used part of the KV cache falls by an eighth with half of them, and not at all with the others.
    """
    now = situation(*[replace(FULL, rate=0.5, kv_usage=0.85 if times < 1 else 0.97)] * 2)
    read = called_by(DecisionReason.SUSTAINED_KV_PRESSURE, now)
    assert read is not None
    called = Called("kv_percent", 97, 60, 60, COUNTED, round(read.read_tokens / times))
    assert bool(is_better(added_to(2, called), now)) is better


@pytest.mark.parametrize(("served", "better"), [(45, False), (64, None), (90, True)])
def test_a_queue_that_stays_says_nothing_until_clearly_more_or_not_as_many_are_served(
    served: int, *, better: bool | None
) -> None:
    """60 a minute were served before, and one of seven can serve ten more. Chance makes nine in ten minutes."""
    called = Called("waiting", 40, 9000, 60, COUNTED)
    now = situation(*[replace(BUSY, rate=served / 60 / 7, waiting=40 / 7)] * 7)
    assert is_better(added_to(7, called), now) is better
