"""Is this process alive, and is it of use? Answered from beats: marks that work makes as it goes on.

Liveness asks for progress, not for speed: a pass over a thousand objects beats a thousand times. Readiness asks
whether what was decided last was decided on a true picture, by somebody who may write it down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

STALLED_SECONDS = 60.0
"""Work that makes no progress for this long hangs: a restart helps."""

FAILED_PASSES = 3
"""Passes in a row that raise until the process no longer calls itself ready ..."""

HOPELESS_SECONDS = 600.0
"""... and how long they may go on until a restart is tried."""

Clock = Callable[[], float]


@dataclass(slots=True)
class Beats:
    """The latest mark of each loop. A loop that waits on purpose is at rest and owes no mark."""

    clock: Clock = time.monotonic
    _at: dict[str, float] = field(default_factory=dict)
    _work: dict[str, str] = field(default_factory=dict)

    def beat(self, loop: str, work: str) -> None:
        """Mark progress of a loop; ``work`` says at what, for the probe's answer."""
        self._at[loop] = self.clock()
        self._work[loop] = work

    def go_on(self, loop: str, work: str) -> None:
        """Mark progress of a loop that is at work; one at rest stays at rest."""
        if loop in self._at:
            self.beat(loop, work)

    def rest(self, loop: str) -> None:
        """Say that a loop waits on purpose."""
        self._at.pop(loop, None)

    def stalled(self) -> list[str]:
        """A sentence for each loop that should make progress and does not."""
        now = self.clock()
        late = [(loop, now - at) for loop, at in dict(self._at).items() if now - at > STALLED_SECONDS]
        return [f"{loop} has made no progress for {age:.0f} s (at: {self._work[loop]})" for loop, age in late]


@dataclass(slots=True)
class PassRecord:
    """How the last passes went."""

    clock: Clock = time.monotonic
    failures: int = 0
    failing_since: float | None = None
    last_error: str = ""

    def succeeded(self) -> None:
        """A pass came to its end."""
        self.failures, self.failing_since, self.last_error = 0, None, ""

    def failed(self, error: BaseException) -> None:
        """A pass raised."""
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if self.failing_since is None:
            self.failing_since = self.clock()

    def is_ready(self) -> bool:
        """Whether a failure, if any, is not yet a habit."""
        return self.failures < FAILED_PASSES

    def is_hopeless(self) -> bool:
        """Whether passes have failed for so long that a new process is worth a try."""
        return self.failing_since is not None and self.clock() - self.failing_since > HOPELESS_SECONDS


@dataclass(frozen=True, slots=True)
class Verdict:
    """A probe's answer: ``problems`` empty is well; ``notes`` say what a person would like to know all the same."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether the probe succeeds."""
        return not self.problems

    def text(self) -> str:
        """The body of the answer, a line for each finding."""
        return "\n".join((*self.problems, *self.notes)) or "ok"
