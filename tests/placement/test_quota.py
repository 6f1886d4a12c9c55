"""A namespace's quota: shared in the plan's order, shown with its figures, and no matter to other namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.units import GIB
from plimsoll.placement.advice.remedies import room_seen
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.explain import remedy_sentence
from plimsoll.placement.ledger import Ledger, QuotaUse, room_in
from plimsoll.placement.plan import plan
from plimsoll.status.conditions import conditions
from plimsoll.status.record.report import PoolView, Report
from tests.support.planning import H100, L40S, LLAMA_70B_FP8, MI300X, fleet, node, pool, request, tenant

RESOURCE = "nvidia.com/gpu"


def who(name: str, namespace: str = "tight", replicas: int = 1, **more: Any) -> Tenant:
    wanted = request(name=name, created=name, replicas=replicas, **more)
    return tenant(replace(wanted, key=ObjectKey(namespace, name)))


def placed(decision: Decision) -> int:
    return sum(each.replicas for each in decision.pools)


def ready(decision: Decision) -> dict[str, str]:
    shown = conditions(Report("x", 1, decision.request.replicas, decision=decision), {}, "2026-01-01T00:00:00Z")
    return {each["type"]: each["reason"] for each in shown}


def test_a_resource_of_which_a_pod_takes_nothing_limits_nothing() -> None:
    assert room_in({RESOURCE: 3, "limits.cpu": 0}, QuotaUse(((RESOURCE, 1), ("limits.cpu", 0)))) == 3
    assert room_in({"limits.cpu": 0}, QuotaUse(((RESOURCE, 1), ("limits.cpu", 0)))) is None


def test_a_quota_below_its_use_has_room_for_nobody() -> None:
    assert room_in({RESOURCE: -2}, QuotaUse(((RESOURCE, 1),))) == 0


def test_no_more_is_placed_than_the_quota_leaves() -> None:
    (decision,) = plan([who("a", replicas=4)], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: 3}})
    assert (placed(decision), decision.missing) == (3, 1)


def test_a_refusal_by_quota_has_its_figures_and_is_not_stalled() -> None:
    (decision,) = plan([who("a", facts=LLAMA_70B_FP8)], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: 0}})
    rejection = next(each for each in decision.rejections if each.reason is Reason.QUOTA_EXCEEDED)
    assert dict(rejection.numbers) == {"gpus": rejection.split.gpus, "left": 0, "resource": RESOURCE}
    shown = ready(decision)
    assert shown["Ready"] == shown["Planned"] == shown["Reconciling"] == "WaitingForQuota"
    assert "Stalled" not in shown


def test_a_quota_that_was_lowered_below_its_use_leaves_nothing_and_not_less() -> None:
    (decision,) = plan([who("a", facts=LLAMA_70B_FP8)], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: -2}})
    rejection = next(each for each in decision.rejections if each.reason is Reason.QUOTA_EXCEEDED)
    assert dict(rejection.numbers)["left"] == 0


def test_only_what_has_no_place_waits_for_one() -> None:
    (some,) = plan([who("a", replicas=2)], fleet(node("h", H100, 1)))
    (all_,) = plan([who("a", replicas=2)], fleet(node("h", H100, 2)))
    assert [some.waits_for_place, all_.waits_for_place] == [True, False]


def test_the_remedy_is_a_larger_quota_and_not_free_gpus() -> None:
    (decision,) = plan([who("a")], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: 0}})
    kinds = [remedy.kind for remedy in decision.remedies]
    assert kinds[0] is RemedyKind.RAISE_QUOTA
    assert RemedyKind.FREE_GPUS not in kinds
    assert dict(decision.remedies[0].numbers)["more"] == 1


def test_where_gpus_are_taken_too_they_are_what_is_waited_for() -> None:
    where = fleet(node("h", H100, 8, held=8))
    (decision,) = plan([who("a")], where, quotas={"tight": {RESOURCE: 4}})
    assert ready(decision)["Ready"] == "WaitingForGpus"


def test_tenants_of_one_namespace_share_it_the_older_first_and_others_are_untouched() -> None:
    where = fleet(node("h", H100, 8))
    older, younger, neighbour = plan(
        [who("a", replicas=2), who("b", replicas=2), who("c", namespace="wide", replicas=2)],
        where,
        quotas={"tight": {RESOURCE: 3}},
    )
    assert [placed(each) for each in (older, younger, neighbour)] == [2, 1, 2]


@pytest.mark.parametrize("left", [(1, 3), (3, 1), (0, 4), (4, 0)])
def test_deployments_that_differ_only_in_their_namespace_keep_each_its_own_quota(left: tuple[int, int]) -> None:
    """All GPUs are theirs: a younger deployment without a quota gets none."""
    names = "one", "two"
    wanted = [*(who("a", name, replicas=4) for name in names), who("b", "wide", replicas=4)]
    quotas = {name: {RESOURCE: most} for name, most in zip(names, left, strict=True)}
    decisions = plan(wanted, fleet(node("h", H100, 4)), quotas=quotas, solver=highs.fleetwide())
    assert [placed(each) for each in decisions] == [*left, 0]


def test_other_resources_of_the_namespace_are_not_limited_by_it() -> None:
    where = fleet(node("h", H100, 8), node("m", MI300X, 8))
    (decision,) = plan([who("a")], where, quotas={"tight": {RESOURCE: 0}})
    assert [each.gpu_type for each in decision.pools] == [MI300X]


def test_pods_that_exist_are_in_the_count_already() -> None:
    running = who("a", replicas=2)
    running = replace(running, pools=(pool(H100, replicas=2),))
    (decision,) = plan([running], fleet(node("h", H100, 8, held=2)), quotas={"tight": {RESOURCE: 0}})
    assert (placed(decision), decision.missing) == (2, 0)
    assert not decision.pools[0].surge  # an update must not wait for a pod that the quota refuses
    (roomy,) = plan([running], fleet(node("h", H100, 8, held=2)), quotas={"tight": {RESOURCE: 1}})
    assert roomy.pools[0].surge


def test_pods_that_are_still_to_be_made_count_against_it() -> None:
    coming = replace(who("a", replicas=2), pools=(pool(H100, replicas=2, bound=0, ready=0, uncreated=2),))
    where = fleet(node("h", H100, 8))
    first, second, neighbour = plan(
        [coming, who("b", replicas=2), who("c", namespace="wide", replicas=2)], where, quotas={"tight": {RESOURCE: 3}}
    )
    assert [placed(each) for each in (first, second, neighbour)] == [2, 1, 2]


def test_a_quota_on_memory_places_what_it_admits_and_waits_for_the_quota_with_figures_and_a_fix() -> None:
    quotas = {"tight": {"requests.memory": 20 * GIB}}
    some, none, neighbour = plan(
        [who("a", replicas=2), who("b"), who("c", namespace="wide")], fleet(node("h", H100, 8)), quotas=quotas
    )
    assert [placed(each) for each in (some, none, neighbour)] == [2, 0, 1]
    rejection = next(each for each in none.rejections if each.reason is Reason.QUOTA_EXCEEDED)
    assert dict(rejection.numbers) == {
        "asked_bytes": 8 * GIB,
        "left_bytes": 4 * GIB,
        "resource": "requests.memory",
    }
    assert ready(none)["Ready"] == "WaitingForQuota"
    assert dict(none.remedies[0].numbers)["requests.memory"] == 4 * GIB
    assert ready(neighbour)["Planned"] == "PlacementDecided"


def test_the_declared_limit_of_a_pod_counts_and_without_one_its_request() -> None:
    where, quotas = fleet(node("h", H100, 8)), {"tight": {"limits.cpu": 8000}}
    (limited,) = plan([who("a", replicas=4, cpu_limit_millis=4000)], where, quotas=quotas)
    (requested,) = plan([who("a", replicas=4)], where, quotas=quotas)
    assert [placed(limited), placed(requested)] == [2, 4]
    quotas = {"tight": {"limits.memory": 32 * GIB}}
    (limited,) = plan([who("a", replicas=4, memory_limit_bytes=16 * GIB)], where, quotas=quotas)
    (requested,) = plan([who("a", replicas=4)], where, quotas=quotas)
    assert [placed(limited), placed(requested)] == [2, 4]


@pytest.mark.parametrize("entry", ["pods", "count/pods"])
def test_every_replica_takes_one_of_the_pods_that_the_quota_leaves_whatever_its_split(entry: str) -> None:
    where = fleet(node("h", H100, 8))
    some, none, neighbour = plan(
        [who("a", facts=LLAMA_70B_FP8, replicas=2), who("b"), who("c", namespace="wide")],
        where,
        quotas={"tight": {entry: 2}},
    )
    assert [placed(each) for each in (some, none, neighbour)] == [2, 0, 1]
    assert some.pools[0].split.gpus > 1
    rejection = next(each for each in none.rejections if each.reason is Reason.QUOTA_EXCEEDED)
    assert dict(rejection.numbers) == {"asked_pods": 1, "left_pods": 0, "resource": entry}
    assert ready(none)["Ready"] == "WaitingForQuota"
    assert dict(none.remedies[0].numbers)[entry] == 1
    assert f"raise the ResourceQuota's {entry} by 1" in remedy_sentence(none.remedies[0])


def test_an_update_adds_no_pod_that_the_quota_on_pods_refuses() -> None:
    running = replace(who("a"), pools=(pool(H100),))
    tight, roomy = (
        plan([running], fleet(node("h", H100, 8, held=1)), quotas={"tight": {"pods": left}})[0].pools[0]
        for left in (0, 1)
    )
    assert [tight.surge, roomy.surge] == [False, True]


def test_pods_without_the_limits_that_a_quota_limits_are_warned_of_until_they_run() -> None:
    where, quotas = fleet(node("h", H100, 8, held=1)), {"tight": {"limits.cpu": 8000, "limits.memory": 64 * GIB}}
    running = replace(who("r"), pools=(pool(H100),))
    none, cpu, both, other, runs = plan(
        [
            who("a"),
            who("b", cpu_limit_millis=1000),
            who("c", cpu_limit_millis=1000, memory_limit_bytes=8 * GIB),
            who("d", namespace="wide"),
            running,
        ],
        where,
        quotas=quotas,
    )
    shown = ["".join(each for each in decision.warnings if "ResourceQuota" in each) for decision in (none, cpu, both)]
    fields = "spec.podTemplate.resources.limits.cpu", "spec.podTemplate.resources.limits.memory"
    assert [[field in each for field in fields] for each in shown] == [[True, True], [False, True], [False, False]]
    assert not any("ResourceQuota" in each for decision in (other, runs) for each in decision.warnings)


def test_the_warning_of_missing_limits_obeys_the_scope_of_the_quota() -> None:
    quotas = {"tight": {"limits.cpu of PriorityClass In high": 8000}}
    high, low = plan([who("a", priority_class="high"), who("b")], fleet(node("h", H100, 8)), quotas=quotas)
    assert [any("limits.cpu" in each for each in decision.warnings) for decision in (high, low)] == [True, False]


def test_a_smaller_split_is_taken_where_the_quota_on_cpu_leaves_no_room_for_the_preferred_one() -> None:
    where = fleet(node("l", L40S, 8), node("h", H100, 8))  # four L40S are cheaper, and a pod on them takes 5 CPUs
    (free,) = plan([who("a", facts=LLAMA_70B_FP8, context=8192)], where)
    (bound,) = plan([who("a", facts=LLAMA_70B_FP8, context=8192)], where, quotas={"tight": {"requests.cpu": 3000}})
    assert [(each.gpu_type, each.split.gpus) for each in free.pools] == [(L40S, 4)]
    assert [(each.gpu_type, each.split.gpus) for each in bound.pools] == [(H100, 2)]


def test_an_update_adds_no_pod_that_the_quota_on_memory_refuses() -> None:
    running = replace(who("a"), pools=(pool(H100),))
    tight, roomy = (
        plan([running], fleet(node("h", H100, 8, held=1)), quotas={"tight": {"limits.memory": left}})[0].pools[0]
        for left in (8 * GIB - 1, 8 * GIB)
    )
    assert [tight.surge, roomy.surge] == [False, True]


def lost(replicas: int, *, kind: str = L40S, gpus: int = 1) -> Pool:
    """A pool whose pods find no node."""
    found = pool(kind, gpus, replicas=replicas, bound=0, ready=0, stranded=replicas, obstacle="NodesUnavailable")
    return replace(found, claim=HostNeed(2000, 8 * GIB))


class TestMoves:
    """The pods that find no node count in the quota. They end before their successors are made."""

    def moved(self, left: int, *, replicas: int = 2, gpus: int = 8) -> Decision:
        here = replace(who("a", replicas=replicas), pools=(lost(replicas),))
        (decision,) = plan([here], fleet(node("h", H100, gpus)), quotas={"tight": {RESOURCE: left}})
        return decision

    def test_replicas_move_where_their_own_pods_use_the_quota_up(self) -> None:
        decision = self.moved(0)
        assert [(each.gpu_type, each.state, each.replicas) for each in decision.pools] == [(H100, PoolState.ACTIVE, 2)]
        assert decision.stranded_by == ()

    def test_no_more_is_given_back_than_leaves(self) -> None:
        decision = self.moved(0, gpus=1)
        assert [(each.gpu_type, each.replicas) for each in decision.pools] == [(L40S, 1), (H100, 1)]

    def test_a_quota_that_was_lowered_below_its_use_admits_no_successor(self) -> None:
        assert [(each.gpu_type, each.replicas) for each in self.moved(-1).pools] == [(L40S, 2)]
        assert [(each.gpu_type, each.replicas) for each in self.moved(1).pools] == [(H100, 2)]

    def test_nobody_else_takes_what_was_given_back(self) -> None:
        here = replace(who("a"), pools=(lost(1),))
        moved, other = plan([here, who("b")], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: 0}})
        assert (placed(moved), placed(other)) == (1, 0)
        stays, other = plan([here, who("b")], fleet(node("h", H100, 0)), quotas={"tight": {RESOURCE: 0}})
        assert (placed(stays), placed(other)) == (1, 0)

    def test_where_a_larger_place_is_beyond_the_quota_the_status_names_it(self) -> None:
        here = replace(who("a", facts=LLAMA_70B_FP8), pools=(lost(1, kind=MI300X),))
        (decision,) = plan([here], fleet(node("h", H100, 8)), quotas={"tight": {RESOURCE: 0}})
        assert [(each.gpu_type, each.replicas) for each in decision.pools] == [(MI300X, 1)]
        views = (PoolView(decision.pools[0].name, pods=1, unbound=1, scheduler_message="0/1 nodes are available."),)
        report = Report("x", 1, 1, decision=decision, pools=views)
        [shown] = [each for each in conditions(report, {}, "2026-01-01T00:00:00Z") if each["type"] == "Placed"]
        assert "No other place takes it: " in shown["message"]
        assert "takes 2 GPUs and the namespace's ResourceQuota leaves 0 of nvidia.com/gpu" in shown["message"]


class TestPriorityClasses:
    """A quota with a scope of PriorityClasses counts the pods of these classes and no others."""

    HIGH = f"{RESOURCE} of PriorityClass In high,higher"

    def test_it_binds_the_pods_of_its_classes_together_and_leaves_the_others_alone(self) -> None:
        first, second, other, none = plan(
            [
                who("a", replicas=2, priority_class="high"),
                who("b", replicas=2, priority_class="higher"),
                who("c", replicas=2, priority_class="low"),
                who("d", replicas=2),
            ],
            fleet(node("h", H100, 8)),
            quotas={"tight": {self.HIGH: 3}},
        )
        assert [placed(each) for each in (first, second, other, none)] == [2, 1, 2, 2]
        [remedy] = [each for each in second.remedies if each.kind is RemedyKind.RAISE_QUOTA]
        assert "raise the ResourceQuota's requests.nvidia.com/gpu of PriorityClass In high,higher by 1" in (
            remedy_sentence(remedy)
        )

    def test_quotas_of_all_pods_and_of_some_count_both(self) -> None:
        quotas = {"tight": {RESOURCE: 3, "requests.cpu of PriorityClass In high": 2000}}
        high, low = plan(
            [who("a", replicas=2, priority_class="high"), who("b", replicas=3)],
            fleet(node("h", H100, 8)),
            quotas=quotas,
        )
        assert [placed(high), placed(low)] == [1, 2]
        rejection = next(each for each in high.rejections if each.reason is Reason.QUOTA_EXCEEDED)
        assert dict(rejection.numbers)["left_millis"] == 0

    def test_replicas_move_where_their_own_pods_use_it_up(self) -> None:
        here = replace(who("a", replicas=2, priority_class="high"), pools=(lost(2),))
        (decision,) = plan([here], fleet(node("h", H100, 8)), quotas={"tight": {self.HIGH: 0, "pods": 0}})
        assert [(each.gpu_type, each.replicas) for each in decision.pools] == [(H100, 2)]

    def test_equal_requests_of_other_classes_share_no_answer_about_room(self) -> None:
        where = fleet(node("h", H100, 8))
        ledger = Ledger.of(where, {"tight": {self.HIGH: 0}})
        low, high = (who("a", priority_class=each).request for each in ("low", "high"))
        assert room_seen(low, where, ledger) != room_seen(high, where, ledger)
