"""Earlier answers of a hub, kept in a folder for use while the hub does not answer."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from plimsoll.domain.units import MIB

MOST_FILES = 1024
MOST_BYTES = 64 * MIB

logger = logging.getLogger("plimsoll.hub")


class HubCache:
    """A folder of small files with limits; the oldest files are removed first.

    No part of a path comes from a hub or a user: the name of a file is the SHA-256 of the question. If the folder is
    full, missing or not writable, nothing is kept and nothing else fails.

    Args:
        folder: the folder of the files; it is made when the first file is written.
        most_files: the largest number of files.
        most_bytes: the largest size of all files together.
    """

    def __init__(self, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_files = most_files
        self._most_bytes = most_bytes

    def get(self, question: tuple[str, ...], most: int) -> bytes | None:
        """Return the kept answer; None if there is none, or it has more than ``most`` bytes."""
        try:
            with self._path(question).open("rb") as stream:
                content = stream.read(most + 1)
        except OSError:
            return None
        return content if len(content) <= most else None

    def put(self, question: tuple[str, ...], content: bytes) -> None:
        """Keep an answer. A reader always sees either the whole old answer or the whole new one."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(self._path(question), content)
            self._prune()
        except OSError as error:
            logger.debug("an answer of the hub is not kept in %s: %s", self._folder, error)

    def drop(self, question: tuple[str, ...]) -> None:
        """Delete an answer that is no longer true."""
        with suppress(OSError):
            self._path(question).unlink()

    def _path(self, question: tuple[str, ...]) -> Path:
        return self._folder / hashlib.sha256(json.dumps(question).encode()).hexdigest()

    def _write(self, path: Path, content: bytes) -> None:
        handle, unfinished = tempfile.mkstemp(dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(unfinished).replace(path)
        except OSError:
            Path(unfinished).unlink(missing_ok=True)
            raise

    def _prune(self) -> None:
        """Remove the oldest files beyond the limits; these include unfinished files of a crash."""
        found: list[tuple[float, str, int]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another thread was faster
                    if entry.is_file(follow_symlinks=False):
                        facts = entry.stat(follow_symlinks=False)
                        found.append((facts.st_mtime, entry.path, facts.st_size))
        found.sort()
        held = sum(size for _, _, size in found)
        while found and (len(found) > self._most_files or held > self._most_bytes):
            _, path, size = found.pop(0)
            Path(path).unlink(missing_ok=True)
            held -= size
