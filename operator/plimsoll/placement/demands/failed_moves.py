"""Places and settings that did not come up in time: how long they are refused, and why.

A place that failed once mostly fails again: its image is missing there, its engine crashes, or its GPUs stay taken.
So it is refused for a pause that doubles with each failure. Other places may be tried meanwhile. If other settings
failed at the place where the engines run, the place stays open, and no other settings are tried there in the pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, NO_LIMITS, StepLimits
from plimsoll.domain.engines.failures import ABOUT_MEMORY
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.options.verdicts import Options

FIRST_PAUSE_SECONDS = 6 * 3600.0
"""The pause after the first failure: whoever mends the place mostly does so within a working day."""

LONGEST_PAUSE_SECONDS = 72 * 3600.0
"""The longest pause: a weekend and a day."""

FORGOTTEN_SECONDS = 7 * 86_400.0
"""How long a failure counts for the next pause. It is longer than any pause."""

MOST_REMEMBERED = 10
"""The most places that a status holds; the latest failures stay."""

MOST_TIMES = 99
"""The most failures of one place that are counted."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Why replicas do not serve: one CamelCase word for programs, and a text for people, which may quote a pod."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class RollBack:
    """A place that is left because it did not come up in time, in the pass that decides it, which has no clock.

    With ``limits``, the replicas stay at the place and get back their earlier settings: engines with these limits did
    not come up. ``engine`` is the name of the one that did not.
    """

    gpu_type: str
    split: Split
    delay: Delay
    limits: StepLimits = NO_LIMITS
    engine: str = DEFAULT_ENGINE

    @property
    def is_of_settings(self) -> bool:
        """Whether other settings failed, and not a move to the place."""
        return self.limits.sequences > 0

    @property
    def place(self) -> tuple[str, Split]:
        """The GPU type and the split."""
        return self.gpu_type, self.split

    @property
    def numbers(self) -> Numbers:
        """The figures of the refusal."""
        return (("failure", self.delay.reason),)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMove(RollBack):
    """The same with its time, as the status keeps it.

    ``at`` is when it was left and ``until`` when it may be used again, both in POSIX seconds. ``times`` counts the
    failures of the place. ``spec`` is the digest of the spec's fields on which a start depends.
    """

    at: float
    until: float
    times: int
    spec: str

    @property
    def numbers(self) -> Numbers:
        """The figures of the refusal."""
        times = (("at", to_rfc3339(self.at)), ("until", to_rfc3339(self.until)))
        return (("failure", self.delay.reason), ("times", self.times), *times)


Failed = TypeVar("Failed", bound=RollBack)


def pause_seconds(times: int) -> float:
    """Return how long a place is refused after so many failures."""
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (min(times, MOST_TIMES) - 1))


def known(recorded: Iterable[FailedMove], spec: str, now: float) -> tuple[FailedMove, ...]:
    """Return the failures that count for this spec, the oldest first.

    A time in the future is replaced by ``now``, and no pause is longer than its number of failures allows. So a clock
    that is set back refuses no place for ever.
    """
    found = (_bounded(each, now) for each in recorded if each.spec == spec and now - each.at < FORGOTTEN_SECONDS)
    return tuple(sorted(found, key=lambda each: (each.at, *subject_of(each))))


def _bounded(failed: FailedMove, now: float) -> FailedMove:
    at = min(failed.at, now)
    until = min(failed.until, at + pause_seconds(failed.times))
    return failed if (at, until) == (failed.at, failed.until) else replace(failed, at=at, until=until)


def standing(recorded: Iterable[FailedMove], spec: str, now: float) -> tuple[FailedMove, ...]:
    """Return the failures whose pause lasts."""
    return tuple(each for each in known(recorded, spec, now) if each.until > now)


def remembered(
    recorded: Iterable[FailedMove], rolled_back: Sequence[RollBack], spec: str, now: float
) -> tuple[FailedMove, ...]:
    """Return the entries to store: one for each place and one for its settings, with the last failure of each."""
    latest = {subject_of(each): each for each in known(recorded, spec, now)}
    for each in rolled_back:
        before = latest.get(subject_of(each))
        times = 1 if before is None else min(MOST_TIMES, before.times + 1)
        what = each.gpu_type, each.split, each.delay, each.limits, each.engine
        until = now + pause_seconds(times)
        latest[subject_of(each)] = FailedMove(*what, at=now, until=until, times=times, spec=spec)
    return tuple(sorted(latest.values(), key=lambda each: (each.at, *subject_of(each))))[-MOST_REMEMBERED:]


def subject_of(failed: RollBack) -> tuple[str, Split, str, bool]:
    """Return what failed: an engine at a place, or other settings of it there, whatever they were."""
    return *failed.place, failed.engine, failed.is_of_settings


def still_refused(request: Request, failed: Iterable[Failed]) -> tuple[Failed, ...]:
    """Return the failures that are not tried again yet: those of which the request knows no better."""
    return tuple(each for each in failed if not request.knows_better(each.delay.reason))


def settings_words(limits: StepLimits) -> str:
    """Return the settings of engines that failed as the engine's own flags. A number that is not known is left out."""
    flags = {"--max-num-seqs": limits.sequences, "--max-num-batched-tokens": limits.step_tokens}
    return ", ".join(f"{flag} {number}" for flag, number in flags.items() if number)


def settings_refused(failed: Iterable[FailedMove], place: tuple[str, Split], engine: str) -> bool:
    """Whether an engine at a place gets no other settings, because the last ones did not come up there."""
    return any(each.is_of_settings and (each.place, each.engine) == (place, engine) for each in failed)


def without_failed(judged: Options, failed: Sequence[RollBack], engine: str) -> Options:
    """Return the options of an engine without those that a failure of it closes. The same object if none is closed."""
    own = tuple(each for each in failed if each.engine == engine)
    verdicts = tuple(_refused(each, own) for each in judged.verdicts)
    is_same = all(now is before for now, before in zip(verdicts, judged.verdicts, strict=True))
    return judged if is_same else Options(verdicts)


def _refused(verdict: Option | Rejection, failed: Sequence[RollBack]) -> Option | Rejection:
    if isinstance(verdict, Rejection):
        return verdict
    place = verdict.target.place
    numbers = next((each.numbers for each in failed if _closes(each, place)), None)
    return verdict if numbers is None else Rejection(*place, Reason.MOVE_FAILED, numbers, verdict.figures)


def _closes(failed: RollBack, place: tuple[str, Split]) -> bool:
    """Whether a failure closes a place: its own, and the same GPU type with more GPUs a pod, which are harder to get.

    If memory was short, more GPUs may be what helps. Settings that failed close nothing.
    """
    if failed.is_of_settings:
        return False
    (left, cut), (kind, split) = failed.place, place
    if left != kind or cut == split:
        return left == kind
    return cut.shape.gpus_per_pod <= split.shape.gpus_per_pod and failed.delay.reason not in ABOUT_MEMORY
