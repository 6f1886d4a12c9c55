"""PersistentVolumeClaims that deployments name, read in the background and kept in memory.

Only named claims are read, with their volumes or storage classes: a cluster may have many more. Of a volume that is
made for each pod, the class is read, because its claim does not exist before the pod. If the operator has
no right to read them, or the API server does not answer, nothing is known of them and nothing is ruled out.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, ClusterRefused
from plimsoll.adapters.cluster.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES, ObjectKind
from plimsoll.app.lookups.lanes import Lane
from plimsoll.app.lookups.look_ups import LookUp, LookUps
from plimsoll.domain.cluster.node_rules import Claim, Mounted
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.domain.requests.workload import Manifest
from plimsoll.facts.cluster.claim_reading import class_name, read_claim, volume_name
from plimsoll.status.record.report import DeploymentProblem

BOUND_SECONDS = 600.0
"""How long an answer about a bound claim is used while its pods find places. Its volume stays where it is."""

UNBOUND_SECONDS = 15.0
"""The same for a claim that is not bound, is missing, cannot be mounted now, or could not be read, and for one whose
pods find no place."""

FORBIDDEN_SECONDS = 300.0
"""The same if the operator may not read it, and its pods find places."""

FORGOTTEN_SECONDS = 900.0
"""An answer that nobody asked for in this time is dropped."""

AT_ONCE = 4
PER_NAMESPACE = 1
"""The most claims that are read at once, in total and of one namespace."""

MOST_OF_NAMESPACE = 512
"""The most claims of one namespace that are kept. Of the others nothing is known."""

NOTICE_SECONDS = 2.0
"""How long a first reading may take before a status reports it."""

_MOST_NAMED = 5

Get = Callable[[ObjectKind, ObjectKey], Awaitable[Manifest | None]]

logger = logging.getLogger("plimsoll.claims")


@dataclass(slots=True)
class _Entry(LookUp):
    mounted: Mounted
    claim: Claim | None = None
    read_at: float = math.inf


class ClaimCache:
    """A cache of claims. It answers at once; :meth:`start_wanted` reads what is missing or old.

    :meth:`look_up` may be called from any thread; everything else belongs to the event loop.

    Args:
        get: reads one object; None if it does not exist. Without it, nothing is known of any claim.
        on_change: called on the event loop when an answer has changed.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        get: Get | None = None,
        on_change: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get = get
        self._on_change = on_change
        self._clock = clock
        self._entries = LookUps[_Entry](
            self._read, (Lane(AT_ONCE, PER_NAMESPACE),), forgotten_seconds=FORGOTTEN_SECONDS, clock=clock
        )
        self._said: set[str] = set()

    def look_up(
        self, namespace: str, mounted: Sequence[Mounted], *, doubted: bool = False
    ) -> tuple[Claim, ...] | DeploymentProblem:
        """Return what is known of these volumes, in their order, or that they have not been read yet.

        ``doubted`` means that pods could not be placed because of it: it is read again as often as an unbound claim.
        A claim can be deleted, and made again with a volume somewhere else.
        """
        if self._get is None:
            return ()
        with self._entries.lock:
            found = [self._asked(namespace, each, doubted=doubted) for each in mounted]
        known = tuple(each for each in found if each is not None)
        if len(known) == len(found):
            return known
        doing = f"Reading the PersistentVolumeClaims of the pods: {', '.join(map(str, mounted[:_MOST_NAMED]))}."
        return DeploymentProblem(
            ConditionReason.READING_VOLUMES, doing, permanent=False, reported_after_seconds=NOTICE_SECONDS
        )

    @property
    def knows_any(self) -> bool:
        """Whether any claim was asked for lately."""
        return bool(self._entries.pages)

    def start_wanted(self) -> None:
        """Start to read what is due, in fair order. Call it after each pass."""
        self._entries.start()

    async def close(self) -> None:
        """Stop what still runs."""
        await self._entries.close()

    def _asked(self, namespace: str, mounted: Mounted, *, doubted: bool) -> Claim | None:
        entry = self._entries.found(namespace, mounted)
        if entry is None and self._entries.of_namespace(namespace) >= MOST_OF_NAMESPACE:
            return Claim(str(mounted))
        entry = entry or self._entries.add(mounted, _Entry(mounted, namespace=namespace))
        if doubted:
            entry.due_at = min(entry.due_at, entry.read_at + UNBOUND_SECONDS)
        return entry.claim

    async def _read(self, entry: _Entry) -> None:
        before, pause = entry.claim, UNBOUND_SECONDS
        try:
            entry.claim, is_bound = await self._found(entry.namespace, entry.mounted)
            pause = BOUND_SECONDS if is_bound and not entry.claim.why_unusable else UNBOUND_SECONDS
        except ClusterRefused as refusal:
            pause = FORBIDDEN_SECONDS if refusal.status == FORBIDDEN else UNBOUND_SECONDS
            self._failed(entry, str(refusal))
        except PlimsollError as error:
            self._failed(entry, str(error))
        except Exception as error:  # a bug of ours must not be retried in every pass
            logger.exception("claim %s/%s cannot be read", entry.namespace, entry.mounted)
            self._failed(entry, f"{type(error).__name__}: {error}")
        entry.read_at = self._clock()
        entry.due_at = entry.read_at + pause
        if entry.claim != before:
            self._on_change()

    async def _found(self, namespace: str, mounted: Mounted) -> tuple[Claim, bool]:
        """Return what is known of a volume, and whether that rarely changes."""
        assert self._get is not None  # noqa: S101 - nothing is started without it
        if mounted.made_by:
            making = await self._get(STORAGE_CLASSES, ObjectKey("", mounted.made_by))
            return read_claim(str(mounted), None, None, making), making is not None
        key = ObjectKey(namespace, mounted.name)
        claim = await self._get(CLAIMS, key)
        if claim is None:
            return Claim(key.name), False
        volume, kind = volume_name(claim), class_name(claim)
        bound_to = await self._get(VOLUMES, ObjectKey("", volume)) if volume else None
        made_by = await self._get(STORAGE_CLASSES, ObjectKey("", kind)) if kind and not volume else None
        lacks_class = bool(kind) and not volume and made_by is None
        return read_claim(key.name, claim, bound_to, made_by, lacks_class=lacks_class), bound_to is not None

    def _failed(self, entry: _Entry, why: str) -> None:
        """Keep what was known. If nothing was, rule nothing out."""
        entry.claim = entry.claim or Claim(str(entry.mounted))
        if why not in self._said and len(self._said) < MOST_OF_NAMESPACE:
            self._said.add(why)
            where = f"{entry.namespace}/{entry.mounted}"
            logger.warning("claim %s: nothing is ruled out because of its volume: %s", where, why)
