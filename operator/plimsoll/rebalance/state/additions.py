"""Every addition is a hypothesis: that what it adds will serve, and that this helps against what called for it.

The result of each is noted in the history of changes, so it survives restarts. After additions in vain no more are made
for a pause that grows, one try follows each pause, and what was added in vain is taken back. Of replicas that do not
serve, one goes on for a while before it is taken back as well. One of which it is not known in time whether it helps
stays, and no other follows it for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_milliseconds, to_per_minute, to_percent, to_rfc3339
from plimsoll.rebalance.law.promise import missed_figures
from plimsoll.rebalance.signals.counted import (
    MOST_SECONDS,
    NO_GROWTH,
    Counted,
    Growth,
    Level,
    counted,
    first_tokens,
    level_of,
    steadily,
)
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample, SignalState
from plimsoll.rebalance.signals.traffic import Traffic
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Wait
from plimsoll.rebalance.state.history import (
    HOUR_SECONDS,
    AdditionResult,
    Called,
    ChangeHistory,
    ChangeKind,
    ChangeRecord,
    Verdict,
)
from plimsoll.rebalance.state.memory import LEAST_STUCK_SECONDS
from plimsoll.rebalance.state.situation import Newcomer, Serving, Situation

MOST_IN_A_ROW = 2
"""Additions in a row of which none serves before no more are made. One may have met a bad node. One whose pods had all
their time counts alone: another one may never follow it, where it took all the room that there is."""

TRY_SECONDS = 1800.0
"""How long one replica that does not serve goes on before it is taken back as well. The kubelet pulls an image and
starts a container again every five minutes at most, and the scheduler looks for a node as often. So what is mended
meanwhile serves without another addition."""

FIRST_PAUSE_SECONDS = 1800.0
WITHOUT_EFFECT_SECONDS = 3600.0
LONGEST_PAUSE_SECONDS = 4800.0
"""The first pause after the last replica that does not serve, and after an addition without effect, which a load that
rises ends. The pause doubles with each try in vain."""

PATIENT_SECONDS, PATIENT_STARTUPS = 900.0, 3.0
"""How long a new replica about which nothing is said may start before it is taken back: as long as one of a move
(:mod:`plimsoll.placement.demands.clocks`)."""

CLOCK_SECONDS = 5.0
"""By how much the times of pods, which are whole seconds of another clock, may be before that of the addition."""

CLEARLY = 0.1
"""The part by which a figure must fall for an addition to have helped."""

CHANCE = 2.5
"""Standard deviations beyond which a difference is no chance: less than one in a hundred on either side."""

USUAL_COUNTED_SECONDS = 30.0
"""The time over which requests were counted for an addition of which that is not known, and over which times to the
first token are means."""

ANOTHER_LOAD = 0.25
"""The part by which arrivals must rise to be another load, if that is more than chance (three standard deviations of
independent arrivals). A load that falls is no reason for more replicas."""

IN_VAIN = {
    Verdict.DOES_NOT_SERVE: DecisionReason.ADDITIONS_DO_NOT_SERVE,
    Verdict.DOES_NOT_HELP: DecisionReason.ADDITIONS_DO_NOT_HELP,
}
"""The reasons by verdict."""

_FIGURES = {
    DecisionReason.SUSTAINED_KV_PRESSURE: "kv_percent",
    DecisionReason.SUSTAINED_QUEUE: "waiting",
    DecisionReason.BACKLOG_TOO_LONG: "waiting",
    DecisionReason.PAGE_LIVELOCK: "waiting",
    DecisionReason.PREEMPTION_STORM: "preempted_percent",
}
"""The figures that call for additions. Arrivals are no such figure, because no number of replicas changes them; what
they do to a promised time is."""

_FEWER = ChangeKind.REMOVE, ChangeKind.TAKE_BACK
_OTHER_PODS = ChangeKind.MOVE, ChangeKind.RETUNE, ChangeKind.ROLL_BACK

_MINUTE = 60.0


def called_by(reason: DecisionReason, situation: Situation) -> Called | None:
    """Return the figure that calls for an addition now; None if the addition is for none that it could change."""
    traffic, model = situation.load.traffic, situation.placement.model
    if traffic is None:
        return None
    figure = _FIGURES.get(reason, "")
    if reason is DecisionReason.ARRIVALS_EXCEED_CAPACITY and model is not None:
        figure = next((f"{missed.name}_ms" for missed in missed_figures(traffic, model.slo)), "")
    value = _value(figure, situation, traffic)
    if value is None or value <= 0:
        return None
    done = _steadily(situation.load, traffic)
    return Called(
        figure,
        value,
        to_per_minute(traffic.arrivals.per_second),
        to_per_minute(done.begun_rate),
        round(done.seconds),
        to_per_minute(done.read_rate),
    )


def _steadily(load: LoadSummary, traffic: Traffic, since: float = 0.0) -> Counted:
    """Return the work of the pods since a moment, over the longest time in which it was the same all along."""
    start, least = max(since, load.counted_from), traffic.recent.seconds
    return steadily(load.tracks, start, traffic.end, least) or Counted(least, traffic.served * least, 0.0)


def _value(figure: str, situation: Situation, traffic: Traffic) -> int | None:
    values: dict[str, int | None] = {
        "kv_percent": to_percent(traffic.used_tokens / max(1, situation.load.held_tokens)),
        "waiting": round(traffic.waiting),
        "preempted_percent": _known(to_percent, traffic.preempted_share),
        "ttft_ms": _known(to_milliseconds, traffic.ttft_seconds),
        "tpot_ms": _known(to_milliseconds, traffic.token_seconds),
    }
    return values.get(figure)


def _known(convert: Callable[[float], int], value: float | None) -> int | None:
    return None if value is None else convert(value)


def with_results(situation: Situation) -> ChangeHistory:
    """Return the history with what is known now of each addition. A verdict that a pod disproves is taken back."""
    found: list[ChangeRecord] = []
    in_a_row: int | None = None
    for mark in situation.history.changes:
        judged = replace(mark, result=_result(mark, situation, in_a_row)) if mark.added else mark
        if judged.result is not None:
            in_a_row = judged.result.in_a_row
        found.append(judged)
    return ChangeHistory(tuple(found))


def _result(mark: ChangeRecord, situation: Situation, before: int | None) -> AdditionResult | None:
    """Return the result, given how many additions before were in vain; None: no result of one before is known any more.

    If one before begins to serve after all, those that do not are counted anew.
    """
    known = mark.result
    if known is None or known.verdict is Verdict.DOES_NOT_SERVE:
        if _serves(mark, situation):
            return AdditionResult(Verdict.SERVES, situation.now)
        failing = _failing(mark, situation) if _is_on_trial(mark, situation) else None
        if known is None:
            return None if failing is None else replace(failing, in_a_row=(before or 0) + 1)
        known = known if before is None else replace(known, in_a_row=before + 1)
        if failing is None or pause_seconds(known) or _had_all_its_time(mark, known, situation):
            return known
        return replace(known, at=failing.at) if _had_all_its_time(mark, failing, situation) else known
    if known.verdict is not Verdict.SERVES or mark.called is None or not _is_on_trial(mark, situation):
        return known
    return _helped(mark, situation, known, before or 0) if _is_settled(mark, known, situation) else known


def _is_on_trial(mark: ChangeRecord, situation: Situation) -> bool:
    """Whether the replicas of an addition are there as it made them. What is seen after they went is not its effect."""
    marks = situation.history.changes
    later = marks[marks.index(mark) + 1 :]
    is_undone = any(each.kind in _FEWER and each.wanted < mark.wanted for each in later)
    are_others = any(each.kind in _OTHER_PODS for each in later)
    return mark.wanted <= situation.placement.replicas and not is_undone and not are_others


def _serves(mark: ChangeRecord, situation: Situation) -> bool:
    """Whether replicas begin to serve: a pod that started after the addition does, or as many as were wanted then."""
    placement = situation.placement
    return placement.ready >= mark.wanted or any(_is_later(each, mark) for each in placement.serving)


def _is_later(serving: Serving, mark: ChangeRecord) -> bool:
    """Whether a pod started after an addition. One that served before it did not, whatever the clocks say."""
    bound, since = serving.bound_since, serving.since
    return bound is not None and since is not None and bound >= mark.at - CLOCK_SECONDS and since > mark.at


def _failing(mark: ChangeRecord, situation: Situation) -> AdditionResult | None:
    """Return the verdict that nothing of an addition serves; None while a pod of it may."""
    own, longest = _own(mark, situation), situation.memory.stuck_after_seconds
    if not own or not all(_is_over(each, longest, situation) for each in own):
        return None
    words = next((each.words for each in own if each.words), "")
    return AdditionResult(Verdict.DOES_NOT_SERVE, situation.now, words=words)


def _had_all_its_time(mark: ChangeRecord, result: AdditionResult, situation: Situation) -> bool:
    """Whether the pods of an addition did not serve until the moment of a result, for as long as they may take."""
    return result.at - mark.at > patience_seconds(situation)


def _own(mark: ChangeRecord, situation: Situation) -> list[Newcomer]:
    """Return the pods without service that an addition has brought: the oldest ones that started after it."""
    later = (each for each in situation.placement.newcomers if each.since >= mark.at - CLOCK_SECONDS)
    return sorted(later, key=lambda each: each.since)[: mark.added]


def _is_over(newcomer: Newcomer, longest: float, situation: Situation) -> bool:
    """Whether a pod has had its time: a minute if it fails, until it is stuck if it failed once, else the longest."""
    limits = {0: longest, 1: situation.memory.stuck_after_seconds}
    return situation.now - newcomer.since > limits.get(newcomer.failures, LEAST_STUCK_SECONDS)


def patience_seconds(situation: Situation) -> float:
    """Return how long a replica may start before it is taken back, if nobody says why it does not serve."""
    return max(PATIENT_SECONDS, PATIENT_STARTUPS * situation.memory.expected_startup_seconds)


def _is_settled(mark: ChangeRecord, serves: AdditionResult, situation: Situation) -> bool:
    """Whether an addition has served whole for a window, so that its effect shows; and all that is ready is known."""
    placement, load = situation.placement, situation.load
    all_known = load.state is SignalState.FRESH and load.fresh_pods >= placement.ready
    is_whole = placement.ready >= mark.wanted
    is_counted = load.traffic is None or _counted_since(serves.at, load, load.traffic) is not None
    return all_known and is_whole and is_counted and situation.now - serves.at >= situation.policy.window_seconds


def _counted_since(moment: float, load: LoadSummary, traffic: Traffic) -> Counted | None:
    """Return the work of the pods since a moment; None for less than the last scrapes, which tell nothing."""
    least, start = traffic.recent.seconds, max(moment, load.counted_from)
    if not load.tracks:
        return Counted(least, traffic.served * least, 0.0)
    return counted(load.tracks, start, traffic.end) if traffic.end - start >= least else None


def _helped(mark: ChangeRecord, situation: Situation, serves: AdditionResult, before: int) -> AdditionResult:
    """Judge an addition that has served for a window. If more requests come, it counts as one that helped.

    While chance may explain what is seen, nothing is said. After the time for which samples are held, it stays unknown
    if it seems to help; after twice that, while a pod that ended or began again leaves less than half of it to count.
    """
    traffic, called = situation.load.traffic, mark.called
    value = None if traffic is None or called is None else _value(called.figure, situation, traffic)
    helps, longest = is_better(mark, situation), max(MOST_SECONDS, situation.policy.window_seconds)
    if situation.now - max(serves.at, situation.load.counted_from) < MOST_SECONDS / 2:
        longest *= 2
    if helps is None and situation.now - serves.at < longest:
        return serves
    if helps is None and seems_to_help(mark, situation):
        return AdditionResult(Verdict.NOT_KNOWN, situation.now, before, value)
    if helps:
        return replace(serves, verdict=Verdict.HELPS, at=situation.now, value=value)
    return AdditionResult(Verdict.DOES_NOT_HELP, situation.now, before + 1, value)


def is_better(mark: ChangeRecord, situation: Situation) -> bool | None:
    """Whether the figure that called for an addition has fallen, more requests are served, or another load came.

    The tenth replica takes a tenth of the load at best. So the bound is half of what an addition can do, if that is
    less than a tenth: what is measured is then nearer to an addition that helps than to one that does not. The figure
    is compared with what it would be without the addition: it grows with the KV tokens that are read.

    None: it may be chance.
    """
    traffic, called = situation.load.traffic, mark.called
    if traffic is None or called is None:
        return True
    trial = _Trial.of(mark, called, situation, traffic)
    if _is_another_load(called, trial.growth, traffic, situation.policy.window_seconds):
        return True
    fallen, served = trial.has_fallen(), trial.is_more_served()
    if fallen or served:
        return True
    return False if fallen is False and (served is False or not traffic.waiting) else None


def seems_to_help(mark: ChangeRecord, situation: Situation) -> bool:
    """Whether what is seen is nearer to an addition that helps than to one that does not, be it chance or not."""
    traffic, called = situation.load.traffic, mark.called
    if traffic is None or called is None:
        return True
    trial = _Trial.of(mark, called, situation, traffic)
    return trial.is_lower or trial.is_more


@dataclass(frozen=True, slots=True)
class _Trial:
    """The figures of an addition since it serves: ``share`` is the part of the load that it takes at best.

    ``done`` is the work since then, None: not enough yet, and ``growth`` that of the KV tokens that are read a second.
    """

    called: Called
    share: float
    traffic: Traffic
    level: Level | None
    done: Counted | None
    growth: Growth

    @staticmethod
    def of(mark: ChangeRecord, called: Called, situation: Situation, traffic: Traffic) -> _Trial:
        load, since = situation.load, mark.at if mark.result is None else mark.result.at
        done = _counted_since(since, load, traffic)
        level = _level(called, situation, traffic, since)
        share = mark.added / max(1, mark.wanted)
        return _Trial(called, share, traffic, level, done, _growth(called, load, traffic, since))

    @property
    def is_lower(self) -> bool:
        """Whether the figure is lower by half of what the addition can do, or by a tenth, be it chance or not."""
        likely = max(1.0, self.growth.likely) * self.called.value
        return self.level is None or self.level.mean <= (1 - self._most_fallen / 2) * likely

    def has_fallen(self) -> bool | None:
        """Whether the figure is lower, or is not, by more than chance; None: it may be chance."""
        if self.level is None:
            return True
        before, (mean, error) = self.called.value, self.level
        least, most_grown = (max(1.0, each) * before for each in (self.growth.least, self.growth.most))
        if self.is_lower:
            return True if least - mean > CHANCE * error else None
        return False if mean - (1 - self._most_fallen) * most_grown > CHANCE * error else None

    @property
    def is_more(self) -> bool:
        """Whether half as many more requests a minute are served as replicas that take a share of the load can add.

        It need not be more than chance. A tenth is enough; while requests wait, half of what the addition adds to the
        rest, too.
        """
        return self.done is not None and self._served > (1 + self._most_served) / 2 * self.called.served

    def is_more_served(self) -> bool | None:
        """Whether more are served, or are not, by more than chance; None: it may be chance."""
        if self.done is None:
            return None
        before, now, most = self.called.served, self._served, self._most_served
        counts = self.done.seconds / _MINUTE, (self.called.seconds or USUAL_COUNTED_SECONDS) / _MINUTE
        if self.is_more:
            return True if now - before > CHANCE * math.hypot(*_errors(now, before, counts)) else None
        least = most * before - now
        return False if least > CHANCE * math.hypot(*_errors(now, before, counts, most)) else None

    @property
    def _served(self) -> float:
        """Requests a minute that are served now; 0 if they are not known."""
        return 0.0 if self.done is None else _MINUTE * self.done.begun_rate

    @property
    def _most_fallen(self) -> float:
        """The part of the figure that the addition can take, a fifth at most."""
        return min(2 * CLEARLY, self.share)

    @property
    def _most_served(self) -> float:
        """Times as many requests as before that can be served with it, a fifth more at most."""
        adds = self.share / (1 - self.share) if self.share < 1 else math.inf
        return 1 + min(2 * CLEARLY, adds if self.traffic.waiting else math.inf)


def _errors(now: float, before: float, minutes: tuple[float, float], times: float = 1.0) -> tuple[float, float]:
    """Return the standard deviations of two rates a minute that were counted over some minutes (Poisson counts)."""
    return math.sqrt(now / minutes[0]), times * math.sqrt(before / minutes[1])


def _growth(called: Called, load: LoadSummary, traffic: Traffic, since: float = 0.0) -> Growth:
    """Return by how much the KV tokens that are read a second have grown since an addition was called for."""
    if not called.seconds:
        return NO_GROWTH
    begun = called.served * called.seconds / _MINUTE
    return _steadily(load, traffic, since).growth(called.read_tokens / _MINUTE, begun, CHANCE)


def _level(called: Called, situation: Situation, traffic: Traffic, since: float) -> Level | None:
    """Return a figure since the addition serves, and the error of the difference from the one that called for it.

    It is that of the second half of that time, because a queue that is served away takes the first, and of two scrapes
    at least. A gauge that called is one reading, so it is as uncertain as one. Times to the first token vary about as
    much as they are long.
    """
    figure, load = called.figure, situation.load
    value = _value(figure, situation, traffic)
    if value is None:
        return None
    half = min((since + traffic.end) / 2, traffic.end - traffic.recent.seconds)
    start = max(since, half, traffic.end - MOST_SECONDS)
    if figure == "ttft_ms":
        mean, count = first_tokens(load.tracks, start, traffic.end)
        before = max(1.0, called.served / _MINUTE * USUAL_COUNTED_SECONDS)
        mean = to_milliseconds(mean) if count else value
        return Level(mean, math.hypot(mean / math.sqrt(max(1.0, count)), called.value / math.sqrt(before)))
    if figure not in _GAUGES or not load.tracks:
        return Level(value, 0.0)
    usual, held = situation.placement.kv_capacity_tokens, max(1, load.held_tokens)
    level = level_of(load.tracks, lambda each: _GAUGES[figure](each, usual, held), start)
    if level is None:
        return Level(value, 0.0)
    at_gateway = traffic.at_gateway if figure == "waiting" else 0.0
    return Level(level.mean + at_gateway, level.error * math.sqrt(2))


def _kv_percent(sample: EngineSample, usual: int, held: int) -> float:
    return 100 * (sample.kv_usage or 0.0) * (sample.kv_capacity_tokens or usual) / held


_GAUGES: dict[str, Callable[[EngineSample, int, int], float]] = {
    "kv_percent": _kv_percent,
    "waiting": lambda sample, _usual, _held: sample.waiting or 0.0,
}
"""The figures that a scrape has, by a pod's usual KV cache and that of all pods."""


