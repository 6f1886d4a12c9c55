"""Since when no request came, from the samples of a time before this process began.

A process that has just begun has seen nothing itself. A source that keeps samples shows what was before, and it is
read as strictly as what a process sees: a hole, an impossible number and a pod that is gone begin the time again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.idle import LONGEST_HOLE_SECONDS, Quiet, quiet_of, together
from plimsoll.rebalance.signals.load import is_usable
from plimsoll.rebalance.signals.metrics import PodSignals
from plimsoll.rebalance.signals.tracks import TimeSeries, Track


def quiet_before(
    pods: Mapping[str, PodSignals], serving: Collection[str], queue: GatewayQueue | None, now: float
) -> Quiet | None:
    """Return when the pods of a deployment saw their last request; None if a serving one or the queue is unknown.

    Args:
        pods: the samples of all its pods by name, also of those that are gone.
        serving: the pods that are ready now.
        queue: the queue of its gateway over the same time; None if it names none.
        now: POSIX seconds.
    """
    tracks = {name: track for name, signals in pods.items() if (track := _track(signals, now)) is not None}
    quiet = quiet_of([tracks[name] for name in serving if name in tracks])
    if quiet is None or not tracks.keys() >= set(serving) or (queue is not None and not queue.is_known):
        return None
    lines = () if queue is None else queue.lines
    return _without_gone(
        together([quiet, *map(_quiet_of_line, lines)]), [tracks[name] for name in tracks.keys() - set(serving)]
    )


def _track(signals: PodSignals, now: float) -> Track | None:
    usable = sorted((each for each in signals.samples if is_usable(each, now)), key=lambda each: each.at)
    return Track(signals.pod, usable) if usable else None


def _without_gone(quiet: Quiet, gone: Collection[Track]) -> Quiet:
    """Count the end of a pod as a request: nobody knows what came after its last sample."""
    moments = [track.newest.at for track in gone]
    moments += [] if quiet.last_request is None else [quiet.last_request]
    return replace(quiet, last_request=max(moments, default=None))


def _quiet_of_line(line: TimeSeries) -> Quiet:
    """Return the same for the queue of one process of a gateway."""
    holes = (later for earlier, later in pairwise(line.times) if later - earlier > LONGEST_HOLE_SECONDS)
    held = (at for at, value in zip(line.times, line.values, strict=True) if value)
    return Quiet(line.times[0], line.times[-1], max(held, default=None), max(holes, default=None))
