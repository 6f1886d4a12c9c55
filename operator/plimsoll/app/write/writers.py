"""Step 5: write the decisions. Several objects are written at the same time, the writes of one object in order.

Order within an object: names are checked, the status is written (it is the record of the decision), then deletions,
then workloads, those that get smaller first, then events. A slow object delays no other object: the next pass treats
its unfinished status as written and handles the other objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.api_errors import CONFLICT, GONE, ClusterRefused, NotLeading
from plimsoll.adapters.cluster.kinds import DEPLOYMENTS, JOBS, kind_of
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.backoff import Backoff
from plimsoll.app.faults import Faults
from plimsoll.app.health import Beats
from plimsoll.app.plan.inbox import ProposalWrites
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.refusals import Refusals
from plimsoll.app.write.creation_order import largest_pods_first
from plimsoll.app.write.executor import Executor, NameTaken, Note
from plimsoll.app.write.notes import notes_of, warning
from plimsoll.app.write.proposal_writer import ProposalWriter
from plimsoll.decision.results.manifests import router_to_go
from plimsoll.decision.results.reports import is_passing, with_refusal
from plimsoll.decision.supervisor import PassStep
from plimsoll.decision.weights import jobs_to_go
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.public_words import ConditionReason, EventReason, RoutingTrouble
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.pools import Decision
from plimsoll.render.names import POOL_LABEL
from plimsoll.render.router import is_of_router
from plimsoll.status.record.report import DeploymentProblem, Report
from plimsoll.status.writing import document_of, new_status

LISTENING_SECONDS = 0.1
"""How often the wait for writes looks whether there is news."""

PATIENCE_SECONDS = 3.0
"""How long a pass waits for its writes. Slower writes continue while the next pass handles other objects."""

AT_ONCE_PER_NAMESPACE = 32
"""The most objects of one namespace that are written at the same time. The others wait, and the next pass decides anew
for them: a thousand half-written objects would take more memory, and each of them would be finished late."""

RESTS = 3.0
"""After the status of an object that is too large the next such one waits this many times as long as the write took. So
they take a quarter of a core of the API server at most, and their neighbours have the rest."""

LONGEST_REST_SECONDS = 5.0
"""The longest such rest. A write that hangs takes 30 s, and the next one may be of another namespace."""

UNREACHABLE_SECONDS = 15.0
"""The longest pause while the API server does not answer: when it is back, it is back for all objects."""

REFUSED_SECONDS = 60.0
"""The longest pause after a refusal: a raised quota or a removed policy is noticed within this time."""

NAME_SECONDS = 5.0
"""How soon a name taken by a foreign object is checked again: foreign objects are not watched."""

NOTICE_SECONDS = 2.0
"""How soon a pass is made again when somebody waits and the status may have to say so."""

LARGE = "", True
"""The lane of objects that are too large, and whose status does not say so yet."""

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
    router_backoff: Backoff = field(default_factory=Backoff)
    proposal_writer: ProposalWriter | None = None
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _at_once: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _waiting: dict[tuple[str, bool], deque[tuple[Desired, float]]] = field(default_factory=dict)
    _intended: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _begun: Counter[str] = field(default_factory=Counter)
    _generations: dict[str, int] = field(default_factory=dict)
    _tried: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _left_over: set[str] = field(default_factory=set)
    _names_taken: set[str] = field(default_factory=set)
    _waits: dict[str, tuple[DeploymentProblem, float]] = field(default_factory=dict)

    def intended(self) -> dict[str, Mapping[str, Any]]:
        """Return the statuses that are being written, by uid."""
        return dict(self._intended)

    def begun(self) -> dict[str, int]:
        """Return how many statuses of each object were written or are being written, by uid."""
        return dict(self._begun)

    def running(self) -> tuple[asyncio.Task[None], ...]:
        """Return the writes that are not done yet."""
        return tuple(self._running.values())

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget everything about objects that no longer exist."""
        kept = list(uids)
        self.faults.forget_all_but(kept)
        self.refusals.forget_all_but(kept)
        self.backoff.forget_all_but(kept)
        self.router_backoff.forget_all_but(kept)
        if self.proposal_writer is not None:
            self.proposal_writer.forget_all_but(kept)
        self._names_taken &= set(kept)
        self._waits = {uid: self._waits[uid] for uid in kept if uid in self._waits}
        self._generations = {uid: self._generations[uid] for uid in kept if uid in self._generations}
        self._begun = Counter({uid: self._begun[uid] for uid in kept if uid in self._begun})

    def due_in_seconds(self) -> Iterator[float]:
        """Yield the seconds until a failed write may be retried."""
        waits = [each.next_due_in_seconds() for each in (self.backoff, self.router_backoff)]
        waits.append(self.executor.contests.next_due_in_seconds())
        if self.proposal_writer is not None:
            waits.append(self.proposal_writer.backoff.next_due_in_seconds())
        yield from (seconds for seconds in waits if seconds is not None)
        if self._names_taken:
            yield NAME_SECONDS
        if self._waits:
            yield NOTICE_SECONDS

    async def carry_out(
        self,
        desired: Sequence[Desired],
        now: float,
        news: asyncio.Event | None = None,
        begun: Mapping[str, int] | None = None,
    ) -> None:
        """Write the decisions; return when all are written, when there is news, or after PATIENCE_SECONDS.

        The order decides who asks first. A slow namespace delays no other. An object that still waits for its turn when
        the next pass ends is written as that pass decided.

        Args:
            desired: what the pass decided.
            now: when the pass began, in POSIX seconds.
            news: ends the wait.
            begun: :meth:`begun` from when the pass began. A status that was begun since then is not written once more
                with other times: the next pass decides.
        """
        self._waiting.clear()
        for each in largest_pods_first(desired):
            if each.uid in self._running:
                self._left_over.add(each.uid)
            elif begun is not None and self._begun[each.uid] != begun.get(each.uid, 0):
                self.wake.set()
            elif self._at_once[lane_of(each)] < (1 if is_costly(each) else AT_ONCE_PER_NAMESPACE):
                self._begin(each, now)
            else:
                self._waiting.setdefault(lane_of(each), deque()).append((each, now))
        end = time.monotonic() + PATIENCE_SECONDS
        while self._running and (left := end - time.monotonic()) > 0 and not (news is not None and news.is_set()):
            await asyncio.wait(self.running(), timeout=min(left, LISTENING_SECONDS))

    async def close(self) -> None:
        """Cancel the running writes; the next start repairs them."""
        self._waiting.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.proposal_writer is not None:
            await self.proposal_writer.close()

    def answer(self, orphans: ProposalWrites) -> None:
        """Begin to answer approvals that name no deployment. No pass waits for it."""
        if self.proposal_writer is not None:
            self.proposal_writer.answer(orphans)

    def _begin(self, desired: Desired, now: float) -> None:
        lane = lane_of(desired)
        task = asyncio.create_task(self._write(desired, now))
        self._running[desired.uid] = task
        self._at_once[lane] += 1
        task.add_done_callback(partial(self._ended, desired.uid, lane, time.monotonic()))

    def _ended(self, uid: str, lane: tuple[str, bool], began: float, _: object) -> None:
        """Clean up after a write, and begin the next one of its lane, after a rest if it is that of large objects.

        Wake the planner if a pass skipped this object while it was busy.
        """
        if lane == LARGE:
            rest = min(LONGEST_REST_SECONDS, RESTS * (time.monotonic() - began))
            asyncio.get_running_loop().call_later(rest, self._leave, lane)
        else:
            self._leave(lane)
        self._running.pop(uid, None)
        self._intended.pop(uid, None)
        self._tried.pop(uid, None)
        if uid in self._left_over:
            self._left_over.discard(uid)
            self.wake.set()

    def _leave(self, lane: tuple[str, bool]) -> None:
        self._at_once[lane] -= 1
        waiting = self._waiting.get(lane)
        if waiting:
            self._begin(*waiting.popleft())

    def _progress(self, desired: Desired) -> None:
        self.beats.go_on("planning", f"writing {desired.key}")

    async def _write(self, desired: Desired, now: float) -> None:
        """Write one object. Its exceptions do not reach other objects."""
        try:
            await self._carry_out(desired, now)
        except NotLeading:
            logger.warning("%s: not written, this process does not hold the lease", desired.key)
        except (ClusterRefused, SourceUnavailable) as error:
            self._not_written(desired, error, self.backoff)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this object
            self.faults.note(desired.key, desired.uid, desired.generation, PassStep.WRITE, error)
            self.wake.set()
        self._progress(desired)

    def _not_written(self, desired: Desired, error: Exception, backoff: Backoff) -> None:
        if isinstance(error, ClusterRefused) and error.status == GONE:
            return  # deleted meanwhile
        is_refused = isinstance(error, ClusterRefused) and not error.is_passing
        pause = backoff.failed(desired.uid, REFUSED_SECONDS if is_refused else UNREACHABLE_SECONDS)
        self.metrics.write_failed()
        logger.warning("%s: %s; again in %.0f s", desired.key, error, pause)

    def _is_due(self, desired: Desired) -> bool:
        """Whether there is something to write and no pause is running.

        A source that is down for a moment does not make the earlier status wrong, so this problem does not replace it.
        """
        if (
            desired.report is None
            or desired.new_status is None
            or is_passing(desired.outcome)
            or self._ends_soon(desired)
        ):
            return False
        if self._generations.get(desired.uid) != desired.generation:
            self._generations[desired.uid] = desired.generation
            self.backoff.succeeded(desired.uid)  # the refusal or failure was for another spec
            self.router_backoff.succeeded(desired.uid)
            self.refusals.ended(desired.uid)
        return self.backoff.is_due(desired.uid)

    def _ends_soon(self, desired: Desired) -> bool:
        """Whether a wait has just begun that mostly ends before a status is due: a model is read, or a turn comes."""
        problem, now = desired.outcome.problem, time.monotonic()
        if problem is None or not problem.reported_after_seconds:
            self._waits.pop(desired.uid, None)
            return False
        known, since = self._waits.get(desired.uid, (None, now))
        since = since if known == problem else now
        self._waits[desired.uid] = problem, since
        return now - since < problem.reported_after_seconds

    async def _carry_out(self, desired: Desired, now: float) -> None:
        if not self._is_due(desired):
            return
        report, written = await self._status(desired, now)
        is_clear = report.decision is not None and not (report.suspended or report.problem or report.name_conflict)
        is_done = not is_clear or await self._objects(desired, report, now)
        await self._deliver(desired)
        if not is_done:
            return
        if written and not report.name_conflict:
            await self._events(desired, notes_of(desired))
        self.backoff.succeeded(desired.uid)
        if not desired.outcome.is_faulty:
            self.faults.cleared(desired.uid)

    async def _status(self, desired: Desired, now: float) -> tuple[Report, bool]:
        """Write the status. Return the report it was made from, and whether the status has changed.

        Raises:
            StatusRefused: the API server rejects it.
        """
        assert desired.report is not None  # noqa: S101 - checked by the caller
        assert desired.new_status is not None  # noqa: S101 - same
        report, status = desired.report, desired.new_status
        self._names_taken.discard(desired.uid)
        try:
            await self.executor.check_names(desired.body, desired.manifests)
        except NameTaken as taken:
            self._names_taken.add(desired.uid)
            report = _blocked(report, taken)
            status = document_of(new_status(report, desired.outcome.deployment.record, to_rfc3339(now)))
        self._progress(desired)
        self._intended[desired.uid] = status
        self._begun[desired.uid] += 1
        try:
            written = await self.executor.write_status(desired.body, status)
        except ClusterRefused as refusal:
            if _may_pass(refusal):
                raise
            raise StatusRefused(str(refusal)) from refusal
        if not written:
            self._begun[desired.uid] -= 1
        self._progress(desired)
        return report, written

    async def _objects(self, desired: Desired, report: Report, now: float) -> bool:
        """Write the workloads, then the router. If one is refused, the status has the API server's message at once.

        No engine needs a router: if an object of it is refused, the others of it wait, and nothing else.
        """
        decision = report.decision
        assert decision is not None  # noqa: S101 - checked by the caller
        try:
            await self._apply_objects(desired, decision, now)
            if self._is_router_due(desired):
                await self._apply_router(desired)
                self.router_backoff.succeeded(desired.uid)
                self.refusals.ended(desired.uid)
        except NameTaken as taken:
            self._names_taken.add(desired.uid)
            logger.warning("%s: %s", desired.key, taken)  # taken just now; the next pass reports it in the status
            return False
        except ClusterRefused as refusal:
            if refusal.status in (GONE, CONFLICT):
                raise
            return await self._report_refused(desired, report, refusal, now)
        return True

    def _is_router_due(self, desired: Desired) -> bool:
        known = self.refusals.of(desired.uid)
        return known is None or not known.of_router or self.router_backoff.is_due(desired.uid)

    async def _report_refused(self, desired: Desired, report: Report, error: ClusterRefused, now: float) -> bool:
        """Say in the status what was refused. Return whether it was the router's."""
        tried = self._tried.get(desired.uid)
        pool = "" if tried is None else tried["metadata"]["labels"].get(POOL_LABEL, "")
        of_router = tried is not None and is_of_router(tried, desired.key.name)
        self._not_written(desired, error, self.router_backoff if of_router else self.backoff)
        refusal = self.refusals.note(desired.uid, pool, error, of_router=of_router)
        refused = with_refusal(report, refusal)
        status = document_of(new_status(refused, desired.outcome.deployment.record, to_rfc3339(now)))
        self._intended[desired.uid] = status
        self._begun[desired.uid] += 1
        await self.executor.write_status({**desired.body, "status": desired.new_status}, status)
        reason = RoutingTrouble.ROUTER_REFUSED if of_router else ConditionReason.PODS_NOT_CREATED
        await self._events(desired, [warning(reason, refusal.sentence())])
        return of_router

    async def _apply_objects(self, desired: Desired, decision: Decision, now: float) -> None:
        """Make the workloads as decided. What ends pods comes first: a quota counts them until they have ended.

        The plan ends no pod that serves before its successor serves. A deletion that is refused stops no other write.
        """
        kept = {pool.name for pool in decision.pools}
        refused: ClusterRefused | None = None
        leaving = [(DEPLOYMENTS, body) for name, body in desired.workloads.items() if name not in kept]
        for kind, body in (*leaving, *((JOBS, job) for job in jobs_to_go(desired.outcome.deployment, now))):
            try:
                await self.executor.remove(desired.body, body, kind)
            except ClusterRefused as refusal:
                refused = refusal
            self._progress(desired)
        rendered = {manifest["metadata"]["labels"].get(POOL_LABEL) for manifest in desired.manifests}
        for pool in decision.pools:
            live = desired.workloads.get(pool.name)
            if pool.name not in rendered and live is not None:
                most = dict(desired.outcome.deployment.placed.held_back).get(pool.name, pool.replicas)
                await self.executor.scale(desired.body, live, min(most, pool.replicas))
        engines = [each for each in desired.manifests if not is_of_router(each, desired.key.name)]
        for manifest in sorted(engines, key=lambda manifest: not _ends_pods(desired, manifest)):
            self._tried[desired.uid] = manifest
            try:
                await self.executor.apply(desired.body, manifest)
            except ClusterRefused as refusal:
                if not _may_pass(refusal):
                    await self._only_scaled(desired, manifest)
                raise
            self._progress(desired)
        if refused is not None:
            with suppress(ClusterRefused):
                await self._apply_router(desired)
            self._tried.pop(desired.uid, None)
            raise refused
        await self._end_replaced(desired)

    async def _apply_router(self, desired: Desired) -> None:
        """Make the router, and take away what is left of another one: the Service leads to the replicas by now."""
        for manifest in desired.manifests:
            if is_of_router(manifest, desired.key.name):
                self._tried[desired.uid] = manifest
                await self.executor.apply(desired.body, manifest)
                self._progress(desired)
        for body in router_to_go(desired.outcome.deployment):
            self._tried[desired.uid] = body
            await self.executor.remove(desired.body, body, kind_of(body))

    async def _end_replaced(self, desired: Desired) -> None:
        """End the pod that a new one has replaced, once all workloads are written. A refusal stops nothing else."""
        turn = desired.outcome.turn
        if turn is None or not turn.ends:
            return
        try:
            await self.executor.end_pod(desired.body, turn.ends)
        except ClusterRefused as refusal:
            logger.warning("%s: %s", desired.key, refusal)
            if not refusal.is_passing:
                words = f"Pod {turn.ends} is to end, because it is replaced: {refusal}"
                await self._events(desired, [warning(EventReason.REPLACEMENT_ENDED, words, helps=_EVICTION)])

    async def _only_scaled(self, desired: Desired, manifest: Manifest) -> None:
        """End pods that are not wanted any more, though the API server refuses what else changes with them.

        Some changes are refused only while pods serve, such as another queue of Kueue. If this is refused as well,
        the first refusal is the one to report.
        """
        if _ends_pods(desired, manifest):
            live = desired.workloads[manifest["metadata"]["labels"][POOL_LABEL]]
            with suppress(ClusterRefused):
                await self.executor.scale(desired.body, live, int(manifest["spec"]["replicas"]))

    async def _deliver(self, desired: Desired) -> None:
        """Write proposals and answers. They come after the workloads, and their failure changes nothing else."""
        if self.proposal_writer is not None:
            await self.proposal_writer.deliver(desired)
            self._progress(desired)

    async def _events(self, desired: Desired, notes: Sequence[Note]) -> None:
        """Record events. They are optional: a failure to record one stops nothing else."""
        try:
            await self.executor.tell(desired.body, notes)
        except (ClusterRefused, SourceUnavailable) as error:
            logger.warning("%s: the event was not recorded: %s", desired.key, error)
        except NotLeading:
            raise
        except Exception as error:  # noqa: BLE001 - same
            self.faults.note(desired.key, desired.uid, desired.generation, PassStep.EVENTS, error)


