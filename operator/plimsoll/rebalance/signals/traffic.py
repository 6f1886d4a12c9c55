"""The traffic of a deployment: what arrives, how long requests are, and what they hold now."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import fmean
from typing import Any, NamedTuple

from plimsoll.rebalance.signals import tracks
from plimsoll.rebalance.signals.metrics import EngineSample
from plimsoll.rebalance.signals.percentiles import FIRST_TOKEN, TOKEN, Percentile, percentile_of
from plimsoll.rebalance.signals.tracks import Read, Track

LENGTHS_SECONDS = (120.0, 300.0, 600.0)
"""Lengths are means over one of these times, or over the last scrapes. In all but the longest, enough requests must
have ended, so that few give no wild means."""

ENOUGH_FINISHED = 60
"""The mean of so many lengths with the spread of public traces (0.8 to 1.0) is within 13 % (one standard deviation)."""

FEW_FINISHED = 20
UNENDED_SHARE = 0.2
"""With fewer ends, or if more than this part of the requests has not ended, the tokens of running requests count
too: short answers end first."""

MOST_LONGER = 2.5
"""The most by which running requests raise the mean length."""

OLDEST_SHARE = 2.0
"""While none has ended, the first ones have about twice the mean tokens of all, and no answer is shorter than that."""

OUTPUT_WORK = 4.0
"""A generated token costs a replica about as much time as so many prompt tokens. It only has to be right enough to
compare traffic of different lengths."""

SIGNIFICANT = 3.0
"""A newer rate counts if it differs from that of a longer time by more than so many standard deviations of chance."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean tokens of a request. ``cached`` tokens of its prompt were in the prefix cache, or in a cache behind it.

    ``in_cache`` are the KV tokens that a running request holds on average. ``behind`` are those of ``cached`` that a
    cache behind the GPUs' had; None if the engine does not count them. ``is_turning``: prompts are of a new kind
    since the last scrapes, and how long its answers are is not known yet.
    """

    prompt: float
    output: float
    cached: float
    in_cache: float
    behind: float | None = None
    is_turning: bool = field(default=False, compare=False)

    @property
    def work(self) -> float:
        """The work of a request, in prompt tokens that are computed."""
        return max(1.0, self.prompt - self.cached) + OUTPUT_WORK * self.output


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second, counted over ``seconds``."""

    per_second: float
    seconds: float

    def error_within(self, seconds: float) -> float:
        """Return the standard deviation of this rate if it is counted over so many seconds (Poisson arrivals)."""
        return math.sqrt(max(self.per_second, 1 / seconds) / seconds)


class Sum(NamedTuple):
    """The total of some figures, and how many they are."""

    total: float
    number: float

    @property
    def mean(self) -> float | None:
        """Their mean; None if there are none."""
        return self.total / self.number if self.number > 0 else None


def summed(sums: Iterable[Sum]) -> Sum:
    """Return the sum of several pods."""
    totals, counts = tuple(zip(*sums, strict=True)) or ((), ())
    return Sum(sum(totals), sum(counts))