def _is_another_load(before: Called, growth: Growth, traffic: Traffic, window_seconds: float) -> bool:
    """Whether clearly more requests come than were served or came before, or clearly more KV cache is read."""
    if growth.least > 1 + ANOTHER_LOAD:
        return True
    return has_risen(max(before.arrivals, before.served), traffic, window_seconds)


def has_risen(arrivals: float, traffic: Traffic, window_seconds: float) -> bool:
    """Whether clearly more requests come than so many a minute, which were counted over a window."""
    now = _MINUTE * traffic.arrivals.per_second
    counts = traffic.arrivals.seconds / _MINUTE, window_seconds / _MINUTE
    return now > (1 + ANOTHER_LOAD) * arrivals and now - arrivals > 3 * math.hypot(*_errors(now, arrivals, counts))


@dataclass(frozen=True, slots=True)
class Brake:
    """Additions in vain: the last one that was judged, and since when nothing more is under way (POSIX seconds).

    ``is_awaited``: an addition after the last one that was judged is not judged yet. ``alone``: the last one counts
    without another one in a row.
    """

    last: ChangeRecord
    result: AdditionResult
    since: float
    is_awaited: bool
    alone: bool = False

    @property
    def reason(self) -> DecisionReason:
        """The reason why no more are made."""
        return IN_VAIN[self.result.verdict]

    @property
    def ends(self) -> float:
        """When another addition is tried if nothing of the last ones is left, in POSIX seconds."""
        return self.since + self.pause_seconds

    @property
    def pause_seconds(self) -> float:
        """How long no more is added; 0 while another addition may follow at once."""
        return pause_seconds(self.result) or (FIRST_PAUSE_SECONDS if self.alone else 0.0)

    @property
    def tries_until(self) -> float:
        """When the last replica that does not serve is taken back, in POSIX seconds."""
        return self.since + TRY_SECONDS

    @property
    def numbers(self) -> Numbers:
        """The figures for a sentence."""
        result, called = self.result, self.last.called
        numbers: Numbers = (("additions", result.in_a_row), ("words", result.words))
        if called is not None and result.value is not None:
            numbers = (*numbers, ("called", called.figure), ("before", called.value), ("after", result.value))
        return numbers


