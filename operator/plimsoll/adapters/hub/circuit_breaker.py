"""A circuit breaker: requests to a server that does not answer fail at once for a while, without being sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.units import to_rfc3339

FAILURES_TO_OPEN = 5
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 300.0


class Unreached(SourceUnavailable):
    """The server gave no answer at all. Every other result of an attempt counts as an answer, also a refusal."""


class Unconnected(Unreached):
    """There was no connection, so every other request would fail too."""


class NotAsked(SourceUnavailable):
    """The request was not sent, so nothing is known about the server."""


class CircuitBreaker:
    """Allows attempts until five in a row get no answer. Then it allows one after each pause, until one is answered.

    The first pause lasts 30 s, each later one twice as long, up to five minutes. Safe to use from several threads.

    Args:
        neighbour: name of the server for the error texts: ``the hub at https://huggingface.co``.
        failure: the error that counts as a failure; any other error counts as an answer.
        clock: a monotonic clock in seconds.
        wall: the time of day in POSIX seconds, for the texts.
    """

    def __init__(
        self,
        neighbour: str,
        *,
        failure: type[Unreached] = Unreached,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._neighbour = neighbour
        self._failure = failure
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._closed_until = 0.0
        self._probing = False
        self._silent_since = 0.0

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Return a context for one attempt.

        Raises:
            NotAsked: too many attempts failed, and the pause is not over.
        """
        is_probe = self._admit()
        try:
            yield
        except self._failure:
            self._failed(is_probe=is_probe)
            raise
        except NotAsked:
            self._let_go(is_probe=is_probe)
            raise
        except Exception:
            self._answered()
            raise
        except BaseException:  # the process stops
            self._let_go(is_probe=is_probe)
            raise
        else:
            self._answered()

    def _admit(self) -> bool:
        with self._lock:
            if self._failures < FAILURES_TO_OPEN:
                return False
            if self._probing or self._clock() < self._closed_until:
                raise NotAsked(f"{self._neighbour} has not answered since {to_rfc3339(self._silent_since)}")
            self._probing = True
            return True

    def _failed(self, *, is_probe: bool) -> None:
        with self._lock:
            if self._failures == 0:
                self._silent_since = self._wall()
            self._failures += 1
            if is_probe:
                self._probing = False
                self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            elif self._failures == FAILURES_TO_OPEN:
                self._pause = FIRST_PAUSE_SECONDS
            else:
                return  # this attempt began before the pause
            self._closed_until = self._clock() + self._pause

    def _answered(self) -> None:
        with self._lock:
            self._failures = 0
            self._probing = False

    def _let_go(self, *, is_probe: bool) -> None:
        with self._lock:
            self._probing = self._probing and not is_probe
