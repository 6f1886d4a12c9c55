"""The process of a command: its exit status, the day on which it runs, and its standard output."""

from __future__ import annotations

import io
import os
import sys
from datetime import UTC, date, datetime
from fcntl import F_DUPFD_CLOEXEC, fcntl

STDOUT = 1
"""The file descriptor that code outside Python writes its messages to."""

STDERR = 2
"""The file descriptor that these messages go to instead."""


def keep_stdout_to_ourselves() -> None:
    """Print to a descriptor of our own from now on, and let descriptor 1 lead to standard error.

    A native library writes to descriptor 1 whenever it likes, and what it has buffered when the process ends: so
    nothing is put back afterwards. If ``sys.stdout`` is not descriptor 1, somebody in this process captures it: it
    stays as it is.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or not _is_descriptor_one(stream):
        return
    # Above the standard ones: os.dup would take the number of a standard error that is closed.
    ours = _same_stream(stream, fcntl(STDOUT, F_DUPFD_CLOEXEC, STDERR + 1))
    try:
        os.dup2(STDERR, STDOUT)
    except OSError:  # standard error is closed
        os.dup2(nowhere := os.open(os.devnull, os.O_WRONLY), STDOUT)
        os.close(nowhere)
    # Whoever asks for the width of the terminal asks the second one.
    sys.stdout = sys.__stdout__ = ours  # type: ignore[misc]


def _is_descriptor_one(stream: io.TextIOWrapper) -> bool:
    try:
        return stream.fileno() == STDOUT
    except OSError:  # a stream in memory has none
        return False


def _same_stream(stream: io.TextIOWrapper, descriptor: int) -> io.TextIOWrapper:
    """A stream that encodes and buffers like the one that Python made, also under ``python -u``."""
    return io.TextIOWrapper(
        os.fdopen(descriptor, "wb", 0 if stream.write_through else -1),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


EXIT_PLACED = 0
EXIT_UNPLACED = 1
EXIT_BAD_INPUT = 2


def today() -> date:
    """The day, in UTC."""
    return datetime.now(tz=UTC).date()