def pause_seconds(result: AdditionResult) -> float:
    """Return how long no more is added after so many additions in vain."""
    is_of_pods = result.verdict is Verdict.DOES_NOT_SERVE
    doublings = min(result.in_a_row - (MOST_IN_A_ROW if is_of_pods else 1), 10)
    first = FIRST_PAUSE_SECONDS if is_of_pods else WITHOUT_EFFECT_SECONDS
    return 0.0 if doublings < 0 else min(LONGEST_PAUSE_SECONDS, first * 2.0**doublings)


def brake_of(situation: Situation) -> Brake | None:
    """Return the brake that additions in vain make; None if the last one that was judged was none."""
    history = situation.history
    additions = [mark for mark in history.changes if mark.added]
    judged = [mark for mark in additions if mark.result is not None]
    last = judged[-1] if judged else None
    if last is None or last.result is None or last.result.verdict not in IN_VAIN:
        return None
    taken_back = max((mark.at for mark in history.changes if mark.kind is ChangeKind.TAKE_BACK), default=0.0)
    awaited = any(_is_awaited(mark, situation) for mark in additions[additions.index(last) :])
    began = max((mark.result.at for mark in judged if mark.result and not mark.result.in_a_row), default=0.0)
    alone = _had_all_its_time(last, last.result, situation) and began < last.result.at
    return Brake(last, last.result, max(last.result.at, taken_back), awaited, alone)


