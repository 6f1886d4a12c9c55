"""A loop in a thread that can be ended and that keeps its last failure for whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

_JOIN_SECONDS = 60.0


class BackgroundLoop:
    """Call ``step`` again and again until stopped. May be used as a context manager.

    Args:
        name: of the thread.
        step: one round; an ``OSError`` or ``RuntimeError`` is kept in ``last_failure``, and the loop goes on: the API
            server may be down on purpose.
        interval_seconds: pause between rounds.
    """

    def __init__(self, name: str, step: Callable[[], None], interval_seconds: float) -> None:
        self._step = step
        self._interval_seconds = interval_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.last_failure: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way, and wait for it; may be called twice."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._step()
            except (OSError, RuntimeError) as error:
                self.last_failure = error
            self._ended.wait(self._interval_seconds)
