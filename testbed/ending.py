"""How a command that stays up is told to end: Ctrl-C and SIGTERM are one and the same, at every moment of its life."""

from __future__ import annotations

import signal
import time

_LOOK_SECONDS = 0.5


def end_on_signals() -> None:
    """From now on SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, so that context managers clean up.

    Also where SIGINT was ignored, as it is in a shell's background job. To be called by the main thread.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def stay_up() -> None:
    """Wait for such a signal.

    Raises:
        KeyboardInterrupt: it came.
    """
    # In naps: a signal that comes between the interpreter's look and an endless system call would not end that call.
    while True:
        time.sleep(_LOOK_SECONDS)


def interrupt(*_: object) -> None:
    """Handle a signal as Python itself handles SIGINT."""
    raise KeyboardInterrupt
