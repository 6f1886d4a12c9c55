"""Who is near its line, and since when: deployments by their two gauges, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from plimsoll.adapters.prometheus.readings import is_count, is_share
from plimsoll.console.drawing.heat_map import TOO_MUCH_FROM, HeatMapStrip, LoadStep, step_of, strip_of
from plimsoll.console.views.load.live_use import Asked, EnginePod, LiveUse, MapSpan, PastUse, PodPast, SampledFigure
from plimsoll.console.views.paging import Query, address_of, has_words
from plimsoll.console.views.rows import DeploymentRow, LiveRow, PoolRow
from plimsoll.console.views.sorting import SortColumn
from plimsoll.console.views.words import MINUTE, UNKNOWN, age, count, percent
from plimsoll.console.views.world import PodRow
from plimsoll.domain.kubernetes_names import ObjectKey

SPANS = {
    "15m": MapSpan(15 * MINUTE, 15),
    "1h": MapSpan(60 * MINUTE, 60),
    "6h": MapSpan(360 * MINUTE, 360),
    "24h": MapSpan(1440 * MINUTE, 1440),
}
"""The times that a map can show, 60 columns each, by the word in the URL."""

SPAN_WORDS = {"15m": "15 min", "1h": "60 min", "6h": "6 h", "24h": "24 h"}

USUAL_SPAN = "1h"


@dataclass(frozen=True, slots=True)
class Gauge:
    """One of the two gauges of a deployment.

    Attributes:
        now: the last value in percent, as text.
        figures: the numbers behind it, as text.
        step: the step of the last value; UNKNOWN while it is stale.
        is_stale: whether the value is too old to count as live, or not known.
        age: the age of the value, as text.
        steps: the step of each column of the map, the oldest first.
        queued: whether requests waited in each column; empty for the gauge without marks.
        too_much: how long it has been over 80 %, as text; empty if it is not.
    """

    now: str
    figures: str
    step: LoadStep
    is_stale: bool
    age: str
    steps: tuple[LoadStep, ...]
    queued: tuple[bool, ...] = ()
    too_much: str = ""
    column_seconds: int = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the last value is 80 % or more."""
        return self.step >= LoadStep.TOO_MUCH

    @property
    def strip(self) -> HeatMapStrip:
        """The drawing of the columns."""
        return strip_of(self.steps, self.queued)

    @property
    def sentence(self) -> str:
        """The columns in words, the fullest steps first."""
        if not self.steps:
            return "nothing is known of the past"
        counts = Counter(self.steps)
        parts = [f"{step.word} for {age(counts[step] * self.column_seconds)}" for step in sorted(counts, reverse=True)]
        queued = [f"requests waited in {age(sum(self.queued) * self.column_seconds)}"] if any(self.queued) else []
        return ", ".join([*parts, *queued])


@dataclass(frozen=True, slots=True)
class PressureRow:
    """One deployment of the map."""

    key: ObjectKey
    kv_cache_in_use: Gauge
    sequence_slots: Gauge
    waiting: str
    preemptions: str
    found: str
    pods: str
    live: LiveRow | None


@dataclass(frozen=True, slots=True)
class SpanChoice:
    """A time that the map can show, and its address."""

    words: str
    address: str
    is_chosen: bool


def span_word(word: str) -> str:
    """Return the time that a parameter of the URL asks for. An unknown one is the usual one."""
    return word if word in SPANS else USUAL_SPAN


def matching(rows: Iterable[DeploymentRow], search: str) -> list[DeploymentRow]:
    """Return the deployments whose namespace, name or model has all words of a search."""
    return [row for row in rows if has_words(search, str(row.key), row.model)]


def span_choices(chosen: str, query: Query, path: str) -> tuple[SpanChoice, ...]:
    """Return the times that the map can show, each with its address, which keeps search and order."""
    return tuple(
        SpanChoice(words, address_of(path, query, {"span": word}), word == chosen) for word, words in SPAN_WORDS.items()
    )


