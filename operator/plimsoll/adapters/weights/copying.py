"""Copies weights into a folder: the folder has its name only when all of it is there and verified.

Files are written next to the folder first. What another try has left there is continued, and checked at the end. One
process writes at a time, whatever the storage does with locks: the others watch its heartbeat.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from plimsoll.adapters.weights.sources import NotWorthATry, Published, PublishedFile, WeightsSource, source_of
from plimsoll.domain.errors import PlimsollError, SourceUnavailable
from plimsoll.domain.requests.weights import WeightsProgress
from plimsoll.domain.units import GIB, MIB

AT_ONCE = 4
"""Files that are read at the same time. One connection of a public hub gives some 100 MB/s."""

TRIES = 5
"""How often reading a file is tried again while each try brings it further."""

MANIFEST = ".plimsoll-weights.json"
"""In the folder: its files with their sizes, checksums and tags, and the version that they are of."""

BEAT_SECONDS = 3.0
SILENT_SECONDS = 20.0
"""A process beats so often. One that does not beat for so long has ended, and another one goes on in its place."""

RATE_SECONDS = 10.0
"""The time over which the rate is measured."""

_PIECE_BYTES = 16 * MIB
_MOST_SEEN = 100


@dataclass(slots=True)
class FolderCopy:
    """A folder on its way.

    Args:
        folder: where the weights are to be.
        say: takes a sentence for each step.
        clock: monotonic seconds.
        wait: waits for some seconds.
    """

    folder: Path
    say: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    hopeless: ClassVar[type[PlimsollError]] = NotWorthATry
    _total: int = 0
    _is_ending: threading.Event = field(default_factory=threading.Event)
    _seen: list[tuple[float, int]] = field(default_factory=list)

    @property
    def partial(self) -> Path:
        """Where the files are until all are there."""
        return self.folder.with_name(f".{self.folder.name}.partial")

    @property
    def _beat(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.beat")

    def progress(self) -> WeightsProgress:
        """Return how far it is now. Any thread may ask."""
        copied, now = self._total if self.folder.exists() else _size_of(self.partial), self.clock()
        recent = [each for each in self._seen if each[0] >= now - RATE_SECONDS]
        self._seen = [*recent[-_MOST_SEEN:], (now, copied)]
        began, before = self._seen[0]
        rate = round((copied - before) / (now - began)) if now > began else 0
        return WeightsProgress(min(copied, self._total) if self._total else copied, self._total, max(0, rate))

    def make(self, address: str, revision: str | None = None) -> bool:
        """Make the folder from a source, see :func:`source_of`. Return whether anything had to be copied.

        Raises:
            InvalidInput: the address cannot be used.
            NotWorthATry: a person has to change something, e.g. the claim has too little room.
            PlimsollError: it failed this time.
        """
        if self._is_whole():
            return False
        with (
            contextlib.closing(source_of(address, revision)) as source,
            _Turn(self._beat, self._is_ending, self.say, self.clock, self.wait),
        ):
            if self._is_whole():  # by the process that had its turn before
                return False
            published = source.published()
            self._total = published.total_bytes
            self._begin(published)
            self._check_room(published)
            self._copy_all(source, published)
            if self.folder.exists():
                shutil.rmtree(self.folder)
            self.partial.rename(self.folder)
        return True

    def _is_whole(self) -> bool:
        """Whether the folder is there with every file of its manifest, in the size that it says."""
        files = _files_of(self.folder / MANIFEST).values()
        self._total = sum(each.size for each in files)
        return bool(files) and all(_size(self.folder / each.path) == each.size for each in files)

    def _check_room(self, published: Published) -> None:
        there = sum(min(each.size, _size(self.partial / each.path)) for each in published.files)
        missing, free = published.total_bytes - there, shutil.disk_usage(self.partial).free
        if missing > free:
            raise NotWorthATry(
                f"the files need {missing / GIB:.1f} GiB more, and the volume has {free / GIB:.1f} GiB of room: "
                "enlarge the claim, or name another one."
            )

    def _copy_all(self, source: WeightsSource, published: Published) -> None:
        """Copy the files, a few at a time. The first one that fails ends the others, and is the one to name."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="weights") as pool:
            copies = [pool.submit(self._copy, source, file) for file in published.files]
            try:
                failed = [copy for copy in wait(copies, return_when=FIRST_EXCEPTION).done if copy.exception()]
            finally:
                self._is_ending.set()
                pool.shutdown(cancel_futures=True)
        for copy in failed:
            copy.result()

    def _copy(self, source: WeightsSource, file: PublishedFile) -> None:
        """Copy one file, from where an earlier try has ended."""
        target = self.partial / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        failures = 0
        while (start := _size(target)) != file.size or not target.exists():
            if start > file.size:
                target.unlink()
                continue
            try:
                with target.open("ab") as out:
                    for piece in source.read(file, start):
                        if self._is_ending.is_set():
                            raise PlimsollError("the copy was ended: another process copies these weights, too")
                        out.write(piece)
                    out.flush()
                    os.fsync(out.fileno())
            except SourceUnavailable as error:
                failures = failures + 1 if _size(target) == start else 1
                if failures >= TRIES:
                    raise
                self.say(f"{error}; it goes on at {_size(target):,} bytes")
                self.wait(2.0**failures)
            if _size(target) == start and file.size and not failures:
                raise PlimsollError(f"{file.path}: the source sent nothing from byte {start:,} on")
        self._verify(target, file)
        self.say(f"{file.path}: {file.size:,} bytes")

    def _verify(self, target: Path, file: PublishedFile) -> None:
        """Compare a file with its published checksum. A wrong one is removed, so that the next try reads it anew."""
        if not file.sha256:
            return
        digest = hashlib.sha256()
        with target.open("rb") as content:
            while piece := content.read(_PIECE_BYTES):
                digest.update(piece)
        if digest.hexdigest() != file.sha256:
            target.unlink()
            raise PlimsollError(f"{file.path}: its SHA-256 is not the published one, so it was removed")

    def _begin(self, published: Published) -> None:
        """Keep of an earlier try the files that are still published as they were, and note what is to come."""
        self.partial.mkdir(parents=True, exist_ok=True)
        known, wanted = _files_of(self.partial / MANIFEST), {each.path: each for each in published.files}
        for path in [each for each in self.partial.rglob("*") if each.is_file()]:
            name = path.relative_to(self.partial).as_posix()
            if name not in wanted or known.get(name) != wanted[name]:
                path.unlink()
        files = [asdict(each) for each in published.files]
        (self.partial / MANIFEST).write_text(json.dumps({"version": published.version, "files": files}, indent=1))


