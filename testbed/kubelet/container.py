"""One container of a pod: its process, its runs, its restarts, and the status that tells of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.kubelet.hooks import before_stop
from testbed.kubelet.images import CannotRun, Image, Place, Program, program_of
from testbed.kubelet.last_words import last_words
from testbed.kubelet.probes import Probes
from testbed.kubelet.times import stamp
from testbed.processes import Child
from testbed.waiting import NotInTime, wait_until

_BACKOFF_FIRST, _BACKOFF_MOST, _BACKOFF_FORGET = 10.0, 300.0, 600.0
"""Seconds, as a kubelet's: the first restart comes at once, then 10, 20, 40 ... 300; 600 good seconds start over."""

_KILLED = 128
"""A shell and a container runtime add this to a signal's number."""

_PROBE_GRACE = 30.0
"""Seconds for an end that a probe asks for, where the probe does not say."""

_LEAST_GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL that remain although the hook took the whole grace period."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of the container that is over; times in POSIX seconds."""

    exit_code: int
    message: str
    started_at: float
    finished_at: float

    def state(self) -> dict[str, Any]:
        """The same as ``terminated`` of a container's state."""
        state_entry = {
            "exitCode": self.exit_code,
            "reason": "Completed" if self.exit_code == 0 else "Error",
            "startedAt": stamp(self.started_at),
            "finishedAt": stamp(self.finished_at),
        }
        return {"terminated": state_entry | ({"message": self.message} if self.message else {})}


@dataclass(frozen=True, slots=True)
class _Run:
    """The process that runs now."""

    child: Child
    environment: Mapping[str, str]
    probes: Probes
    began: float
    log_start: int


def backoff_seconds(quick_ends: int) -> float:
    """Return how long a restart waits after so many ends in a row, this one included."""
    return 0.0 if quick_ends <= 1 else min(_BACKOFF_MOST, _BACKOFF_FIRST * 2.0 ** (quick_ends - 2))


class Container:
    """One container, from its first start until :meth:`stop` or :meth:`kill`.

    Args:
        spec: as in the pod's spec.
        place: its pod's address, its folder and the annotations.
        images: local programs by image.
        restarts: whether it is started again when it has ended.
    """

    def __init__(
        self, spec: Mapping[str, Any], place: Place, images: Mapping[str, Image], *, restarts: bool = True
    ) -> None:
        self.name = str(spec["name"])
        self.log = place.folder / f"{self.name}.log"
        self._spec = spec
        self._place = place
        self._images = images
        self._run: _Run | None = None
        self._last: Ended | None = None
        self._starts = self._quick_ends = 0
        self._next_start = 0.0
        self._waiting = ("ContainerCreating", "")
        self._closed = False
        self._restarts = restarts

    # -- what it does -------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        """Start it if it is time, note its end, ask its probes, and end it where they say so."""
        if self._run is None:
            if now >= self._next_start and not self._closed:
                self._start(now)
        elif not self._run.child.is_running:
            self._note_end(now)
        else:
            self._run.probes.step(now)
            if self._run.probes.failed:
                self._note(f"the {self._run.probes.failed} probe failed; the container is ended")
                self._end(_probe_grace(self._spec))
                self._note_end(time.time())

    def stop(self, grace: float) -> None:
        """Run the hook, send SIGTERM, after ``grace`` seconds in all SIGKILL; it is not started again."""
        self._closed = True
        if self._run is not None:
            self._end(grace)
            self._note_end(time.time())

    def kill(self) -> None:
        """SIGKILL at once; it is not started again."""
        self._closed = True
        if self._run is not None:
            self._run.child.kill()

    def _start(self, now: float) -> None:
        try:
            program = program_of(self._spec, self._place, self._images)
            probes = Probes(self._spec, self._place.address, now)
        except CannotRun as error:
            self._waiting = (error.reason, str(error))
            self._next_start = now + _BACKOFF_FIRST
            return
        log_start = self.log.stat().st_size if self.log.exists() else 0
        self._tell(program)
        child = Child(self.name, program.command, log=self.log, environment=program.environment)
        child.start()
        self._starts += 1
        self._run = _Run(child, program.environment, probes, now, log_start)

    def _end(self, grace: float) -> None:
        run, deadline = self._run, time.monotonic() + grace
        if run is None or not run.child.is_running:
            return
        before_stop(self._spec, self._place.address, run.environment, grace)
        self._note("SIGTERM")
        _terminate(run.child)
        _await(lambda: not run.child.is_running, max(_LEAST_GRACE, deadline - time.monotonic()))
        if run.child.is_running:
            self._note("SIGKILL: the grace period is over")
        run.child.kill()

    def _note_end(self, now: float) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        status = run.child.exit_status or 0
        run.child.kill()
        exit_code = status if status >= 0 else _KILLED - status
        words = last_words(self._spec, exit_code, self.log.read_bytes()[run.log_start :])
        self._last = Ended(exit_code, words, run.began, now)
        self._quick_ends = 1 if now - run.began > _BACKOFF_FORGET else self._quick_ends + 1
        delay = backoff_seconds(self._quick_ends)
        self._next_start = now + delay
        self._closed = self._closed or not self._restarts
        self._waiting = ("CrashLoopBackOff", f"back-off {delay:.0f}s restarting failed container {self.name}")

    def _tell(self, program: Program) -> None:
        self._note(f"start {self._starts + 1}: {' '.join(program.command)}")
        for line in program.differences:
            self._note(f"not as rendered: {line}")

    def _note(self, line: str) -> None:
        with (self._place.folder / "kubelet.log").open("a") as log:
            log.write(f"{stamp(time.time())} {self.name}: {line}\n")

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether it runs and its probes are content."""
        return self._run is not None and self._run.probes.ready

    @property
    def has_ended(self) -> bool:
        """Whether it has run, and does not run now."""
        return self._run is None and self._last is not None

    def status(self) -> dict[str, Any]:
        """Its entry of ``containerStatuses``."""
        state_entry: dict[str, Any] = {
            "name": self.name,
            "image": self._spec["image"],
            "imageID": "",
            "ready": self.is_ready,
            "started": self._run is not None and self._run.probes.started,
            "restartCount": max(0, self._starts - 1),
            "state": self._state(),
        }
        if self._last is not None and not self._closed:
            state_entry["lastState"] = self._last.state()
        return state_entry

    def _state(self) -> dict[str, Any]:
        if self._run is not None:
            return {"running": {"startedAt": stamp(self._run.began)}}
        if self._closed and self._last is not None:
            return self._last.state()
        reason, message = self._waiting
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def _probe_grace(spec: Mapping[str, Any]) -> float:
    """Seconds for an end that a probe asks for."""
    return float((spec.get("livenessProbe") or {}).get("terminationGracePeriodSeconds", _PROBE_GRACE))


def _terminate(child: Child) -> None:
    """Send SIGTERM to the first process alone, as a kubelet does."""
    try:
        os.kill(child.pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def _await(question: Callable[[], bool], seconds: float) -> None:
    try:
        wait_until(question, seconds, "the end of a container", exactly=True)
    except NotInTime:
        return
