"""Liveness and readiness of this process. They are computed from beats: marks that the loops set as they make progress.

Liveness needs progress, not speed: a pass over a thousand objects beats a thousand times. Readiness asks whether the
last decisions were based on current data and whether this process may write them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STALLED_SECONDS = 60.0
"""A loop without progress for this long hangs: a restart helps."""

FAILED_PASSES = 3
"""After this many failed passes in a row the process is not ready."""

HOPELESS_SECONDS = 600.0
"""After passes have failed for this long a restart is tried."""

Clock = Callable[[], float]


@dataclass(slots=True)
class Beats:
    """The latest mark of each loop. A loop that waits on purpose is at rest and needs no mark."""

    clock: Clock = time.monotonic
    _at: dict[str, float] = field(default_factory=dict)
    _work: dict[str, str] = field(default_factory=dict)

    def beat(self, loop: str, work: str) -> None:
        """Mark progress of a loop; ``work`` names the current work, for the probe's answer."""
        self._at[loop] = self.clock()
        self._work[loop] = work

    def go_on(self, loop: str, work: str) -> None:
        """Mark progress of a loop that is working; a loop at rest stays at rest."""
        if loop in self._at:
            self.beat(loop, work)

    def rest(self, loop: str) -> None:
        """Note that a loop waits on purpose."""
        self._at.pop(loop, None)

    def stalled(self) -> list[str]:
        """Return a sentence for each loop that should make progress and does not."""
        now = self.clock()
        late = [(loop, now - at) for loop, at in dict(self._at).items() if now - at > STALLED_SECONDS]
        return [f"{loop} has made no progress for {age:.0f} s (at: {self._work[loop]})" for loop, age in late]


@dataclass(slots=True)
class PassRecord:
    """The results of the last passes. ``succeeded_at`` is when the last one succeeded, in POSIX seconds."""

    clock: Clock = time.monotonic
    wall: Clock = time.time
    succeeded_at: float | None = None
    failures: int = 0
    failing_since: float | None = None
    last_error: str = ""

    def succeeded(self) -> None:
        """Note that a pass has succeeded."""
        self.failures, self.failing_since, self.last_error = 0, None, ""
        self.succeeded_at = self.wall()

    def failed(self, error: BaseException) -> None:
        """Note that a pass has raised an exception."""
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if self.failing_since is None:
            self.failing_since = self.clock()

    def is_ready(self) -> bool:
        """Whether fewer than FAILED_PASSES passes in a row have failed."""
        return self.failures < FAILED_PASSES

    def is_hopeless(self) -> bool:
        """Whether passes have failed for so long that a new process may help."""
        return self.failing_since is not None and self.clock() - self.failing_since > HOPELESS_SECONDS


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A probe's answer. Without ``problems`` the probe succeeds; ``notes`` are further information for people."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether the probe succeeds."""
        return not self.problems

    def text(self) -> str:
        """The body of the answer, a line for each finding."""
        return "\n".join((*self.problems, *self.notes)) or "ok"


Probe = Callable[[], ProbeResult]


class HealthServer:
    """Serves probes until closed.

    Args:
        port: on every interface, because the kubelet asks from the node.
        probes: the function that answers, by path.
    """

    def __init__(self, port: int, probes: Mapping[str, Probe]) -> None:
        self._server = ThreadingHTTPServer(("0.0.0.0", port), _handler(probes))  # noqa: S104 - the kubelet asks from the node
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _answer(probe: Probe) -> ProbeResult:
    try:
        return probe()
    except Exception as error:  # noqa: BLE001 - a broken probe must answer that it failed
        return ProbeResult((f"the probe failed: {type(error).__name__}: {error}",))


def _handler(probes: Mapping[str, Probe]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            probe = probes.get(self.path.split("?", 1)[0])
            verdict = ProbeResult(("no such probe",)) if probe is None else _answer(probe)
            status = 404 if probe is None else 200 if verdict.is_well else 500
            body = (verdict.text() + "\n").encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing: a line for every probe would hide the other lines."""

    return Handler
