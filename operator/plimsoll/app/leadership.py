"""One writer: a Lease says which process may write, and a clock that nobody can set says for how long.

The protocol is that of Kubernetes' own components (client-go's leaderelection): the holder renews the lease, a
candidate takes it over when it has not seen it change for as long as the lease lasts. Times are measured here with a
clock that only goes forward and that counts a suspended machine's sleep; the times written into the lease are for
people. The holder may write for RENEW_DEADLINE_SECONDS after it last *asked* for a renewal that was granted, which ends
before any candidate may take over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from plimsoll.adapters.api_errors import ClusterRefused, NotLeading
from plimsoll.adapters.kinds import LEASES
from plimsoll.domain.errors import PlimsollError, SourceUnavailable
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.names import GROUP
from plimsoll.domain.times import to_rfc3339
from plimsoll.domain.workload import Manifest

LEASE_SECONDS = 15
"""How long a candidate waits for a renewal before it takes over."""

RENEW_DEADLINE_SECONDS = 10.0
"""How long a granted renewal lets its holder write. The rest of LEASE_SECONDS is for writes that are on their way."""

RENEW_SECONDS = 2.5
AFTER_A_FAILURE_SECONDS = 0.5
"""Pause between two renewals, and after one that failed: two more are tried before the deadline."""

RETRY_SECONDS = 1.0
"""Pause between two looks of a candidate: a release is noticed within it."""

REQUEST_SECONDS = 3.0
"""Bound on one request."""

VERSION_ANNOTATION = f"{GROUP}/version"
SETTINGS_ANNOTATION = f"{GROUP}/settings"
"""What the holder is and how it is set up: a candidate with other settings says so."""

logger = logging.getLogger("plimsoll.leadership")


class LeaseHeld(PlimsollError):
    """Another process holds the lease, and this one was not started as a standby."""


class LeaseStore(Protocol):
    """The API server, as far as the election needs it."""

    async def get_lease(self, key: ObjectKey, *, timeout_seconds: float) -> Manifest | None:
        """Read the lease."""

    async def put_lease(self, lease: Manifest, *, timeout_seconds: float) -> Manifest:
        """Create it, or replace the version that was read."""


def steady_seconds() -> float:
    """Seconds on a clock that never jumps and that goes on while the machine sleeps, where there is such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class Candidate:
    """This process: its name in the lease, its release and a digest of its settings."""

    identity: str
    version: str
    settings: str


