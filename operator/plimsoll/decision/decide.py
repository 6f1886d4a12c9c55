"""``decide(world, memory) -> outcomes``: what becomes of every InferenceDeployment, from values alone.

1. Observe: what engines report becomes part of the requests, and the live loop's last target, too.
2. Plan: the planner decides for all deployments on one stock, for the number of replicas that is decided so far.
3. Listen: each deployment has its turn of the live loop. A change of its own is planned on what is left.
4. Add what follows: pods that wait for new nodes, advice, and pods that start elsewhere before a node goes.

An exception of one deployment stays with it: it stands still, and all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, RebalancingMode
from plimsoll.decision.approving import is_change
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.lessons import CommonLessons
from plimsoll.decision.memory import Memory
from plimsoll.decision.observing import contribution_of, observe, ready_of
from plimsoll.decision.outcome import NOTHING_BESIDES, Besides, Observed, Outcome, Outcomes, Ready, UnderWay
from plimsoll.decision.planning import running_of, tenant_of
from plimsoll.decision.results.reports import under_way
from plimsoll.decision.room_orders import RoomOrders
from plimsoll.decision.supervisor import PassStep, PassSupervisor
from plimsoll.decision.turns import LoopTurn, may_sleep, take_turn
from plimsoll.decision.world import World
from plimsoll.domain.cluster.priorities import LOWEST
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.facts.cluster.billing import with_billing
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.advice.suggestions import Relatives, Suggester, no_relatives
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.placement.explain import claimed_sentence, unhealthy_sentence
from plimsoll.placement.extra_pods import OnLeavingNodes, Waker, needed_again, replacements
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.feasibility import too_small
from plimsoll.placement.plan import demands_of, stock_for
from plimsoll.placement.solvers import DEFAULT_SOLVER, Solver
from plimsoll.placement.transition.answers import Answer, answers, remembered_demand
from plimsoll.placement.transition.hypothesis import HypothesisFailed, Plan, Room
from plimsoll.rebalance.decide import kind_of
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.allowance import COUNTED, Allowance, FleetBudget
from plimsoll.status.record.report import DeploymentProblem
from plimsoll.status.words.left_out import NewNodes, left_out_sentence

T = TypeVar("T")


def decide(
    world: World,
    memory: Memory,
    supervisor: PassSupervisor | None = None,
    *,
    solver: Solver = DEFAULT_SOLVER,
    relatives: Relatives = no_relatives,
) -> Outcomes:
    """Decide what becomes of every deployment of a world.

    Args:
        world: the cluster at one moment.
        memory: what earlier passes leave. It changes.
        supervisor: measures the work, shares its time, and notes exceptions. None: nobody does.
        solver: shares the free GPUs out.
        relatives: finds other checkpoints of a model, for suggestions.
    """
    known = _billed(_without_placeholders(world))
    return _Pass(known, memory, supervisor or PassSupervisor(), solver, relatives).outcomes()


def _without_placeholders(world: World) -> World:
    """Return the world without the placeholders that give way to the pods of every deployment.

    All share one stock of GPUs, so a placeholder that does not give way to one of them counts as held for all.
    """
    lowest = min((each.asked.priority.evicts_below for each in world.deployments), default=LOWEST)
    return replace(world, fleet=world.fleet.for_pods_of(lowest))


def _billed(world: World) -> World:
    """Return the world with what is known, or believed, of how its nodes are paid for."""
    return replace(world, fleet=with_billing(world.fleet, world.groups, world.settings.billing))


@dataclass(slots=True)
class _Pass:
    """One pass. The dictionaries hold what its steps found, by deployment; who stands still is in ``problems``.

    ``crowded`` are those whose replicas must leave nodes that go soon, and have no room elsewhere.
    """

    world: World
    memory: Memory
    supervisor: PassSupervisor
    solver: Solver
    relatives: Relatives
    problems: dict[ObjectKey, DeploymentProblem] = field(default_factory=dict)
    faulty: set[ObjectKey] = field(default_factory=set)
    observed: dict[ObjectKey, Observed] = field(default_factory=dict)
    ready: dict[ObjectKey, Ready] = field(default_factory=dict)
    decisions: dict[ObjectKey, Decision] = field(default_factory=dict)
    turns: dict[ObjectKey, LoopTurn] = field(default_factory=dict)
    besides: dict[ObjectKey, Besides] = field(default_factory=dict)
    crowded: set[ObjectKey] = field(default_factory=set)

    def outcomes(self) -> Outcomes:
        world, memory = self.world, self.memory
        memory.begin()
        for deployment in world.deployments:
            if deployment.asked.problem is not None:
                self.problems[deployment.key] = deployment.asked.problem
            if deployment.is_faulty:
                self.faulty.add(deployment.key)
        self._observe()
        planned = self.supervisor.planned(self._plan)
        left = self._listen(planned)
        self._wake(left.left.ledger)
        self._propose(left)
        self._advise(left.left.ledger)
        left = self._replace(left)
        self._use_again(left)
        self._look_for_nodes()
        each = tuple(map(self._outcome, world.deployments))
        return Outcomes(each, planned, left, tuple(memory.leaving.ends()))

    def _observe(self) -> None:
        world, memory = self.world, self.memory
        for deployment in world.deployments:
            reading = world.readings.get(deployment.key)
            work = partial(observe, deployment, reading, world.fleet, memory.estimates)
            found = self._guarded(PassStep.OBSERVE, deployment, work)
            if found is not None:
                self.observed[deployment.key] = found
        taught = (contribution_of(each, self._observed(each)) for each in world.deployments)
        common = CommonLessons(taught if world.settings.learns_from_others else ())
        for deployment in world.deployments:
            reading, own = world.readings.get(deployment.key), self._observed(deployment)
            teach = partial(ready_of, deployment, own, common, memory.requests, reading=reading, now=world.at)
            found_ready = self._guarded(PassStep.LISTEN, deployment, teach)
            if found_ready is not None:
                self.ready[deployment.key] = found_ready

    def _observed(self, deployment: Deployment) -> Observed:
        return self.observed.get(deployment.key, _NOTHING_OBSERVED)

    def _plan(self) -> Plan:
        """Plan all deployments on one stock, each for the replicas that are decided so far."""
        world, memo = self.world, self.memory.estimates
        self._read_demands()
        demands: list[Demand] = []
        for demand in demands_of([tenant_of(each) for each in self.ready.values()], world.fleet, memo):
            self.supervisor.beat(f"reading demands, after {demand.request.key}")
            demands.append(demand)
        unplanned = [pool for each in world.deployments if each.key not in self.ready for pool in each.placed.pools]
        stock = stock_for(demands, world.fleet, memo, unplanned, world.quotas.remaining)
        adviser = Adviser(world.fleet, world.catalog, memo, world.groups)
        answered = self._watched(answers(demands, stock, adviser, self.solver))
        plan = self.supervisor.spend(partial(Plan.of, answered, stock, adviser, self.solver), *self.supervisor.first())
        self.decisions = dict(plan.decisions)
        for key, decision in plan.decisions.items():
            if decision.failure:
                self._plan_failed(self.ready[key].deployment, decision)
            elif self.ready[key].request.total is not None:
                self.ready[key] = _of_size(self.ready[key], decision)
            elif self.ready[key].request.others:
                self.ready[key] = replace(self.ready[key], request=decision.request)
        return plan

    def _read_demands(self) -> None:
        """Find the demands of new and changed objects, as long as there is time; the plan uses them again."""
        fleet, estimates = self.world.fleet, self.memory.estimates
        layout = estimates.last.layout(fleet)
        for deployment in self.supervisor.first():
            found = self.ready.get(deployment.key)
            if found is None or deployment.key in self.faulty:
                continue
            waits = self.supervisor.waits(deployment)
            if waits is not None:
                self._stand_still(deployment.key, waits)
                continue
            self.supervisor.beat(f"reading the demand of {deployment.key}")
            work = partial(remembered_demand, tenant_of(found), fleet, estimates, layout)
            self.supervisor.spend(work, deployment)

    def _watched(self, answered: Iterator[Answer]) -> Iterator[Answer]:
        for answer in answered:
            self.supervisor.beat(f"planning, after {answer.tenant.request.key}")
            yield answer

    def _listen(self, plan: Plan) -> Plan:
        """Give every deployment its turn, in the order of decisions. Return the plan with the changes of all turns."""
        world, memory = self.world, self.memory
        histories = ((each.key, each.record.history) for each in world.deployments)
        budget = FleetBudget.of(world.settings.moves_per_hour, histories, world.at)
        memory.turns.keep_only(each.identity.uid for each in world.deployments)
        memory.rooms.begin(self._planned, world.at)
        orders = RoomOrders.of(world.deployments, world.at)
        plan = orders.held(plan)
        for key in plan.decisions:
            found = self.ready.get(key)
            if found is None:
                continue
            turn = self._guarded(PassStep.LISTEN, found.deployment, partial(self._turn, found, plan, budget, orders))
            if turn is None:
                continue
            request = found.request if turn.answer is None else turn.answer.tenant.request
            self.turns[key] = turn
            self.ready[key] = Ready(found.deployment, request, turn.standing, found.observed)
            if turn.answer is not None:
                self.decisions[key] = turn.answer.decision
                plan = plan.adopted(turn.answer)
                if is_change(turn.decision) and kind_of(turn.decision) in COUNTED:
                    budget = budget.with_one_more(key)
        return plan

    def _turn(self, found: Ready, plan: Plan, budget: FleetBudget, orders: RoomOrders) -> LoopTurn | None:
        """Return the turn of one deployment; None if it has none now, or if it cannot be planned with its change."""
        deployment, memory, now = found.deployment, self.memory, self.world.at
        spec, suspended = deployment.spec, self.world.settings.rebalancing_suspended
        reading = self.world.readings.get(found.key)
        if reading is None and (suspended or _is_news(found) or self._lacks_place(found)):
            reading = Reading(state=SignalState.UNAVAILABLE)  # no status may show an older decision or number
        if spec is None or reading is None or not self._has_turn(found, spec, suspended=suspended):
            return None
        decision = self.decisions.get(found.key)
        fleet = plan.left.fleet
        figures = memory.figures(found, fleet) if deployment.is_judged else None  # before the recall, so it stays known
        asked, progress = about = orders.about(deployment)
        known = memory.turns.recall(found, decision, reading, about, now)
        if known is not None:
            return known
        remembered = memory.turns.memories.get(deployment.identity.uid)
        try:
            turn = take_turn(
                spec,
                found.standing if remembered is None else replace(found.standing, memory=remembered),
                running_of(found, decision, figures, fleet, memory.estimates),
                deployment.placed.around,
                reading,
                plan.what_if(found.key, partial(self._room, plan)),
                now=now,
                pending=deployment.people.pending,
                allowance=Allowance(suspended, deployment.people.opening, budget.spent(found.key)),
                contested=deployment.is_scaled_by_others,
                scheduled=deployment.people.scheduled,
                asked=asked,
                progress=progress,
                left=deployment.placed.left,
            )
        except HypothesisFailed as failed:
            self._plan_failed(deployment, failed.decision)
            return None
        memory.turns.keep(found, decision, reading, about, turn, now)
        return turn

    def _lacks_place(self, found: Ready) -> bool:
        """Whether replicas have no place on the engine that runs, and the spec allows others."""
        decision = self.decisions.get(found.key)
        lacks = decision is not None and (decision.waits_for_place or bool(decision.stranded_by))
        return lacks and bool(found.request.alternatives)

    def _has_turn(self, found: Ready, spec: InferenceDeploymentSpec, *, suspended: bool) -> bool:
        """Whether the live loop is on, and there is something that it could be about."""
        if spec.rebalancing.mode is RebalancingMode.OFF or spec.suspend:
            return False
        record, placed = found.deployment.record, found.deployment.placed
        has_begun = record.status.rebalancing is not None or bool(placed.around.pods)
        is_up = any(pool.replicas for pool in placed.pools) and has_begun
        return suspended or _sleeps(found, spec) or is_up or self._lacks_place(found)

    def _room(self, plan: Plan, lacking: Answer) -> Room | None:
        """Return what would make room at others. It is advice: the decision stands without it."""
        try:
            return self.memory.rooms.room(plan, lacking)
        except Exception as error:  # noqa: BLE001 - see above
            self.supervisor.complain(f"{lacking.tenant.request.key}: no look for room at others in this pass", error)
            return None

    def _wake(self, ledger: Ledger) -> None:
        """Let replicas without a place wait for new nodes, in the order of decisions, if an admin allows it."""
        pools = [pool for each in self.world.deployments for pool in each.placed.active]
        waker = Waker.of(self.world.groups, self.world.fleet, pools)
        if waker.groups:
            for deployment in self._in_order():
                self._guarded(PassStep.PLAN, deployment, partial(self._wake_one, deployment, waker, ledger))

    def _wake_one(self, deployment: Deployment, waker: Waker, ledger: Ledger) -> None:
        decision, spec = self.decisions.get(deployment.key), deployment.spec
        ready = self.ready.get(deployment.key)
        if decision is None or spec is None or spec.suspend:
            return
        if ready is not None and ready.standing.room is not None:
            return  # others make room for what it lacks
        quota, identity = ledger.quota.get(deployment.key.namespace, {}), deployment.identity
        decision = waker.woken(decision, identity.generation, identity.digests.engine, quota)
        labels = {pool.target.selector for pool in decision.pools}
        awaits = tuple(group.name for group in waker.groups if not labels.isdisjoint(group.labels))
        self.decisions[deployment.key] = decision
        if awaits:
            self._add(deployment.key, awaits=awaits)

    def _propose(self, plan: Plan) -> None:
        """Find the moves and endings of others that would make room for those without a place."""
        if not any(decision.missing for decision in plan.decisions.values()):
            return
        try:
            found = self.memory.proposer.proposals(self._planned(), plan)
        except Exception as error:  # noqa: BLE001 - they are advice: the plan itself stands
            self.supervisor.complain("no proposals in this pass", error)
            return
        known = {each.key for each in self.world.deployments}
        for key, proposals in found.items():
            if proposals and key in known:
                self._add(key, proposals=proposals)

    def _advise(self, ledger: Ledger) -> None:
        """Find what would make new placements cheaper, and the placements whose engines report too little."""
        suggester = Suggester(self.world.fleet, ledger, self.memory.estimates, self.relatives)
        for deployment in self.world.deployments:
            self._guarded(PassStep.PLAN, deployment, partial(self._advise_one, deployment.key, suggester))

    def _advise_one(self, key: ObjectKey, suggester: Suggester) -> None:
        decision = self.decisions.get(key)
        if decision is None:
            return
        self.decisions[key] = decision = suggester.advised(decision)
        small = too_small(decision.request, self.world.fleet, self.memory.estimates)
        if small:
            self._add(key, too_small=small)

    def _replace(self, plan: Plan) -> Plan:
        """Let pods start before others end, in the order of decisions, while there is room.

        Those end on nodes that go, or because the live loop replaces them.
        """
        leaving = self.memory.leaving.look(self.world.fleet, self.world.at)
        one_goes = any(each.standing.replacement is not None for each in self.ready.values())
        for deployment in self._in_order() if leaving or one_goes else ():
            on = self._on_leaving_nodes(deployment, leaving)
            if on:
                work = partial(self._replace_one, deployment, on, leaving, plan)
                plan = self._guarded(PassStep.PLAN, deployment, work) or plan
        return plan

    def _replace_one(
        self, deployment: Deployment, on: dict[str, OnLeavingNodes], leaving: frozenset[str], plan: Plan
    ) -> Plan:
        """Add the replacements of one deployment. It moves if its place has none and all its replicas must go."""
        key, decision, fleet = deployment.key, self.decisions[deployment.key], self.world.fleet
        replacing, ledger = replacements(decision.request, decision.pools, on, fleet, plan.left.ledger)
        plan = replace(plan, left=replace(plan.left, ledger=ledger))
        pods = deployment.placed.around.ready_pods()
        all_go = all(pod.node in leaving for pod in pods)
        turn = self.turns.get(key)
        has_acted = turn is not None and turn.acted
        answer = plan.elsewhere(key) if all_go and not replacing and not has_acted else None
        if answer is not None:
            self.decisions[key] = decision = answer.decision
            plan = plan.adopted(answer)
        moves = any(pool.state is PoolState.RETIRING and pool.name in on for pool in decision.pools)
        nodes = tuple(sorted({pod.node for pod in pods if pod.node in leaving}))
        self._add(key, replacing=replacing, leaving=nodes if replacing or moves else ())
        if nodes and not replacing and not moves:
            self.crowded.add(key)
        return plan

    def _use_again(self, plan: Plan) -> None:
        """Let those without room use a node again that they left for one slow or silent replica, from the next pass."""
        for deployment in self.world.deployments:
            if any(each.is_shunned for each in deployment.placed.left):
                self._guarded(PassStep.PLAN, deployment, partial(self._use_one_again, deployment, plan))

    def _use_one_again(self, deployment: Deployment, plan: Plan) -> None:
        key = deployment.key
        decision, turn = self.decisions.get(key), self.turns.get(key)
        lacks_room = key in self.crowded or (turn is not None and turn.lacks_room)
        if decision is not None and (decision.waits_for_place or lacks_room):
            left, ledger = deployment.placed.left, plan.left.ledger
            self._add(key, needed_again=needed_again(decision.request, left, self.world.fleet, ledger))

    def _on_leaving_nodes(self, deployment: Deployment, leaving: frozenset[str]) -> dict[str, OnLeavingNodes]:
        decision, found = self.decisions.get(deployment.key), dict[str, OnLeavingNodes]()
        ready = self.ready.get(deployment.key)
        replacement = None if ready is None else ready.standing.replacement
        one = "" if replacement is None else replacement.pod
        for pool in () if decision is None else decision.pools:
            pods = [pod for pod in deployment.placed.around.pods.get(pool.name, ()) if not pod.terminating]
            serving = sum(pod.ready and (pod.node in leaving or pod.name == one) for pod in pods)
            if serving:
                there = pool.split.shape.replicas_of(len(pods))
                found[pool.name] = OnLeavingNodes(serving, max(0, there - pool.replicas))
        return found

    def _look_for_nodes(self) -> None:
        """Say to those without a place which GPUs take no part, and which nodes may still come."""
        fleet = self.world.fleet
        sentences = (
            unhealthy_sentence(fleet.unhealthy),
            claimed_sentence(fleet.claimed),
            left_out_sentence(fleet.ignored),
        )
        left_out, new = " ".join(filter(None, sentences)), NewNodes.of(fleet, self.world.at)
        for key, decision in self.decisions.items():
            if decision.waits_for_place:
                self._add(key, left_out=left_out, coming=new.coming_to(decision))

    def _planned(self) -> list[Ready]:
        return [found for key, found in self.ready.items() if key in self.decisions]

    def _in_order(self) -> Sequence[Deployment]:
        return sorted(
            self.world.deployments,
            key=lambda each: (-each.asked.priority.value, each.identity.created_at, each.key),
        )

    def _add(self, key: ObjectKey, **more: object) -> None:
        self.besides[key] = replace(self.besides.get(key, NOTHING_BESIDES), **more)  # type: ignore[arg-type]

    def _guarded(self, step: PassStep, deployment: Deployment, work: Callable[[], T]) -> T | None:
        """Run one step for one deployment. An exception becomes the problem of that deployment."""
        if deployment.key in self.faulty:
            return None
        self.supervisor.beat(f"{step.name.lower()} {deployment.key}")
        try:
            return self.supervisor.spend(work, deployment)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this deployment
            self._set_aside(step, deployment, error)
            return None

    def _set_aside(self, step: PassStep, deployment: Deployment, error: BaseException) -> None:
        self.faulty.add(deployment.key)
        self._stand_still(deployment.key, self.supervisor.failed(step, deployment, error))

    def _plan_failed(self, deployment: Deployment, decision: Decision) -> None:
        """Report a failed plan: the user can change an unsupported model; anything else is a defect of this object."""
        if decision.is_refusal:
            problem = DeploymentProblem(ConditionReason.UNSUPPORTED_MODEL, decision.failure, permanent=True)
            self._stand_still(deployment.key, problem)
        else:
            self._set_aside(PassStep.PLAN, deployment, RuntimeError(decision.failure))

    def _stand_still(self, key: ObjectKey, problem: DeploymentProblem) -> None:
        """Change nothing of this deployment: its pools stay, and only the problem is reported."""
        self.problems[key] = problem
        self.ready.pop(key, None)
        self.decisions.pop(key, None)
        self.turns.pop(key, None)

    def _outcome(self, deployment: Deployment) -> Outcome:
        key, changes = deployment.key, self._under_way(deployment)
        found = self.ready.get(key)
        return Outcome(
            deployment,
            self._observed(deployment),
            None if found is None else found.request,
            None if found is None else found.standing,
            self.decisions.get(key),
            self.turns.get(key),
            self.problems.get(key),
            key in self.faulty,
            changes,
            self.besides.get(key, NOTHING_BESIDES),
        )

    def _under_way(self, deployment: Deployment) -> UnderWay:
        """Return the changes that go on after the decision. Those of a deployment with a fault are reported, too."""
        decision, turn = self.decisions.get(deployment.key), self.turns.get(deployment.key)
        try:
            return under_way(deployment, decision, turn, self.world.settings.move_seconds, self.world.at)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this deployment
            self._set_aside(PassStep.RENDER, deployment, error)
            return UnderWay(deployment.placed.retune, deployment.placed.retune_due)


_NOTHING_OBSERVED = Observed()


def _of_size(found: Ready, decision: Decision) -> Ready:
    """Return a deployment with the size that the plan has chosen for the load of all its replicas together."""
    size = decision.request.replicas
    standing = replace(found.standing, base_replicas=size, target_replicas=size)
    return replace(found, request=decision.request, standing=standing)


def _sleeps(found: Ready, spec: InferenceDeploymentSpec) -> bool:
    """Whether the live loop wants no replica, or wanted none until now: the status has to say that somebody woke it."""
    entry = found.deployment.record.status.rebalancing
    was_asleep = entry is not None and entry.target_replicas == 0
    return may_sleep(spec.rebalancing) and (was_asleep or found.standing.target_replicas == 0)


def _is_news(found: Ready) -> bool:
    """Whether the number that the loop goes on from is not the one in the status: a later pass goes on from that."""
    entry, standing = found.deployment.record.status.rebalancing, found.standing
    return entry is not None and (
        (entry.base_replicas, entry.target_replicas) != (standing.base_replicas, standing.target_replicas)
    )
