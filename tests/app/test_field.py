"""Whole passes over clusters as they are: volumes, nodes that go, nodes where engines cannot run, empty groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from benchmarks.planning.passes import look_up
from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, NODES, PODS, RESOURCE_QUOTAS
from plimsoll.app.lookups.claim_cache import ClaimCache
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.watch.node_groups import declared_in
from plimsoll.app.watch.pruning import is_plain
from plimsoll.decision.results.reports import is_passing
from plimsoll.domain.cluster.node_rules import Claim, Mounted, Requirement
from plimsoll.domain.public_words import ConditionReason
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.failed_moves import still_refused
from plimsoll.placement.extra_pods import REPLACEMENT_SECONDS
from plimsoll.status.record.report import DeploymentProblem
from testbed.broken_node import LAST_WORDS
from testbed.fleet import gpu_node
from tests.support.bodies import Body
from tests.support.live_passes import AUTO, H100, L4, L40S, PRODUCTS, LivePasses, Open, pools

CERTAIN_SECONDS = 60.0

NOT_YET = DeploymentProblem(ConditionReason.READING_VOLUMES, "Reading.", permanent=False)
CACHE: dict[str, Any] = {"podTemplate": {"modelCache": {"claimName": "weights"}}}


@dataclass
class Claims:
    """A book of claims that knows what it is given."""

    known: tuple[Claim, ...] | DeploymentProblem = NOT_YET
    asked: list[tuple[str, tuple[Mounted, ...]]] = field(default_factory=list)
    doubted: list[bool] = field(default_factory=list)
    knows_any: bool = True

    def look_up(
        self, namespace: str, mounted: Sequence[Mounted], *, doubted: bool = False
    ) -> tuple[Claim, ...] | DeploymentProblem:
        self.doubted.append(doubted)
        self.asked.append((namespace, tuple(mounted)))
        return self.known if mounted else ()


def with_claims(there: LivePasses, *known: Claim) -> Claims:
    claims = Claims(known or NOT_YET)
    there.passes.reader.claims = cast("ClaimCache", claims)
    return claims


def on(node: str, mode: str = "ReadWriteMany") -> Claim:
    return Claim("weights", (mode,), ((Requirement("kubernetes.io/hostname", "In", (node,)),),))


def change_node(there: LivePasses, name: str, **spec: Any) -> None:
    there.version += 1
    [body] = [each for each in there.store.all(NODES) if each["metadata"]["name"] == name]
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    there.store.observe(NODES, "MODIFIED", {**body, "metadata": head, "spec": {**body["spec"], **spec}})


def add_node(there: LivePasses, name: str, kind: str, gpus: int, **labels: str) -> None:
    there.version += 1
    body: Body = gpu_node(name, PRODUCTS[kind], gpus, labels=labels)
    body["metadata"] |= {"uid": f"node-{name}", "resourceVersion": str(there.version)}
    there.store.observe(NODES, "ADDED", body)


def relabel(there: LivePasses, body: Mapping[str, Any], labels: dict[str, str]) -> None:
    there.version += 1
    head = {**body["metadata"], "labels": labels, "resourceVersion": str(there.version)}
    there.store.observe(NODES, "MODIFIED", {**body, "metadata": head})


def change_pods(there: LivePasses, name: str, **status: Any) -> None:
    for body in there.store.all(PODS):
        if body["metadata"]["labels"]["plimsoll.dev/deployment"] == name:
            there.version += 1
            head = {**body["metadata"], "resourceVersion": str(there.version)}
            changed = {**body, "metadata": head, "status": {**body["status"], **status}}
            there.store.observe(PODS, "MODIFIED", changed)


def workloads(case: Desired) -> dict[str, int]:
    return {
        each["metadata"]["labels"]["plimsoll.dev/pool"]: each["spec"]["replicas"]
        for each in case.manifests
        if each["kind"] == "Deployment"
    }


def budget(case: Desired) -> dict[str, int]:
    [found] = [each["spec"] for each in case.manifests if each["kind"] == "PodDisruptionBudget"]
    return {key: value for key, value in found.items() if key != "selector"}


def message(case: Desired, kind: str) -> str:
    assert case.new_status is not None
    [found] = [each["message"] for each in case.new_status["conditions"] if each["type"] == kind]
    return str(found)


class TestClaims:
    async def test_nothing_is_planned_before_the_claims_are_read_and_a_neighbour_does_not_wait(
        self, opened: Open
    ) -> None:
        there = opened(l4=4, l40s=4)
        claims = with_claims(there)
        there.put("cached", L4, L40S, **CACHE)
        there.put("free", L4, L40S)
        await there.settle()
        made = there.make()
        assert (made["cached"].outcome.problem, pools(made["free"])) == (NOT_YET, {(L4, "Active"): 1})
        assert set(claims.asked) == {("ns", (Mounted("weights"),)), ("ns", ())}
        claims.known = (on("l40s-48gb"),)
        assert pools(there.make()["cached"]) == {(L40S, "Active"): 1}

    async def test_what_runs_is_left_alone_while_its_claims_are_read(self, opened: Open) -> None:
        there = opened(l4=4)
        claims = with_claims(there, Claim("weights", ("ReadWriteMany",)))
        there.put("cached", L4, **CACHE)
        await there.settle()
        claims.known = NOT_YET
        case = there.make()["cached"]
        assert (case.outcome.problem, is_passing(case.outcome), case.manifests) == (NOT_YET, True, ())

    async def test_nothing_is_placed_with_a_claim_that_no_pod_can_mount_what_runs_stays_and_it_recovers(
        self, opened: Open
    ) -> None:
        there = opened(l4=4)
        leaving = replace(on(L4), fault="The claim is being deleted. Name another claim.")
        claims = with_claims(there, leaving)
        there.put("cached", L4, **CACHE)
        there.put("free", L4)
        await there.settle()
        made = there.make()
        problem = made["cached"].outcome.problem
        assert problem is not None
        assert (problem.reason, problem.permanent) == (ConditionReason.CLAIM_UNUSABLE, False)
        assert problem.message.startswith("spec.podTemplate.modelCache.claimName: 'weights'")
        assert "is being deleted" in problem.message
        assert pools(made["free"]) == {(L4, "Active"): 1}
        claims.known = (on(L4),)
        made = there.make()
        assert (pools(made["cached"]), pools(made["free"])) == ({(L4, "Active"): 1}, {(L4, "Active"): 1})
        await there.settle()
        claims.known = (leaving,)
        assert pools(there.make()["cached"]) == {(L4, "Active"): 1}, "what is placed is left alone"

    async def test_a_claim_for_one_node_is_refused_for_two_replicas_and_keeps_the_live_loop_at_one(
        self, opened: Open
    ) -> None:
        there = opened(l4=4)
        with_claims(there, on(L4, "ReadWriteOnce"))
        there.put("two", L4, replicas=2, **CACHE)
        there.put("one", L4, created="04:00:00", rebalancing=AUTO, **CACHE)
        await there.settle()
        made = there.make()
        problem = made["two"].outcome.problem
        assert problem is not None
        assert (problem.reason, problem.permanent) == (ConditionReason.INVALID_SPEC, True)
        assert "ReadWriteOnce" in problem.message
        there.load(made["one"], 1.0)
        for _ in range(3):
            made = there.make()
            there.now += 60
            there.load(made["one"], 1.0)
        assert pools(made["one"]) == {(L4, "Active"): 1}
        request = made["one"].outcome.request
        assert request is not None
        assert (request.mounts_alone, request.replicas) == (True, 1)


class TestVolumesThatOthersMount:
    def put_pod(self, there: LivePasses, node: str, phase: str = "Running") -> None:
        """A pod of somebody else that mounts the claim, as the store keeps it."""
        there.version += 1
        there.store.observe(PODS, "ADDED", {
            "metadata": {"name": "shell", "namespace": "ns", "uid": "shell", "resourceVersion": str(there.version)},
            "spec": {
                "nodeName": node,
                "containers": [{"image": "shell"}],
                "volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}],
            },
            "status": {"phase": phase},
        })  # fmt: skip

    async def test_a_claim_for_one_node_keeps_the_replica_on_the_node_of_the_pod_that_mounts_it(
        self, opened: Open
    ) -> None:
        there = opened(l4=4, l40s=4)
        with_claims(there, Claim("weights", ("ReadWriteOnce",)))
        self.put_pod(there, "l40s-48gb")
        there.put("cached", L4, L40S, **CACHE)
        there.put("free", L4, L40S)
        await there.settle()
        made = there.make()
        assert [pools(made[name]) for name in ("cached", "free")] == [{(L40S, "Active"): 1}, {(L4, "Active"): 1}]

    @pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
    async def test_if_that_node_has_no_gpu_the_status_names_the_pod_and_the_end_of_the_pod_is_noticed(
        self, mode: str, opened: Open
    ) -> None:
        there = opened(l4=4)
        with_claims(there, Claim("weights", (mode,)))
        self.put_pod(there, "cpu-only")
        there.put("cached", L4, **CACHE)
        there.put("free", L4)
        await there.settle()
        made = there.make()
        assert (workloads(made["cached"]), pools(made["free"])) == ({}, {(L4, "Active"): 1})
        said = message(made["cached"], "Ready")
        assert "pod shell" in said
        assert "node cpu-only" in said
        assert "end pod shell" in said or "end that pod" in said
        assert not any(is_plain(each) for each in there.store.all(PODS)), "its end begins a pass"
        self.put_pod(there, "cpu-only", "Succeeded")
        assert pools(there.make()["cached"]) == {(L4, "Active"): 1}

    async def test_what_serves_is_not_moved_for_a_pod_that_waits_for_its_volume(self, opened: Open) -> None:
        there = opened(l4=4, l40s=4)
        with_claims(there, Claim("weights", ("ReadWriteOnce",)))
        there.put("cached", L4, L40S, **CACHE)
        await there.settle()
        self.put_pod(there, "l40s-48gb", "Pending")
        for _ in range(3):
            assert pools(there.make()["cached"]) == {(L4, "Active"): 1}
            there.now += 60


class TestVolumesThatTurnOutToBeElsewhere:
    async def begun(self, opened: Open, *known: Claim, **spec: Any) -> tuple[LivePasses, Claims]:
        """Two deployments on L4s, one with a claim; the L40S is free."""
        there = opened(l4=4, l40s=4)
        claims = with_claims(there, *(known or (Claim("weights"),)))
        there.put("cached", L4, L40S, **CACHE, **spec)
        there.put("free", L4, L40S)
        await there.settle()
        return there, claims

    def wait_for(self, there: LivePasses, obstacle: str, seconds: float = 60.0) -> None:
        """Let the scheduler say this about the pod with the claim."""
        since = to_rfc3339(there.now)
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
        for body in there.store.all(PODS):
            if body["metadata"]["labels"]["plimsoll.dev/deployment"] == "cached":
                there.version += 1
                head = {**body["metadata"], "resourceVersion": str(there.version)}
                spec = {key: value for key, value in body["spec"].items() if key != "nodeName"}
                message = f"0/2 nodes are available: {obstacle}."
                status = {"phase": "Pending", "conditions": [said | {"message": message}]}
                there.store.observe(PODS, "MODIFIED", {**body, "metadata": head, "spec": spec, "status": status})
        there.now += seconds

    @pytest.mark.parametrize(
        ("known", "obstacle", "reason"),
        [
            (L40S, "2 node(s) didn't match PersistentVolume's node affinity", "VolumeElsewhere"),
            (L40S, "2 node(s) didn't find available persistent volumes to bind", "VolumeElsewhere"),
            ("", "2 node(s) didn't match PersistentVolume's node affinity", "VolumeElsewhere"),
            ("", "2 node(s) exceed max volume count", "NoVolumeThere"),
        ],
    )
    async def test_the_replica_follows_also_where_the_operator_hears_of_it_first_and_the_neighbour_stays(
        self, known: str, obstacle: str, reason: str, opened: Open
    ) -> None:
        there, claims = await self.begun(opened)
        self.wait_for(there, obstacle)
        claims.known = (on(known),) if known else claims.known
        made = there.make()
        assert [pools(made[name]) for name in ("cached", "free")] == [{(L40S, "Active"): 1}, {(L4, "Active"): 1}]
        status = made["cached"].new_status
        assert status is not None
        assert [(each["gpuType"], each["reason"]) for each in status["rehomings"]] == [(L4, reason)]

    async def test_what_is_known_of_a_claim_is_doubted_only_while_its_pods_or_replicas_find_no_place(
        self, opened: Open
    ) -> None:
        there, claims = await self.begun(opened, on(L4))
        claims.doubted.clear()
        there.make()
        assert claims.doubted == [False, False]
        for obstacle, doubted in (
            ('persistentvolumeclaim "weights" not found', True),
            ("2 Insufficient nvidia.com/gpu", False),
        ):
            self.wait_for(there, obstacle, 0.0)
            claims.doubted.clear()
            there.make()
            assert sorted(claims.doubted) == sorted([doubted, False])

    async def test_it_is_doubted_as_well_where_no_place_was_found(self, opened: Open) -> None:
        there = opened(l4=4)
        claims = with_claims(there, on("nowhere"))
        there.put("cached", L4, **CACHE)
        await there.settle()
        claims.doubted.clear()
        there.make()
        assert claims.doubted == [True]

    async def test_a_move_that_did_not_come_up_for_its_volume_is_forgotten_once_it_is_known_where_that_is(
        self, opened: Open
    ) -> None:
        there, claims = await self.begun(opened)
        digest = there.make()["cached"].outcome.deployment.identity.digests.start
        at, until = (to_rfc3339(there.now + seconds) for seconds in (-60, 3600))
        failed = {"tensorParallel": 1, "at": at, "until": until, "times": 1, "spec": digest}
        causes = {L40S: "VolumeElsewhere", H100: "EngineCrashed"}
        [body] = [each for each in there.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == "cached"]
        listed = [failed | {"gpuType": kind, "reason": cause} for kind, cause in causes.items()]
        there.version += 1
        head = {**body["metadata"], "resourceVersion": str(there.version)}
        status = {**body["status"], "failedMoves": listed}
        there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**body, "metadata": head, "status": status})
        for known, kept in ((Claim("weights"), [H100, L40S]), (on(L4), [H100])):
            claims.known = (known,)
            case = there.make()["cached"]
            assert case.outcome.request is not None
            standing = still_refused(case.outcome.request, case.outcome.deployment.placed.failed)
            assert sorted(each.gpu_type for each in standing) == kept
            assert case.new_status is not None
            assert sorted(each["gpuType"] for each in case.new_status["failedMoves"]) == kept


class TestNodesThatGo:
    async def begun(self, opened: Open, replicas: int = 1, **more: Any) -> LivePasses:
        there = opened(l4=4)
        there.put("web", L4, replicas=replicas, **more)
        await there.settle()
        add_node(there, "other", L4, 4)
        return there

    async def test_one_more_pod_starts_and_a_drain_leaves_as_many_as_are_wanted(self, opened: Open) -> None:
        there = await self.begun(opened, 2)
        case = there.make()["web"]
        assert (workloads(case), budget(case)) == ({"l4-24gb-tp1": 2}, {"maxUnavailable": 1})
        change_node(there, L4, unschedulable=True)
        case = there.make()["web"]
        assert (workloads(case), budget(case)) == ({"l4-24gb-tp1": 4}, {"minAvailable": 2})
        assert pools(case) == {(L4, "Active"): 2}
        assert "nodes that go soon (l4-24gb): 2 in all" in message(case, "Placed")
        there.now += REPLACEMENT_SECONDS
        case = there.make()["web"]
        assert (workloads(case), budget(case)) == ({"l4-24gb-tp1": 2}, {"maxUnavailable": 1})

    async def test_the_pass_after_the_hour_is_due(self, opened: Open) -> None:
        there = await self.begun(opened)
        change_node(there, L4, unschedulable=True)
        there.make()
        assert REPLACEMENT_SECONDS in [round(each) for each in there.result().due_in_seconds]

    async def test_who_comes_first_gets_the_last_gpu_and_the_drain_of_the_other_is_not_held_up(
        self, opened: Open
    ) -> None:
        there = opened(l4=4)
        there.put("late", L4, created="05:00:00")
        there.put("early", L4, created="04:00:00")
        await there.settle()
        add_node(there, "other", L4, 1)
        change_node(there, L4, unschedulable=True)
        made = there.make()
        assert [workloads(made[name])["l4-24gb-tp1"] for name in ("early", "late")] == [2, 1]
        assert [budget(made[name]) for name in ("early", "late")] == [{"minAvailable": 1}, {"maxUnavailable": 1}]

    async def test_where_its_type_has_no_other_gpu_it_moves_to_another_type_and_a_neighbour_stays(
        self, opened: Open
    ) -> None:
        there = opened(l4=4, l40s=2)
        there.put("web", L4, L40S)
        there.put("only-here", L4, created="04:00:00")
        await there.settle()
        change_node(there, L4, unschedulable=True)
        made = there.make()
        case = made["web"]
        assert pools(case) == {(L40S, "Active"): 1, (L4, "Retiring"): 1}
        assert (workloads(case), budget(case)) == ({"l40s-48gb-tp1": 1}, {"minAvailable": 1})
        assert [each["kind"] for each in case.manifests].index("PodDisruptionBudget") == 1
        assert "All replicas move away from nodes that go soon (l4-24gb)" in message(case, "Placed")
        assert pools(made["only-here"]) == {(L4, "Active"): 1}
        assert budget(made["only-here"]) == {"maxUnavailable": 1}
        await there.settle()
        case = there.make()["web"]
        assert (pools(case), budget(case)) == ({(L40S, "Active"): 1}, {"maxUnavailable": 1})
        change_node(there, L4, unschedulable=False)
        assert pools(there.make()["web"]) == {(L40S, "Active"): 1}, "no going to and fro"

    async def test_the_last_gpus_of_another_type_go_to_one_deployment(self, opened: Open) -> None:
        there = opened(l4=4, l40s=1)
        there.put("late", L4, L40S, created="05:00:00")
        there.put("early", L4, L40S, created="04:00:00")
        await there.settle()
        change_node(there, L4, unschedulable=True)
        made = there.make()
        assert pools(made["early"]) == {(L40S, "Active"): 1, (L4, "Retiring"): 1}
        assert (pools(made["late"]), budget(made["late"])) == ({(L4, "Active"): 1}, {"maxUnavailable": 1})

    async def test_replicas_that_serve_on_other_nodes_are_not_moved(self, opened: Open) -> None:
        there = opened(l4=1, l40s=4)
        add_node(there, "other", L4, 1)
        there.put("web", L4, L40S, replicas=2)
        await there.settle()
        change_node(there, "other", unschedulable=True)
        case = there.make()["web"]
        assert (pools(case), budget(case)) == ({(L4, "Active"): 2}, {"maxUnavailable": 1})

    async def test_a_quota_that_is_used_up_admits_no_more(self, opened: Open) -> None:
        there = await self.begun(opened)
        used = {"requests.nvidia.com/gpu": "1"}
        head, status = {"name": "q", "namespace": "ns"}, {"hard": used, "used": used}
        body = {"metadata": head, "spec": {"hard": used}, "status": status}
        there.store.replace(RESOURCE_QUOTAS, [body])
        change_node(there, L4, unschedulable=True)
        assert workloads(there.make()["web"]) == {"l4-24gb-tp1": 1}


class TestLabelsThatCome:
    async def test_an_engine_that_was_placed_by_the_machine_runs_on_when_the_gpus_are_labelled(
        self, opened: Open
    ) -> None:
        there = opened(h100=1)
        add_node(there, "bare", L4, 4)
        [body] = [each for each in there.store.all(NODES) if each["metadata"]["name"] == "bare"]
        machine, labels = {"node.kubernetes.io/instance-type": "g6.12xlarge"}, body["metadata"]["labels"]
        relabel(there, body, machine)
        there.put("web", L4)
        await there.settle()
        placed = there.make()["web"].manifests
        relabel(there, body, labels | machine)
        case = there.make()["web"]
        assert pools(case) == {(L4, "Active"): 1}
        assert case.manifests == placed


class TestBadPlaces:
    async def crashed(self, opened: Open, cause: str, restarts: int = 3, **gpus: int) -> LivePasses:
        there = opened(**gpus)
        there.put("unlucky", L4, L40S)
        there.put("fine", L40S, created="05:00:00")
        await there.settle()
        ended = {"exitCode": 1, "message": LAST_WORDS[cause]}
        status = [{"restartCount": restarts, "lastState": {"terminated": ended}, "state": {"waiting": {}}}]
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:00Z"}
        change_pods(there, "unlucky", containerStatuses=status, conditions=[bound])
        return there

    async def test_the_node_is_avoided_where_the_type_has_another_one(self, opened: Open) -> None:
        there = await self.crashed(opened, "GpuUnusable", l4=2, l40s=4)
        add_node(there, "other", L4, 2)
        made = there.make()
        case = made["unlucky"]
        assert pools(case) == {(L4, "Active"): 1}
        assert case.new_status is not None
        assert case.new_status["pools"][0]["avoidedNodes"] == [L4]
        assert [(each["reason"], each["node"]) for each in case.new_status["rehomings"]] == [("GpuUnusable", L4)]
        [made_for] = [each for each in case.manifests if each["kind"] == "Deployment"]
        terms = made_for["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        [term] = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": [L4]}]
        assert json.loads(made_for["metadata"]["annotations"]["plimsoll.dev/pool-record"])["avoidedNodes"] == [L4]
        assert pools(made["fine"]) == {(L40S, "Active"): 1}
        there.carry_out([case])
        again = there.make()["unlucky"]
        assert again.outcome.decision is not None
        assert (again.outcome.decision.departures, pools(again)) == ((), {(L4, "Active"): 1}), "it leaves the node once"

    async def test_without_another_node_the_replica_goes_to_another_type(self, opened: Open) -> None:
        there = await self.crashed(opened, "DriverTooOld", l4=2, l40s=4)
        case = there.make()["unlucky"]
        assert pools(case) == {(L40S, "Active"): 1}
        assert case.new_status is not None
        assert [(each["reason"], each.get("node")) for each in case.new_status["rehomings"]] == [("DriverTooOld", None)]

    async def test_where_nothing_is_free_it_stays_and_cause_and_node_are_named(self, opened: Open) -> None:
        there = await self.crashed(opened, "GpuMemoryHeldByOthers", l4=2, l40s=1)
        case = there.make()["unlucky"]
        assert pools(case) == {(L4, "Active"): 1}
        said = message(case, "Available")
        assert "pool l4-24gb-tp1 on node l4-24gb, 3 restarts" in said
        assert "No other place takes it: " in said

    async def test_a_first_crash_of_a_young_pod_is_looked_at_again(self, opened: Open) -> None:
        there = await self.crashed(opened, "GpuUnusable", restarts=1, l4=2, l40s=4)
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T12:26:30Z"}
        change_pods(there, "unlucky", conditions=[bound])
        there.now = 1_795_350_400.0  # ten seconds later
        assert pools(there.make()["unlucky"]) == {(L4, "Active"): 1}
        assert 50 <= min(each for each in there.result().due_in_seconds if each > 1) <= CERTAIN_SECONDS


GROUP = {
    "name": "gpus", "gpuType": "h100-sxm-80gb", "gpusPerNode": 1, "maxNodes": 4, "labels": {"pool": "gpus"},
    "usdPerHour": "2", "scaleUp": {"maxHourlyPrice": "3"},
}  # fmt: skip


class TestScaleFromZero:
    async def test_a_replica_waits_for_a_node_and_a_second_is_beyond_the_price(self, opened: Open) -> None:
        there = opened(l4=1)
        there.passes.node_groups.declared = declared_in(json.dumps([GROUP]), load_gpu_types())
        there.put("waits", H100)
        there.put("second", H100, created="06:00:00")
        there.put("asleep", H100, created="02:00:00", suspend=True)
        there.put("placed", L4)
        there.make()
        await look_up(there.passes)
        made = there.make()
        assert {name: pools(case) for name, case in made.items()} == {
            "waits": {(H100, "Active"): 1},
            "second": {},
            "asleep": {},
            "placed": {(L4, "Active"): 1},
        }
        assert {name: case.outcome.besides.awaits for name, case in made.items() if case.outcome.besides.awaits} == {
            "waits": ("gpus",)
        }
        assert made["waits"].new_status is not None
        assert made["waits"].new_status["pools"][0]["nodeSelector"] == {"pool": "gpus"}
        assert workloads(made["waits"]) == {"h100-sxm-80gb-tp1": 1}
