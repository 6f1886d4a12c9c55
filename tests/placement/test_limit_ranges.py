"""LimitRanges of a namespace: no pod is placed that the API server would refuse, and what runs stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.engines.engine_choice import CpuOffload
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.facts.cluster.quota_reading import read_limit_ranges
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.placement.explain import rejection_sentence, remedy_sentence
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.plan import plan
from plimsoll.status.conditions import conditions
from plimsoll.status.record.report import Report
from tests.support.limit_ranger import limit_range
from tests.support.planning import ENGINE, H100, L4, L40S, LLAMA_70B_FP8, fleet, node, pool, request, tenant

HERE = fleet(node("h", H100, 8))
SMALL = {"cpu": "500m", "memory": "512Mi"}


def bounded(wanted: Request, *bodies: dict[str, Any]) -> Request:
    return replace(wanted, **wanted.filled_in("", read_limit_ranges(bodies)["team"]))


def limited(**item: Any) -> Request:
    """A request for one engine on one H100 in a namespace with a LimitRange."""
    return bounded(request(), limit_range(**item))


def decided(wanted: Request, **more: Any) -> Decision:
    (decision,) = plan([tenant(wanted)], HERE, **more)
    return decision


def on_one(decision: Decision) -> str:
    return next(rejection_sentence(each) for each in decision.rejections if each.split == Split(1))


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (
            {"max": {"cpu": "1"}},
            (
                "fits, but LimitRange limits allows each Container 1 CPU at most (max.cpu) and the pod requests 2 "
                "CPUs: raise max.cpu in the LimitRange, or lower spec.podTemplate.resources.requests.cpu"
            ),
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            (
                "fits, but LimitRange limits allows each Pod 1.00 GiB of memory at most (max.memory) and the pod "
                "requests 8.00 GiB of memory: raise max.memory in the LimitRange"
            ),
        ),
        (
            {"type": "Pod", "max": {"memory": "64Gi"}},
            (
                "fits, but LimitRange limits allows each Pod 64.00 GiB of memory at most (max.memory) and the pod "
                "states no limit: set spec.podTemplate.resources.limits.memory"
            ),
        ),
        (
            {"default": {"memory": "512Mi"}},
            (
                "fits, but LimitRange limits gives a Container without a limit one of 0.50 GiB of memory "
                "(default.memory) and the pod requests 8.00 GiB of memory: set "
                "spec.podTemplate.resources.limits.memory to the request or more"
            ),
        ),
        (
            {"min": {"cpu": "64"}},
            (
                "fits, but LimitRange limits demands 64 CPUs or more of each Container (min.cpu) and the pod requests "
                "2 CPUs: raise spec.podTemplate.resources.requests.cpu"
            ),
        ),
        (
            {"type": "Pod", "min": {"rdma/ib": "1"}},
            (
                "fits, but LimitRange limits demands 1 rdma/ib or more of each Pod (min.rdma/ib) and the pod states no "
                "request: raise spec.podTemplate.resources.requests.rdma/ib"
            ),
        ),
        (
            {"max": {"memory": "80Gi"}, "maxLimitRequestRatio": {"memory": "2"}},
            (
                "fits, but LimitRange limits allows each Container a limit of its request x 2 at most "
                "(maxLimitRequestRatio.memory) and the pod's is x 10: set spec.podTemplate.resources.limits.memory "
                "nearer to the request"
            ),
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            (
                "fits, but LimitRange limits allows each Container a limit of its request x 2 at most "
                "(maxLimitRequestRatio.cpu) and the pod states no limit: set spec.podTemplate.resources.limits.cpu "
                "nearer to the request"
            ),
        ),
    ],
)
def test_a_refusal_names_limit_range_field_figures_and_fix(item: dict[str, Any], sentence: str) -> None:
    decision = decided(limited(**item))
    assert (decision.pools, decision.missing) == ((), 1)
    assert on_one(decision) == sentence
    said = conditions(Report("x", 1, 1, decision=decision), {}, "2026-01-01T00:00:00Z")
    assert {each["type"]: each["reason"] for each in said}["Planned"] == "NoGpuFits"
    assert any(sentence in each["message"] for each in said)


def test_all_resources_that_are_refused_are_named() -> None:
    said = on_one(decided(limited(max={"cpu": "1", "memory": "1Gi"})))
    assert "(max.cpu)" in said
    assert "(max.memory)" in said
    assert said.index("max.cpu") < said.index(";") < said.index("max.memory")


def test_own_limits_are_proposed_where_defaults_are_too_small_and_they_work() -> None:
    wanted = limited(default=SMALL)
    (remedy,) = [each for each in decided(wanted).remedies if each.kind is RemedyKind.STATE_LIMITS]
    numbers = dict(remedy.numbers)
    assert remedy_sentence(remedy) == (
        f"set spec.podTemplate.resources.limits to {{cpu: 2, memory: 8Gi}}: it fits on {H100} then"
    )
    stated = replace(
        wanted,
        cpu_limit_millis=int(numbers["cpu_millis"]),
        memory_limit_bytes=int(numbers["memory_bytes"]),
    )
    assert decided(stated).missing == 0


def test_a_limit_alone_that_is_missing_is_proposed_alone() -> None:
    decision = decided(limited(type="Pod", max={"memory": "64Gi"}))
    (remedy,) = [each for each in decision.remedies if each.kind is RemedyKind.STATE_LIMITS]
    assert remedy.numbers == (("memory_bytes", 8 * GIB), ("gpu_type", H100))


@pytest.mark.parametrize("item", [{"max": {"memory": "1Gi"}}, {"min": {"cpu": "64"}}])
def test_no_change_is_proposed_that_would_not_help(item: dict[str, Any]) -> None:
    assert decided(limited(**item)).remedies == ()


def test_a_limit_range_that_admits_the_pods_changes_nothing() -> None:
    wide = limited(min={"cpu": "50m"}, max={"cpu": "64", "memory": "512Gi"})
    plain = replace(wide, limit_ranges=())
    assert decided(wide).pools == decided(plain).pools != ()


def test_places_are_judged_by_their_own_need() -> None:
    """Two GPUs keep the same weights in host memory, and each has a process: the pod needs more."""
    wanted = bounded(
        request(engine=replace(ENGINE, residency=CpuOffload(4 * GIB))),
        limit_range(max={"memory": "16Gi"}),
    )
    where = fleet(node("h", H100, 2))
    found = {
        each.target.split if isinstance(each, Option) else each.split: each for each in options(wanted, where).verdicts
    }
    assert isinstance(found[Split(1)], Option)
    two = found[Split(2)]
    assert not isinstance(two, Option)
    assert two.reason is Reason.LIMIT_RANGE_EXCEEDED


def test_a_neighbour_without_a_limit_range_is_placed_with_the_same_memo() -> None:
    memo, plain = Memo(), request(name="b")

    def missing(wanted: Request) -> dict[str, int]:
        decisions = plan([tenant(wanted), tenant(plain)], HERE, memo=memo)
        return {each.request.key.name: each.missing for each in decisions}

    assert missing(limited(default=SMALL)) == {"llama": 1, "b": 0}
    assert missing(limited(default={"cpu": "64", "memory": "64Gi"})) == {"llama": 0, "b": 0}
    assert missing(limited(default=SMALL)) == {"llama": 1, "b": 0}


@pytest.mark.parametrize("generation", [1, 2], ids=["the same spec", "another spec"])
def test_what_runs_stays_where_it_is_and_the_status_warns(generation: int) -> None:
    there = pool(H100)
    wanted = limited(default=SMALL)
    where = fleet(node("h", H100, 8, held=1), node("l", L40S, 4))
    (decision,) = plan([tenant(wanted, there, generation=generation)], where)
    (kept,) = decision.pools
    assert (kept.name, kept.replicas, kept.state, decision.missing) == (there.name, 1, PoolState.ACTIVE, 0)
    assert kept.choice is not None
    (warning,) = [each for each in decision.warnings if "LimitRange" in each]
    assert warning.startswith("What runs goes on, and a lost pod is not replaced: LimitRange limits gives a Container")


def test_an_update_ends_no_replica_before_one_that_would_be_refused_serves() -> None:
    full = fleet(node("h", H100, 1, held=1))
    (plain,) = plan([tenant(request(), pool(H100))], full)
    (refused,) = plan([tenant(limited(default=SMALL), pool(H100))], full)
    assert [plain.pools[0].surge, refused.pools[0].surge] == [False, True]


def test_replicas_that_are_added_are_refused_and_those_that_run_stay() -> None:
    (decision,) = plan([tenant(replace(limited(default=SMALL), replicas=3), pool(H100))], HERE)
    assert (sum(each.replicas for each in decision.pools), decision.missing) == (1, 2)
    assert Reason.LIMIT_RANGE_EXCEEDED in {each.reason for each in decision.rejections}


def test_a_place_that_was_decided_and_never_made_is_given_up() -> None:
    (decision,) = plan([tenant(limited(default=SMALL), pool(H100, exists=False, ready=0, bound=0))], HERE)
    assert (decision.pools, decision.missing) == ((), 1)


def test_a_request_that_a_limit_range_adds_must_be_free_on_the_node() -> None:
    wanted = limited(default={"ephemeral-storage": "100Gi"})
    assert wanted.other_resources == (("ephemeral-storage", 100 * GIB),)
    small = replace(
        node("l", L4, 1), host=HostRoom(64_000, 512 * GIB, 99, ()), host_free=HostRoom(64_000, 512 * GIB, 99, ())
    )
    (decision,) = plan([tenant(wanted)], fleet(small))
    assert Reason.NODE_LACKS_RESOURCE in {each.reason for each in decision.rejections}


def test_a_quota_counts_the_limits_that_a_limit_range_gives() -> None:
    wanted = limited(default={"cpu": "4", "memory": "16Gi"})
    left = {"limits.memory": 12 * GIB, "limits.cpu": 64_000}
    decision = decided(wanted, quotas={wanted.key.namespace: left})
    assert Reason.QUOTA_EXCEEDED in {each.reason for each in decision.rejections}
    served = decided(wanted, quotas={wanted.key.namespace: {**left, "limits.memory": 16 * GIB}})
    assert served.missing == 0
    assert not [each for each in served.warnings if "limits." in each], "the LimitRange gives both limits"


def test_larger_models_are_refused_by_the_number_of_gpus() -> None:
    (decision,) = plan([tenant(bounded(request(LLAMA_70B_FP8), limit_range(max={"nvidia.com/gpu": "1"})))], HERE)
    said = {each.split.gpus: rejection_sentence(each) for each in decision.rejections}
    assert "allows each Container 1 nvidia.com/gpu at most" in said[2]