def asked_of(rows: Iterable[DeploymentRow], pods: Iterable[PodRow]) -> dict[ObjectKey, tuple[EnginePod, ...]]:
    """Return the pods of each deployment that a person sees. A deployment without pods has none."""
    known = {row.key: row for row in rows}
    found: dict[ObjectKey, list[EnginePod]] = {key: [] for key in known}
    for pod in pods:
        if pod.is_ours and pod.owner in known:
            found[pod.owner].append(_engine_pod(pod, known[pod.owner]))
    return {key: tuple(some) for key, some in found.items()}


def _engine_pod(pod: PodRow, row: DeploymentRow) -> EnginePod:
    pool = next((each for each in row.pools if each.name == pod.pool), None)
    return EnginePod(pod.key, _places(pool, row), None if pool is None else pool.kv_tokens_reported)


def _places(pool: PoolRow | None, row: DeploymentRow) -> int | None:
    """Return the requests that a replica serves at the same time, on all its engines."""
    if pool is not None and pool.max_sequences is not None:
        return pool.max_sequences * pool.split.data_parallel
    return row.max_sequences


def worst_first(uses: Mapping[ObjectKey, LiveUse], now: float) -> list[ObjectKey]:
    """Return the deployments by their fuller gauge, then by their queue. Stale ones follow, then those unknown."""
    return sorted(uses, key=lambda key: (_rank(uses[key], now), key))


def sorts_of(uses: Mapping[ObjectKey, LiveUse]) -> tuple[SortColumn[ObjectKey], ...]:
    """Return the columns that the deployments can be sorted by. They come worst first."""

    def of_use(figure: Callable[[LiveUse], SampledFigure | None]) -> Callable[[ObjectKey], float | None]:
        def value(key: ObjectKey) -> float | None:
            found = figure(uses[key])
            return None if found is None else found.value

        return value

    return (
        SortColumn("name", "Deployment", lambda key: key),
        SortColumn("kv", "KV cache now", of_use(lambda use: use.kv), is_falling=True),
        SortColumn("batch", "Batch now", of_use(lambda use: use.sequence_slots), is_falling=True),
        SortColumn("waiting", "Waiting", of_use(lambda use: use.waiting), is_falling=True),
    )


def _rank(use: LiveUse, now: float) -> tuple[int, float, float]:
    fullest = max((each.value for each in (use.kv, use.sequence_slots) if each is not None), default=0.0)
    waiting = 0.0 if use.waiting is None else use.waiting.value
    unknown = 2 if not use.samples else 1 if use.is_stale(now) else 0
    return (unknown, -fullest, -waiting)


def pressure_row(
    key: ObjectKey,
    pods: Sequence[EnginePod],
    use: LiveUse,
    past: PastUse | None,
    now: float,
    live: LiveRow | None = None,
) -> PressureRow:
    """Return one deployment's row. ``past`` is None if nothing is known of the past."""
    columns = _Columns.of(pods, past)
    return PressureRow(
        key=key,
        kv_cache_in_use=_gauge(use.kv, _tokens(use), columns.kv, past, now),
        sequence_slots=_gauge(
            use.sequence_slots, _running(use), columns.sequence_slots, past, now, queued=columns.queued
        ),
        waiting=UNKNOWN if use.waiting is None else count(round(use.waiting.value)),
        preemptions=UNKNOWN if columns.preemptions is None else count(round(columns.preemptions)),
        found=percent(use.found_share),
        pods=f"{use.reporting} of {use.pods} pods report",
        live=live,
    )


def _tokens(use: LiveUse) -> str:
    if use.kv_tokens is None or use.kv_capacity_tokens is None:
        return "size of the KV cache unknown" if use.kv else "no samples"
    return f"{count(round(use.kv_tokens.value))} of {count(use.kv_capacity_tokens)} tokens"


