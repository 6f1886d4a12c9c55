"""The one loop: picture -> plan -> status, workloads, events. The steps below are those of ARCHITECTURE.md.

1. Look: take the store's picture of nodes, pods, workloads and InferenceDeployments.
2. Read: parse each object and resolve its model; what fails becomes a problem of that object alone.
3. Listen: let the live loop take its turn for each object.
4. Plan: one pure pass over all objects, on one ledger.
5. Write: per object the status, then the workloads, then the events; a failure delays that object alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from plimsoll.adapters.cluster import (
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    ClusterRefused,
)
from plimsoll.adapters.metrics import Metrics
from plimsoll.adapters.prometheus import Reading
from plimsoll.api.convert import check_without_model, to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import RebalancingMode
from plimsoll.app.backoff import Backoff
from plimsoll.app.capacities import observed_capacities, reported_tokens, told_now
from plimsoll.app.case import (
    Case,
    figures_of,
    images_of,
    is_judged,
    is_passing,
    manifests_of,
    tenant_of,
    wanted_signals,
    wish_failed,
)
from plimsoll.app.executor import Executor, NameTaken
from plimsoll.app.live import LiveSignals
from plimsoll.app.model_book import ModelBook
from plimsoll.app.notes import notes_of
from plimsoll.app.objects import pool_views, read_pools, surroundings_of
from plimsoll.app.observations import (
    as_status,
    capacities,
    common_lessons,
    failed_starts,
    lessons,
    merged,
    observed_now,
    remembered,
)
from plimsoll.app.prices import PriceList
from plimsoll.app.rebalancing import Standing, take_turn
from plimsoll.app.settings import Settings
from plimsoll.app.store import Body, Store, key_of
from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.observations import Correction
from plimsoll.domain.times import to_rfc3339
from plimsoll.domain.workload import Manifest
from plimsoll.facts.fleet_reading import read_fleet
from plimsoll.placement.plan import plan
from plimsoll.placement.pools import Decision, PoolState
from plimsoll.render.conditions import nearest_sentence
from plimsoll.render.report import Problem, Report
from plimsoll.render.status import status as render_status

DEBOUNCE_SECONDS = 0.2
"""Events come in bursts; one plan for a burst is enough."""

IDLE_SECONDS = 5.0
"""A pass is made at least this often: clocks (cool-downs, grace periods, retries) tick without events."""

logger = logging.getLogger("plimsoll.planner")


@dataclass(slots=True)
class Planner:
    """Everything a pass needs, and the loop that makes passes."""

    settings: Settings
    store: Store
    executor: Executor
    models: ModelBook
    live: LiveSignals
    prices: PriceList
    gpu_types: tuple[GpuType, ...]
    metrics: Metrics
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    backoff: Backoff = field(default_factory=Backoff)
    heartbeat: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Make passes until cancelled. One that fails is logged and made again; liveness watches the heartbeat."""
        while True:
            self.heartbeat = time.monotonic()
            try:
                await asyncio.wait_for(self.wake.wait(), IDLE_SECONDS)
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(DEBOUNCE_SECONDS)
            self.wake.clear()
            if not self.store.is_complete():
                continue
            try:
                with self.metrics.pass_timed():
                    await self.one_pass()
            except Exception:
                self.metrics.pass_failed()
                logger.exception("a planning pass failed; the next one starts over")

    async def one_pass(self) -> None:
        """The five steps."""
        now = time.time()
        fleet, cases = self._look()
        for case in cases:
            self._read(case, now)
        self.live.wanted = {case.key: wanted_signals(case) for case in cases if case.around.ready_pods()}
        for case in cases:
            self._observe(case, fleet)
        common = common_lessons(seen for case in cases for seen in case.seen)
        for case in cases:
            self._listen(case, fleet, common, now)
        await asyncio.to_thread(self._plan, cases, fleet)  # pure: the watches go on meanwhile
        self.metrics.show_fleet(fleet)
        for case in cases:
            case.report = self._report(case)
        await self._write_all(cases, now)
        self.metrics.show_cases([(case.key, case.decision, case.problem) for case in cases])
        self.metrics.show_learning([(case.key, case.report) for case in cases if case.report is not None])

    def _look(self) -> tuple[Fleet, list[Case]]:
        """Step 1."""
        fleet = read_fleet(self.store.all(NODES), self.store.all(PODS), self.gpu_types, self.prices.current)
        around = surroundings_of(self.store)
        bodies = [body for body in self.store.all(INFERENCE_DEPLOYMENTS) if not _is_going(body)]
        return fleet, [Case(body, key_of(body), around[key_of(body)]) for body in bodies]

    def _read(self, case: Case, now: float) -> None:
        """Step 2."""
        case.pools = read_pools(case.status, case.around, now=now, grace_seconds=self.settings.stranded_seconds)
        try:
            case.resource = parse_inference_deployment(case.body)
            check_without_model(case.resource.spec)
            model = self.models.look_up(case.key.namespace, case.resource.spec.model)
            draft = self.models.look_up_draft(case.key.namespace, case.resource.spec)
            if isinstance(model, Problem):
                case.problem = model
                return
            case.model = model
            if isinstance(draft, Problem):
                case.problem = draft
                return
            case.request = to_request(case.resource, model, draft=draft)
        except InvalidInput as error:
            case.problem = Problem("InvalidSpec", str(error), permanent=True)
        except PlimsollError as error:
            case.problem = Problem("UnsupportedModel", str(error), permanent=True)

    def _observe(self, case: Case, fleet: Fleet) -> None:
        """Step 3, first half: what the engines of this object say of their memory, now and earlier."""
        case.seen = remembered(case.status, case.spec_digest)
        told = told_now(case.around, self._reading(case))
        case.reported = reported_tokens(case.status, case.generation, told)
        if case.request is None:
            return
        try:
            found = observed_now(
                case.request,
                case.pools,
                case.around,
                told,
                fleet,
                generation=case.generation,
                spec=case.spec_digest,
            )
            told = capacities(case.request, case.pools, told, fleet)
        except PlimsollError:
            return  # a model without a law: planning says so
        case.seen = merged(case.seen, found)
        case.reported = reported_tokens(case.status, case.generation, told)

    def _reading(self, case: Case) -> Reading | None:
        return self.live.reading(case.key) if case.around.ready_pods() else Reading()

    def _listen(self, case: Case, fleet: Fleet, common: Mapping[str, tuple[Correction, ...]], now: float) -> None:
        """Step 3: the live loop's target replaces ``spec.replicas``; what engines report joins the request."""
        if case.resource is None or case.request is None:
            return
        reading = self._reading(case)
        case.request = replace(
            case.request,
            observed=observed_capacities(case.status, case.spec_digest, case.pools, case.around, case.reported),
            corrections=lessons(case.seen, common.get(case.request.model.name, ())),
            failed_starts=failed_starts(case.request, case.seen),
        )
        case.standing = Standing.read(case.resource.spec, case.status)
        off = case.resource.spec.rebalancing.mode is RebalancingMode.OFF or case.resource.spec.suspend
        # Without a first reading there is no turn: after a restart the last word stands until there is a new one.
        if not off and reading is not None and any(pool.replicas for pool in case.pools):
            case.turn = take_turn(
                case.resource.spec,
                case.standing,
                figures_of(case.request, case.pools, fleet) if is_judged(case) else None,
                case.request.shape,
                case.around,
                reading,
                now=now,
                moving=any(pool.state is PoolState.RETIRING for pool in case.pools),
            )
            case.standing = case.turn.standing
        case.request = replace(case.request, replicas=case.standing.target_replicas)

    def _plan(self, cases: list[Case], fleet: Fleet) -> None:
        """Step 4. A change of the live loop's that finds no place is withdrawn: it was a wish, not the user's word."""
        self._decide(cases, fleet)
        if not any(wish_failed(case) for case in cases):
            return
        for case in cases:
            if case.turn is not None and wish_failed(case) and case.resource is not None and case.request is not None:
                before = Standing.read(case.resource.spec, case.status)
                nearest = nearest_sentence(case.decision.rejections) if case.decision else ""
                case.turn = case.turn.withdrawn(before, nearest)
                case.standing = before
                case.request = replace(case.request, replicas=before.target_replicas)
        self._decide(cases, fleet)

    def _decide(self, cases: list[Case], fleet: Fleet) -> None:
        tenants = {case.key: tenant_of(case) for case in cases if case.request is not None}
        standing = [pool for case in cases if case.request is None for pool in case.pools]
        try:
            decisions = plan([tenant for tenant in tenants.values() if tenant], fleet, self.gpu_types, standing)
        except PlimsollError:
            # One model without a law must not cost the others their plan: find it and set it aside.
            self._set_aside(cases, fleet)
            return
        by_key = {decision.request.key: decision for decision in decisions}
        for case in cases:
            case.decision = by_key.get(case.key)

    def _set_aside(self, cases: list[Case], fleet: Fleet) -> None:
        before = sum(case.request is not None for case in cases)
        for case in cases:
            tenant = tenant_of(case)
            try:
                plan([tenant] if tenant else [], fleet)
            except PlimsollError as error:
                case.problem = Problem("UnsupportedModel", str(error), permanent=True)
                case.request = None
        if sum(case.request is not None for case in cases) == before:
            raise RuntimeError("planning fails for these objects together and for none of them alone")
        self._decide(cases, fleet)

    async def _write_all(self, cases: list[Case], now: float) -> None:
        """Step 5."""
        for case in cases:
            uid = str(case.body["metadata"]["uid"])
            if not self.backoff.is_due(uid):
                continue
            try:
                await self._write(case, now)
                self.backoff.succeeded(uid)
            except NameTaken as taken:
                logger.warning("%s: %s", case.key, taken)  # taken a moment ago; the next pass says so in the status
            except (ClusterRefused, SourceUnavailable) as error:
                if isinstance(error, ClusterRefused) and error.status == 404:  # noqa: PLR2004 - deleted meanwhile
                    continue
                pause = self.backoff.failed(uid)
                self.metrics.write_failed()
                logger.warning("%s: %s; again in %.0f s", case.key, error, pause)

    async def _write(self, case: Case, now: float) -> None:
        if is_passing(case):
            return  # a look-up after a restart, a source that is down: nothing said before becomes untrue by it
        report, manifests = case.report or self._report(case), manifests_of(case, images_of(self.settings))
        try:
            await self.executor.check_names(case.body, manifests)
        except NameTaken as taken:
            report = _blocked(report, taken)
        written = await self.executor.write_status(case.body, render_status(report, case.status, to_rfc3339(now)))
        if report.decision is not None and not (report.suspended or report.problem or report.name_conflict):
            await self._apply_objects(case, report.decision, manifests)
        if written and not report.name_conflict:
            await self.executor.tell(case.body, notes_of(case))

    async def _apply_objects(self, case: Case, decision: Decision, manifests: list[Manifest]) -> None:
        for manifest in manifests:
            await self.executor.apply(case.body, manifest)
        for pool in decision.pools:
            live = case.around.workloads.get(pool.name)
            if pool.choice is None and live is not None:
                await self.executor.scale(case.body, live, pool.replicas)
        kept = {pool.name for pool in decision.pools}
        for name, live in case.around.workloads.items():
            if name not in kept:
                await self.executor.remove(case.body, live)

    def _report(self, case: Case) -> Report:
        spec = case.resource.spec if case.resource else None
        mode = spec.rebalancing.mode if spec else RebalancingMode.OFF
        told = None if case.turn is None else case.turn.report(case.status, mode)
        replicas = case.request.replicas if case.request else int((case.body.get("spec") or {}).get("replicas") or 0)
        return Report(
            name=case.key.name,
            namespace=case.key.namespace,
            generation=case.generation,
            replicas=replicas,
            decision=case.decision,
            problem=case.problem,
            model=case.model,
            engine_version=spec.engine.version if spec else "",
            pools=pool_views(case.around, case.status, case.reported),
            suspended=bool(spec and spec.suspend),
            observations=tuple(as_status(case.seen)),
            spec_digest=case.spec_digest,
            rebalancing=told,
            rebalancing_off=spec is not None and spec.rebalancing.mode is RebalancingMode.OFF,
        )


def _blocked(report: Report, taken: NameTaken) -> Report:
    """A foreign object is for somebody to move; what a deleted namesake left behind goes by itself."""
    if taken.passing:
        return replace(report, problem=Problem("NamesakeLeaving", str(taken), permanent=False))
    return replace(report, name_conflict=str(taken))


def _is_going(body: Body) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))
