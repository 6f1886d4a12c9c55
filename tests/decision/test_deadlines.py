"""The moments at which an object must be planned again because time has passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.decision.outcome import Besides, UnderWay
from plimsoll.decision.results.deadlines import deadlines_of
from plimsoll.decision.surroundings import Surroundings, fails_there, held_back, read_pools
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.engines.failures import EngineFailure, PodRejection, StartFailure, tries_again_at
from plimsoll.domain.requests.weights import Weights, WeightsState, WeightsView
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.clocks import EarlierSettings, MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import Delay, FailedMove
from plimsoll.placement.demands.pools import Pool
from plimsoll.status.record.reading import read
from plimsoll.status.words.left_out import Coming
from tests.support.outcomes import deployment_of, outcome_of
from tests.support.planning import H100, pool

PASSING_SECONDS = 5.0

NOW = 1_800_000_000.0
GRACE = 60.0


def deadlines(*pools: Pool, pods: tuple[PodFacts, ...] = (), rejections: tuple[PodRejection, ...] = ()) -> list[float]:
    around = Surroundings(
        {"h100-sxm-80gb-tp1": pods}, {}, rejections={"h100-sxm-80gb-tp1": rejections} if rejections else {}
    )
    return list(deadlines_of(outcome_of(deployment_of(around=around, pools=pools)), GRACE, NOW))


def test_an_object_whose_pods_all_have_a_node_waits_for_nothing() -> None:
    assert deadlines(pool(H100)) == []


def test_gpus_kept_for_refused_pods_are_looked_at_soon_until_the_promise_is_over() -> None:
    assert deadlines(pool(H100, refused=True)) == [NOW + PASSING_SECONDS]
    assert deadlines(pool(H100), pool(H100, 2, refused=True)) == [NOW + PASSING_SECONDS]
    assert deadlines(pool(H100, promise_over=True)) == []
    assert deadlines(pool(H100, refused=True, promise_over=True)) == []


def test_the_end_of_a_move_and_of_a_pause_are_looked_at_just_after_them() -> None:
    move = MoveClock(("l4-24gb-tp1",), NOW - 10, NOW + 890, "s")
    failed = FailedMove("l4-24gb", Split(1), Delay("EngineCrashed"), at=NOW - 10, until=NOW + 5000, times=1, spec="s")
    end, again = deadlines_of(outcome_of(deployment_of(move=move, failed=(failed,))), GRACE, NOW)
    assert NOW + 890 < end == pytest.approx(NOW + 890, abs=1)
    assert NOW + 5000 < again == pytest.approx(NOW + 5000, abs=1)


def test_the_end_of_a_change_of_settings_and_of_the_time_of_an_update_are_looked_at_just_after_them() -> None:
    retune = RetuneClock((EarlierSettings("l4-24gb-tp1", StepLimits(sequences=8)),), NOW - 10, 900.0, "s")
    changes = UnderWay(retune, NOW + 890, (("l4-24gb-tp1", NOW + 50),))
    end, late = deadlines_of(outcome_of(under_way=changes), GRACE, NOW)
    assert NOW + 890 < end == pytest.approx(NOW + 890, abs=1)
    assert NOW + 50 < late == pytest.approx(NOW + 50, abs=1)


@pytest.mark.parametrize("again", [None, NOW + 70])
def test_a_copy_of_weights_that_failed_is_looked_at_just_after_it_is_tried_again(again: float | None) -> None:
    state = WeightsState.ARRIVING if again is None else WeightsState.FAILED
    waiting = deployment_of()
    waiting = replace(
        waiting, asked=replace(waiting.asked, weights=WeightsView(Weights("hf://a/b"), state, again_at=again))
    )
    found = list(deadlines_of(outcome_of(waiting), GRACE, NOW))
    assert found == ([] if again is None else [pytest.approx(again, abs=1)])
    assert all(again is not None and again < each for each in found)


def test_a_pod_without_a_node_is_looked_at_just_after_its_grace_period() -> None:
    running = PodFacts(name="a", bound=True, ready=True, ended=False, terminating=False)
    waiting = replace(running, name="b", bound=False, ready=False, unscheduled_since=NOW - 10)
    (due,) = deadlines(pods=(running, waiting))
    assert NOW - 10 + GRACE < due == pytest.approx(NOW - 10 + GRACE, abs=1)


def test_a_pod_that_is_deleted_counts_as_lost_after_the_time_that_it_has_to_end() -> None:
    """Until then its GPUs are waited for, and from then on others may be sought."""
    ending = PodFacts("a", bound=True, ready=False, ended=False, terminating=True, gone_by=NOW - 10)
    [due] = deadlines(pods=(ending,))
    recorded = {"name": "h100-sxm-80gb-tp1", "gpuType": H100, "tensorParallel": 1, "state": "Active", "replicas": 1}
    node = {"nodeSelector": {"gpu": "h100"}, "resource": "nvidia.com/gpu", "generation": 1, "readyReplicas": 0}
    record = read({"pools": [recorded | node]})
    stranded = replace(ending, name="b", bound=False, terminating=False, unscheduled_since=0.0)
    around = Surroundings({"h100-sxm-80gb-tp1": (ending, stranded)}, {})
    for now, is_waited_for in ((due - 1, True), (due, False)):
        [found] = read_pools(record, around, wanted=1, now=now, grace_seconds=GRACE)
        assert (found.stranded + found.stuck == 0) == is_waited_for


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [(StartFailure.DRIVER_TOO_OLD, 60), (StartFailure.OUT_OF_MEMORY, None)],
    ids=["of its node", "of any"],
)
def test_a_pod_that_fails_because_of_its_node_is_looked_at_when_that_is_certain(
    failure: StartFailure, seconds: int | None
) -> None:
    failing = PodFacts("a", bound=True, ready=False, ended=False, terminating=False, bound_since=NOW - 10)
    found = deadlines(pods=(replace(failing, failure=EngineFailure(failure, "words")),))
    assert found == ([] if seconds is None else [pytest.approx(NOW - 10 + seconds, abs=1)])
    assert all(fails_there(replace(failing, failure=EngineFailure(failure, "words")), due) for due in found)


def test_a_pod_behind_rejected_ones_is_looked_at_when_its_kubelet_has_had_the_time_to_reject_it() -> None:
    rejections = tuple(PodRejection(NOW - 100 + each, "h100-0", "Evicted", "") for each in range(3))
    bound = PodFacts("a", bound=True, ready=False, ended=False, terminating=False, bound_since=NOW - 1)
    [_, due] = deadlines(pool(H100), pods=(bound,), rejections=rejections)
    around = Surroundings({"h100-sxm-80gb-tp1": (bound,)}, {})
    assert [around.accepted("h100-sxm-80gb-tp1", at) for at in (NOW, due)] == [0, 1]
    assert deadlines(pool(H100), pods=(bound,)) == [], "nobody rejects its pods"


def test_pods_that_a_kubelet_rejects_are_looked_at_when_the_next_one_may_be_made() -> None:
    rejections = tuple(PodRejection(NOW - 2 + each, "h100-0", "Evicted", "") for each in range(3))
    [due] = deadlines(pool(H100), rejections=rejections)
    assert tries_again_at(rejections) < due < tries_again_at(rejections) + 1


def test_no_pod_is_held_back_from_the_moment_at_which_the_next_one_may_be_made() -> None:
    rejections = tuple(PodRejection(NOW - 2 + each, "h100-0", "Evicted", "") for each in range(3))
    around, again = Surroundings({}, {}, rejections={"h100-sxm-80gb-tp1": rejections}), tries_again_at(rejections)
    assert [held_back(around, pool(H100), at) for at in (again - 0.1, again)] == [0, None]


def test_the_moment_at_which_a_new_node_is_not_waited_for_any_more_is_looked_at() -> None:
    besides = Besides(coming=Coming("A node starts.", NOW + 60))
    (end,) = deadlines_of(outcome_of(besides=besides), GRACE, NOW)
    assert NOW + 60 < end == pytest.approx(NOW + 60, abs=1)
