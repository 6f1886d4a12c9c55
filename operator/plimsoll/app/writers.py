"""Step 5: carry decisions out. Several objects at a time, the writes of one in order, a slow one in nobody's way.

Order within an object: names are checked, the status is written (it is the record of the decision), then workloads,
then what is to go, then events. An object whose writes take long is left to them: the next pass takes the status that
is being written for written and treats everybody else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plimsoll.adapters.cluster import ClusterRefused, NotLeading
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.backoff import Backoff
from plimsoll.app.case import Case, is_passing
from plimsoll.app.executor import Executor, NameTaken, Note
from plimsoll.app.faults import Faults, Step
from plimsoll.app.health import Beats
from plimsoll.app.model_book import RESOLVING
from plimsoll.app.notes import notes_of
from plimsoll.app.refusals import Refusals
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.times import to_rfc3339
from plimsoll.placement.pools import Decision
from plimsoll.render.names import POOL_LABEL
from plimsoll.render.report import Problem, Report
from plimsoll.render.status import status as render_status

PATIENCE_SECONDS = 3.0
"""How long a pass waits for its writes: what takes longer goes on while the next pass looks after newcomers."""

UNREACHABLE_SECONDS = 15.0
"""Longest pause after an API server that does not answer: it is back for everybody at once."""

REFUSED_SECONDS = 60.0
"""Longest pause after a refusal: a quota that is raised or a policy that is lifted is noticed within it."""

LOOKING_SECONDS = 2.0
"""How long the first look-up of a model may take before the status speaks of it."""

NAME_SECONDS = 5.0
"""How soon a name that somebody else has taken is looked at again: foreign objects are not watched."""

_GONE, _CONFLICT = 404, 409

logger = logging.getLogger("plimsoll.writers")


@dataclass(slots=True)
class Writers:
    """Tasks that write, one for each object."""

    executor: Executor
    faults: Faults
    refusals: Refusals
    metrics: Metrics
    wake: asyncio.Event
    beats: Beats = field(default_factory=Beats)
    backoff: Backoff = field(default_factory=Backoff)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _intended: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _generations: dict[str, int] = field(default_factory=dict)
    _pools_at: dict[str, str] = field(default_factory=dict)
    _left_over: set[str] = field(default_factory=set)
    _names_taken: set[str] = field(default_factory=set)
    _looking: dict[str, float] = field(default_factory=dict)

    def intended(self) -> dict[str, Mapping[str, Any]]:
        """Statuses by uid that are being written."""
        return dict(self._intended)

    def running(self) -> tuple[asyncio.Task[None], ...]:
        """Writes that are not done yet."""
        return tuple(self._running.values())

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Objects that are gone take along what is remembered of them."""
        kept = list(uids)
        self.faults.forget_all_but(kept)
        self.refusals.forget_all_but(kept)
        self.backoff.forget_all_but(kept)
        self._names_taken &= set(kept)
        self._looking = {uid: self._looking[uid] for uid in kept if uid in self._looking}
        self._generations = {uid: self._generations[uid] for uid in kept if uid in self._generations}

    def due_in_seconds(self) -> Iterator[float]:
        """In how many seconds an object that could not be written may be tried again."""
        waits = (self.backoff.next_due_in_seconds(), self.executor.contests.next_due_in_seconds())
        yield from (seconds for seconds in waits if seconds is not None)
        if self._names_taken:
            yield NAME_SECONDS
        if self._looking:
            yield LOOKING_SECONDS

    async def carry_out(self, cases: Sequence[Case], now: float) -> None:
        """Write what is to be written; return when all is done, or after PATIENCE_SECONDS."""
        for case in cases:
            if case.uid in self._running:
                self._left_over.add(case.uid)
                continue
            task = asyncio.create_task(self._write(case, now))
            self._running[case.uid] = task
            task.add_done_callback(partial(self._ended, case.uid))
        pending = {self._running[case.uid] for case in cases if case.uid in self._running}
        if pending:
            await asyncio.wait(pending, timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        """Abandon what is being written; the next start repairs it."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, uid: str, _: object) -> None:
        """One whose turn was left out while it was busy gets another pass."""
        self._running.pop(uid, None)
        self._intended.pop(uid, None)
        self._pools_at.pop(uid, None)
        if uid in self._left_over:
            self._left_over.discard(uid)
            self.wake.set()

    def _progress(self, case: Case) -> None:
        self.beats.go_on("planning", f"writing {case.key}")

    async def _write(self, case: Case, now: float) -> None:
        """One object. Nothing that it raises gets any further."""
        try:
            await self._carry_out(case, now)
        except NotLeading:
            logger.warning("%s: not written, this process does not hold the lease", case.key)
        except (ClusterRefused, SourceUnavailable) as error:
            self._not_written(case, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this object's alone
            self.faults.note(case.key, case.uid, case.generation, Step.WRITE, error)
            self.wake.set()
        self._progress(case)

    def _not_written(self, case: Case, error: Exception) -> None:
        if isinstance(error, ClusterRefused) and error.status == _GONE:
            return  # deleted meanwhile
        is_refused = isinstance(error, ClusterRefused) and not error.is_passing
        pause = self.backoff.failed(case.uid, REFUSED_SECONDS if is_refused else UNREACHABLE_SECONDS)
        self.metrics.write_failed()
        logger.warning("%s: %s; again in %.0f s", case.key, error, pause)

    def _is_due(self, case: Case) -> bool:
        """Whether there is something to write and no pause lasts.

        Nothing said before becomes untrue by a source that is down for a moment: such a problem is not written over it.
        """
        if case.report is None or case.new_status is None or is_passing(case) or self._is_being_looked_up(case):
            return False
        if self._generations.get(case.uid) != case.generation:
            self._generations[case.uid] = case.generation
            self.backoff.succeeded(case.uid)  # what was refused or failed was another spec
            self.refusals.ended(case.uid)
        return self.backoff.is_due(case.uid)

    def _is_being_looked_up(self, case: Case) -> bool:
        """Whether the model's first look-up has only just begun: most are over before a status could say so."""
        if case.problem is None or case.problem.reason != RESOLVING:
            self._looking.pop(case.uid, None)
            return False
        return time.monotonic() - self._looking.setdefault(case.uid, time.monotonic()) < LOOKING_SECONDS

    async def _carry_out(self, case: Case, now: float) -> None:
        if not self._is_due(case):
            return
        report, written = await self._status(case, now)
        is_clear = report.decision is not None and not (report.suspended or report.problem or report.name_conflict)
        if is_clear and not await self._objects(case, report, now):
            return
        if written and not report.name_conflict:
            await self._events(case, notes_of(case))
        self.backoff.succeeded(case.uid)
        if case.fault is None:
            self.faults.cleared(case.uid)

    async def _status(self, case: Case, now: float) -> tuple[Report, bool]:
        """Write the status; returns what it says, and whether it said something else before.

        Raises:
            StatusRefused: the API server does not take it.
        """
        assert case.report is not None  # noqa: S101 - the caller asked
        assert case.new_status is not None  # noqa: S101 - same
        report, status = case.report, case.new_status
        self._names_taken.discard(case.uid)
        try:
            await self.executor.check_names(case.body, case.manifests)
        except NameTaken as taken:
            self._names_taken.add(case.uid)
            report = _blocked(report, taken)
            status = render_status(report, case.status, to_rfc3339(now))
        self._progress(case)
        self._intended[case.uid] = status
        try:
            written = await self.executor.write_status(case.body, status)
        except ClusterRefused as refusal:
            if _may_pass(refusal):
                raise
            raise StatusRefused(str(refusal)) from refusal
        self._progress(case)
        return report, written

    async def _objects(self, case: Case, report: Report, now: float) -> bool:
        """Write the workloads. A refusal by the API server goes into the status at once, in the server's words."""
        decision = report.decision
        assert decision is not None  # noqa: S101 - the caller asked
        try:
            await self._apply_objects(case, decision)
        except NameTaken as taken:
            self._names_taken.add(case.uid)
            logger.warning("%s: %s", case.key, taken)  # taken a moment ago; the next pass says so in the status
            return False
        except ClusterRefused as refusal:
            if refusal.status in (_GONE, _CONFLICT):
                raise
            await self._say_refused(case, report, refusal, now)
            return False
        self.refusals.ended(case.uid)
        return True

    async def _say_refused(self, case: Case, report: Report, error: ClusterRefused, now: float) -> None:
        self._not_written(case, error)
        refusal = self.refusals.note(case.uid, self._pools_at.get(case.uid, ""), error)
        told = render_status(
            replace(report, refused=refusal.sentence(), refusal_passes=refusal.is_passing), case.status, to_rfc3339(now)
        )
        self._intended[case.uid] = told
        await self.executor.write_status({**case.body, "status": case.new_status}, told)
        await self._events(case, [Note("PodsNotCreated", refusal.sentence(), warning=True)])

    async def _apply_objects(self, case: Case, decision: Decision) -> None:
        for manifest in case.manifests:
            self._pools_at[case.uid] = manifest["metadata"]["labels"].get(POOL_LABEL, "")
            await self.executor.apply(case.body, manifest)
            self._progress(case)
        for pool in decision.pools:
            live = case.around.workloads.get(pool.name)
            if pool.choice is None and live is not None:
                await self.executor.scale(case.body, live, pool.replicas)
        kept = {pool.name for pool in decision.pools}
        for name, live in case.around.workloads.items():
            if name not in kept:
                await self.executor.remove(case.body, live)
                self._progress(case)

    async def _events(self, case: Case, notes: Sequence[Note]) -> None:
        """Events are a courtesy: one that cannot be recorded stops nothing."""
        try:
            await self.executor.tell(case.body, notes)
        except (ClusterRefused, SourceUnavailable) as error:
            logger.warning("%s: the event was not recorded: %s", case.key, error)
        except NotLeading:
            raise
        except Exception as error:  # noqa: BLE001 - same
            self.faults.note(case.key, case.uid, case.generation, Step.EVENTS, error)


class StatusRefused(Exception):
    """The API server does not take a status of ours: a defect, kept to the object it is about."""


def _may_pass(refusal: ClusterRefused) -> bool:
    """Whether a refusal says "not now" or "not there any more" rather than "not this"."""
    return refusal.is_passing or refusal.status in (_GONE, _CONFLICT)


def _blocked(report: Report, taken: NameTaken) -> Report:
    """A foreign object is for somebody to move; what a deleted namesake left behind goes by itself."""
    if taken.passing:
        return replace(report, problem=Problem("NamesakeLeaving", str(taken), permanent=False))
    return replace(report, name_conflict=str(taken))