@dataclass(frozen=True, slots=True)
class PodLoad:
    """The load of one pod.

    Attributes:
        pod: its name.
        waiting: requests in its queue now.
        running: requests in its batch now.
        kv_use: the share of its KV cache in use now.
        is_stalled: requests have waited for some scrapes, and not one token was generated meanwhile.
        rank_uses: ``kv_use`` of each data-parallel rank, as a mean over some scrapes; empty if there is one.
        rank_queues: ``waiting`` of each rank in the same way.
        used_tokens: KV tokens in use now.
        arrivals: requests that came, over the part of the window in which it is known.
        served: requests a second that got their first token, over the last scrapes.
        token_seconds: times between two tokens lately.
        generating: requests that generated tokens at a time, as a mean lately: the times between their tokens over the
            time in which they were counted (Little's law).
        ttft_seconds: times to the first token lately.
        preempted: requests that lost their blocks over those that got a first token, over the window.
    """

    pod: str
    waiting: float
    running: float
    kv_use: float
    is_stalled: bool
    rank_uses: tuple[float, ...]
    rank_queues: tuple[float, ...]
    used_tokens: float
    arrivals: Rate
    served: float
    token_seconds: Sum
    generating: float
    ttft_seconds: Sum
    preempted: Sum


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of the pods with usable samples, together.

    Attributes:
        pods: how many pods these are.
        steady: requests that came, over the window.
        middle: the same over half of the window.
        recent: the same over the last scrapes.
        latest: the same over half of that time, about one scrape, of each pod up to its own last one.
        lengths: of the requests; None before one has got a token.
        served: requests a second that got their first token, over the last scrapes.
        waiting: requests in queues now, those of the gateway included.
        running: requests in batches now.
        used_tokens: KV tokens in use now.
        preempted_share: requests that lost their blocks over those that got a first token, over the window; None if
            neither happened.
        loads: the same figures of each pod.
        ttft_seconds: mean time to the first token lately; None if none came.
        token_seconds: mean time between two tokens lately; None if none came.
        at_gateway: those of ``waiting`` that wait at the gateway, and in no engine.
        end: the moment up to which all pods are known, POSIX seconds.
        ttft_percentile: the promised percentile of the time to the first token; None if none is promised or known.
        token_percentile: that of the time between two tokens.
    """

    pods: int
    steady: Rate
    middle: Rate
    recent: Rate
    latest: Rate
    lengths: Lengths | None
    waiting: float
    running: float
    used_tokens: float
    ttft_seconds: float | None
    token_seconds: float | None
    served: float
    preempted_share: float | None
    loads: tuple[PodLoad, ...]
    end: float
    at_gateway: float = 0.0
    ttft_percentile: Percentile | None = None
    token_percentile: Percentile | None = None

    @property
    def in_engines(self) -> float:
        """Those of ``waiting`` that wait in engines."""
        return self.waiting - self.at_gateway

    def of_pods(self, loads: Sequence[PodLoad]) -> Traffic:
        """Return the load of some of the pods, or of changed ones; at least one.

        All requests that came stay in the rates: those of the other pods have to be served, too. The gateway's queue
        stays as well.
        """
        return replace(self, **_totals(loads, self.at_gateway))

    @property
    def arrivals(self) -> Rate:
        """The rate of the longest time from which no shorter one differs by more than chance (Lepski, 1991)."""
        rates = sorted((self.steady, self.middle, self.recent, self.latest), key=lambda each: -each.seconds)
        return next(rate for index, rate in enumerate(rates) if not any(_is_news(e, rate) for e in rates[index + 1 :]))


def _totals(loads: Sequence[PodLoad], at_gateway: float = 0.0) -> dict[str, Any]:
    """Return the fields of a :class:`Traffic` that are those of its pods."""
    return {
        "pods": len(loads),
        "served": sum([each.served for each in loads]),
        "waiting": at_gateway + sum([each.waiting for each in loads]),
        "running": sum([each.running for each in loads]),
        "used_tokens": sum([each.used_tokens for each in loads]),
        "preempted_share": summed([each.preempted for each in loads]).mean,
        "loads": tuple(loads),
        "ttft_seconds": summed([each.ttft_seconds for each in loads]).mean,
        "token_seconds": summed([each.token_seconds for each in loads]).mean,
    }


def _is_news(newer: Rate, longer: Rate) -> bool:
    return abs(newer.per_second - longer.per_second) > SIGNIFICANT * longer.error_within(newer.seconds)


def traffic_of(
    found: Sequence[Track],
    *,
    window_seconds: float,
    recent_seconds: float,
    since: float,
    capacity_tokens: int,
    departed: Sequence[Track] = (),
    until: float = math.inf,
    percentile: int | None = None,
) -> Traffic:
    """Add up the pods.

    Args:
        found: the pods with usable samples; at least one.
        window_seconds: the time over which arrivals are counted.
        recent_seconds: the shorter time.
        since: POSIX seconds since when no replica was removed. What a removed one took is in no count.
        capacity_tokens: the KV cache of a pod that does not report its own.
        departed: pods that serve no more. Their requests count for the lengths: without them, the removal of a pod
            would look like a change of what users ask.
        until: POSIX seconds up to which arrivals are counted; at most the last scrape of every pod.
        percentile: the promised one of the measured times; None: their mean is.
    """
    end = min(until, *(track.newest.at for track in found))
    known_from = max([since, *(track.begins_at for track in found if not track.is_new)])
    lengths = _lengths(found, departed, until, recent_seconds)
    # A replica may have been removed after the last scrape: a time that begins after its end counts backwards.
    latest = end - recent_seconds / 2
    begin, lately = (min(latest, max(known_from, end - each)) for each in (window_seconds, recent_seconds))
    recent = _arrivals(found, lately, end, recent_seconds, lengths)
    spans = _Spans(begin, lately, end, recent_seconds)
    loads = tuple(_load_of(track, spans, lengths, capacity_tokens) for track in found)
    windows = (recent_seconds, *LENGTHS_SECONDS)
    first, gap = (
        None if percentile is None else percentile_of(found, time, percentile, windows, end)
        for time in (FIRST_TOKEN, TOKEN)
    )
    return Traffic(
        steady=_arrivals(found, begin, end, recent_seconds, lengths),
        middle=_arrivals(found, min(lately, (begin + end) / 2), end, recent_seconds, lengths),
        recent=recent,
        latest=_latest(found, recent, until, recent_seconds, lengths),
        lengths=lengths,
        end=end,
        ttft_percentile=first,
        token_percentile=gap,
        **_totals(loads),
    )


@dataclass(frozen=True, slots=True)
class _Spans:
    """The window's begin, the begin of the last scrapes, the end of both (POSIX seconds), and their usual seconds."""

    begin: float
    lately: float
    end: float
    recent_seconds: float


