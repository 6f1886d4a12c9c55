"""The demand of the requests and the capacity of the replicas over the whole window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from plimsoll.rebalance.pod_window import DemandPoint, PodWindow, judge_pod
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, PodSignals, PodState, SignalState, worst


def summarize(
    pods: Sequence[PodSignals],
    expected_pods: Sequence[str],
    now: float,
    policy: RebalancePolicy,
    *,
    request_tokens: int,
    ready_since: Mapping[str, float] | None = None,
    available: bool = True,
) -> LoadSummary:
    """Summarize the engines' metrics within the policy's window.

    Args:
        pods: the samples read. Pods that are not in ``expected_pods`` are ignored.
        expected_pods: the ready pods that report metrics, one for each ready replica. One without samples is MISSING.
        now: POSIX seconds.
        policy: gives the window and the bound on age.
        request_tokens: declared KV tokens of one request (the expected lengths, else the context). A waiting request is
            assumed to need them where its engine runs no request from which to take a mean.
        ready_since: POSIX seconds since when each pod serves. Older samples belong to another pod of the same name or
            to a start-up, and are ignored.
        available: False when Prometheus gave no answer; then nothing else is read.
    """
    expected = sorted(set(expected_pods))
    if not available:
        states = tuple(PodState(pod, SignalState.UNAVAILABLE) for pod in expected)
        return LoadSummary(SignalState.UNAVAILABLE, states, policy.window_seconds)
    since = ready_since or {}
    read = {pod: [sample for signals in pods if signals.pod == pod for sample in signals.samples] for pod in expected}
    windows = [
        judge_pod(
            pod,
            [sample for sample in read[pod] if not sample.at < since.get(pod, sample.at)],
            now=now,
            window_seconds=policy.window_seconds,
            max_age_seconds=policy.max_age_seconds,
            request_tokens=request_tokens,
        )
        for pod in expected
    ]
    return _summed(windows, policy.window_seconds)


def _summed(windows: Sequence[PodWindow], window_seconds: int) -> LoadSummary:
    fresh = [window for window in windows if window.state is SignalState.FRESH]
    ages = [window.age_seconds for window in windows if window.age_seconds is not None]
    sums = list(_sums_over_time(fresh)) or [DemandPoint(0.0, 0, 0, 0)]
    held = [window.capacity_tokens or 0 for window in fresh]
    reported = [window.capacity_tokens for window in windows if window.capacity_tokens is not None]
    preemptions = _total([window.preemptions for window in fresh])
    return LoadSummary(
        state=worst(tuple(window.state for window in windows)),
        pods=tuple(PodState(window.pod, window.state, window.age_seconds) for window in windows),
        window_seconds=window_seconds,
        oldest_age_seconds=max(ages, default=None),
        used_tokens=sums[-1].used_tokens,
        demanded_tokens=sums[-1].demanded_tokens,
        demanded_sustained_tokens=min(point.demanded_tokens for point in sums),
        demanded_peak_tokens=max(point.demanded_tokens for point in sums),
        held_tokens=sum(held),
        largest_capacity_tokens=max(held, default=0),
        smallest_capacity_tokens=min(reported, default=None),
        waiting_sustained=min(point.waiting for point in sums),
        waiting_peak=max(point.waiting for point in sums),
        preemptions=None if preemptions is None else round(preemptions),
        prompt_tokens_per_second=_total([window.prompt_tokens_per_second for window in fresh]),
        generation_tokens_per_second=_total([window.generation_tokens_per_second for window in fresh]),
    )


def _sums_over_time(windows: Sequence[PodWindow]) -> Iterator[DemandPoint]:
    """Yield the sum over all pods at each scrape of any pod. Each pod counts with its latest scrape so far.

    Pods are scraped at different moments. The sum starts at the first moment when every pod has a sample.
    """
    if not windows:
        return
    complete_from = max(window.points[0].at for window in windows)
    events = sorted(
        ((point.at, index, point) for index, window in enumerate(windows) for point in window.points),
        key=lambda event: event[:2],
    )
    latest: dict[int, DemandPoint] = {}
    used = demanded = waiting = 0
    for at, scrapes in groupby(events, key=lambda event: event[0]):
        for _, index, point in scrapes:
            before = latest.get(index, _NOTHING)
            used += point.used_tokens - before.used_tokens
            demanded += point.demanded_tokens - before.demanded_tokens
            waiting += point.waiting - before.waiting
            latest[index] = point
        if at >= complete_from:
            yield DemandPoint(at, used, demanded, waiting)


def _total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where one of the values is unknown or there are no values."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


_NOTHING = DemandPoint(0.0, 0, 0, 0)
