"""Only one process writes: a Lease says which one, and a monotonic clock says for how long.

The protocol is that of Kubernetes' own components (client-go's leaderelection). The holder renews the lease. A
candidate takes it over when it has seen no change for the duration of the lease. Times are measured with a monotonic
clock that also counts while the machine is suspended; the times in the lease are only for people. The holder may write
until the renew deadline, which counts from when it *asked* for the last renewal that was granted. This ends before any
candidate may take over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from plimsoll.adapters.cluster.api_errors import ClusterRefused, NotLeading
from plimsoll.adapters.cluster.kinds import LEASES
from plimsoll.app.election.lease_times import LONGEST_LEASE_SECONDS, USUAL, LeaseTimes
from plimsoll.domain.errors import PlimsollError, SourceUnavailable
from plimsoll.domain.kubernetes_names import GROUP, ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import to_rfc3339

VERSION_ANNOTATION = f"{GROUP}/version"
SETTINGS_ANNOTATION = f"{GROUP}/settings"
"""The holder's release and the digest of its settings: a candidate that differs logs it."""

LAST_PASS_ANNOTATION = f"{GROUP}/last-pass"
"""When a holder last looked at all objects, for people: a Lease that is renewed says only that the process runs."""

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
    """Return the seconds of a clock that never jumps and, if possible, also counts while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """This process: its name in the lease, its release and a digest of its settings."""

    identity: str
    version: str
    settings: str


@dataclass(slots=True)
class Elector:
    """Takes the lease, renews it and releases it.

    Args:
        store: where the lease is.
        key: the lease's namespace and name.
        candidate: this process.
        waits: whether to wait as a standby while another process holds the lease; if not, :class:`LeaseHeld` is raised.
        times: how long the lease lasts, and how often it is renewed and looked at.
        clock: seconds on a steady clock.
        wall_clock: POSIX seconds, for people only. It may jump.
        sleep: waits for so many seconds of the steady clock.
        last_pass: when this process last made a pass, in POSIX seconds; None before its first one.
    """

    store: LeaseStore
    key: ObjectKey
    candidate: LeaseCandidate
    waits: bool = True
    times: LeaseTimes = USUAL
    clock: Callable[[], float] = steady_seconds
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    last_pass: Callable[[], float | None] = lambda: None
    valid_until: float = field(default=float("-inf"), init=False)
    holder: str = field(default="", init=False)
    trouble: str = field(default="", init=False)
    _lease: Manifest | None = field(default=None, init=False)
    _seen: tuple[str, str] = field(default=("", ""), init=False)
    _lasts: float = field(default=0.0, init=False)
    _expires_at: float = field(default=0.0, init=False)
    _last_message: str = field(default="", init=False)

    @property
    def is_leading(self) -> bool:
        """Whether this process may write now."""
        return self.clock() < self.valid_until

    def fence(self) -> None:
        """Raise :class:`NotLeading` if this process may not write."""
        if not self.is_leading:
            raise NotLeading("this process does not hold the lease: nothing is written")

    async def acquire(self) -> None:
        """Wait until this process holds the lease.

        Raises:
            LeaseHeld: another process renews it, and this one does not wait.
        """
        while True:
            if await self._try_to_acquire():
                break
            await self.sleep(self.times.retry)
        logger.info("%s holds the lease %s and begins to write", self.candidate.identity, self.key)

    async def hold(self) -> None:
        """Renew the lease until it is lost, then return. The caller ends the process."""
        while self.is_leading:
            await self.sleep(self.times.after_a_failure if self.trouble else self.times.renewal)
            await self._try_to_renew()
        logger.error("the lease %s is lost (%s): this process ends", self.key, self.trouble or f"held by {self.holder}")

    async def release(self) -> None:
        """Release the lease, so that a standby need not wait until it expires. Call it after the last write."""
        if not self.is_leading:
            return
        self.valid_until = float("-inf")
        try:
            lease = self._mine(self._lease)
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self.store.put_lease(lease, timeout_seconds=self.times.request)
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
        lease = await self.store.get_lease(self.key, timeout_seconds=self.times.request)
        if lease is None and self._may_be_held_unseen():
            return False
        if lease is not None and self._is_held_by_another(lease):
            self._report_holder(lease)
            return False
        self._granted(asked_at, await self.store.put_lease(self._mine(lease), timeout_seconds=self.times.request))
        return True

    def _may_be_held_unseen(self) -> bool:
        """Whether a lease that is missing now was held before: its holder may not know of it and may still write.

        Its last renewal may have been granted after our last look, but not after the lease was deleted.
        """
        holder, version = self._seen
        if holder and version:
            self._seen, self._expires_at = (holder, ""), self.clock() + max(self._lasts, self.times.lease)
        return bool(holder) and self.clock() < self._expires_at

    def _is_held_by_another(self, lease: Manifest) -> bool:
        """Whether another process holds the lease and has renewed it within its duration, as this process saw it.

        Raises:
            LeaseHeld: it was renewed while we watched, and this process does not wait.
        """
        holder, version = _holder(lease), str(lease["metadata"].get("resourceVersion"))
        if holder in ("", self.candidate.identity):
            return False
        was_renewed = self._seen[0] == holder and self._seen[1] not in ("", version)
        if (holder, version) != self._seen:
            self._seen, self._lasts = (holder, version), self._duration(lease)
            self._expires_at = self.clock() + self._lasts
        self.holder = holder
        if was_renewed and not self.waits:
            raise LeaseHeld(
                f"{holder} holds the lease {self.key} and writes to this cluster ({_described(lease)}). Stop it first, "
                "or start this process as a standby with PLIMSOLL_STANDBY=true."
            )
        return self.clock() < self._expires_at

    def _duration(self, lease: Manifest) -> float:
        """The seconds that the holder asks candidates to wait; our own if the lease holds no sensible number."""
        asked = (lease.get("spec") or {}).get("leaseDurationSeconds")
        return float(asked if isinstance(asked, int) and 0 < asked <= LONGEST_LEASE_SECONDS else self.times.lease)

    async def _try_to_renew(self) -> None:
        """Replace the version that this process wrote last. A conflict means that the lease was changed since."""
        asked_at = self.clock()
        try:
            self._granted(
                asked_at, await self.store.put_lease(self._mine(self._lease), timeout_seconds=self.times.request)
            )
        except SourceUnavailable as error:
            self.trouble = str(error)  # it may still have arrived: then the next renewal conflicts
            logger.warning("the lease could not be renewed: %s", error)
        except PlimsollError as error:
            self.trouble = str(error)
            logger.warning("the lease could not be renewed: %s", error)
            await self._look_again()

    async def _look_again(self) -> None:
        """Check after a refused renewal if this process still holds the lease. A deleted lease is created again."""
        try:
            lease = await self.store.get_lease(self.key, timeout_seconds=self.times.request)
        except PlimsollError:
            return  # the deadline decides
        self._lease = lease
        if lease is not None and _holder(lease) != self.candidate.identity:
            self.holder, self.valid_until = _holder(lease), float("-inf")

    def _granted(self, asked_at: float, lease: Manifest) -> None:
        self.valid_until = asked_at + self.times.renew_deadline
        self._lease = lease
        self.holder, self.trouble, self._last_message = self.candidate.identity, "", ""

    def _mine(self, lease: Manifest | None) -> Manifest:
        before: Mapping[str, Any] = (lease or {}).get("spec") or {}
        now = to_rfc3339(self.wall_clock()).replace("Z", ".000000Z")
        is_mine = before.get("holderIdentity") == self.candidate.identity
        head = dict((lease or {}).get("metadata") or {"name": self.key.name, "namespace": self.key.namespace})
        head.pop("managedFields", None)
        head["annotations"] = {
            **(head.get("annotations") or {}),
            VERSION_ANNOTATION: self.candidate.version,
            SETTINGS_ANNOTATION: self.candidate.settings,
            **self._last_pass(),
        }
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": head,
            "spec": {
                "holderIdentity": self.candidate.identity,
                "leaseDurationSeconds": self.times.lease,
                "acquireTime": before.get("acquireTime") if is_mine and before.get("acquireTime") else now,
                "renewTime": now,
                "leaseTransitions": _transitions(before) + (0 if is_mine or not before else 1),
            },
        }

    def _last_pass(self) -> dict[str, str]:
        """Return the mark of the last pass. Before the first one, that of the process before stays."""
        at = self.last_pass()
        return {} if at is None else {LAST_PASS_ANNOTATION: to_rfc3339(at)}

    def _report_holder(self, lease: Manifest) -> None:
        annotations = lease["metadata"].get("annotations") or {}
        theirs = (annotations.get(VERSION_ANNOTATION), annotations.get(SETTINGS_ANNOTATION))
        message = f"standby: {self.holder} holds the lease {self.key} ({_described(lease)})"
        if theirs[0] != self.candidate.version:
            message += f"; its version differs from this one's, {self.candidate.version}"
        elif theirs[1] != self.candidate.settings:
            message += "; its settings differ from this process's"
        self._note(message, trouble=False)

    def _note(self, message: str, *, trouble: bool = True) -> None:
        """Log something once, and again when it changes."""
        self.trouble = message if trouble else ""
        if message != self._last_message:
            self._last_message = message
            logger.log(logging.WARNING if trouble else logging.INFO, "%s", message)


def _holder(lease: Manifest) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _described(lease: Manifest) -> str:
    annotations = lease["metadata"].get("annotations") or {}
    since = (lease.get("spec") or {}).get("acquireTime") or "unknown"
    return f"version {annotations.get(VERSION_ANNOTATION, 'unknown')}, since {since}"


def _transitions(spec: Mapping[str, Any]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) and 0 <= count < 2**31 - 1 else 0