def _is_awaited(mark: ChangeRecord, situation: Situation) -> bool:
    """Whether an addition may still be judged: its replicas are wanted, and have had no time to show."""
    is_wanted = mark.wanted <= situation.placement.replicas
    return mark.result is None and is_wanted and situation.now - mark.at <= patience_seconds(situation)


def braked(change: AddReplica, situation: Situation) -> Wait | None:
    """Return a wait if earlier additions were in vain, or while it is not known whether one was.

    One for a figure that an addition has not changed so far waits until that one is judged. A try is of one replica:
    that shows as much as several.
    """
    wanted: Numbers = (("wanted", change.reason.value),)
    called = called_by(change.reason, situation)
    brake = brake_of(situation)
    if brake is None:
        return _being_judged(called, situation, wanted)
    if brake.result.verdict is Verdict.DOES_NOT_HELP and not _is_same(brake, called, situation):
        return None
    is_over = situation.now >= brake.ends and not brake.is_awaited
    is_gone = not brake.pause_seconds or _without(brake, situation) == situation.placement.replicas
    if is_over and is_gone and change.count == 1:
        return None
    return Wait(brake.reason, (*wanted, *brake.numbers, *_next_tries(brake, situation.now, is_gone=is_gone)))


def _next_tries(brake: Brake, now: float, *, is_gone: bool) -> Numbers:
    """Return until when the last replica goes on, and when the next try comes, as far as that is known."""
    last = () if is_gone else last_try(brake, now, brake.tries_until)
    ends = brake.ends + (TRY_SECONDS if last else 0.0)
    return ("next_try", to_rfc3339(math.ceil(ends)) if now < ends else ""), *last


