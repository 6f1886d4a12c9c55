"""When a request came last, and since when none has come. Only evidence counts: what is unknown is never idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from plimsoll.rebalance.signals.metrics import EngineSample
from plimsoll.rebalance.signals.tracks import Track, times_of

LONGEST_HOLE_SECONDS = 90.0
"""The longest time without a scrape, or without a turn of the loop, that counts as quiet. The counters would show what
was served meanwhile, but an outage shall never look like an idle deployment."""

_COUNTERS: Callable[[EngineSample], tuple[float | None, ...]] = attrgetter(
    "first_tokens_total", "prompt_tokens_total", "generation_tokens_total", "finished_total"
)
"""Each of them grows with a request that is served."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """When the known pods of a deployment saw their last request. All times are POSIX seconds.

    Attributes:
        known_since: since when all of them are known.
        known_until: the last moment at which all of them were scraped.
        last_request: the last scrape that shows a request; None: none does.
        last_hole: the first scrape after the last hole; None: there was no hole.
    """

    known_since: float
    known_until: float
    last_request: float | None = None
    last_hole: float | None = None

    def since(self, earlier: float | None) -> float:
        """Return since when no request came. ``earlier`` is what was known before; None: nothing."""
        begin = self.known_since if earlier is None else earlier
        return max(at for at in (begin, self.last_request, self.last_hole) if at is not None)


def quiet_of(known: Sequence[Track]) -> Quiet | None:
    """Return when the pods saw their last request; None if one of them does not say, or there is no pod."""
    each = [track.once(_quiet) for track in known]
    seen = [one for one in each if one is not None]
    return None if not each or len(seen) < len(each) else together(seen)


def together(each: Sequence[Quiet]) -> Quiet:
    """Return when the last request came of all that several sources saw, at least one."""
    return Quiet(
        max(one.known_since for one in each),
        min(one.known_until for one in each),
        max((one.last_request for one in each if one.last_request is not None), default=None),
        max((one.last_hole for one in each if one.last_hole is not None), default=None),
    )


def _quiet(track: Track) -> Quiet | None:
    """Return the same for one pod. A counter that fell began again at zero, and what was before it is unknown."""
    samples, moments = track.samples, track.once(times_of)
    if not _says(track.newest):
        return None
    newest_first = zip(samples[-2::-1], samples[::-1], strict=False)
    served = (after.at for before, after in newest_first if _is_busy(after) or _has_served(before, after))
    last = next(served, moments[0] if _is_busy(samples[0]) else None)
    says = [True] * len(samples) if track.is_steady else [*map(_says, samples)]
    holes = (
        moments[index]
        for index in range(len(samples) - 1, 0, -1)
        if moments[index] - moments[index - 1] > LONGEST_HOLE_SECONDS or not (says[index] and says[index - 1])
    )
    return Quiet(moments[0], moments[-1], last, next(holes, None))


def _has_served(before: EngineSample, after: EngineSample) -> bool:
    return any(map(_differs, _COUNTERS(before), _COUNTERS(after)))


def _says(sample: EngineSample) -> bool:
    known = sample.first_tokens_total is not None or sample.prompt_tokens_total is not None
    return known and sample.running is not None


def _is_busy(sample: EngineSample) -> bool:
    return bool(sample.waiting) or bool(sample.running)


def _differs(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and before != after