def _load_of(track: Track, spans: _Spans, lengths: Lengths | None, capacity_tokens: int) -> PodLoad:
    newest, end = track.newest, spans.end
    begin, recent = max(spans.begin, track.begins_at), end - spans.recent_seconds
    gaps = _summed(track, tracks.GAP_SECONDS, tracks.GAPS, recent, end)
    return PodLoad(
        track.pod,
        newest.waiting or 0.0,
        newest.running or 0.0,
        newest.kv_usage or 0.0,
        _is_stalled(track, 2 * spans.recent_seconds),
        _means(track, _RANK_USAGES, 2 * spans.recent_seconds),
        _means(track, _RANK_QUEUES, 2 * spans.recent_seconds),
        used_tokens=(newest.kv_usage or 0.0) * (newest.kv_capacity_tokens or capacity_tokens),
        arrivals=_arrivals([track], begin, end, spans.recent_seconds, lengths),
        served=_started(track, spans.lately, end, lengths) / max(1.0, end - spans.lately),
        token_seconds=gaps,
        generating=gaps.total / max(1.0, end - max(recent, track.begins_at)),
        ttft_seconds=_summed(track, tracks.TTFT_SECONDS, tracks.FIRST_TOKENS, recent, end),
        preempted=_summed(track, tracks.PREEMPTIONS, tracks.FIRST_TOKENS, spans.begin, end),
    )


def _summed(track: Track, total: Read, count: Read, start: float, end: float) -> Sum:
    return Sum(track.grown(total, start, end) or 0.0, track.grown(count, start, end) or 0.0)


_RANK_USAGES, _RANK_QUEUES = attrgetter("rank_usages"), attrgetter("rank_queues")


def _means(track: Track, read: Callable[[EngineSample], tuple[float, ...]], seconds: float) -> tuple[float, ...]:
    """Return the mean figure of each rank over that time: one long request may fill a rank for a moment."""
    ranks, begin = len(read(track.newest)), track.newest.at - seconds
    if not ranks:
        return ()
    found = [read(each) for each in track.samples if each.at >= begin and len(read(each)) == ranks]
    return tuple(fmean(by_time) for by_time in zip(*found, strict=True))


def _is_stalled(track: Track, seconds: float) -> bool:
    """Whether requests waited at every scrape of that time, which the samples cover, and no token was generated."""
    if not _waits(track.newest):
        return False
    begin, end = track.newest.at - seconds, track.newest.at
    lately = (sample for sample in track.samples if sample.at >= begin)
    return track.grown(tracks.OUTPUTS, begin, end) == 0 and all(map(_waits, lately))


def _waits(sample: EngineSample) -> bool:
    """Whether a request waits."""
    return (sample.waiting or 0.0) >= 1


def _arrivals(found: Sequence[Track], start: float, end: float, recent_seconds: float, lengths: Lengths | None) -> Rate:
    """Return the requests that came between two moments, and at least within half of the recent time.

    All pods are counted over the same time: requests that change their pod are counted once.
    """
    start = min(start, end - recent_seconds / 2)
    came = sum(_came(track, start, end, lengths) for track in found)
    return Rate(max(0.0, came / (end - start)), end - start)