def last_try(brake: Brake, now: float, until: float) -> Numbers:
    """Return until when the last replica that does not serve goes on; empty if none does."""
    goes_on = brake.result.verdict is Verdict.DOES_NOT_SERVE and now < brake.tries_until
    return (("until", to_rfc3339(math.ceil(until))),) if goes_on else ()


def _is_same(brake: Brake, called: Called | None, situation: Situation) -> bool:
    """Whether an addition would be the one again that did not help: for the same figure, and no other load came."""
    before = brake.last.called
    if before is None or called is None or called.figure != before.figure:
        return False
    return not _is_load_another(before, situation)


def _is_load_another(before: Called, situation: Situation) -> bool:
    """Whether the load is clearly another one than that which called for an addition, whatever the addition does."""
    load, traffic = situation.load, situation.load.traffic
    if traffic is None:
        return False
    return _is_another_load(before, _growth(before, load, traffic), traffic, situation.policy.window_seconds)


def _being_judged(called: Called | None, situation: Situation, wanted: Numbers) -> Wait | None:
    last = next((mark for mark in reversed(situation.history.changes) if mark.added), None)
    if last is None or last.called is None or called is None or called.figure != last.called.figure:
        return None
    until = _unsure_until(last, last.called, situation)
    if until is None:
        return None
    figures: Numbers = (("called", called.figure), ("before", last.called.value), ("after", called.value))
    tried = "" if math.isinf(until) else to_rfc3339(math.ceil(until))
    numbers: Numbers = (("additions", 1), *figures, ("next_try", tried))
    return Wait(DecisionReason.ADDITION_NOT_PROVEN, (*wanted, *numbers))


