"""Figures over several runs: the mean over the seeds of a scenario, and the sum over the scenarios of a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from benchmarks.rebalance.scoring import Score


@dataclass(frozen=True, slots=True)
class Mean:
    """The figures of one policy in one scenario, as means over seeds.

    ``recovery_seconds`` is the mean of the rises that were recovered from, None where there are none. ``never`` counts
    the others, of all seeds. ``met`` is in how many seeds the situation's goal was met, None where it has none, and
    ``misses`` is what was missed in the others.
    """

    policy: str
    scenario: str
    group: str
    seeds: int
    goodput: float | None
    errors: float | None
    gave_up: float | None
    lost: float | None
    gpu_hours: float
    usd: float
    changes_per_hour: float
    flips: float
    recovery_seconds: float | None
    never: int
    most_replicas: float = 0.0
    met: int | None = None
    misses: tuple[str, ...] = ()

    def figures(self) -> dict[str, object]:
        """Return the figures for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Total:
    """The figures of one policy over scenarios of equal weight.

    Goodput, errors with their two kinds, and changes an hour are means over scenarios. GPU-hours, US dollars and flips
    are sums. The recovery is the mean over the scenarios that have one.
    """

    goodput: float | None
    errors: float | None
    gave_up: float | None
    lost: float | None
    gpu_hours: float
    usd: float
    changes_per_hour: float
    flips: float
    recovery_seconds: float | None
    never: int


def means(scores: Iterable[Score]) -> list[Mean]:
    """Return the means over seeds, in the order in which policies and scenarios first come."""
    runs: dict[tuple[str, str], list[Score]] = {}
    for each in scores:
        runs.setdefault((each.policy, each.scenario), []).append(each)
    return [_mean(own) for own in runs.values()]


def _mean(runs: Sequence[Score]) -> Mean:
    rises = [rise.seconds for run in runs for rise in run.recoveries]
    judged = [run.misses for run in runs if run.misses is not None]
    return Mean(
        policy=runs[0].policy,
        scenario=runs[0].scenario,
        group=runs[0].group,
        seeds=len(runs),
        goodput=_of(runs, lambda run: run.goodput),
        errors=_of(runs, lambda run: run.errors),
        gave_up=_of(runs, lambda run: run.gave_up),
        lost=_of(runs, lambda run: run.lost),
        gpu_hours=mean(run.gpu_hours for run in runs),
        usd=mean(run.usd for run in runs),
        changes_per_hour=mean(run.changes_per_hour for run in runs),
        flips=mean(run.flips for run in runs),
        recovery_seconds=_known([seconds for seconds in rises if seconds is not None]),
        never=rises.count(None),
        most_replicas=mean(run.most_replicas for run in runs),
        met=judged.count(()) if judged else None,
        misses=tuple(miss for misses in judged for miss in misses),
    )


def total(own: Sequence[Mean]) -> Total:
    """Return the figures of one policy over several scenarios.

    Raises:
        ValueError: there is no scenario, or there are those of several policies or sets, which never mix.
    """
    if len({(each.policy, each.group) for each in own}) != 1:
        raise ValueError("a total is of one policy in one set of scenarios")
    return Total(
        goodput=_known([each.goodput for each in own if each.goodput is not None]),
        errors=_known([each.errors for each in own if each.errors is not None]),
        gave_up=_known([each.gave_up for each in own if each.gave_up is not None]),
        lost=_known([each.lost for each in own if each.lost is not None]),
        gpu_hours=sum(each.gpu_hours for each in own),
        usd=sum(each.usd for each in own),
        changes_per_hour=mean(each.changes_per_hour for each in own),
        flips=sum(each.flips for each in own),
        recovery_seconds=_known([each.recovery_seconds for each in own if each.recovery_seconds is not None]),
        never=sum(each.never for each in own),
    )


def _of(runs: Sequence[Score], figure: Callable[[Score], float | None]) -> float | None:
    return _known([value for run in runs if (value := figure(run)) is not None])


def _known(values: Sequence[float]) -> float | None:
    return mean(values) if values else None