def _latest(found: Sequence[Track], recent: Rate, until: float, recent_seconds: float, lengths: Lengths | None) -> Rate:
    """Return the requests that came in the last half of the recent time, of each pod up to its own last scrape.

    When a new pod begins to take what went to others, an old one that was scraped before, or the straight line between
    two scrapes of it, counts some of that, too. The longer time has less of this error, so until it begins with the new
    pod, a rate above that of the longer time is no news.
    """
    span = recent_seconds / 2
    ends = [(track, min(until, track.newest.at)) for track in found]
    came = sum(_came(track, end - span, end, lengths) for track, end in ends)
    rate = Rate(max(0.0, came / span), span)
    is_shifting = any(track.is_new and end - track.begins_at < recent_seconds for track, end in ends)
    return min(rate, recent, key=lambda each: each.per_second) if is_shifting else rate


def _came(track: Track, start: float, end: float, lengths: Lengths | None) -> float:
    """Return the requests that came to a pod: those that ended, and the growth of batch and queue.

    First tokens would count a request when its prompt is computed. After a time of overload many are at once, so a
    backlog that is served would look like a rise. They count only if the pod does not report what ended or what runs.
    """
    waiting = track.grown(tracks.WAITING, start, end) or 0.0
    ended, running = track.grown(tracks.FINISHED, start, end), track.grown(tracks.RUNNING, start, end)
    if ended is None or running is None:
        return _started(track, start, end, lengths) + waiting
    return ended + running + waiting + track.once(_left_per_second) * (end - start)


def _left_per_second(track: Track) -> float:
    """Return the requests a second whose client left after the first token: engines may not count them as ended.

    It is what the first tokens of the whole track exceed the requests that ended and that run more.
    """
    start, end = track.begins_at, track.newest.at
    begun, ended = track.grown(tracks.FIRST_TOKENS, start, end), track.grown(tracks.FINISHED, start, end)
    if begun is None or ended is None or end <= start:
        return 0.0
    return max(0.0, begun - ended - (track.grown(tracks.RUNNING, start, end) or 0.0)) / (end - start)


def _started(track: Track, start: float, end: float, lengths: Lengths | None) -> float:
    started = track.grown(tracks.FIRST_TOKENS, start, end)
    if started is not None:
        return started
    prompts = track.grown(tracks.PROMPTS, start, end)
    return 0.0 if prompts is None or lengths is None else prompts / lengths.prompt


def _lengths(found: Sequence[Track], departed: Sequence[Track], until: float, recent_seconds: float) -> Lengths | None:
    """Return the lengths of prompts that begin and of answers that end, each over a time of its own.

    Each pod counts up to its own last scrape, and both over the time of the latest arrivals at the shortest: prompts
    change at the same moment as arrivals. Answers end later, and until enough have ended, those before them count.
    """
    end = min(until, max(track.newest.at for track in found))
    ends = [*((track, min(until, track.newest.at)) for track in found), *((track, end) for track in departed)]
    times = (recent_seconds / 2, *sorted({recent_seconds, *LENGTHS_SECONDS}))
    begun, ended = _spans(ends, times)
    prompts, answers = _steady(begun), _steady(ended)
    prompt = prompts.sum.mean or _summed_up(ends, answers.seconds, tracks.FINISHED_PROMPTS, tracks.FINISHED).mean
    output = _output(ends, answers)
    if not prompt or not output:
        return None
    hits = _summed_up(ends, prompts.seconds, tracks.PREFIX_HITS, tracks.PREFIX_QUERIES).mean or 0.0
    counts = any(track.newest.behind_hit_tokens_total is not None for track in found)
    behind = _summed_up(ends, prompts.seconds, tracks.BEHIND_HITS, tracks.PREFIX_QUERIES).mean if counts else None
    in_cache = _in_cache(ends, min(prompts.seconds, answers.seconds), prompt + output / 2)
    return Lengths(
        max(1.0, prompt),
        max(1.0, output),
        prompt * min(1.0, hits),
        in_cache,
        None if behind is None else prompt * min(1.0, behind, hits),
        is_turning=prompts.seconds <= recent_seconds and prompts.seconds < answers.seconds,
    )


