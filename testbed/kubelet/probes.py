"""Is a container started, ready and alive? Its own probes say, with the manifest's delays and thresholds."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.kubelet.images import CannotRun

Ask = Callable[[str, int, str, float], bool]
"""Address, port, path and seconds: whether the answer is good."""


def http_answers(address: str, port: int, path: str, timeout: float) -> bool:
    """Whether a GET is answered with a status from 200 to 399, as for a kubelet's ``httpGet``.

    Without a path, whether a connection is taken, as for ``tcpSocket``.
    """
    if not path:
        try:
            socket.create_connection((address, port), timeout).close()
        except OSError:
            return False
        return True
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"User-Agent": "kube-probe/testbed"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return http.client.OK <= status < http.client.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a manifest; times in seconds. Without a path, it is enough that the port takes a connection."""

    path: str
    port: int
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @staticmethod
    def read(container: Mapping[str, Any], kind: str) -> Probe | None:
        """Read ``startupProbe`` and so on, with the defaults of the API.

        Raises:
            CannotRun: a probe of the kind ``exec``.
        """
        probe = container.get(kind)
        if not probe:
            return None
        way = next((way for way in ("httpGet", "tcpSocket", "grpc") if way in probe), None)
        if way is None:
            raise CannotRun("RunContainerError", f"{kind}: this kubelet knows no exec probes")
        return Probe(
            path=probe[way].get("path", "/") if way == "httpGet" else "",
            port=port_number(container, probe[way]["port"]),
            delay=probe.get("initialDelaySeconds", 0),
            period=probe.get("periodSeconds", 10),
            timeout=probe.get("timeoutSeconds", 1),
            successes=probe.get("successThreshold", 1),
            failures=probe.get("failureThreshold", 3),
        )


def port_number(container: Mapping[str, Any], port: int | str) -> int:
    """Return the number of a port that may be given by its name in the container."""
    if isinstance(port, int):
        return port
    return next(int(entry["containerPort"]) for entry in container["ports"] if entry.get("name") == port)


class Series:
    """The answers to one probe: when the next is due, and what the last ones amount to.

    Args:
        probe: what is asked.
        verdict: what holds until enough answers have come.
        begun: when the container, or this series of it, began.
    """

    def __init__(self, probe: Probe, *, verdict: bool | None, begun: float) -> None:
        self.probe = probe
        self.verdict = verdict
        self._due = begun + probe.delay
        self._last: bool | None = None
        self._equal = 0

    def step(self, now: float, ask: Callable[[Probe], bool]) -> None:
        """Ask if it is time."""
        if now >= self._due:
            self._due = now + self.probe.period
            self.observe(answer=ask(self.probe))

    def observe(self, *, answer: bool) -> None:
        """Count an answer; the verdict changes with the threshold of answers in a row."""
        self._equal = self._equal + 1 if answer is self._last else 1
        self._last = answer
        if self._equal >= (self.probe.successes if answer else self.probe.failures):
            self.verdict = answer


class Probes:
    """The three probes of one run of a container.

    Args:
        container: as in the pod's spec.
        address: where it listens.
        begun: when this run began.
        ask: how to ask, for tests.

    Raises:
        CannotRun: a probe of a kind that cannot be asked.
    """

    def __init__(self, container: Mapping[str, Any], address: str, begun: float, ask: Ask = http_answers) -> None:
        self._ask = lambda probe: ask(address, probe.port, probe.path, probe.timeout)
        self._startup = _series(container, "startupProbe", verdict=None, begun=begun)
        self._readiness = _series(container, "readinessProbe", verdict=False, begun=begun)
        self._liveness = _series(container, "livenessProbe", verdict=True, begun=begun)

    def step(self, now: float) -> None:
        """Ask what is due: until the startup probe has succeeded, nothing else."""
        if not self.started:
            _stepped(self._startup, now, self._ask)
        if self.started:
            _stepped(self._readiness, now, self._ask)
            _stepped(self._liveness, now, self._ask)

    @property
    def started(self) -> bool:
        """Whether the startup probe has succeeded, or there is none."""
        return self._startup is None or self._startup.verdict is True

    @property
    def ready(self) -> bool:
        """Whether the readiness probe succeeds, or there is none."""
        return self.started and (self._readiness is None or self._readiness.verdict is True)

    @property
    def failed(self) -> str:
        """The probe that asks for the container's end; empty where none does."""
        if self._startup is not None and self._startup.verdict is False:
            return "startup"
        return "liveness" if self._liveness is not None and self._liveness.verdict is False else ""


def _series(container: Mapping[str, Any], kind: str, *, verdict: bool | None, begun: float) -> Series | None:
    probe = Probe.read(container, kind)
    return None if probe is None else Series(probe, verdict=verdict, begun=begun)


def _stepped(series: Series | None, now: float, ask: Callable[[Probe], bool]) -> None:
    if series is not None:
        series.step(now, ask)
