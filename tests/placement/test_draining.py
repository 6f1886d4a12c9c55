"""How long running requests may finish when a pod ends: the figure, and how a pool keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Request, ServingShape
from plimsoll.domain.requests.workload import PRE_STOP_SECONDS
from plimsoll.placement.demands import draining
from plimsoll.placement.demands.draining import drain_seconds
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, PoolState, SeenAnswers, Tenant
from plimsoll.placement.options.speed import speed_of
from plimsoll.placement.plan import plan
from plimsoll.rebalance.remedies.retune import retuned
from plimsoll.render.pods import STOP_RESERVE_SECONDS
from tests.support.planning import H100, L4, L40S, LLAMA_70B_FP8, fleet, node, pool, request
from tests.support.tables import every_case

LEAST_SECONDS = 90
LONGEST_OVER_MEAN = 6.0
MOST_SECONDS = 570
STEP_SECONDS = 30

PLACE = "h100-sxm-80gb-tp1"
WHERE = fleet(node("h", H100, 8))
LONG = SeenAnswers(8000, PLACE)


def placed(wanted: Request, seen: SeenAnswers | None = None, *pools: Pool, **more: Any) -> PlannedPool:
    """The first pool of a deployment on H100s."""
    fields: dict[str, Any] = {"generation": 1, "spec": "same"}
    (decision,) = plan([Tenant(wanted, pools=pools, answers=seen, **fields | more)], WHERE)
    return decision.pools[0]


def choice(wanted: Request | None = None) -> Option:
    found = placed(wanted or usual()).choice
    assert found is not None
    return found


def usual(**more: Any) -> Request:
    return request(context=16_384, concurrency=16, **more)


def at_full_batch(wanted: Request, option: Option) -> float:
    found = speed_of(wanted, option.gpu, option.split, option.settings, option.settings.max_num_seqs)
    assert found is not None
    return found.tpot_seconds


# -- the figure --------------------------------------------------------------------------------------------------------


@every_case("mean", [1250, 1500, 2000])
@every_case("slowness", [1.0, 1.5])
def test_a_long_answer_has_the_time_that_it_takes_at_a_full_batch(mean: int, slowness: float) -> None:
    option = choice()
    needed = LONGEST_OVER_MEAN * mean * at_full_batch(usual(), option) * slowness
    assert LEAST_SECONDS < needed < MOST_SECONDS
    seconds = drain_seconds(usual(), option, SeenAnswers(mean, PLACE, slowness))
    assert needed <= seconds <= needed + 2 * STEP_SECONDS
    assert seconds % STEP_SECONDS == 0


def test_short_answers_get_no_less_than_before_and_long_ones_no_more_than_a_node_waits() -> None:
    option = choice(replace(usual(), shape=ServingShape(131_072, 1)))
    wanted = replace(usual(), shape=ServingShape(131_072, 1))
    assert drain_seconds(wanted, option, SeenAnswers(1, PLACE)) == LEAST_SECONDS
    assert drain_seconds(wanted, option, SeenAnswers(100_000, PLACE, 3.0)) == MOST_SECONDS
    assert PRE_STOP_SECONDS + MOST_SECONDS + STOP_RESERVE_SECONDS == 600


def test_no_answer_is_longer_than_the_context() -> None:
    option = choice()
    full = drain_seconds(usual(), option, SeenAnswers(16_384 / LONGEST_OVER_MEAN, PLACE))
    assert drain_seconds(usual(), option, SeenAnswers(16_384, PLACE)) == full < MOST_SECONDS


def test_before_anything_is_learned_the_declared_lengths_count_and_else_the_context() -> None:
    declared = {mean: usual_with_answers(mean) for mean in (100, 2000)}
    short, long = (drain_seconds(wanted, choice(), None) for wanted in declared.values())
    assert short == LEAST_SECONDS < long
    narrow, wide = (request(context=tokens, concurrency=16) for tokens in (2048, 65_536))
    assert drain_seconds(narrow, choice(narrow)) < drain_seconds(wide, choice())


def usual_with_answers(mean: int) -> Request:
    shape = ServingShape(16_384, 16, expected_prompt_tokens=1000, expected_output_tokens=mean)
    return replace(usual(), shape=shape)


def test_what_was_seen_counts_more_than_what_was_declared() -> None:
    wanted = usual_with_answers(2000)
    assert drain_seconds(wanted, choice(), SeenAnswers(100, PLACE)) < drain_seconds(wanted, choice())


def test_a_speed_that_was_measured_on_another_pool_says_nothing_of_this_one() -> None:
    here, elsewhere = SeenAnswers(1500, PLACE, 2.0), SeenAnswers(1500, "l4-24gb-tp2", 2.0)
    assert drain_seconds(usual(), choice(), elsewhere) < drain_seconds(usual(), choice(), here)
    assert drain_seconds(usual(), choice(), elsewhere) == drain_seconds(usual(), choice(), SeenAnswers(1500))


def test_where_the_speed_is_not_known_a_reading_person_s_patience_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    option = choice()
    monkeypatch.setattr(draining, "speed_of", lambda *_: None)
    assert drain_seconds(usual(), option, SeenAnswers(500, PLACE)) == 330, "5 s and 3,000 tokens of 0.1 s"


def test_a_batch_is_no_fuller_than_the_cache_allows() -> None:
    fixed = usual(engine=replace(usual().engine, max_sequences=4096))
    option = choice(fixed)
    assert option.settings.max_num_seqs == 4096
    assert drain_seconds(fixed, option, SeenAnswers(1500, PLACE)) <= 2 * drain_seconds(usual(), choice(), LONG)


# -- what a pool keeps -------------------------------------------------------------------------------------------------


def test_a_new_pool_gets_what_was_decided() -> None:
    found = placed(usual(), LONG)
    assert found.choice is not None
    assert found.drain_seconds == drain_seconds(usual(), found.choice, LONG)
    assert (found.drain_seconds or 0) > LEAST_SECONDS


@pytest.mark.parametrize("known", [None, 90, 120, 570])
def test_what_runs_keeps_its_seconds_whatever_is_learned(known: int | None) -> None:
    running = pool(H100, drain_seconds=known, spec="same")
    for seen in (None, LONG, SeenAnswers(5, PLACE)):
        assert placed(usual(), seen, running).drain_seconds == known


@pytest.mark.parametrize("known", [None, 90])
def test_more_replicas_and_other_bounds_restart_nothing(known: int | None) -> None:
    running = pool(H100, drain_seconds=known, spec="same")
    kept = placed(replace(usual(), replicas=3), LONG, running, generation=2)
    assert (kept.replicas, kept.drain_seconds) == (3, known)


@pytest.mark.parametrize("known", [None, 90])
def test_a_pool_of_an_unknown_spec_keeps_its_seconds(known: int | None) -> None:
    """The status was lost, or an earlier release wrote it."""
    lost = pool(H100, drain_seconds=known, spec="", generation=0)
    assert placed(usual(), LONG, lost).drain_seconds == known


def test_with_another_spec_the_seconds_grow_where_they_are_too_few() -> None:
    fresh = placed(usual(), LONG).drain_seconds
    for known in (None, 90, 120):
        running = pool(H100, drain_seconds=known, spec="other")
        assert placed(usual(), LONG, running, generation=2).drain_seconds == fresh


@pytest.mark.parametrize(("known", "seen"), [(570, LONG), (None, SeenAnswers(5, PLACE)), (90, SeenAnswers(5, PLACE))])
def test_with_another_spec_they_stay_where_they_are_enough(known: int | None, seen: SeenAnswers) -> None:
    running = pool(H100, drain_seconds=known, spec="other")
    assert placed(usual(), seen, running, generation=2).drain_seconds == known


@pytest.mark.parametrize(("known", "seen"), [(90, LONG), (570, SeenAnswers(5, PLACE)), (None, LONG)])
def test_engines_that_restart_for_more_requests_get_new_seconds(known: int | None, seen: SeenAnswers) -> None:
    running = pool(H100, drain_seconds=known, limits=StepLimits(sequences=16), spec="same")
    before = Tenant(usual(), 1, (running,), answers=seen, spec="same")
    (decision,) = plan([retuned(before, StepLimits(sequences=48))], WHERE)
    [tuned] = decision.pools
    assert tuned.choice is not None
    assert tuned.sequences == 48
    assert tuned.drain_seconds == drain_seconds(usual(), tuned.choice, seen) != known


def test_an_old_pool_that_serves_on_keeps_its_seconds_and_the_new_one_has_its_own() -> None:
    retiring = pool(L4, degree=2, drain_seconds=330, state=PoolState.RETIRING, spec="other")
    (decision,) = plan(
        [Tenant(usual(constraints=GpuConstraints(deny=(L4,))), 2, (retiring,), answers=LONG, spec="same")],
        fleet(node("h", H100, 8), node("l", L4, 8, held=2)),
    )
    assert by_type(decision)[L4] == 330
    assert by_type(decision)[H100] not in (330, None)


def test_a_pool_that_is_left_and_used_again_is_not_restarted_for_its_seconds() -> None:
    again = pool(H100, drain_seconds=330, state=PoolState.RETIRING, spec="same", generation=2)
    assert placed(usual(), SeenAnswers(5, PLACE), again, generation=2).drain_seconds == 330


def by_type(decision: Decision) -> dict[str, int | None]:
    return {each.gpu_type: each.drain_seconds for each in decision.pools}


def test_deployments_side_by_side_have_their_own_seconds() -> None:
    slow = replace(request(LLAMA_70B_FP8, context=32_768, concurrency=8), key=ObjectKey("ml", "slow"))
    quick = request(context=2048, concurrency=4)
    decisions = plan([Tenant(slow, 1), Tenant(quick, 1)], fleet(node("h", H100, 8), node("l", L40S, 8)))
    seconds = {each.request.key.name: each.pools[0].drain_seconds for each in decisions}
    assert seconds[quick.key.name] == LEAST_SECONDS
    assert (seconds["slow"] or 0) > LEAST_SECONDS
