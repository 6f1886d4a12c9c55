"""The files that a safetensors index names, picked from the stream.

An index has a line for each tensor: 23 MB for a model of 200,000 tensors, and three times that once it is parsed. Only
the names of some dozens of files are needed, so no more than a few KiB of it are held at any time.
"""

from __future__ import annotations

import re

from plimsoll.adapters.safetensors_headers import MOST_FILES, files_of

_LONGEST_NAME = 512
_NAME = re.compile(rb':[ \t\r\n]{0,16}"([^"\\]{1,%d}\.safetensors)"' % _LONGEST_NAME)
_KEPT_BYTES = _LONGEST_NAME + 64
"""Of what was seen, in case a name goes on in the next piece."""


class IndexScan:
    """Fed with an index piece by piece, knows the files that it names."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        text = self._rest + piece
        end = 0
        for match in _NAME.finditer(text):
            end = match.end()
            if len(self._names) <= MOST_FILES:
                self._names.add(match[1].decode("utf-8", "replace"))
        self._rest = text[max(end, len(text) - _KEPT_BYTES) :]

    def files(self) -> list[str] | None:
        """The files, each once; None where there are none, too many, or one outside the folder."""
        return files_of({"weight_map": {name: name for name in self._names}})