def _unsure_until(last: ChangeRecord, before: Called, situation: Situation) -> float | None:
    """Return until when no addition follows one of which it is not known whether it helps; None: one may follow now.

    In POSIX seconds, and infinite while it is judged. Another load needs no such proof.
    """
    result = last.result
    if result is None or not _is_on_trial(last, situation):
        return None
    if result.verdict is Verdict.SERVES:
        return None if is_better(last, situation) else math.inf
    if result.verdict is not Verdict.NOT_KNOWN or _is_load_another(before, situation):
        return None
    ends = result.at + WITHOUT_EFFECT_SECONDS
    return ends if situation.now < ends else None


def replicas_without(situation: Situation) -> int:
    """Return the replicas that are wanted without the last additions in vain, if these may be taken back now.

    Nothing that serves ends for additions that do not serve, and none of them ends that may still begin to. The last
    one of these stays for a while.
    """
    now, brake = situation.placement.replicas, brake_of(situation)
    if brake is None or brake.is_awaited or not brake.pause_seconds:
        return now
    if brake.result.verdict is Verdict.DOES_NOT_HELP:
        return _without(brake, situation)
    longest, newcomers = patience_seconds(situation), situation.placement.newcomers
    if not all(_is_over(each, longest, situation) for each in newcomers):
        return now
    return min(now, _without(brake, situation) + (situation.now < brake.tries_until))