_Ends = Sequence[tuple[Track, float]]
"""Pods, and the moment up to which each counts (POSIX seconds)."""


def _summed_up(ends: _Ends, seconds: float, total: Read, count: Read) -> Sum:
    """Return the total and the number of something over the last seconds of each pod."""
    return summed(_summed(track, total, count, end - seconds, end) for track, end in ends)


class _Span(NamedTuple):
    """The tokens of prompts or of answers over the last seconds, and how many of these there are."""

    seconds: float
    sum: Sum

    def differs(self, newer: _Span) -> bool:
        """Whether a newer mean is another one. Lengths have a standard deviation of about their mean."""
        old, new = self.sum.mean, newer.sum.mean
        if old is None or new is None:
            return False
        return abs(new - old) * math.sqrt(newer.sum.number) > SIGNIFICANT * max(new, old)


def _spans(ends: _Ends, times: tuple[float, ...]) -> tuple[list[_Span], list[_Span]]:
    """Return the prompts that began, and the answers that ended, over each of some times up to the ends."""
    begun, ended = list[_Span](), list[_Span]()
    for seconds in times:
        prompts, firsts, outputs, finished = (
            sum([track.grown(read, end - seconds, end) or 0.0 for track, end in ends]) for read in _COUNTED
        )
        begun.append(_Span(seconds, Sum(prompts, firsts)))
        ended.append(_Span(seconds, Sum(outputs, finished)))
    return begun, ended


_COUNTED = (tracks.PROMPTS, tracks.FIRST_TOKENS, tracks.FINISHED_OUTPUTS, tracks.FINISHED)


def _steady(spans: Sequence[_Span]) -> _Span:
    """Return the longest span from which no shorter one with enough differs by more than chance (Lepski, 1991)."""
    *shorter, longest = spans
    known = [*(each for each in shorter if each.sum.number >= ENOUGH_FINISHED), longest]
    return next(each for index, each in reversed([*enumerate(known)]) if not any(map(each.differs, known[:index])))


def _in_cache(ends: _Ends, seconds: float, expected: float) -> float:
    """Return the tokens that a running request holds: as measured, or what is expected of it if that is more.

    Long answers stay longer, so the mean over running requests is more than the mean over requests.
    """
    used = running = 0.0
    for track, end in ends:
        for sample in track.after(end - seconds):
            if sample.running and sample.kv_usage and sample.kv_capacity_tokens:
                used += sample.kv_usage * sample.kv_capacity_tokens
                running += sample.running
    return max(expected, used / running) if running else expected


def _output(ends: _Ends, answers: _Span) -> float | None:
    """Return the mean tokens of answers that ended; if many have not ended yet, of all answers."""
    outputs = _summed_up(ends, answers.seconds, tracks.OUTPUTS, tracks.FIRST_TOKENS)
    begun, count, ended = outputs.number, answers.sum.number, answers.sum.mean
    if begun <= 0 or (count >= FEW_FINISHED and begun - count <= UNENDED_SHARE * begun):
        return ended
    return _with_unended(outputs.total, begun, count, ended)


def _with_unended(tokens: float, begun: float, count: float, ended: float | None) -> float:
    """Return the mean tokens of answers of which many have not ended: short answers end first.

    Of lengths that vary about as much as they are long (exponential), all tokens over the number of ends is the most
    likely mean: the estimate of a mean lifetime if some still live (Epstein and Sobel, 1953). One standard deviation
    more ends are assumed, for caution. Of lengths that are all the same, the mean of those that ended is right. The
    tokens of running answers say which of both it is: their mean is (1 + the square of the variation) / 2 of a length
    (the mean age in a renewal process).

    Args:
        tokens: of all answers.
        begun: how many answers have begun; above 0.
        count: how many of them have ended.
        ended: the mean tokens of these; None if there is none.
    """
    so_far = tokens / begun
    if not ended:
        return min(tokens, OLDEST_SHARE * so_far)
    least, likely = max(ended, so_far), tokens / (count + math.sqrt(count) + 1)
    if likely <= least:
        return least
    running = (tokens - count * ended) / (begun - count)  # more than 1 + sqrt(count) run: likely is above so_far
    variation = min(1.0, max(0.0, 2 * running / ended - 1))
    return min(MOST_LONGER * least, least + variation * (likely - least))
