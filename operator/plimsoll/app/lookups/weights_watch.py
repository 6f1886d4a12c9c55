"""How far downloads of weights are, asked in the background: of the pods that a Job has made, and of the API server.

A download answers at its pod's own address. If it cannot be reached, e.g. because of a NetworkPolicy, its figures are
not known, and nothing else changes.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from plimsoll.adapters.cluster.client import PODS, Listing
from plimsoll.app.lookups.lanes import Lane
from plimsoll.app.lookups.look_ups import LookUp, LookUps
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.weights import PROGRESS_PATH, WeightsProgress
from plimsoll.domain.requests.workload import ENGINE_PORT
from plimsoll.facts.cluster.job_reading import last_failure, oldest_first, running_address

ASK_SECONDS = 15.0
"""How often a download is asked. Each answer changes a status, and somebody may watch it."""

FORGOTTEN_SECONDS = 60.0
AT_ONCE, PER_NAMESPACE = 8, 2
"""The most downloads that are asked at once, in total and of one namespace."""

LONGEST_ANSWER_SECONDS = 3.0
_MOST_BYTES = 4096

_JOB_LABEL = "batch.kubernetes.io/job-name"

Body = Mapping[str, Any]
ListPods = Callable[..., Awaitable[Listing]]
Fetch = Callable[[str], Awaitable[object]]

logger = logging.getLogger("plimsoll.weights")


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer of a download: its figures, and the last words of a try that failed."""

    progress: WeightsProgress | None = None
    failure: str = ""


_NOTHING = Heard()


@dataclass(slots=True)
class _Entry(LookUp):
    job: str
    uid: str
    heard: Heard = _NOTHING


async def fetch_json(url: str) -> object:
    """Return the JSON at an address, if it is short and comes soon. Raises aiohttp's errors, ValueError and OSError."""
    limit = aiohttp.ClientTimeout(total=LONGEST_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(url, allow_redirects=False) as answer:
        return json.loads(await answer.content.read(_MOST_BYTES))


class WeightsWatch:
    """The answers of downloads. It answers at once; :meth:`start_wanted` asks those that are due.

    :meth:`of` may be called from any thread; everything else belongs to the event loop.

    Args:
        list_pods: lists the pods of a Job. Without it nothing is asked.
        on_change: called on the event loop when an answer has changed.
        fetch: reads JSON from an address.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        list_pods: ListPods | None = None,
        on_change: Callable[[], None] = lambda: None,
        *,
        fetch: Fetch = fetch_json,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_pods, self._on_change, self._fetch, self._clock = list_pods, on_change, fetch, clock
        self._entries = LookUps[_Entry](
            self._read, (Lane(AT_ONCE, PER_NAMESPACE),), forgotten_seconds=FORGOTTEN_SECONDS, clock=clock
        )

    def of(self, job: Body) -> Heard:
        """Return what was last heard of the pods of a Job. One that failed just now is asked at once."""
        if self._list_pods is None:
            return _NOTHING
        head = job["metadata"]
        namespace, uid = str(head["namespace"]), str(head["uid"])
        question = uid, (job.get("status") or {}).get("failed")
        with self._entries.lock:
            entry = self._entries.found(namespace, question)
            entry = entry or self._entries.add(question, _Entry(str(head["name"]), uid, namespace=namespace))
        return entry.heard

    def start_wanted(self) -> None:
        """Start to ask what is due, in fair order. Call it after each pass."""
        self._entries.start()

    async def close(self) -> None:
        """Stop what still runs."""
        await self._entries.close()

    async def _read(self, entry: _Entry) -> None:
        before = entry.heard
        try:
            entry.heard = await self._heard(entry)
        except (PlimsollError, OSError) as error:
            logger.debug("job %s/%s: %s", entry.namespace, entry.job, error)
        except Exception:  # a bug of ours must not be retried in every pass
            logger.exception("job %s/%s cannot be asked", entry.namespace, entry.job)
        entry.due_at = self._clock() + ASK_SECONDS
        if entry.heard != before:
            self._on_change()

    async def _heard(self, entry: _Entry) -> Heard:
        assert self._list_pods is not None  # noqa: S101 - nothing is started without it
        listed = await self._list_pods(PODS, labels=f"{_JOB_LABEL}={entry.job}", namespace=entry.namespace, pages=1)
        pods = oldest_first(listed.items, entry.uid)
        address = running_address(pods)
        return Heard(await self._progress(address) if address else None, last_failure(pods))

    async def _progress(self, address: str) -> WeightsProgress | None:
        host = f"[{address}]" if ":" in address else address
        try:
            return WeightsProgress.of(await self._fetch(f"http://{host}:{ENGINE_PORT}{PROGRESS_PATH}"))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, RecursionError):
            return None
