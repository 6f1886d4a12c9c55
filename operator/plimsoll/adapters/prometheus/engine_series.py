"""Turn Prometheus' series into samples for each pod: combine the engines of a pod, drop duplicate series."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from plimsoll.adapters.prometheus.readings import is_count, is_share, without_lone_errors
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.engines.metrics import EngineMetrics, count_of, total_of
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample, PodSignals
from plimsoll.rebalance.signals.percentiles import buckets_of

MOST_SERIES = 4096
"""The most series of one pod that are read: 17 for each of 64 ranks, from two Prometheus servers, are 2176. More are no
engine's, and nothing is known of its load."""

MOST_BUCKETS = 128
"""The most buckets of one histogram that are read: vLLM 0.32 has 23 and 20 (``vllm/v1/metrics/buckets.py``)."""

BUCKET, BOUND = "_bucket", "le"
"""The ending of the series of a histogram's buckets, and their label with the upper bound (Prometheus' text format)."""

MOST_SCRAPES = 8192
"""The most scrapes of one pod that are read, the newest ones: a day has 5760 of 15 s. A page may give each series a
time of its own."""

MOST_RANKS = 256
"""The most ranks that are read one by one. Each sample that is remembered has their figures."""


class Series(NamedTuple):
    """One series: its labels and its raw samples by scrape time in POSIX seconds.

    ``name`` is the name of the metric in current releases. ``engine`` is the data-parallel rank as text; empty if
    the engine does not report it, and of a series of a gateway. ``part`` are the values of the labels by which the
    engine divides the figure, and its own name if it is added to another; mostly there are none.
    """

    labels: Mapping[str, str]
    points: Mapping[float, float]
    name: str
    engine: str
    part: tuple[str, ...] = ()

    @staticmethod
    def of(labels: Mapping[str, str], points: Mapping[float, float], metrics: EngineMetrics | None) -> Series:
        """Return the series with the current name of its metric. None: it is no engine's."""
        name = labels.get("__name__", "")
        if metrics is None:
            return Series(labels, points, name, "")
        current = bucket_names(metrics) if name.endswith(BUCKET) else metrics.former_names
        part = tuple([labels.get(label, "") for label in metrics.part_labels])
        whole = metrics.added_names.get(name)
        if whole is not None:
            current, part = {name: whole}, (*part, name)
        return Series(labels, points, current.get(name, name), labels.get(metrics.rank_label, ""), part)

    @property
    def freshness(self) -> tuple[float, int, bool, list[tuple[str, str]]]:
        """Sort key for series of the same metric and engine: newest, most samples, current name, then a fixed order."""
        current = self.labels.get("__name__") == self.name
        return (max(self.points), len(self.points), current, sorted(self.labels.items()))


def read_names(metrics: EngineMetrics) -> tuple[str, ...]:
    """Return the series that samples are made of, by current and former names, that of the use of the cache first.

    Those of buckets are :func:`bucket_names`.
    """
    names = (metrics.kv_usage, metrics.capacity, metrics.host_capacity, *(name for _, name in _summed(metrics)))
    more = (*metrics.former_names, *metrics.added_names)
    return (*dict.fromkeys(name for name in names if name and name not in more), *more)


def bucket_names(metrics: EngineMetrics) -> dict[str, str]:
    """Return the series of buckets that percentiles are made of, by their current and by their former names."""
    found = dict[str, str]()
    for histogram in (metrics.first_token_seconds, metrics.token_gap_seconds):
        total, ending = total_of(histogram), total_of("x").removeprefix("x")
        former = (old.removesuffix(ending) for old, name in metrics.former_names.items() if name == total)
        found |= {f"{each}{BUCKET}": f"{histogram}{BUCKET}" for each in (histogram, *former) if each}
    return found