def _without(brake: Brake, situation: Situation) -> int:
    """Return the replicas without the last additions in vain."""
    placement, goal = situation.placement, situation.placement.replicas
    for mark in _in_vain(situation.history.changes, goal):
        goal = min(goal, mark.wanted - mark.added)
    serving = placement.ready if brake.result.verdict is Verdict.DOES_NOT_SERVE else 0
    return min(placement.replicas, max(goal, 1, situation.policy.min_replicas, serving))


def _in_vain(changes: tuple[ChangeRecord, ...], replicas: int) -> Iterator[ChangeRecord]:
    """Yield the last additions with the same verdict in vain, the newest first, as far as each change follows the last.

    Removals may lie between them, and what was taken back. A number that somebody wrote ends them, because it follows
    no change.
    """
    verdict: Verdict | None = None
    least, most = replicas, float(replicas)  # that the change before must have led to
    for mark in reversed(changes):
        wanted, found = mark.wanted, mark.result and mark.result.verdict
        if mark.kind not in (ChangeKind.ADD, *_FEWER) or not least <= wanted <= most:
            return
        least, most = (wanted - mark.added, wanted - mark.added) if mark.added else (wanted + 1, math.inf)
        if mark.kind in _FEWER or found is None:
            continue
        if found not in IN_VAIN or verdict not in (None, found):
            return
        yield mark
        verdict = found


def added_within_hour(history: ChangeHistory, now: float) -> int:
    """Return the replicas that were added in the last hour."""
    return sum(mark.added for mark in history.changes if now - mark.at < HOUR_SECONDS)
