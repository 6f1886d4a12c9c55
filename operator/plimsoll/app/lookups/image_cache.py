"""Platforms of images, read from their registries in the background and kept in memory.

The name of a registry is a tenant's word. So few are asked at once, one of a namespace, and a deployment waits for a
bounded time only: then its image is taken for the usual platforms.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

from plimsoll.adapters.hub.registries import Registries
from plimsoll.app.backoff import MOST_DOUBLINGS
from plimsoll.app.lookups.lanes import Lane
from plimsoll.app.lookups.look_ups import LookUp, LookUps
from plimsoll.domain.errors import PlimsollError, RateLimited
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem

READ_SECONDS = 3600.0
"""How long an answer is used. A tag may be moved to another image, which nearly always has the same platforms."""

RETRY_FIRST_SECONDS = 60.0
RETRY_LONGEST_SECONDS = 3600.0
"""The first and the longest pause after a failure; each is twice as long as the one before. Docker Hub allows 100 reads
of manifests in six hours to an address without a login (https://docs.docker.com/docker-hub/usage/), and nodes pull
from the same address."""

FORGOTTEN_SECONDS = 900.0
"""An answer that nobody asked for in this time is dropped. What serves does not ask."""

AT_ONCE = 4
PER_NAMESPACE = 1
"""The most images that are read at once, in total and of one namespace."""

MOST_OF_NAMESPACE = 64
"""The most images of one namespace that are read. A deployment has one image."""

WAIT_SECONDS = 20.0
"""How long a deployment waits for the first answer: a look-up takes 15 s at most, and begins at once unless others
wait."""

NOTICE_SECONDS = 2.0
"""How long a first look-up may take before a status reports it."""

_MOST_CHARACTERS = 300

logger = logging.getLogger("plimsoll.images")


@dataclass(frozen=True, slots=True)
class ImageArchitectures:
    """The architectures of an image, at least one, or why they are not known."""

    architectures: tuple[str, ...] = ()
    why: str = ""


@dataclass(slots=True)
class _Entry(LookUp):
    image: str
    since: float
    found: ImageArchitectures | None = None
    failures: int = 0


def reading(image: str) -> DeploymentProblem:
    """Return that the index of an image is being read."""
    doing = f"Reading the platforms of the image: {image}."
    return DeploymentProblem(
        ConditionReason.READING_IMAGE, doing, permanent=False, reported_after_seconds=NOTICE_SECONDS
    )


class ImageCache:
    """A cache of the platforms of images. It answers at once; :meth:`start_wanted` reads what is missing or old.

    :meth:`look_up` may be called from any thread; everything else belongs to the event loop.

    Args:
        registry: where images are read. Without it nothing is read.
        on_change: called on the event loop when there is another answer.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        registry: Registries | None = None,
        on_change: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._on_change = on_change
        self._clock = clock
        self._entries = LookUps[_Entry](
            self._read, (Lane(AT_ONCE, PER_NAMESPACE),), forgotten_seconds=FORGOTTEN_SECONDS, clock=clock
        )
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="images")
        self._patience: asyncio.TimerHandle | None = None

    @classmethod
    def asking(cls, registries: Sequence[str], on_change: Callable[[], None]) -> Self:
        """Return a cache that asks these registries; without any it asks nobody."""
        return cls(Registries(registries) if registries else None, on_change)

    @property
    def reads(self) -> bool:
        """Whether registries are asked at all."""
        return self._registry is not None

    def look_up(self, namespace: str, image: str) -> ImageArchitectures | None:
        """Return what is known of an image; None for as long as it is worth waiting for. Starts no look-up."""
        if self._registry is None:
            return ImageArchitectures()
        refusal = self._registry.refusal(image)
        if refusal:
            return ImageArchitectures(why=refusal)
        with self._entries.lock:
            entry = self._entries.found(namespace, image)
            if entry is None and self._entries.of_namespace(namespace) >= MOST_OF_NAMESPACE:
                return ImageArchitectures(
                    why=f"the namespace has more than {MOST_OF_NAMESPACE} images that are not read yet"
                )
            if entry is None:
                entry = self._entries.add(image, _Entry(image, self._clock(), namespace=namespace))
        if entry.found is None and self._clock() >= entry.since + WAIT_SECONDS:
            return ImageArchitectures(why=f"the registry has not answered within {WAIT_SECONDS:.0f} s")
        return entry.found

    def start_wanted(self) -> None:
        """Start to read what is due, in fair order. Call it after each pass."""
        self._entries.start()
        with self._entries.lock:
            waits = [each.since for page in self._entries.pages.values() for each in page.values() if not each.found]
        if self._patience is not None:
            self._patience.cancel()
        ends = [left for since in waits if (left := since + WAIT_SECONDS - self._clock()) > 0]
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(min(ends), self._on_change) if ends else None

    async def close(self) -> None:
        """Stop what still runs."""
        if self._patience is not None:
            self._patience.cancel()
        if self._registry is not None:
            self._registry.close()
        await self._entries.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _read(self, entry: _Entry) -> None:
        assert self._registry is not None  # noqa: S101 - nothing is asked without it
        before = entry.found
        ask = partial(self._registry.architectures, entry.image, asker=entry.namespace)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._pool, ask)
            entry.found, entry.failures, pause = ImageArchitectures(found), 0, READ_SECONDS
        except PlimsollError as error:
            pause = self._failed(entry, error)
        except Exception as error:  # a bug of ours must not be retried in every pass
            logger.exception("the platforms of %s cannot be read", entry.image)
            pause = self._failed(entry, PlimsollError(f"{type(error).__name__}: {error}"))
        entry.due_at = self._clock() + pause
        if entry.found != before:
            self._on_change()

    def _failed(self, entry: _Entry, error: PlimsollError) -> float:
        """Keep what was read before. Return the pause in seconds."""
        entry.failures += 1
        if entry.found is None or entry.found.why:
            entry.found = ImageArchitectures(why=str(error)[:_MOST_CHARACTERS])
            logger.warning("%s: the index of image %s: %s", entry.namespace, entry.image, entry.found.why)
        asked = (error.pause_seconds if isinstance(error, RateLimited) else None) or 0
        pause = RETRY_FIRST_SECONDS * 2 ** min(entry.failures - 1, MOST_DOUBLINGS)
        return float(min(max(pause, asked), RETRY_LONGEST_SECONDS))