def parse_series(result: Any, metrics: EngineMetrics | None, *, shift_seconds: float = 0.0) -> list[Series]:
    """Read the ``data.result`` of a range-vector reply; series without samples are left out.

    Args:
        result: the parsed JSON.
        metrics: the engine's names; None for series that are no engine's.
        shift_seconds: added to every time, to bring the server's clock to the caller's.

    Raises:
        SourceUnavailable: the reply has another shape.
    """
    try:
        read = [Series.of(entry["metric"], _points_of(entry["values"], shift_seconds), metrics) for entry in result]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a range vector") from error
    return [series for series in read if series.points]


def _points_of(values: Any, shift_seconds: float) -> dict[float, float]:
    """Return values by time. A point without a finite time belongs to no scrape and is left out."""
    points = {float(at) + shift_seconds: float(value) for at, value in values}
    return points if all(map(math.isfinite, points)) else {at: points[at] for at in points if math.isfinite(at)}


def pod_signals(pod: str, series: Sequence[Series], metrics: EngineMetrics) -> PodSignals:
    """Turn the series of one pod into samples, one for each scrape. An impossible number costs only itself.

    Several scrape targets may report the same pod (two Prometheus servers, a relabelled duplicate, an earlier pod of
    the same name). Their series differ in labels that the engine does not set. Only the target with the newest sample
    is used: the sum of several would count twice, and a mix would make the counters seem to reset.

    The engines (data-parallel ranks) of the pod are combined at each scrape: the sum of all counts, and the share of
    all their caches together that is in use. If a rank lacks a metric at a scrape, the metric is unknown there.
    """
    buckets = [one for one in series if one.name.endswith(BUCKET)]
    if buckets:
        series = [one for one in series if not one.name.endswith(BUCKET)]
    if len(series) > MOST_SERIES:
        return PodSignals(pod, ())
    scrape: dict[str, list[Series]] = {}
    chosen, targets = _newest_scrape(series, metrics)
    for one in chosen:
        scrape.setdefault(one.name, []).append(one)
        own = one.labels.get("__name__", "")
        if own in metrics.added_names:
            scrape.setdefault(own, []).append(one)
    engines = {one.engine for one in scrape.get(metrics.kv_usage, ())}
    caches = _caches_by_time(scrape.get(metrics.capacity, ()), engines, metrics.capacity_tokens)
    uses = _values_by_time(scrape.get(metrics.kv_usage, ()), engines)
    figures: dict[str, Mapping[float, Any]] = _sums(scrape, engines, metrics)
    figures["kv_usage"] = _usage_by_time(uses, caches)
    figures["kv_capacity_tokens"] = {at: sum(by_engine.values()) for at, by_engine in caches.items()}
    if metrics.host_capacity in scrape:
        there = _caches_by_time(scrape[metrics.host_capacity], engines, metrics.host_capacity_tokens)
        figures["host_cache_tokens"] = {at: sum(by_engine.values()) for at, by_engine in there.items()}
    times = sorted(set[float]().union(*figures.values()))[-MOST_SCRAPES:]
    if 1 < len(engines) <= MOST_RANKS:  # one rank's use is the pod's
        ranks = sorted(engines, key=lambda rank: (not rank.isdecimal(), len(rank), rank))
        figures["rank_usages"] = _by_rank(uses, ranks, is_share)
        figures["rank_queues"] = _by_rank(_values_by_time(scrape.get(metrics.waiting, ()), engines), ranks, is_count)
    if buckets:
        figures |= _histograms([one for one in buckets if targets is None or targets(one)], engines, metrics)
    samples = (_sample(at, figures) for at in times)
    return PodSignals(pod, without_lone_errors(samples))


def _sample(at: float, figures: Mapping[str, Mapping[float, Any]]) -> EngineSample:
    return EngineSample(at=at, **{name: by_time[at] for name, by_time in figures.items() if at in by_time})


