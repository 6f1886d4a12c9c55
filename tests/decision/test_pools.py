"""The words about the pods of a pool, and which replicas others may move."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.decision.deployment import PlacedPools, RefusedWrite
from plimsoll.decision.memory import Memory, TurnMemo, neighbours_of, running_of
from plimsoll.decision.pools import delay_of, with_retune
from plimsoll.decision.supervisor import error_words
from plimsoll.decision.surroundings import Surroundings, fails_there, is_updating, read_pools
from plimsoll.decision.turns import LoopTurn
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.engines.failures import EngineFailure, PodRejection, StartFailure
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.clocks import EarlierSettings, RetuneClock
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.decisions import DecisionReason, Keep
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.status.record.reading import Record
from tests.api.manifests import deployment
from tests.support.outcomes import deployment_of, ready_of
from tests.support.planning import H100, L4, fleet, gpu, node, pool, request

CRASHED = EngineFailure(StartFailure.OUT_OF_MEMORY, "CUDA out of memory")
STARTS = PodFacts("starts", bound=True, ready=False, ended=False, terminating=False, node="h")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({}, "EngineOutOfMemory"), ({"ready": True}, "EnginesStarting"), ({"terminating": True}, "EnginesStarting")],
    ids=["starts", "serves", "ends"],
)
def test_a_pool_is_late_for_the_words_of_pods_that_should_serve_and_do_not(
    changed: dict[str, Any], reason: str
) -> None:
    failed = replace(STARTS, failure=CRASHED, restarts=1, **changed)
    late = pool(H100)
    around = Surroundings({late.name: (failed, replace(STARTS, name="other"))}, {})
    assert delay_of(late, around, None, 0.0).reason == reason


@pytest.mark.parametrize(("missing", "reason"), [(0, "EnginesStarting"), (1, "PodsNotCreated"), (2, "PodsNotCreated")])
def test_a_refusal_of_the_api_server_is_said_while_a_pod_is_missing(missing: int, reason: str) -> None:
    late = replace(pool(H100), replicas=2, uncreated=missing)
    refusal = RefusedWrite("create a pod", late.name, 403, "exceeded quota: gpus", since=0.0)
    said = delay_of(late, Surroundings({late.name: (STARTS,)}, {}), refusal, 0.0)
    assert said.reason == reason
    assert ("exceeded quota: gpus" in said.message) == bool(missing)


def test_others_may_move_replicas_on_nodes_at_the_price_of_all_their_gpus() -> None:
    """A type without a price, or one that the fleet has lost, costs nothing that is known."""
    pair, lost = pool(H100, 2), pool(L4)
    pods = (STARTS, replace(STARTS, name="ends", terminating=True), replace(STARTS, name="waits", node="", bound=False))
    given = deployment_of(
        resource=deployment(),
        around=Surroundings({pair.name: pods, lost.name: (replace(STARTS, node="l"),)}, {}),
        pools=(pair, lost),
    )
    listed = list(running_of([ready_of(given, request())], fleet(node("h", H100, 8))))
    price = gpu(H100).price
    assert price is not None
    assert [(each.node, each.price) for each in listed] == [("h", 2 * price.usd_per_hour), ("l", Decimal(0))]


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"restarts": 1}, False),
        ({"restarts": 2}, True),
        ({"bound_since": 940.1}, False),
        ({"bound_since": 940.0}, True),
        ({"restarts": 2, "ready": True}, False),
        ({"restarts": 2, "terminating": True}, False),
        ({"restarts": 2, "bound": False}, False),
        ({"restarts": 2, "failure": None}, False),
        ({"restarts": 2, "failure": CRASHED}, False),
    ],
    ids=str,
)
def test_a_place_is_given_up_after_two_restarts_or_a_minute(changed: dict[str, Any], *, fails: bool) -> None:
    failing = replace(STARTS, failure=EngineFailure(StartFailure.GPU_UNUSABLE, "uncorrectable ECC error"))
    assert fails_there(replace(failing, **changed), 1000.0) is fails


@pytest.mark.parametrize(("waited", "counted"), [(60.0, 0), (60.1, 1)])
@pytest.mark.parametrize("changed", [{}, {"terminating": True}, {"unscheduled_since": None}], ids=str)
def test_a_pod_is_stranded_once_it_has_been_without_a_node_for_longer_than_its_grace_period(
    waited: float, counted: int, changed: dict[str, Any]
) -> None:
    waits = replace(STARTS, node="", bound=False, unscheduled_since=1000.0 - waited)
    kept = pool(H100)
    around = Surroundings({kept.name: (replace(waits, **changed),)}, {})
    [seen] = read_pools(Record(pools=(kept,)), around, wanted=1, now=1000.0, grace_seconds=60.0)
    assert seen.stranded + seen.stuck == (0 if changed else counted)


@pytest.mark.parametrize(
    ("status", "updating"),
    [
        ({"observedGeneration": 3, "updatedReplicas": 2, "replicas": 2}, False),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2}, True),
        ({"observedGeneration": 3, "updatedReplicas": 1, "replicas": 1}, True),
        ({"observedGeneration": 3, "updatedReplicas": 2, "replicas": 3}, True),
        ({"observedGeneration": 4, "updatedReplicas": 3, "replicas": 3}, False),
        ({}, True),
        (None, True),
    ],
    ids=str,
)
def test_a_deployment_is_updated_until_its_controller_has_replaced_all_pods(
    status: dict[str, int] | None, *, updating: bool
) -> None:
    assert is_updating({"metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": status}) is updating
    assert not is_updating(None)
    assert not is_updating({"metadata": {}}), "nothing is wanted of it"


@pytest.mark.parametrize(("silent", "over"), [(59.9, False), (60.0, False), (60.1, True)])
def test_gpus_are_kept_for_refused_pods_for_a_minute(silent: float, *, over: bool) -> None:
    kept, refused = pool(H100), {pool(H100).name: 1000.0 - silent}
    around = Surroundings({}, {})
    [seen] = read_pools(Record(pools=(kept,)), around, wanted=1, now=1000.0, grace_seconds=30.0, refused_since=refused)
    assert (seen.refused, seen.promise_over) == (True, over)


@pytest.mark.parametrize(("later", "counted"), [(-1.0, 0), (0.0, 0), (1.0, 3)], ids=["before", "at once", "after"])
def test_rejections_count_from_the_moment_in_which_a_pod_has_come_up(later: float, counted: int) -> None:
    """Of a pod that is not ready, or of one that has no node, nobody can say that it has come up."""
    rejected = tuple(PodRejection(500.0 + later, f"h{index}", "OutOfgpu", "no room") for index in range(3))
    up = replace(STARTS, ready=True, bound_since=500.0)
    pods = (up, replace(up, ready=False, bound_since=900.0), replace(up, bound_since=None))
    around = Surroundings({"p": pods}, {}, rejections={"p": rejected})
    assert len(around.rejecting("p", 1, 1000.0)) == counted
    assert len(Surroundings({}, {}, rejections={"p": rejected}).rejecting("p", 1, 1000.0)) == 3


@pytest.mark.parametrize(("accepted", "stranded"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_replicas_that_kubelets_reject_are_those_that_none_has_accepted(accepted: int, stranded: int) -> None:
    """An update may have one pod more than there are replicas."""
    kept = pool(H100, replicas=2)
    rejected = tuple(PodRejection(900.0, f"h{index}", "OutOfgpu", "no room") for index in range(6))
    up = replace(STARTS, ready=True, bound_since=500.0)
    around = Surroundings({kept.name: (up,) * accepted}, {}, rejections={kept.name: rejected})
    [seen] = read_pools(Record(pools=(kept,)), around, wanted=2, now=1000.0, grace_seconds=60.0)
    assert (seen.stranded, bool(seen.bad_nodes)) == (stranded, stranded > 0)


def test_a_deployment_can_do_without_none_if_fewer_serve_than_it_keeps() -> None:
    none_serves = ready_of(deployment_of(resource=deployment(), around=Surroundings({}, {})), request())
    assert list(neighbours_of([none_serves], fleet(node("h", H100, 8)), 0.0).spare.values()) == [0]


def changing(now: float, replicas: int, *pods: PodFacts, stranded: int = 0) -> PlacedPools:
    """A pool whose engines got other settings at second 1,000, and have 900 s until the next replica must serve."""
    placed = replace(pool(H100), replicas=replicas, stranded=stranded, failing=1)
    asked = deployment_of()
    clock = RetuneClock(
        (EarlierSettings(placed.name, StepLimits(sequences=8)),), 1000.0, 900.0, asked.identity.digests.engine
    )
    around = Surroundings({placed.name: pods}, {})
    return with_retune(PlacedPools(around, (placed,)), asked.identity, Record(retune=clock), None, now)


@pytest.mark.parametrize(("replicas", "is_under_way"), [(0, False), (1, True)])
def test_other_settings_are_waited_for_while_one_replica_is_wanted(replicas: int, *, is_under_way: bool) -> None:
    found = changing(1000.0, replicas)
    assert (found.retune is not None, found.retune_due) == (is_under_way, 1900.0 if is_under_way else None)


@pytest.mark.parametrize(
    ("inputs", "ready", "is_open"), [("new", 1, False), ("new", 0, True), ("old", 1, True), ("old", 0, True)]
)
def test_other_settings_are_waited_for_until_an_engine_serves_whose_template_was_made_from_them(
    inputs: str, ready: int, *, is_open: bool
) -> None:
    """The controller has replaced all pods."""
    kept, asked = replace(pool(H100), ready=ready), deployment_of()
    clock = RetuneClock(
        (EarlierSettings(kept.name, StepLimits(sequences=8), inputs="old"),),
        1000.0,
        900.0,
        asked.identity.digests.engine,
    )
    body = {
        "metadata": {"generation": 1, "annotations": {INPUTS_ANNOTATION: inputs}},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "updatedReplicas": 1, "replicas": 1},
    }
    placed = PlacedPools(Surroundings({}, {kept.name: body}), (kept,))
    found = with_retune(placed, asked.identity, Record(retune=clock), None, 1000.0)
    assert (found.retune is not None) is is_open


@pytest.mark.parametrize(("bound_since", "due"), [(999.9, 1900.0), (1000.0, 2100.0), (None, 1900.0)])
def test_a_replica_that_was_started_after_the_change_and_serves_begins_the_time_of_the_next_one(
    bound_since: float | None, due: float
) -> None:
    serves = replace(STARTS, ready=True, ready_since=1200.0, bound_since=bound_since)
    assert changing(1300.0, 2, serves).retune_due == due
    assert changing(1300.0, 2, replace(serves, ready=False)).retune_due == 1900.0


@pytest.mark.parametrize(("now", "is_late"), [(1899.9, False), (1900.0, True)])
def test_other_settings_are_late_from_the_second_in_which_they_must_serve(now: float, *, is_late: bool) -> None:
    [late] = changing(now, 2).pools
    assert (late.overdue, late.failing) == (is_late, 0)


@pytest.mark.parametrize(("ending", "counted"), [(False, 1), (True, 2)])
def test_the_pod_that_an_update_starts_first_is_no_stranded_replica(*, ending: bool, counted: int) -> None:
    """Two replicas find no node. Where a third pod is there that stays, one of the two is more than wanted."""
    pods = (STARTS, replace(STARTS, name="b"), replace(STARTS, name="c", terminating=ending))
    [found] = changing(1000.0, 2, *pods, stranded=2).pools
    assert found.stranded == counted


def test_of_long_words_of_others_the_beginning_is_quoted() -> None:
    long = "x" * 1000
    assert error_words(ValueError(long)) == f"ValueError: {long}"[:300]
    assert (
        RefusedWrite("write it", "", 403, long, 0.0).sentence() == f"The API server refused to write it: {long[:800]}"
    )
    failing = replace(STARTS, failure=EngineFailure(StartFailure.OUT_OF_MEMORY, long))
    around = Surroundings({pool(H100).name: (failing,)}, {})
    assert delay_of(pool(H100), around, None, 0.0).message == long[:600]


def test_the_estimate_of_what_runs_follows_the_pools() -> None:
    """It is kept while request, fleet and pools are the same objects."""
    memory, where, asked = Memory(), fleet(node("h", H100, 8), node("l", L4, 1)), request()
    found = [
        memory.figures(ready_of(deployment_of(resource=deployment(), pools=(each,)), asked), where)
        for each in (pool(H100), pool(L4), pool(H100))
    ]
    fresh = [
        Memory().figures(ready_of(deployment_of(resource=deployment(), pools=(each,)), asked), where)
        for each in (pool(H100), pool(L4))
    ]
    assert found == [*fresh, fresh[0]]
    assert fresh[0] != fresh[1]


@pytest.mark.parametrize(
    ("later", "repeated"),
    [(0.0, True), (9.9, True), (10.0, False), (-0.1, False)],
    ids=["now", "soon", "later", "set back"],
)
def test_a_turn_is_repeated_for_less_than_ten_seconds_and_never_by_a_clock_that_was_set_back(
    later: float, *, repeated: bool
) -> None:
    memo, asked, reading = TurnMemo(), ready_of(deployment_of(resource=deployment()), request()), Reading()
    turn = LoopTurn(asked.standing, Keep(DecisionReason.WITHIN_BAND))
    memo.keep(asked, None, reading, (), turn, 1000.0)
    assert (memo.recall(asked, None, reading, (), 1000.0 + later) is turn) is repeated
    assert memo.recall(asked, None, replace(reading, state=SignalState.UNAVAILABLE), (), 1000.0) is None
    assert memo.memories == {asked.deployment.identity.uid: asked.standing.memory}
    memo.keep_only(())
    assert memo.recall(asked, None, reading, (), 1000.0) is None
    assert memo.memories == {}