def _files_of(manifest: Path) -> dict[str, PublishedFile]:
    """Return the files of a manifest by path; none if it cannot be read."""
    try:
        found = [PublishedFile(**each) for each in json.loads(manifest.read_bytes())["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {each.path: each for each in found}


class _Turn:
    """The turn of one process. It waits until the heartbeat of another one has been silent for long enough.

    The storage may be shared by nodes whose clocks differ, and may not support locks. So the file's content counts, and
    this process's own clock.
    """

    def __init__(
        self,
        beat: Path,
        is_ending: threading.Event,
        say: Callable[[str], None],
        clock: Callable[[], float],
        wait: Callable[[float], None],
    ) -> None:
        self._beat, self._is_ending, self._say, self._clock, self._wait = beat, is_ending, say, clock, wait
        self._mine = os.urandom(8).hex()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._beat.parent.mkdir(parents=True, exist_ok=True)
        while not self._take():
            self._say("another process copies these weights: waiting for it")
            self._wait_for_silence()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_mine():
            self._beat.unlink(missing_ok=True)

    def _take(self) -> bool:
        """Take the turn if nobody has it. Only one process can create a file that is not there."""
        try:
            with self._beat.open("x") as file:
                file.write(f"{self._mine} 0")
        except FileExistsError:
            return False
        return True

    def _wait_for_silence(self) -> None:
        """Wait until the other one has ended, or has been silent for too long: then its turn is taken away."""
        last, since = self._content(), self._clock()
        while last:
            self._wait(BEAT_SECONDS)
            now = self._content()
            if now != last:
                last, since = now, self._clock()
            elif self._clock() - since >= SILENT_SECONDS:
                self._beat.unlink(missing_ok=True)
                return

    def _go_on(self) -> None:
        number = 0
        while not self._ended.wait(BEAT_SECONDS):
            if not self._is_mine():
                self._is_ending.set()
                return
            number += 1
            with contextlib.suppress(OSError):  # a disk that is full: the copy says so
                self._beat.write_text(f"{self._mine} {number}")

    def _is_mine(self) -> bool:
        return self._content().startswith(self._mine)

    def _content(self) -> str:
        try:
            return self._beat.read_text()
        except OSError:
            return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _size_of(folder: Path) -> int:
    return sum(_size(each) for each in folder.rglob("*") if each.is_file())
