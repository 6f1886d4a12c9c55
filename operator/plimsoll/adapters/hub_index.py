"""Find the files that a safetensors index names, while the index is being downloaded.

An index has a line for each tensor: 23 MB for a model of 200,000 tensors, and three times as much in memory after
parsing. Only the names of some dozens of files are needed, so the scan keeps no more than a few KiB at any time.
"""

from __future__ import annotations

import re

from plimsoll.adapters.safetensors_headers import MOST_FILES, files_of

_LONGEST_NAME = 512
_NAME = re.compile(rb':[ \t\r\n]{0,16}"([^"\\]{1,%d}\.safetensors)"' % _LONGEST_NAME)
_KEPT_BYTES = _LONGEST_NAME + 64
"""Bytes kept from the last piece, because a name may continue in the next piece."""


class IndexScan:
    """Reads an index piece by piece and collects the names of its files."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Read the next piece."""
        text = self._rest + piece
        end = 0
        for match in _NAME.finditer(text):
            end = match.end()
            if len(self._names) <= MOST_FILES:
                self._names.add(match[1].decode("utf-8", "replace"))
        self._rest = text[max(end, len(text) - _KEPT_BYTES) :]

    def files(self) -> list[str] | None:
        """Return the files, each once; None if there are none or too many, or if one is outside the folder."""
        return files_of({"weight_map": {name: name for name in self._names}})
