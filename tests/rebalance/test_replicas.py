"""Replicas that are not alike: slow, silent and favoured ones, what is learned next to them, and what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import Judged, judged
from plimsoll.rebalance.diagnosis.replicas import Alike, alike_of, cleared_nodes, favoured_of, is_certain, with_suspects
from plimsoll.rebalance.law.capacity import seconds_while_generating
from plimsoll.rebalance.signals.metrics import GpuActivity
from plimsoll.rebalance.signals.traffic import Rate, Sum
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    DecisionReason,
    Keep,
    LoopDecision,
    RemoveReplica,
    ReplaceReplica,
    Wait,
)
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory, Suspect
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.replacement import Progress, Replacement, Step, step_of
from plimsoll.rebalance.state.situation import Serving, Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import LENGTHS, LONG_AGO, NOW, Serves, alone, moments, pod, replica_model, summary
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import AUTO, CAPACITY, enough_for, situation
from tests.support.tables import every_case

SILENT_SECONDS = 300.0
SLOW_SECONDS = 120.0
HOUR_SECONDS = 3600.0
PROVEN_SECONDS = 60.0


def _left(at: float, node: str = "node-1", reason: str = "ReplicaSlow") -> Rehoming:
    return Rehoming("l4-24gb", Split(1), reason, node, at=at)


@every_case(
    ("since", "left", "changes", "expected"),
    [
        (NOW - SLOW_SECONDS, _left(NOW - 200), {}, {"node-1"}),
        (NOW - SLOW_SECONDS + 1, _left(NOW - 200), {}, set()),
        (NOW - SLOW_SECONDS, _left(NOW - SLOW_SECONDS + 1), {}, set()),
        (NOW - SLOW_SECONDS, _left(NOW - 200, "node-9"), {}, set()),
        (NOW - SLOW_SECONDS, _left(NOW - 200), {"token_seconds": Sum(9.9, 99.0)}, set()),
        (NOW - SILENT_SECONDS, _left(NOW - 900, reason="ReplicaSilent"), {}, {"node-1"}),
        (NOW - SILENT_SECONDS + 1, _left(NOW - 900, reason="ReplicaSilent"), {}, set()),
    ],
)
def test_a_later_replica_clears_a_node_once_it_was_watched_for_as_long_as_a_slow_one(
    since: float, left: Rehoming, changes: dict[str, Any], expected: set[str]
) -> None:
    """Those that served there before show nothing: the slow one was next to them."""
    serving = (Serving("p0", "node-0", LONG_AGO), Serving("p1", "node-1", since), Serving("p2", "node-1", LONG_AGO))
    where = replace(situation(*[alone(1.0)] * 3, serving=serving), left=(left,))
    traffic = where.load.traffic
    assert traffic is not None
    loads = tuple(replace(each, **changes) if each.pod == "p1" else each for each in traffic.loads)
    where = replace(where, load=replace(where.load, traffic=replace(traffic, loads=loads)))
    assert cleared_nodes(where.memory, where) == expected
    slow = LoopMemory(suspects=(Suspect("p1", DecisionReason.REPLICA_SLOW, NOW - 1),))
    assert cleared_nodes(slow, where) == set()


@every_case(
    ("siblings", "agreed", "has_model", "expected"),
    [
        (1, False, True, {"node-1"}),
        (0, False, True, set()),
        (0, True, True, {"node-1"}),
        (1, False, False, set()),
    ],
)
def test_a_replica_that_nothing_can_be_compared_with_clears_no_node(
    siblings: int, *, agreed: bool, has_model: bool, expected: set[str]
) -> None:
    """However slow it is, it is no suspect then. The neighbour is the case in which it would be one."""
    serving = (Serving("p0", "node-0", LONG_AGO), Serving("p1", "node-1", NOW - SLOW_SECONDS))
    where = replace(situation(*[alone(1.0)] * 2, serving=serving), left=(_left(NOW - 200),))
    traffic = where.load.traffic
    assert traffic is not None
    idle = tuple(
        replace(each, token_seconds=Sum(0.0, 0.0)) if each.pod == "p0" and not siblings else each
        for each in traffic.loads
    )
    where = replace(where, load=replace(where.load, traffic=replace(traffic, loads=idle)))
    where = where if has_model else replace(where, placement=replace(where.placement, model=None))
    assert cleared_nodes(replace(where.memory, speed_agreed=agreed), where) == expected


ROUTERS = ("random", "least requests", "sticky")


def _shared(total: float, replicas: int, router: str, ratio: float) -> tuple[Serves, ...]:
    """The loads of replicas of which the first is slower, or gets half of all requests if the router is sticky."""
    if router == "sticky":
        rest = [alone(0.5 * total / (replicas - 1))] * (replicas - 1)
        return (alone(0.5 * total), *rest)
    speeds = [1 / ratio if router == "least requests" else 1.0, *([1.0] * (replicas - 1))]
    rates = [total * each / sum(speeds) for each in speeds]
    return tuple(alone(rate, ratio if index == 0 else 1.0) for index, rate in enumerate(rates))


def _later(where: Situation, seconds: float, every: float = 15.0, history: ChangeHistory | None = None) -> Judged:
    """Look at the same load again and again for so many seconds, and return the last look."""
    memory, look = where.memory, None
    for index in range(int(seconds // every) + 1):
        at = NOW - seconds + every * index
        load = replace(where.load, traffic=where.load.traffic and replace(where.load.traffic, end=at))
        past = replace(where, memory=memory, now=at, load=load, history=history or where.history)
        look = judged(past)
        memory = look.memory
    assert look is not None
    return look


def _known(loads: Sequence[Serves], seconds: float = 600.0, **changes: Any) -> Situation:
    """Return the situation after these loads have lasted for so long."""
    serving = tuple(Serving(f"p{index}", f"node-{index}", LONG_AGO) for index in range(len(loads)))
    where = situation(*loads, **{"serving": serving} | changes)
    return replace(where, memory=_later(where, seconds).memory)


def _made(where: Situation) -> LoopResult:
    return decide(where, room_for_all(where.placement.replicas))


def _speed(ratio: float, rate: float = 1.0, tokens: float = 128.0, preempted: float = 0.0) -> tuple[float, ...]:
    return ratio, rate, tokens, preempted


@every_case(
    ("siblings", "first", "how", "is_slow"),
    [
        (2, _speed(1.51), "", True),
        (2, _speed(1.49), "", False),
        (2, _speed(1.51, rate=1.25), "", True),
        (2, _speed(1.51, rate=1.26), "", False),
        (2, _speed(2.0, rate=1.26), "", True),
        (2, _speed(1.99, rate=1.26), "", False),
        (2, _speed(1.51, preempted=1.0), "", False),
        (2, _speed(2.0, preempted=1.0), "", True),
        (2, _speed(9.0, tokens=99.0), "", False),
        (2, _speed(9.0, tokens=100.0), "", True),
        (2, _speed(1.21), "known", True),
        (2, _speed(1.19), "known", False),
        (1, _speed(1.99), "", False),
        (1, _speed(2.0), "", True),
        (1, _speed(1.61), "known", True),
        (0, _speed(2.0), "", False),
        (0, _speed(1.99), "agreed", False),
        (0, _speed(2.0), "agreed", True),
    ],
)
def test_the_bound_from_which_a_replica_is_slow(
    siblings: int, first: tuple[float, ...], how: str, *, is_slow: bool
) -> None:
    """It is lower next to several siblings with a load alike, and for one that was slow before."""
    where = situation(*[alone(1.0)] * (1 + siblings))
    seen = where.load.traffic
    assert seen is not None
    assert seen.lengths is not None
    usual = seconds_while_generating(replica_model(), seen.lengths, 8.0)
    loads = [
        replace(
            each,
            running=8.0,
            generating=8.0,
            token_seconds=Sum(tokens * ratio * usual, tokens),
            arrivals=Rate(rate, 60.0),
            preempted=Sum(preempted, tokens),
        )
        for each, (ratio, rate, tokens, preempted) in zip(seen.loads, [first, *[_speed(1.0)] * siblings], strict=True)
    ]
    where = replace(where, load=replace(where.load, traffic=replace(seen, loads=tuple(loads))))
    known = (Suspect("p0", DecisionReason.REPLICA_SLOW, NOW - 60),) if how == "known" else ()
    memory = with_suspects(LoopMemory(suspects=known, speed_agreed=how == "agreed"), where)
    assert [each.pod for each in memory.suspects] == ["p0"] * is_slow


def test_a_slow_replica_is_named_with_its_evidence_and_replaced_on_another_node() -> None:
    where = _known(_shared(2 * CAPACITY, 4, "random", 2.5))
    made = _made(where)
    assert isinstance(made.decision, ReplaceReplica)
    assert (made.decision.pod, made.decision.node, made.kind) == ("p0", "node-0", DiagnosisKind.REPLICA_SLOW)
    assert made.trouble == "ReplicaSlow"
    assert int(made.decision.number("ratio_percent")) == pytest.approx(250, abs=10)
    assert "pod p0 is slow on node node-0: a token takes" in sentence(made.decision).lower()
    assert made.answer is not None
    assert made.answer.tenant.request.replicas == 4, "there are no more replicas afterwards"
    hot = replace(where, load=replace(where.load, gpus=GpuActivity(faults=(("p0", "XID 79"),))))
    assert "(250 %), for 600 s, and its GPUs report XID 79." in sentence(_made(hot).decision)


@given(st.sampled_from(ROUTERS), st.integers(4, 28), st.integers(3, 8), st.floats(1.8, 12.0))
def test_next_to_one_odd_replica_at_most_one_more_is_wanted(
    router: str, tenths: int, replicas: int, ratio: float
) -> None:
    total = min(tenths / 10, 0.7 * replicas) * CAPACITY
    usual, odd = (
        _later(situation(*_shared(total, replicas, *each)), 180, every=30.0)
        for each in (("random", 1.0), (router, ratio))
    )
    assert usual.wish is not None
    assert odd.wish is not None
    assert odd.wish.replicas <= usual.wish.replicas + 1
    assert odd.memory.slowness == pytest.approx(usual.memory.slowness, rel=0.2), "healthy replicas alone teach"
    if usual.memory.most_work is None and odd.memory.most_work is not None:
        assert odd.wish.capacity is not None
        assert usual.wish.capacity is not None
        assert odd.wish.capacity.per_second >= 0.7 * usual.wish.capacity.per_second


@every_case(
    ("loads", "memory"),
    [
        ((alone(8.0),) * 4, LoopMemory("p")),
        ((alone(8.0, 2.5),) * 4, LoopMemory("p")),
        ((alone(8.0), alone(14.0), alone(8.0), alone(2.0)), LoopMemory("p")),
        ((alone(8.0, 1.4), *(alone(8.0),) * 3), LoopMemory("p")),
        ((alone(8.0, 1.8), alone(8.0)), LoopMemory("p")),
        ((alone(8.0, 2.5),), LoopMemory("p")),
        ((replace(alone(0.01, 9.0), running=1.0), *(alone(8.0),) * 3), LoopMemory("p")),
    ],
    ids=[
        "all alike",
        "all slow: the model is wrong",
        "unlike loads",
        "within the band of the model",
        "one sibling, and the model is not that exact",
        "a lone one whose speed was never seen",
        "too few tokens to say",
    ],
)
def test_what_chance_load_or_the_model_explain_is_no_slow_replica(
    loads: tuple[Serves, ...], memory: LoopMemory
) -> None:
    assert _later(situation(*loads, memory=memory), 600).memory.suspects == ()


@every_case(
    "loads",
    [
        (alone(8.0, 2.5), alone(8.0), alone(8.0)),
        (alone(8.0, 1.7), alone(8.0), alone(8.0)),
        (alone(8.0, 2.5), alone(8.0)),
        (alone(2.0, 10.0), alone(8.0), alone(8.0), alone(8.0)),
        (alone(8.0, 2.5),),
    ],
    ids=["2.5 times", "1.7 times at the same load", "one sibling", "10 times, and spared", "alone, and seen faster"],
)
def test_a_slow_one_is_found_at_once_and_acted_on_only_when_it_lasts(loads: tuple[Serves, ...]) -> None:
    where = situation(*loads, memory=LoopMemory("p", speed_agreed=True))
    for seconds, is_named in ((SLOW_SECONDS / 2, False), (SLOW_SECONDS, True)):
        look = _later(where, seconds)
        assert [each.pod for each in look.memory.suspects] == ["p0"]
        assert look.memory.slowness == pytest.approx(1.0, abs=0.15), "it teaches nothing"
        named = diagnose(replace(where, memory=look.memory), look).kind is DiagnosisKind.REPLICA_SLOW
        assert named is is_named


def test_a_suspect_of_which_nothing_is_measured_stays_one_and_one_that_is_fast_again_or_gone_does_not() -> None:
    before = LoopMemory("p", suspects=(Suspect("p0", DecisionReason.REPLICA_SLOW, NOW - 500.0, 9.0),))
    still, fast, other = Serves(rate=0.0, running=0.0), alone(8.0), alone(8.0)
    assert judged(situation(still, other, other, memory=before)).memory.suspects == before.suspects
    assert judged(situation(fast, other, other, memory=before)).memory.suspects == ()
    gone = situation(load=summary(pod("p1", other), pod("p2", other)), replicas=2, ready=2, memory=before)
    assert judged(gone).memory.suspects == ()
    set_back = replace(before, suspects=(replace(before.suspects[0], since=NOW + 9e6),))
    assert judged(situation(alone(8.0, 9.0), other, other, memory=set_back)).memory.suspects[0].since == NOW


def _silent(replicas: int, seconds: float, **changes: Any) -> Situation:
    """Return a situation in which the first of some idle replicas reports nothing, for so long already."""
    names = [f"p{index}" for index in range(replicas)]
    known = [pod(name, alone(1.0), moments()) for name in names[1:]]
    looks = enough_for(2, 3 * AUTO.cooldown_seconds)
    suspects = (Suspect("p0", DecisionReason.REPLICA_SILENT, NOW - seconds),)
    usual: dict[str, Any] = {"memory": replace(looks, suspects=suspects), "replicas": replicas, "ready": replicas}
    serving = tuple(Serving(name, f"node-{name}", LONG_AGO) for name in names)
    return situation(load=summary(*known, expected=names), serving=serving, **usual | changes)


def test_a_silent_replica_is_replaced_and_holds_no_removal_for_ever() -> None:
    early, late = _silent(6, SILENT_SECONDS / 2), _silent(6, 2 * SILENT_SECONDS)
    assert (type(_made(early).decision), _made(early).decision.reason) == (Wait, DecisionReason.METRICS_MISSING)
    made = _made(late)
    assert isinstance(made.decision, ReplaceReplica)
    assert (made.decision.pod, made.kind) == ("p0", DiagnosisKind.REPLICA_SILENT)
    assert "has reported nothing usable for 600 s" in sentence(made.decision)
    shown = _made(_silent(6, 2 * SILENT_SECONDS, history=_marked(HOUR_SECONDS, ChangeKind.ROLL_BACK, "ReplicaSilent")))
    assert isinstance(shown.decision, RemoveReplica), "what cannot be replaced holds no removal either"


def test_if_no_replica_reports_the_source_is_at_fault_and_none_is_replaced() -> None:
    names = ["p0", "p1"]
    where = situation(load=summary(expected=names), replicas=2, ready=2)
    assert _later(where, 2 * SILENT_SECONDS).memory.suspects == ()
    away = situation(load=summary(expected=names, available=False), replicas=2, ready=2)
    known = replace(away, memory=LoopMemory(suspects=(Suspect("p0", DecisionReason.REPLICA_SILENT, NOW - 900.0),)))
    assert len(judged(known).memory.suspects) == 1, "an outage of the source is no word about a replica"


def _marked(age: float, kind: ChangeKind, reason: str) -> ChangeHistory:
    return ChangeHistory((ChangeRecord(NOW - age, kind, reason),))


@every_case(
    ("changes", "expected"),
    [
        ({}, (ReplaceReplica, DecisionReason.REPLICA_SLOW)),
        (
            {"history": _marked(5 * HOUR_SECONDS, ChangeKind.ROLL_BACK, "ReplicaSlow")},
            (Wait, DecisionReason.REPLACING_DOES_NOT_HELP),
        ),
        (
            {"history": _marked(25 * HOUR_SECONDS, ChangeKind.ROLL_BACK, "ReplicaSlow")},
            (ReplaceReplica, DecisionReason.REPLICA_SLOW),
        ),
        (
            {"history": _marked(900, ChangeKind.REPLACE, "ReplicaSlow"), "serving": (Serving("p0", "n", NOW - 800),)},
            (Wait, DecisionReason.REPLACING_DOES_NOT_HELP),
        ),
        (
            {"history": _marked(900, ChangeKind.REPLACE, "ReplicaSlow"), "serving": (Serving("p0", "n", NOW - 999),)},
            (ReplaceReplica, DecisionReason.REPLICA_SLOW),
        ),
        (
            {"history": _marked(900, ChangeKind.ROLL_BACK, "ReplicasStuck")},
            (Wait, DecisionReason.COOLING_DOWN),
        ),
        ({"policy": replace(AUTO, changes_per_hour=0)}, (Wait, DecisionReason.HOURLY_BUDGET_SPENT)),
        ({"updating": True}, (Wait, DecisionReason.MOVE_UNDER_WAY)),
        ({"rolling": True}, (Wait, DecisionReason.MOVE_UNDER_WAY)),
        ({"policy": replace(AUTO, mode=Mode.RECOMMEND)}, (ReplaceReplica, DecisionReason.REPLICA_SLOW)),
    ],
    ids=[
        "nothing holds it back",
        "one was taken back within the day",
        "or the day before",
        "it is the one that took a place",
        "another one took a place",
        "a new one did not serve",
        "the hour's changes are spent",
        "others start",
        "a change rolls out",
        "it is recommended",
    ],
)
def test_a_replacement_has_bounds(changes: dict[str, Any], expected: tuple[type[LoopDecision], DecisionReason]) -> None:
    decision = _made(_known(_shared(2.8 * CAPACITY, 4, "random", 3.0), **changes)).decision
    assert (type(decision), decision.reason) == expected
    assert sentence(decision)


def test_while_one_is_replaced_the_diagnosis_stays_and_the_load_is_followed() -> None:
    under_way = Replacement("p0", "node-0", DecisionReason.REPLICA_SLOW, NOW - 30)
    easy, busy = (_known(_shared(total * CAPACITY, 4, "random", 3.0)) for total in (2.8, 8.0))
    kept = _made(replace(easy, replacement=under_way))
    assert (type(kept.decision), kept.decision.reason, kept.kind) == (
        Keep,
        DecisionReason.REPLICA_SLOW,
        DiagnosisKind.REPLICA_SLOW,
    )
    assert isinstance(_made(replace(busy, replacement=under_way)).decision, AddReplica)


def _sticky(missed: float = 0.0, others: int = 3) -> tuple[Serves, ...]:
    hot = replace(alone(15.0), waiting=40.0, first_token_seconds=20.0 if missed else 0.2)
    return (hot, *(alone(9.0),) * others)


def test_of_a_sticky_router_it_is_said_which_replica_gets_how_much_and_the_total_decides() -> None:
    where = _known(_sticky())
    made = _made(where)
    assert (type(made.decision), made.decision.reason) == (Keep, DecisionReason.LOAD_IMBALANCED)
    assert "36 % of the requests come to it, and 25 % are its share" in sentence(made.decision)
    assert made.wish is not None
    assert made.wish.replicas <= len(_sticky()), "what waits at one replica is served by no other"


def test_a_missed_promise_next_to_a_sticky_router_gets_one_replica_which_stays_only_if_it_helps() -> None:
    missed = _known(_sticky(missed=1.0, others=2))
    first = _made(missed)
    assert isinstance(first.decision, AddReplica)
    assert (first.decision.count, first.decision.reason) == (1, DecisionReason.LOAD_IMBALANCED)
    tried = _marked(2 * HOUR_SECONDS, ChangeKind.ADD, "LoadImbalanced")
    assert isinstance(_made(_known(_sticky(missed=1.0, others=2), history=tried)).decision, Keep), "one, and no more"
    calm = tuple(replace(each, waiting=0.0) for each in _sticky())
    long: dict[str, Any] = {"history": tried, "memory": enough_for(2, 3 * AUTO.cooldown_seconds)}
    assert not isinstance(_made(situation(*calm, **long)).decision, RemoveReplica), "it helps"
    alike = (alone(4.0),) * 4
    assert isinstance(_made(situation(*alike, **long)).decision, RemoveReplica), "nothing needs it any more"


@pytest.mark.parametrize("favoured", [0, 1, 3])
def test_a_favoured_replica_counts_with_the_queue_and_the_preemptions_of_the_others(favoured: int) -> None:
    """Whichever of them it is: no other replica serves what waits or is preempted there."""
    loads = list(_sticky())
    loads.insert(favoured, loads.pop(0))
    where = situation(*loads)
    seen = where.load.traffic
    assert seen is not None
    pods = [
        replace(each, preempted=Sum(90.0 if index == favoured else index, 100.0))
        for index, each in enumerate(seen.loads)
    ]
    alike = alike_of(where, LoopMemory(), seen.of_pods(pods))
    others = [index for index in range(len(loads)) if index != favoured]
    assert [each.pod for each in alike.favoured] == [f"p{favoured}"]
    assert alike.traffic.preempted_share == pytest.approx(sum(others) / (100 * len(others)))
    assert alike.traffic.waiting == pytest.approx(len(loads) * fmean(loads[index].waiting for index in others))


@pytest.mark.parametrize("reason", [DecisionReason.REPLICA_SLOW, DecisionReason.REPLICA_SILENT], ids=str)
@pytest.mark.parametrize("period", [None, 15.0, 400.0])
def test_a_suspect_is_certain_after_its_time_and_two_scrapes(reason: DecisionReason, period: float | None) -> None:
    usual = SLOW_SECONDS if reason is DecisionReason.REPLICA_SLOW else SILENT_SECONDS
    needed = 800.0 if period == 400.0 else usual
    where = situation(alone(1.0))
    where = replace(where, load=replace(where.load, period_seconds=period))
    assert is_certain(Suspect("p0", reason, NOW - needed), where)
    assert not is_certain(Suspect("p0", reason, NOW - needed + 1), where)


def test_a_queue_teaches_what_a_replica_does_at_most_only_where_no_other_does_more() -> None:
    just_slow = replace(alone(8.0), rate=2.0, waiting=40.0)
    assert _later(situation(just_slow, alone(8.0), alone(8.0)), 60).memory.most_work is None
    first, second = replace(alone(8.0), rate=3.0, waiting=5.0), replace(alone(8.0), rate=2.0, waiting=9.0)
    both = _later(situation(first, second), 60)
    assert both.memory.most_work == pytest.approx(2.5 * LENGTHS.work, rel=0.05), "five that wait are a queue"
    hot = _later(situation(*_sticky()), 60)
    assert hot.alike is not None
    assert [each.pod for each in hot.alike.favoured] == ["p0"]
    assert hot.memory.most_work == pytest.approx(15.0 * LENGTHS.work, rel=0.05), "that of the favoured one"


_SERVES = Progress(
    is_there=True,
    is_suspect=True,
    spare=1,
    newest_since=NOW - PROVEN_SECONDS,
    newest_is_doubtful=False,
    newest_is_certain=False,
    newest_is_elsewhere=True,
    patience_seconds=300.0,
)


@every_case(
    ("changes", "began", "expected"),
    [
        ({}, 100.0, Step.END_OLD),
        ({"newest_since": NOW - 1}, 100.0, Step.START),
        ({"newest_since": None}, 100.0, Step.START),
        ({"newest_since": None}, 400.0, Step.NOT_SERVING),
        ({"spare": 0}, 100.0, Step.START),
        ({"spare": 0}, 400.0, Step.NOT_SERVING),
        ({"newest_is_doubtful": True}, 400.0, Step.START),
        ({"newest_is_doubtful": True}, 3600.0, Step.NOT_SERVING),
        ({"newest_is_doubtful": True, "newest_is_certain": True}, 400.0, Step.NOT_BETTER),
        ({"newest_is_doubtful": True, "newest_is_certain": True, "newest_is_elsewhere": False}, 400.0, Step.SAME_NODE),
        ({"newest_is_elsewhere": False}, 100.0, Step.END_OLD),
        ({"is_suspect": False}, 100.0, Step.RECOVERED),
        ({"is_there": False, "is_suspect": False, "spare": 0}, 100.0, Step.DONE),
        ({"newest_since": None}, -9e9, Step.START),
    ],
)
def test_the_old_replica_ends_only_after_a_new_one_has_proved_better(
    changes: dict[str, Any],
    began: float,
    expected: Step,
) -> None:
    under_way = Replacement("p0", "n", DecisionReason.REPLICA_SLOW, NOW - began)
    assert step_of(under_way, replace(_SERVES, **changes), NOW) is expected


def test_a_silent_replica_has_no_times_of_tokens() -> None:
    silent = Suspect("p", DecisionReason.REPLICA_SILENT, NOW)
    assert (silent.ratio, silent.seconds, silent.usual_seconds) == (1.0, 0.0, 0.0)


def test_if_every_replica_generates_nothing_they_all_show_what_one_does() -> None:
    traffic = situation(alone(1.0), alone(1.0)).load.traffic
    assert traffic is not None
    first, second = traffic.loads
    for stalled, pods in (((), 2), ((first.pod,), 1), ((first.pod, second.pod), 2)):
        loads = tuple(replace(each, is_stalled=each.pod in stalled) for each in traffic.loads)
        assert Alike(replace(traffic, loads=loads)).teaching.pods == pods


@pytest.mark.parametrize(
    ("others", "is_favoured"),
    [
        ((0.0, 0.0), True),
        ((0.0, 1.0), True),
        ((1.0, 1.0), False),
        ((0.0, 2.0), False),
        ((2.0, 1.0), False),
        ((), False),
    ],
)
def test_a_replica_is_favoured_while_fewer_than_one_request_waits_at_the_others(
    others: tuple[float, ...], *, is_favoured: bool
) -> None:
    """It gets more than its share of the requests, and has a long queue."""
    seen = summary(pod("a", Serves(rate=1.0))).traffic
    assert seen is not None
    [one] = seen.loads
    crowded = replace(one, pod="crowded", waiting=40.0, arrivals=Rate(10.0, 600.0))
    rest = [
        replace(one, pod=f"b{number}", waiting=each, arrivals=Rate(1.0, 600.0)) for number, each in enumerate(others)
    ]
    assert [each.pod for each in favoured_of([crowded, *rest])] == (["crowded"] if is_favoured else [])