@dataclass(slots=True)
class Elector:
    """Takes the lease, renews it, gives it back.

    Args:
        store: where the lease is.
        key: the lease's namespace and name.
        candidate: this process.
        waits: whether to wait as a standby while another process holds the lease; if not, :class:`LeaseHeld` is raised.
        clock: seconds on a steady clock.
    """

    store: LeaseStore
    key: ObjectKey
    candidate: Candidate
    waits: bool = True
    clock: Callable[[], float] = steady_seconds
    valid_until: float = field(default=float("-inf"), init=False)
    holder: str = field(default="", init=False)
    trouble: str = field(default="", init=False)
    _lease: Manifest | None = field(default=None, init=False)
    _seen: tuple[str, str] = field(default=("", ""), init=False)
    _seen_at: float = field(default=0.0, init=False)
    _said: str = field(default="", init=False)

    @property
    def is_leading(self) -> bool:
        """Whether this process may write at this moment."""
        return self.clock() < self.valid_until

    def fence(self) -> None:
        """Stop a write that this process may not make. Raises :class:`NotLeading`."""
        if not self.is_leading:
            raise NotLeading("this process does not hold the lease: nothing is written")

    async def acquire(self) -> None:
        """Return when the lease is this process's.

        Raises:
            LeaseHeld: another process renews it, and this one does not wait.
        """
        while True:
            if await self._try_to_acquire():
                break
            await asyncio.sleep(RETRY_SECONDS)
        logger.info("%s holds the lease %s and begins to write", self.candidate.identity, self.key)

    async def hold(self) -> None:
        """Renew the lease until it is lost, and return then. The caller ends the process."""
        while self.is_leading:
            await asyncio.sleep(AFTER_A_FAILURE_SECONDS if self.trouble else RENEW_SECONDS)
            await self._try_to_renew()
        logger.error("the lease %s is lost (%s): this process ends", self.key, self.trouble or f"held by {self.holder}")

    async def release(self) -> None:
        """Give the lease back, so that a standby need not wait for its end. Call it after the last write."""
        if not self.is_leading:
            return
        self.valid_until = float("-inf")
        try:
            lease = self._mine(self._lease)
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self.store.put_lease(lease, timeout_seconds=REQUEST_SECONDS)
        except PlimsollError as error:
            logger.warning("the lease could not be given back, it runs out by itself: %s", error)

    async def _try_to_acquire(self) -> bool:
        try:
            return await self._acquire_once()
        except ClusterRefused as refusal:
            if refusal.status != 409:  # noqa: PLR2004 - HTTP: another candidate was faster
                self._note(f"the lease {self.key} cannot be taken: {refusal}")
        except SourceUnavailable as error:
            self._note(f"the lease {self.key} cannot be read: {error}")
        return False

    async def _acquire_once(self) -> bool:
        asked_at = self.clock()
        lease = await self.store.get_lease(self.key, timeout_seconds=REQUEST_SECONDS)
        if lease is None and self._was_just_there():
            return False
        if lease is not None and self._is_held_by_another(lease):
            self._say_who_holds(lease)
            return False
        self._granted(asked_at, await self.store.put_lease(self._mine(lease), timeout_seconds=REQUEST_SECONDS))
        return True

    def _was_just_there(self) -> bool:
        """Whether a lease that is gone was held a moment ago: its holder may still write, deletion tells it nothing."""
        return bool(self._seen[0]) and self.clock() < self._seen_at + LEASE_SECONDS

    def _is_held_by_another(self, lease: Manifest) -> bool:
        """Whether another process holds the lease and has renewed it within the time that it lasts, as seen from here.

        Raises:
            LeaseHeld: it was renewed while we watched, and this process does not wait.
        """
        holder, version = _holder(lease), str(lease["metadata"].get("resourceVersion"))
        if holder in ("", self.candidate.identity):
            return False
        was_renewed = self._seen[0] == holder and self._seen[1] not in ("", version)
        if (holder, version) != self._seen:
            self._seen, self._seen_at = (holder, version), self.clock()
        self.holder = holder
        if was_renewed and not self.waits:
            raise LeaseHeld(
                f"{holder} holds the lease {self.key} and writes to this cluster ({_described(lease)}). Stop it first, "
                "or start this process as a standby with PLIMSOLL_STANDBY=true."
            )
        return self.clock() < self._seen_at + _lasts(lease)

    async def _try_to_renew(self) -> None:
        """Replace the version that this process wrote last. A conflict means that somebody changed the lease since."""
        asked_at = self.clock()
        try:
            self._granted(
                asked_at, await self.store.put_lease(self._mine(self._lease), timeout_seconds=REQUEST_SECONDS)
            )
        except SourceUnavailable as error:
            self.trouble = str(error)  # it may have arrived all the same: then the next one conflicts, and we look
            logger.warning("the lease could not be renewed: %s", error)
        except PlimsollError as error:
            self.trouble = str(error)
            logger.warning("the lease could not be renewed: %s", error)
            await self._look_again()

    async def _look_again(self) -> None:
        """After a renewal that was refused: is the lease still this process's? One that was deleted is made anew."""
        try:
            lease = await self.store.get_lease(self.key, timeout_seconds=REQUEST_SECONDS)
        except PlimsollError:
            return  # the deadline decides
        self._lease = lease
        if lease is not None and _holder(lease) != self.candidate.identity:
            self.holder, self.valid_until = _holder(lease), float("-inf")

    def _granted(self, asked_at: float, lease: Manifest) -> None:
        self.valid_until = asked_at + RENEW_DEADLINE_SECONDS
        self._lease = lease
        self.holder, self.trouble, self._said = self.candidate.identity, "", ""

    def _mine(self, lease: Manifest | None) -> Manifest:
        """The lease as it shall be: renewed, or taken over."""
        before: Mapping[str, Any] = (lease or {}).get("spec") or {}
        now = to_rfc3339(time.time()).replace("Z", ".000000Z")
        is_mine = before.get("holderIdentity") == self.candidate.identity
        head = dict((lease or {}).get("metadata") or {"name": self.key.name, "namespace": self.key.namespace})
        head.pop("managedFields", None)
        head["annotations"] = {
            **(head.get("annotations") or {}),
            VERSION_ANNOTATION: self.candidate.version,
            SETTINGS_ANNOTATION: self.candidate.settings,
        }
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": head,
            "spec": {
                "holderIdentity": self.candidate.identity,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": before.get("acquireTime") if is_mine and before.get("acquireTime") else now,
                "renewTime": now,
                "leaseTransitions": _transitions(before) + (0 if is_mine or not before else 1),
            },
        }

    def _say_who_holds(self, lease: Manifest) -> None:
        annotations = lease["metadata"].get("annotations") or {}
        theirs = (annotations.get(VERSION_ANNOTATION), annotations.get(SETTINGS_ANNOTATION))
        said = f"standby: {self.holder} holds the lease {self.key} ({_described(lease)})"
        if theirs[0] != self.candidate.version:
            said += f"; its version differs from this one's, {self.candidate.version}"
        elif theirs[1] != self.candidate.settings:
            said += "; its settings differ from this process's"
        self._note(said, trouble=False)

    def _note(self, said: str, *, trouble: bool = True) -> None:
        """Log something once, and again when it changes."""
        self.trouble = said if trouble else ""
        if said != self._said:
            self._said = said
            logger.log(logging.WARNING if trouble else logging.INFO, "%s", said)


def _holder(lease: Manifest) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _described(lease: Manifest) -> str:
    annotations = lease["metadata"].get("annotations") or {}
    since = (lease.get("spec") or {}).get("acquireTime") or "unknown"
    return f"version {annotations.get(VERSION_ANNOTATION, 'unknown')}, since {since}"


def _lasts(lease: Manifest) -> float:
    """How long the holder asked candidates to wait; the usual time where somebody wrote nonsense into the lease."""
    asked = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return float(asked) if isinstance(asked, int) and 0 < asked <= 4 * LEASE_SECONDS else float(LEASE_SECONDS)


def _transitions(spec: Mapping[str, Any]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) and 0 <= count < 2**31 - 1 else 0
