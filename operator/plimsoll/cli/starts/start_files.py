"""The lines of a start-up log, from a file or from standard input, with a limit for what is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from plimsoll.cli.reading.files import STDIN, title
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import MIB

MOST_BYTES = 64 * MIB
MOST_LINES = 1_000_000
"""The part of a log that is read, from its beginning. A start takes less than one MiB."""

_CHUNK_BYTES = 1 * MIB


class LogFile:
    """A log. ``is_cut`` says after reading whether it holds more than was read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_cut = False

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends. Bytes that are no UTF-8 become replacement characters.

        A line that is longer than a chunk is divided.

        Raises:
            InvalidInput: the file cannot be read.
        """
        try:
            if self._name == STDIN:
                yield from self._lines(sys.stdin.buffer)
            else:
                with Path(self._name).open("rb") as file:
                    yield from self._lines(file)
        except (OSError, ValueError) as error:
            raise InvalidInput("LOG", title(self._name), f"It cannot be read: {error}.") from error

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        read, count = 0, 0
        while line := file.readline(_CHUNK_BYTES):
            read, count = read + len(line), count + 1
            if read > MOST_BYTES or count > MOST_LINES:
                self.is_cut = True
                return
            yield line.decode("utf-8", errors="replace").rstrip("\r\n")
