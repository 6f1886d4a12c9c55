"""Each kind of diagnosis, with its numbers. No bound of the policy takes part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.latency import Slo
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.law.capacity import ReplicaModel
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import PodState, SignalState
from plimsoll.rebalance.state.decisions import DecisionReason, Keep
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, moments, pod, replica_model, summary
from tests.support.live_situations import BUSY, EASY, IDLE, enough_for, loads_of, situation

SHUT = RebalancePolicy(min_replicas=2, max_replicas=2, changes_per_hour=0, reversals_per_hour=0)
"""Neither a replica more nor one less is allowed, and no change at all: a diagnosis knows no bounds."""
FULL = replace(EASY, rate=1.0, kv_usage=0.99, running=250)
NEED = DeclaredNeed(kv_tokens=500, bytes_per_gpu=60)


def found(*loads: Serves, **changed: Any) -> Diagnosis:
    facts: dict[str, Any] = {"policy": SHUT, "need": NEED}
    return _of(situation(*(loads or (EASY, EASY)), **facts | changed))


def _of(where: Situation) -> Diagnosis:
    look = judged(where)
    return diagnose(replace(where, memory=look.memory), look)


def kind_and_reason(*loads: Serves, **changed: Any) -> tuple[DiagnosisKind, DecisionReason]:
    diagnosis = found(*loads, **changed)
    return diagnosis.kind, diagnosis.reason


HEALTHY = DiagnosisKind.NOTHING_TO_CHANGE, DecisionReason.WITHIN_BAND
ENGINES = loads_of(EASY, EASY)
NOTHING = LoadSummary(SignalState.UNAVAILABLE)


def test_a_load_that_its_replicas_carry_is_healthy_and_has_its_figures() -> None:
    diagnosis = found(replace(EASY, rate=15.0), replace(EASY, rate=15.0))
    assert (diagnosis.kind, diagnosis.reason) == HEALTHY
    numbers = dict(diagnosis.numbers)
    assert (numbers["replicas"], numbers["needed"], numbers["waiting"]) == (2, 2, 0)
    assert (numbers["arrivals_per_minute"], numbers["prompt_tokens"], numbers["output_tokens"]) == (1800, 1000, 200)


# -- bounds and declarations -------------------------------------------------------------------------------------------


def test_one_replica_fewer_than_the_minimum_is_too_few_whatever_the_signals() -> None:
    for load in (ENGINES, NOTHING):
        assert found(load=load, policy=RebalancePolicy(min_replicas=3, max_replicas=4)) == Diagnosis(
            DiagnosisKind.TOO_FEW_REPLICAS,
            DecisionReason.BELOW_MIN_REPLICAS,
            (("replicas", 2), ("min", 3), ("max", 4)),
            3,
        )


def test_one_replica_more_than_the_maximum_is_too_many_whatever_the_signals() -> None:
    for load in (ENGINES, NOTHING):
        assert found(load=load, replicas=3) == Diagnosis(
            DiagnosisKind.TOO_MANY_REPLICAS,
            DecisionReason.ABOVE_MAX_REPLICAS,
            (("replicas", 3), ("min", 2), ("max", 2)),
            2,
        )


def test_an_engine_with_one_token_less_than_declared_has_outgrown_its_place() -> None:
    small = replace(ENGINES, smallest_capacity_tokens=499)
    assert found(load=small) == Diagnosis(
        DiagnosisKind.OUTGROWN,
        DecisionReason.PLACEMENT_TOO_SMALL,
        (("held_tokens", 499), ("needed_tokens", 500)),
    )
    assert found(load=replace(small, smallest_capacity_tokens=500)).kind is not DiagnosisKind.OUTGROWN


def test_an_estimate_that_outgrew_its_gpu_needs_no_metrics_and_engines_refute_it() -> None:
    outgrown = DiagnosisKind.OUTGROWN, DecisionReason.NEED_OUTGREW_PLACEMENT
    large = replace(NEED, bytes_per_gpu=81)
    assert kind_and_reason(load=NOTHING, need=large) == outgrown
    assert kind_and_reason(load=NOTHING, need=replace(NEED, bytes_per_gpu=80))[0] is not DiagnosisKind.OUTGROWN
    assert kind_and_reason(need=large)[0] is not DiagnosisKind.OUTGROWN, "engines that serve hold what is declared"
    forced = replace(large, kv_tokens=0)
    assert kind_and_reason(need=forced) == outgrown, "an admin's figure is not refuted by engines"


# -- more --------------------------------------------------------------------------------------------------------------

SLOW_HOST = replace(replica_model(), slo=Slo(None, 0.02))
SLOW_HOST = replace(SLOW_HOST, costs=replace(SLOW_HOST.costs, sequence_seconds=20 * SLOW_HOST.costs.sequence_seconds))
"""The time per token is the limit here as well, and the CPU spends most of it on each request of a step."""

LONG_PROMPTS = Serves(rate=9.0, prompt=6000, kv_usage=0.01, running=30, capacity=10**7)


@pytest.mark.parametrize(
    ("model", "load", "kind"),
    [
        (replica_model(), BUSY, DiagnosisKind.BATCH_BOUND),
        (replica_model(kv_tokens=20_000), replace(BUSY, capacity=20_000), DiagnosisKind.KV_BOUND),
        (replace(replica_model(), slo=Slo(None, 0.02)), BUSY, DiagnosisKind.DECODE_BOUND),
        (SLOW_HOST, BUSY, DiagnosisKind.HOST_BOUND),
        (replace(replica_model(kv_tokens=10**7), slo=Slo(1.0, None)), LONG_PROMPTS, DiagnosisKind.PREFILL_BOUND),
    ],
    ids=lambda each: each.value if isinstance(each, DiagnosisKind) else "",
)
def test_what_limits_a_replica_is_named(model: ReplicaModel, load: Serves, kind: DiagnosisKind) -> None:
    diagnosis = found(load, load, model=model)
    assert (diagnosis.kind, diagnosis.reason) == (kind, DecisionReason.ARRIVALS_EXCEED_CAPACITY)
    assert diagnosis.replicas > 2
    numbers = dict(diagnosis.numbers)
    assert numbers["needed"] == diagnosis.replicas
    assert int(numbers["capacity_per_minute"]) * 2 < int(numbers["arrivals_per_minute"])
    assert 50 < int(numbers["start_percent"]) < 100


def test_a_need_that_is_none_of_arrivals_says_no_part_at_which_another_replica_is_started() -> None:
    assert "start_percent" not in dict(found(FULL, FULL, model=replica_model()).numbers)


def test_a_full_cache_is_named_whatever_else_is_known() -> None:
    for model in (replica_model(), None):
        assert kind_and_reason(FULL, FULL, model=model) == (
            DiagnosisKind.KV_BOUND,
            DecisionReason.SUSTAINED_KV_PRESSURE,
        )


def test_a_queue_without_a_known_speed_is_named() -> None:
    queued = replace(EASY, waiting=9)
    assert kind_and_reason(queued, queued, model=None) == (DiagnosisKind.QUEUE_BOUND, DecisionReason.SUSTAINED_QUEUE)
    for young in (NOW - 5, None):
        assert found(queued, queued, model=None, settled_since=young).kind is not DiagnosisKind.QUEUE_BOUND
    slowly = summary(*(pod(f"p{index}", queued, moments(every=60)) for index in range(2)))
    for seconds, is_queue in ((170, False), (190, True)):
        at = found(queued, queued, load=slowly, model=None, settled_since=NOW - seconds)
        assert (at.kind is DiagnosisKind.QUEUE_BOUND) == is_queue, "three scrapes a minute apart"
    starting = {"model": None, "replicas": 3, "policy": replace(SHUT, max_replicas=3)}
    assert found(queued, queued, **starting).kind is not DiagnosisKind.QUEUE_BOUND
    assert found(queued, queued, **starting, new_replicas=1).kind is not DiagnosisKind.NOTHING_TO_CHANGE


def test_a_backlog_is_named() -> None:
    queued = replace(EASY, rate=19.0, waiting=4000)
    young = {"settled_since": NOW - 5, "memory": LoopMemory(startup_seconds=60.0)}
    assert kind_and_reason(queued, queued, **young)[1] is DecisionReason.BACKLOG_TOO_LONG
    assert kind_and_reason(EASY, EASY)[1] is not DecisionReason.BACKLOG_TOO_LONG
    for seconds, is_left in ((50.0, False), (89.0, False), (91.0, True)):
        starting = tuple(9 * [NOW - seconds])
        named = found(queued, queued, **young, starting_since=starting).reason is DecisionReason.BACKLOG_TOO_LONG
        assert named is is_left, "replicas that start serve it soon, and stuck ones never do"


def test_replicas_that_start_are_supply() -> None:
    wanted = found(BUSY, BUSY).replicas
    policy = RebalancePolicy(min_replicas=1, max_replicas=20)
    for replicas, more in ((wanted - 1, True), (wanted, False), (wanted + 1, False)):
        diagnosis = found(BUSY, BUSY, replicas=replicas, policy=policy, starting_since=(NOW - 60,))
        assert (diagnosis.reason is DecisionReason.ARRIVALS_EXCEED_CAPACITY) is more


def test_a_stuck_replica_is_no_supply() -> None:
    policy, memory = RebalancePolicy(max_replicas=20), LoopMemory(startup_seconds=100.0)
    busy = replace(BUSY, rate=42.0)
    wanted = found(busy, busy).replicas
    late, usual = NOW - memory.stuck_after_seconds - 1, NOW - memory.stuck_after_seconds + 1
    where = {"replicas": wanted, "policy": policy, "memory": memory}
    stuck = found(busy, busy, **where, starting_since=(late, usual))
    assert (stuck.kind, stuck.reason) == (DiagnosisKind.STUCK_REPLICA, DecisionReason.REPLICAS_STUCK)
    assert (stuck.replicas, dict(stuck.numbers)["stuck"]) == (wanted + 1, 1)
    assert found(busy, busy, **where, starting_since=(usual, usual)).kind is not DiagnosisKind.STUCK_REPLICA
    easy = found(EASY, EASY, **where, starting_since=(late, usual))
    assert easy.kind is not DiagnosisKind.STUCK_REPLICA, "nobody misses it"


@pytest.mark.parametrize(
    ("seen", "seconds", "failing", "first", "stuck"),
    [
        (None, 520.0, False, 900.0, 0),  # nobody knows how long a first start takes
        (None, 520.0, True, 900.0, 1),  # its engine has failed, so it does not go on
        (None, 899.0, False, 900.0, 0),
        (None, 901.0, False, 900.0, 1),
        (None, 901.0, True, 900.0, 1),  # counted once
        (None, 901.0, False, 5000.0, 0),  # more weights to load
        (100.0, 151.0, False, 5000.0, 1),  # a start was seen
        (100.0, 149.0, True, 5000.0, 0),
    ],
)
def test_a_first_start_has_the_time_of_a_move_unless_its_engine_failed(
    seen: float | None,
    seconds: float,
    failing: bool,  # noqa: FBT001 - a column
    first: float,
    stuck: int,
) -> None:
    since = (NOW - seconds,)
    where: dict[str, Any] = {
        "starting_since": since,
        "failing_since": since if failing else (),
        "first_start_seconds": first,
    }
    assert situation(EASY, replicas=2, memory=LoopMemory(startup_seconds=seen), **where).stuck == stuck


# -- what is not known -------------------------------------------------------------------------------------------------


def test_a_pod_that_is_unknown_carries_its_own_load_and_no_other() -> None:
    """Two of three are known. Those two need two, so three are enough and none is superfluous."""
    half = replace(
        loads_of(EASY, EASY),
        state=SignalState.MISSING,
        pods=(*loads_of(EASY, EASY).pods, PodState("z", SignalState.MISSING)),
    )
    policy = RebalancePolicy(max_replicas=20)
    with_one_unknown = found(EASY, EASY, load=half, replicas=3, ready=3, policy=policy)
    assert (with_one_unknown.kind, with_one_unknown.reason) == (
        DiagnosisKind.NOT_DIAGNOSED,
        DecisionReason.METRICS_MISSING,
    )
    busy = replace(half, traffic=loads_of(BUSY, BUSY).traffic)
    more = found(EASY, EASY, load=busy, replicas=3, ready=3, policy=policy)
    assert more.replicas == found(BUSY, BUSY, policy=policy).replicas + 1


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (SignalState.STALE, DecisionReason.METRICS_STALE),
        (SignalState.MISSING, DecisionReason.METRICS_MISSING),
        (SignalState.INVALID, DecisionReason.METRICS_INVALID),
        (SignalState.COLD, DecisionReason.WINDOW_NOT_COVERED),
        (SignalState.UNAVAILABLE, DecisionReason.METRICS_UNAVAILABLE),
    ],
)
def test_a_pod_that_is_unknown_holds_up_slack_and_the_all_clear(state: SignalState, reason: DecisionReason) -> None:
    known = loads_of(IDLE)
    load = replace(known, state=state, pods=(*known.pods, PodState("z", state, 70.9)))
    diagnosis = found(IDLE, IDLE, load=load, memory=enough_for(1, 9999))
    assert (diagnosis.kind, diagnosis.reason) == (DiagnosisKind.NOT_DIAGNOSED, reason)
    assert diagnosis.numbers == (("fresh", 1), ("ready", 2), ("pod", "z"), ("age_seconds", 70))


def test_nobody_ready_is_said_with_the_number() -> None:
    assert found(load=LoadSummary(SignalState.MISSING), replicas=2, ready=0) == Diagnosis(
        DiagnosisKind.NOT_DIAGNOSED,
        DecisionReason.REPLICAS_STARTING,
        (("replicas", 2), ("ready", 0), ("startup_seconds", 300)),
    )


def test_a_ready_pod_that_nobody_knows_is_missing_without_a_name() -> None:
    diagnosis = found(EASY, EASY, load=loads_of(EASY))
    assert diagnosis.reason is DecisionReason.METRICS_MISSING
    assert diagnosis.numbers == (("fresh", 1), ("ready", 2), ("pod", ""))
    nobody = found(EASY, EASY, load=NOTHING)
    assert (nobody.reason, dict(nobody.numbers)["pod"]) == (DecisionReason.METRICS_UNAVAILABLE, "")


# -- one of several ----------------------------------------------------------------------------------------------------


def test_a_queue_at_one_replica_while_nobody_waits_at_the_others_is_a_matter_of_routing() -> None:
    idle, held = replace(EASY, rate=0.1, running=0), replace(EASY, rate=0.1, running=0, waiting=5)
    diagnosis = found(idle, held)
    assert (diagnosis.kind, diagnosis.reason) == (DiagnosisKind.IMBALANCED, DecisionReason.LOAD_IMBALANCED)
    assert dict(diagnosis.numbers)["pod_waiting"] == 5
    waits = replace(idle, waiting=2)
    four = found(held, waits, idle, idle, policy=RebalancePolicy(min_replicas=1, max_replicas=9))
    assert four.kind is DiagnosisKind.IMBALANCED, "fewer than one waits at each of the others"
    one = {"policy": RebalancePolicy(min_replicas=1, max_replicas=1)}
    for why, loads, changed in (
        ("a shorter queue", (idle, replace(held, waiting=4.9)), {}),
        ("the other has a queue, too", (replace(idle, waiting=1), held), {}),
        ("there is no other, and its queue is left of its start", (held,), one | {"settled_since": NOW - 1}),
    ):
        assert found(*loads, **changed).reason is not DecisionReason.LOAD_IMBALANCED, why


# -- the batch limit ---------------------------------------------------------------------------------------------------

NARROW = replica_model(max_sequences=16)
FILLED = Serves(rate=2.2, running=15, kv_usage=0.05)
"""With sixteen requests at the same time a replica carries a little more; with more of them, much more."""


def test_a_batch_limit_that_binds_is_named_before_it_is_too_late() -> None:
    loads = 4 * (FILLED,)
    four = {"policy": RebalancePolicy(min_replicas=4, max_replicas=4)}
    diagnosis = found(*loads, model=NARROW, **four)
    assert (diagnosis.kind, diagnosis.reason) == (DiagnosisKind.BATCH_BOUND, DecisionReason.BATCH_LIMIT_BINDS)
    others = {
        "the limit does not bind": {"model": replica_model()},
        "no higher one is possible": {"model": NARROW, "most_sequences": 16},
        "nobody knows the highest one": {"model": NARROW, "most_sequences": None},
        "nobody knows the speed": {"model": None},
    }
    for why, changed in others.items():
        assert found(*loads, **changed, **four).reason is not DecisionReason.BATCH_LIMIT_BINDS, why  # type: ignore[arg-type]
    for running, binds in ((12, True), (11.9, False)):
        partly = 4 * (replace(FILLED, rate=2.6, running=running),)
        reason = found(*partly, model=replica_model(max_sequences=20), **four).reason
        assert (reason is DecisionReason.BATCH_LIMIT_BINDS) is binds, "60 % of the limit, or less"


# -- less --------------------------------------------------------------------------------------------------------------


def test_fewer_replicas_that_have_been_enough_for_the_time_make_some_superfluous() -> None:
    policy = replace(SHUT, cooldown_seconds=600)
    diagnosis = found(EASY, IDLE, policy=policy, memory=enough_for(1, 600))
    assert (diagnosis.kind, diagnosis.reason, diagnosis.replicas) == (
        DiagnosisKind.IDLE,
        DecisionReason.SUSTAINED_SLACK,
        1,
    )
    assert dict(diagnosis.numbers)["enough"] == 1
    assert found(EASY, IDLE, policy=policy, memory=enough_for(1, 500)).kind is DiagnosisKind.NOTHING_TO_CHANGE
    assert found(EASY, IDLE, policy=policy).kind is DiagnosisKind.NOTHING_TO_CHANGE, (
        "a new process has seen nothing yet"
    )


def test_the_load_of_engines_that_pool_is_not_read_from_a_cache_that_stays_empty() -> None:
    policy = replace(SHUT, cooldown_seconds=600)
    memory = enough_for(1, 600)
    assert found(EASY, IDLE, policy=policy, memory=memory, model=None).kind is DiagnosisKind.IDLE
    assert (
        found(EASY, IDLE, policy=policy, memory=memory, model=None, generates=False).kind
        is DiagnosisKind.NOTHING_TO_CHANGE
    )


def test_one_look_at_which_all_were_needed_is_enough_to_keep_them() -> None:
    memory, policy = enough_for(1, 600), replace(SHUT, cooldown_seconds=600)
    looks = (*memory.looks[:60], replace(memory.looks[60], enough=2), *memory.looks[61:])
    one_look = found(EASY, IDLE, memory=replace(memory, looks=looks), policy=policy)
    assert one_look.kind is DiagnosisKind.NOTHING_TO_CHANGE


def test_while_a_request_waits_none_is_superfluous() -> None:
    memory, policy = enough_for(1, 600), replace(SHUT, cooldown_seconds=600)
    kinds = [found(replace(EASY, waiting=count), IDLE, memory=memory, policy=policy).kind for count in (0.9, 1)]
    assert kinds == [DiagnosisKind.IDLE, DiagnosisKind.NOTHING_TO_CHANGE]


def test_at_most_half_of_the_replicas_are_superfluous_at_once() -> None:
    policy = RebalancePolicy(min_replicas=9, max_replicas=9, cooldown_seconds=600)
    assert found(*9 * (IDLE,), policy=policy, memory=enough_for(1, 600)).replicas == 5


def test_the_only_replica_is_never_superfluous() -> None:
    policy = RebalancePolicy(min_replicas=1, max_replicas=1, cooldown_seconds=600)
    assert found(IDLE, policy=policy, memory=enough_for(1, 600)).kind is DiagnosisKind.NOTHING_TO_CHANGE
    updating = found(IDLE, IDLE, replicas=1, policy=policy, memory=enough_for(1, 600))
    assert updating.kind is DiagnosisKind.NOTHING_TO_CHANGE, "an update runs a second pod only for a while"


def test_a_replica_that_does_not_start_is_superfluous_where_those_that_serve_are_enough() -> None:
    three = {
        "replicas": 3,
        "policy": RebalancePolicy(min_replicas=3, max_replicas=3, cooldown_seconds=600),
        "starting_since": (LONG_AGO,),
    }
    diagnosis = found(EASY, EASY, memory=enough_for(2, 600), **three)
    assert (diagnosis.kind, diagnosis.replicas) == (DiagnosisKind.IDLE, 2)
    assert found(EASY, EASY, memory=enough_for(3, 600), **three) == Diagnosis(
        DiagnosisKind.NOT_DIAGNOSED,
        DecisionReason.REPLICAS_STARTING,
        (("replicas", 3), ("ready", 2), ("startup_seconds", 300)),
    )


def test_what_replaces_a_stuck_replica_is_not_superfluous_while_it_starts() -> None:
    """One serves, one is stuck and one starts; two are enough."""
    policy = RebalancePolicy(min_replicas=1, max_replicas=9, cooldown_seconds=600)
    starting = {"replicas": 3, "ready": 1, "starting_since": (LONG_AGO, NOW - 10), "policy": policy}
    assert found(EASY, memory=enough_for(2, 600), **starting).kind is DiagnosisKind.NOT_DIAGNOSED
    without = found(EASY, memory=enough_for(2, 600), **starting | {"starting_since": (NOW - 20, NOW - 10)})
    assert (without.kind, without.replicas) == (DiagnosisKind.IDLE, 2)


def test_the_caches_of_the_known_pods_are_in_the_numbers() -> None:
    numbers = dict(found(FULL, FULL).numbers)
    assert numbers["held_tokens"] == 2 * KV_TOKENS
    assert numbers["kv_percent"] == 99


@pytest.mark.parametrize(("waiting", "says"), [(4.0, True), (1.0, False)])
def test_a_promise_missed_by_a_backlog_that_is_served_says_so(waiting: float, *, says: bool) -> None:
    late = replace(EASY, waiting=waiting, first_token_seconds=20.0)
    diagnosis = found(late, late, model=replica_model())
    assert (diagnosis.kind, diagnosis.reason) == (DiagnosisKind.PROMISE_MISSED, DecisionReason.PROMISE_MISSED)
    words = sentence(Keep(diagnosis.reason, diagnosis.numbers))
    assert ("serve them before a new one would serve" in words) is says


def test_replicas_that_do_not_get_through_their_backlog_are_not_said_to() -> None:
    """Two replicas carry about what comes, so that nothing of the queue is gone when another one would serve."""
    late = replace(BUSY, waiting=4.0, first_token_seconds=20.0)
    for rate, says in ((EASY.rate, True), (60.0, False)):
        wish = judged(situation(*2 * [replace(late, rate=rate)], model=replica_model())).wish
        assert wish is not None
        assert wish.clears is says