def _summed(metrics: EngineMetrics) -> tuple[tuple[str, str], ...]:
    """Return the fields of a sample that are sums over the engines, each with the name of its series."""
    names = {
        "waiting": metrics.waiting,
        "running": metrics.running,
        "preemptions_total": metrics.preemptions,
        "prompt_tokens_total": metrics.prompt_tokens,
        "generation_tokens_total": metrics.generation_tokens,
        "finished_total": count_of(metrics.output_lengths),
        "finished_prompt_tokens_total": total_of(metrics.prompt_lengths),
        "finished_output_tokens_total": total_of(metrics.output_lengths),
        "ttft_seconds_total": total_of(metrics.first_token_seconds),
        "first_tokens_total": count_of(metrics.first_token_seconds),
        "token_gap_seconds_total": total_of(metrics.token_gap_seconds),
        "token_gaps_total": count_of(metrics.token_gap_seconds),
        "prefix_queried_tokens_total": metrics.prefix_queried,
        "prefix_hit_tokens_total": metrics.prefix_hit,
        "behind_hit_tokens_total": metrics.behind_hit,
    }
    return tuple(names.items())


def _sums(
    scrape: Mapping[str, Sequence[Series]], engines: AbstractSet[str], metrics: EngineMetrics
) -> dict[str, Mapping[float, Any]]:
    return {field: _sum_by_time(scrape[name], engines) for field, name in _summed(metrics) if name in scrape}


def _histograms(
    series: Sequence[Series], engines: AbstractSet[str], metrics: EngineMetrics
) -> dict[str, Mapping[float, Buckets]]:
    """Return the buckets of each histogram at each scrape that has those of all engines, added up.

    A bound that one of the engines lacks at a scrape is left out there, and so is a scrape whose counts cannot be.
    """
    fields = {"first_token_buckets": metrics.first_token_seconds, "token_gap_buckets": metrics.token_gap_seconds}
    found = dict[str, Mapping[float, Buckets]]()
    for field, histogram in fields.items():
        by_bound = dict[float, list[Series]]()
        for one in series:
            bound = _bound_of(one.labels)
            if histogram and one.name == f"{histogram}{BUCKET}" and bound is not None:
                by_bound.setdefault(bound, []).append(one)
        if len(by_bound) <= MOST_BUCKETS:
            found[field] = _by_time({bound: _sum_by_time(some, engines) for bound, some in by_bound.items()})
    return found


def _bound_of(labels: Mapping[str, str]) -> float | None:
    try:
        return float(labels[BOUND])
    except (KeyError, ValueError):
        return None


def _by_time(counts: Mapping[float, Mapping[float, float]]) -> dict[float, Buckets]:
    times = {at for by_time in counts.values() for at in by_time}
    read = {at: buckets_of({bound: by_time[at] for bound, by_time in counts.items() if at in by_time}) for at in times}
    return {at: found for at, found in read.items() if found is not None}


def _newest_scrape(
    series: Sequence[Series], metrics: EngineMetrics
) -> tuple[Sequence[Series], Callable[[Series], bool] | None]:
    """Return the series of that target whose load was scraped last, and whether another is of it; None: all are."""
    loads = [one for one in series if one.name not in metrics.of_sizes]
    if not loads:
        return (), None
    # The metrics of sizes may have dozens of extra labels, so the target's labels come from the others.
    names = set[str]().union(*[one.labels for one in loads]) - {"__name__"} - metrics.labels
    usual = _only(names, loads[0])
    if len(usual) == len(names) and all(usual <= one.labels.items() for one in series):
        return series, None
    newest = _only(names, max(loads, key=lambda one: one.freshness))
    return [one for one in series if _only(names, one) == newest], lambda one: _only(names, one) == newest


def _only(names: AbstractSet[str], series: Series) -> frozenset[tuple[str, str]]:
    """Return those labels of a series that have one of these names. A page may have as many names as series."""
    return frozenset([item for item in series.labels.items() if item[0] in names])


def _sum_by_time(series: Sequence[Series], engines: AbstractSet[str]) -> Mapping[float, float]:
    if len(series) == len(engines) == 1 and series[0].engine in engines:
        return series[0].points
    return {at: _sum(list(values.values())) for at, values in _values_by_time(series, engines).items()}


