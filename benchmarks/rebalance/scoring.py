"""The figures of a run: promises kept, errors, cost, changes of mind, and the time until a rise of demand is met."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from benchmarks.rebalance.scenarios.situation import Goal, Situation
from benchmarks.rebalance.values import Outcome, Scenario
from plimsoll.simulation.values import AnsweredRequest, Fate
from plimsoll.simulation.verdicts import flips, keeps, real_changes

HOUR = 3600.0
MINUTE = 60.0
GRID_SECONDS = 15.0
"""Minutes are looked at from so many seconds to the next."""

GOOD_PERCENT = 95.0
"""The goodput from which a minute is good."""

HARM_SECONDS = 300.0
"""A rise did harm if a minute that begins within this time after it is bad. Later bad minutes have other causes."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long a rise of demand at ``at`` hurt, in seconds; 0 if it did not. None: until the next rise or the end."""

    at: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one run.

    ``goodput``, ``errors``, ``gave_up`` and ``lost`` are per cent of all requests, None where there was none. Errors
    are those whose client gave up, and those that were lost because their replica ended. ``usd`` is at the catalogue's
    price. ``flips`` are explained at :func:`flips`. ``most_replicas`` are the most that were wanted at a time.
    ``misses`` is what of the situation's goal was missed, in words; None: there is no goal.
    """

    scenario: str
    group: str
    policy: str
    seed: int
    requests: int
    goodput: float | None
    errors: float | None
    gave_up: float | None
    lost: float | None
    gpu_hours: float
    usd: float
    changes_per_hour: float
    flips: int
    recoveries: tuple[Recovery, ...]
    most_replicas: int = 0
    misses: tuple[str, ...] | None = None

    def figures(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return asdict(self)


def score(outcome: Outcome, situation: Situation) -> Score:
    """Return the figures of a run. Those of two deployments on the same GPUs are of both; recovery is of the first."""
    each = [outcome] if outcome.neighbour is None else [outcome, outcome.neighbour]
    scenario, answered = outcome.scenario, [one for run in each for one in run.answered]
    hours = [(run.replica_seconds / HOUR, run.scenario.engine) for run in each]
    return Score(
        scenario=scenario.name,
        group=situation.group.value,
        policy=outcome.policy,
        seed=outcome.seed,
        requests=len(answered),
        goodput=_percent(sum(keeps(one, run.scenario) for run in each for one in run.answered), len(answered)),
        errors=errors(answered),
        gave_up=part_of(answered, Fate.GAVE_UP),
        lost=part_of(answered, Fate.LOST),
        gpu_hours=sum(replica_hours * engine.tensor_parallel for replica_hours, engine in hours),
        usd=sum(replica_hours * engine.hourly_price for replica_hours, engine in hours),
        changes_per_hour=sum(len(real_changes(run.changes)) for run in each) * HOUR / scenario.seconds,
        flips=sum(flips(run.changes) for run in each),
        recoveries=tuple(recoveries(outcome, situation.rises)),
        most_replicas=_most(each),
    )


def _most(runs: Sequence[Outcome]) -> int:
    """Return the most replicas that all deployments together want at a time."""
    wanted = [run.scenario.start_replicas for run in runs]
    most = sum(wanted)
    changes = ((change.at, index, change.after) for index, run in enumerate(runs) for change in run.changes)
    for _, index, after in sorted(changes):
        wanted[index] = after
        most = max(most, sum(wanted))
    return most


def missed(goal: Goal, found: Score, other: Score) -> tuple[str, ...]:
    """Return what of a goal a run missed, in words, given the run to compare it with."""
    misses = []
    more, ours, theirs = found.most_replicas - other.most_replicas, found.goodput or 0.0, other.goodput or 0.0
    if goal.replicas is not None and more > goal.replicas:
        misses.append(f"{found.most_replicas} replicas, {more} more")
    if goal.points is not None and ours < theirs - goal.points:
        misses.append(f"{ours:.1f} %, {theirs - ours:.1f} less")
    if goal.hours is not None and found.gpu_hours > goal.hours * other.gpu_hours:
        misses.append(f"{found.gpu_hours:.1f} GPU-hours, {found.gpu_hours / other.gpu_hours:.2f} x")
    if found.flips > goal.flips:
        misses.append(f"{found.flips} flips")
    return tuple(misses)


def goodput(answered: Sequence[AnsweredRequest], scenario: Scenario) -> float | None:
    """Return the per cent of all requests that were served with both promises kept; None where there are none."""
    return _percent(sum(keeps(each, scenario) for each in answered), len(answered))


def errors(answered: Sequence[AnsweredRequest]) -> float | None:
    """Return the per cent of all requests whose client gave up or lost its replica; None where there are none."""
    return _percent(sum(each.fate is not Fate.SERVED for each in answered), len(answered))


def part_of(answered: Sequence[AnsweredRequest], fate: Fate) -> float | None:
    """Return the per cent of all requests that had a fate; None where there are none."""
    return _percent(sum(each.fate is fate for each in answered), len(answered))


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def recoveries(outcome: Outcome, rises: Sequence[float]) -> Iterator[Recovery]:
    """Yield the recovery from each rise of demand.

    A rise did harm if a minute of requests that begins within :data:`HARM_SECONDS` after it has less than
    :data:`GOOD_PERCENT` goodput. It is over at the beginning of the first good minute after that one. Requests count in
    the minute of their arrival, and a minute without requests is neither good nor bad.
    """
    answered = sorted(outcome.answered, key=lambda each: each.arrival.at)
    moments = [each.arrival.at for each in answered]
    kept = [keeps(each, outcome.scenario) for each in answered]
    for rise, end in pairwise((*rises, outcome.scenario.seconds)):
        minutes = list(_minutes(moments, kept, rise, end))
        yield Recovery(rise, _recovered_after(minutes))


def _minutes(moments: Sequence[float], kept: Sequence[bool], rise: float, end: float) -> Iterator[tuple[float, bool]]:
    """Yield the seconds after a rise at which each minute with requests begins, and whether the minute is good."""
    for step in range(int((end - rise - MINUTE) // GRID_SECONDS) + 1):
        begin = rise + step * GRID_SECONDS
        left, right = bisect_left(moments, begin), bisect_left(moments, begin + MINUTE)
        if right > left:
            yield step * GRID_SECONDS, 100 * sum(kept[left:right]) >= GOOD_PERCENT * (right - left)


def _recovered_after(minutes: Sequence[tuple[float, bool]]) -> float | None:
    """Return the seconds until the first good minute after the first bad one; None where there is none."""
    hurt = next((after for after, good in minutes if not good and after <= HARM_SECONDS), None)
    if hurt is None:
        return 0.0
    return next((after for after, good in minutes if good and after > hurt), None)
