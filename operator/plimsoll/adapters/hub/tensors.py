"""Read the tensors of a model on a hub from the headers of its files: a few hundred KiB out of many GiB."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import httpx2

from plimsoll.adapters.hub.checkpoints import (
    INDEX_FILE,
    LENGTH_BYTES,
    MOST_FILES,
    SINGLE_FILE,
    files_of,
    header_length,
    parse_header,
)
from plimsoll.adapters.hub.web_session import WebVisit
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.units import KIB, MIB
from plimsoll.facts.models.tensors import Tensor

_FIRST_BYTES = 128 * KIB
"""Size of the first request for a file. Most headers are shorter; a longer one needs a second request."""

_LARGEST_INDEX_BYTES = 64 * MIB
"""The index is scanned and never kept in memory. The largest indices published so far have some 25 MB."""

_MOST_TENSORS = 300_000
"""Most tensors of one model. A trillion parameters in 384 experts a layer, packed, with scales, are 210,000 tensors."""

_READERS = 2
_reading = threading.BoundedSemaphore(_READERS)
"""Look-ups that may hold a model's tensors at the same time: some 100 MB each in the worst case."""

_long_header = threading.Lock()
"""Headers of many MiB are read and parsed one at a time in the process: each needs six times its size in memory."""


def hub_tensors(visit: WebVisit, address: Callable[[str], str]) -> list[Tensor] | None:
    """Return every tensor of the checkpoint; None if one file cannot be read, which is no error.

    Args:
        visit: the look-up that sends the requests.
        address: returns the URL of a file of the model by its name.
    """
    if not _reading.acquire(timeout=max(0.0, visit.remaining_seconds)):
        return None
    try:
        names = _names(visit, address)
        return None if not names else _tensors(visit, [address(name) for name in names])
    except SourceUnavailable:
        return None
    finally:
        _reading.release()


def _names(visit: WebVisit, address: Callable[[str], str]) -> list[str] | None:
    """Return the files that the index names, or the single file of a small model, which has no index."""
    scan = IndexScan()
    answer = visit.get(address(INDEX_FILE), most=_LARGEST_INDEX_BYTES, sink=scan.feed)
    if answer.status == httpx2.codes.NOT_FOUND:
        return [SINGLE_FILE]
    return scan.files() if answer.is_success else None


def _tensors(visit: WebVisit, urls: list[str]) -> list[Tensor] | None:
    found: list[Tensor] = []
    for url, answer in zip(urls, visit.heads(urls, most=_FIRST_BYTES), strict=True):
        tensors = _head(visit, url, answer.body) if answer.is_success else None
        if tensors is None or len(found) + len(tensors) > _MOST_TENSORS:
            return None
        found += tensors
    return found


def _head(visit: WebVisit, url: str, start: bytes) -> list[Tensor] | None:
    length = header_length(start)
    if length is None:
        return None
    if len(start) >= LENGTH_BYTES + length:
        return parse_header(start[LENGTH_BYTES : LENGTH_BYTES + length])
    if not _long_header.acquire(timeout=max(0.0, visit.remaining_seconds)):
        return None
    try:
        (whole,) = visit.heads([url], most=LENGTH_BYTES + length)
        return parse_header(whole.body[LENGTH_BYTES:]) if whole.is_success else None
    finally:
        _long_header.release()


_LONGEST_NAME = 512
_NAME = re.compile(rb':[ \t\r\n]{0,16}"([^"\\]{1,%d}\.safetensors)"' % _LONGEST_NAME)
_KEPT_BYTES = _LONGEST_NAME + 64
"""Bytes kept from the last piece, because a name may continue in the next piece."""


class IndexScan:
    """Reads an index piece by piece, while it is being downloaded, and collects the names of its files.

    An index has a line for each tensor: 23 MB for a model of 200,000 tensors, and three times as much in memory after
    parsing. Only the names of some dozens of files are needed, so no more than a few KiB are kept at any time.
    """

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