def _values_by_time(series: Sequence[Series], engines: AbstractSet[str]) -> dict[float, dict[str, float]]:
    """Return the engines' values of one metric, each from its freshest series, at each scrape that has all of them."""
    if len(series) == len(engines) == 1 and (engine := series[0].engine) in engines:
        return {at: {engine: value} for at, value in series[0].points.items()}
    best: dict[str, dict[tuple[str, ...], Series]] = {}
    for one in series:
        parts = best.setdefault(one.engine, {})
        if one.part not in parts or one.freshness > parts[one.part].freshness:
            parts[one.part] = one
    if not best or set(best) != engines:
        return {}
    points = {engine: _added([*parts.values()]) for engine, parts in best.items()}
    times = set.intersection(*map(set, points.values()))
    return {at: {engine: by_time[at] for engine, by_time in points.items()} for at in times}


def _added(parts: Sequence[Series]) -> Mapping[float, float]:
    """Return the sum of the parts of a figure at each scrape. A part counts from its first sample, and is 0 before.

    A scrape that lacks a part which was there before says nothing.
    """
    if len(parts) == 1:
        return parts[0].points
    begun = [(min(one.points), one.points) for one in parts]
    found = dict[float, float]()
    for at in set[float]().union(*(one.points for one in parts)):
        values = [points.get(at) for since, points in begun if since <= at]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found[at] = _sum(known)
    return found


def _sum(values: Sequence[float]) -> float:
    """Add the engines' values. If one is impossible (negative, NaN), return it, so that no other value hides it."""
    return next((value for value in values if not value >= 0), None) or sum(values)


def _usage_by_time(
    uses: Mapping[float, Mapping[str, float]], caches: Mapping[float, Mapping[str, int]]
) -> dict[float, float]:
    """Return the share of the KV caches of all engines together that is in use, at each scrape."""
    last = caches[max(caches)] if caches else {}
    return {at: _share(by_engine, caches.get(at, last)) for at, by_engine in uses.items()}


def _by_rank(
    values: Mapping[float, Mapping[str, float]], ranks: Sequence[str], is_possible: Callable[[float], bool]
) -> dict[float, tuple[float, ...]]:
    """Return a figure of each rank, in the order of the ranks, at each scrape at which all are possible."""
    return {
        at: tuple(by_engine[rank] for rank in ranks)
        for at, by_engine in values.items()
        if all(is_possible(value) for value in by_engine.values())
    }


def _share(uses: Mapping[str, float], caches: Mapping[str, int]) -> float:
    """Return the tokens in use on all engines as a share of their caches.

    Each engine has a cache of its own for its own requests, and the balance between them is not perfect. So the highest
    share of one engine says little of the others. It is returned only if no scrape has the size of every cache. A
    share that cannot be (below 0, above 1, NaN) is returned as it is, so that no other engine hides it.
    """
    odd = next((use for use in uses.values() if not is_share(use)), None)
    total = sum(caches.values())
    if odd is not None or len(uses) == 1 or total <= 0:
        return max(uses.values()) if odd is None else odd
    return sum(use * caches[engine] for engine, use in uses.items()) / total


def _caches_by_time(
    series: Iterable[Series],
    engines: AbstractSet[str],
    capacity_tokens: Callable[[Mapping[str, str], float], int | None],
) -> dict[float, dict[str, int]]:
    """Return the tokens of each engine's cache at each scrape that has all of them.

    A changed label starts a new series. So an engine has two series, one after the other, if it learned its number of
    blocks after the first scrape.
    """
    found: dict[float, dict[str, int]] = {}
    for one in series:
        for at, value in one.points.items():
            tokens = capacity_tokens(one.labels, value)
            if tokens is not None:
                found.setdefault(at, {})[one.engine] = tokens
    return {at: by_engine for at, by_engine in found.items() if set(by_engine) == engines}