class StatusRefused(Exception):
    """The API server rejects a status that we wrote: a defect, which affects only this object."""


_EVICTION = "allow the operator to create pods/eviction in this namespace, as the chart does, or delete the pod"


def _may_pass(refusal: ClusterRefused) -> bool:
    """Whether the write was refused for now, or because the object changed or is gone, and not for its content."""
    return refusal.is_passing or refusal.status in (GONE, CONFLICT)


def is_costly(desired: Desired) -> bool:
    """Whether the status of an object that is too large will be written: half a CPU second of the API server."""
    is_large = desired.outcome.problem is not None and desired.outcome.problem.reason == ConditionReason.TOO_LARGE
    return is_large and desired.new_status != desired.body.get("status")


def lane_of(desired: Desired) -> tuple[str, bool]:
    """Return which objects share a limit of writes: those of a namespace, and apart from them all costly ones."""
    return LARGE if is_costly(desired) else (desired.key.namespace, False)


def _ends_pods(desired: Desired, manifest: Manifest) -> bool:
    """Whether a manifest is that of a workload that has more replicas now."""
    live = desired.workloads.get(manifest["metadata"]["labels"].get(POOL_LABEL, "")) or {}
    wanted = (manifest.get("spec") or {}).get("replicas")
    return wanted is not None and int((live.get("spec") or {}).get("replicas") or 0) > int(wanted)


def _blocked(report: Report, taken: NameTaken) -> Report:
    """Add the taken name to the report.

    A person must move a foreign object. What a deleted object of the same name left behind goes away by itself.
    """
    if taken.passing:
        return replace(report, problem=DeploymentProblem(ConditionReason.NAMESAKE_LEAVING, str(taken), permanent=False))
    return replace(report, name_conflict=str(taken))