def _running(use: LiveUse) -> str:
    if use.running is None:
        return "no samples"
    return f"{count(round(use.running.value))} of {count(use.max_sequences)} requests"


def _gauge(
    last: SampledFigure | None,
    figures: str,
    shares: Sequence[float | None],
    past: PastUse | None,
    now: float,
    *,
    queued: tuple[bool, ...] = (),
) -> Gauge:
    is_stale = last is None or last.is_stale(now)
    return Gauge(
        now=percent(None if last is None else last.value),
        figures=figures,
        step=LoadStep.UNKNOWN if last is None or is_stale else step_of(last.value),
        is_stale=is_stale,
        age="" if last is None else age(last.age(now)),
        steps=tuple(map(step_of, shares)),
        queued=queued,
        column_seconds=0 if past is None else past.span.step,
        too_much="" if last is None or is_stale else _too_much(last.value, shares, past, now),
    )


def _too_much(last: float, shares: Sequence[float | None], past: PastUse | None, now: float) -> str:
    """Return since when a gauge has been too high: back to the first column that was lower or had no samples."""
    if last < TOO_MUCH_FROM:
        return ""
    high = 0
    for share in reversed(shares):
        if share is None or share < TOO_MUCH_FROM:
            break
        high += 1
    if past is None or not high:
        return "over 80 % now"
    since = now - past.start_of(len(shares) - high)
    more = "more than " if high == len(shares) else ""
    return f"over 80 % for {more}{age(since)}"


@dataclass(frozen=True, slots=True)
class _Columns:
    """The values of a deployment's columns; None if a column has no samples."""

    kv: tuple[float | None, ...] = ()
    sequence_slots: tuple[float | None, ...] = ()
    queued: tuple[bool, ...] = ()
    preemptions: float | None = None

    @staticmethod
    def of(pods: Sequence[EnginePod], past: PastUse | None) -> _Columns:
        if past is None:
            return _Columns()
        mine = [(pod, past.pods[pod.key]) for pod in pods if pod.key in past.pods]
        known = [each.preemptions for _, each in mine if each.preemptions is not None]
        return _Columns(
            kv=_each(mine, past, lambda each: each.kv, is_share, _mean_share),
            sequence_slots=_each(mine, past, lambda each: each.running, is_count, _share_of_places),
            queued=tuple(bool(waiting) for waiting in _each(mine, past, lambda each: each.waiting, is_count, _total)),
            preemptions=sum(known) if known else None,
        )


_Found = Sequence[tuple[EnginePod, float]]


def _each(
    mine: Sequence[tuple[EnginePod, PodPast]],
    past: PastUse,
    values: Callable[[PodPast], Mapping[float, float]],
    is_possible: Callable[[float], bool],
    combined: Callable[[_Found], float | None],
) -> tuple[float | None, ...]:
    """Return one figure of all pods together for each column. Impossible values are left out."""
    columns: list[list[tuple[EnginePod, float]]] = [[] for _ in range(past.span.columns)]
    for pod, each in mine:
        for at, value in values(each).items():
            column = past.column_of(at)
            if column is not None and is_possible(value):
                columns[column].append((pod, value))
    return tuple(combined(found) if found else None for found in columns)


def _mean_share(found: _Found) -> float:
    """Return the share of all caches together. Without all sizes, the caches count as equal."""
    sizes = [pod.kv_tokens or 0 for pod, _ in found]
    weights = sizes if all(sizes) else [1] * len(found)
    return sum(share * weight for (_, share), weight in zip(found, weights, strict=True)) / sum(weights)


def _share_of_places(found: _Found) -> float | None:
    places = [pod.max_sequences for pod, _ in found]
    known = [each for each in places if each]
    return sum(running for _, running in found) / sum(known) if len(known) == len(places) else None


def _total(found: _Found) -> float:
    return sum(value for _, value in found)


def pods_of(asked: Asked, keys: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
    """Return the names of the pods of some deployments."""
    return frozenset(pod.key for key in keys for pod in asked.get(key, ()))
