"""Another step of the engines is offered through the plan, within the bounds, and never to and fro."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import other_steps, with_step
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import decide, kind_of
from plimsoll.rebalance.guard import may_change_step
from plimsoll.rebalance.law.capacity import model_of
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, LoopDecision, Retune, Wait
from plimsoll.rebalance.state.history import STEP_REASONS, ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from plimsoll.rebalance.why import sentence
from tests.support import live_situations as live
from tests.support.engine_loads import NOW, Serves
from tests.support.live_situations import AUTO
from tests.support.planning import ENGINE, H100, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.tables import examples
from tests.support.world_plans import planned

ONE_STEP_SECONDS = 86_400.0
STEP_AGAIN_SECONDS = 604_800.0

SMALLER, LARGER = DecisionReason.PROMPT_STEP_TOO_LARGE, DecisionReason.PROMPT_STEP_TOO_SMALL
KV_TOKENS = 120_000
SEQUENCES = 64
NEED = DeclaredNeed(kv_tokens=KV_TOKENS // 2, bytes_per_gpu=60)

DOCUMENTS = Serves(rate=2.0, prompt=6000, output=100, token_seconds=0.06, running=4, capacity=KV_TOKENS)
"""More than a replica on L40S carries; a token takes longer than promised."""
PROMPTS = Serves(rate=9.0, prompt=6000, output=2, token_seconds=0.2, running=4, capacity=KV_TOKENS)
"""More prompts than a replica on H100 carries; the time per token is not important."""

SLO = {L40S: Slo(5, 0.05), H100: Slo(2, 60)}
STEP = {L40S: 2048, H100: 1024}


def runs(kind: str, step: int | None = None, **wanted: Any) -> Tenant:
    held = pool(kind, limits=StepLimits(step or STEP[kind], SEQUENCES), generation=1)
    return tenant(request(concurrency=4, **wanted), held)


def about(who: Tenant, where: Fleet) -> WhatIf:
    return planned([who], where).what_if(who.request.key)


def room(kind: str, gpus: int = 2) -> Fleet:
    return fleet(node("n", kind, gpus, held=1))


def situation(
    kind: str,
    load: Serves,
    *,
    step: int | None = None,
    strained: float = 3600.0,
    history: ChangeHistory | None = None,
    now: float = NOW,
    slo: Slo | None = None,
    **changed: Any,
) -> Situation:
    """Return a replica with a load, whose tokens have taken long for ``strained`` seconds."""
    one, own = Split(1), request(concurrency=4)
    running = with_step(replace(own, engine=replace(own.engine, max_sequences=SEQUENCES)), step or STEP[kind])
    model = model_of(replace(running, slo=slo or SLO[kind]), gpu(kind), one, KV_TOKENS)
    facts: dict[str, Any] = {"model": model, "most_sequences": SEQUENCES} | changed
    facts.setdefault("steps", partial(other_steps, own, running, gpu(kind), one, KV_TOKENS, Memo()))
    memory = facts.pop("memory", LoopMemory(output_tokens=load.output, strained_since=now - strained))
    return live.situation(load, history=history, memory=memory, now=now, need=NEED, **facts)


def taken(kind: str, load: Serves, where: Fleet | None = None, **changed: Any) -> LoopDecision:
    who = runs(kind, changed.get("step"))
    return decide(situation(kind, load, **changed), about(who, where or room(kind))).decision


def is_restep(decision: LoopDecision) -> bool:
    return isinstance(decision, Retune) and decision.limits.step_tokens > 0


# -- what is offered ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "load", "reason"), [(L40S, DOCUMENTS, SMALLER), (H100, PROMPTS, LARGER)])
def test_the_step_is_changed_with_a_place_and_its_gain_is_said(kind: str, load: Serves, reason: DecisionReason) -> None:
    found = decide(situation(kind, load), about(runs(kind), room(kind)))
    change = found.decision
    assert isinstance(change, Retune)
    assert (change.reason, change.limits.sequences, change.number("step")) == (reason, 0, STEP[kind])
    assert (change.limits.step_tokens < STEP[kind]) == (reason is SMALLER)
    before, after = change.number("capacity_per_minute"), change.number("to_capacity_per_minute")
    assert int(after) >= 1.1 * int(before) - 1
    assert found.answer is not None
    [planned_pool] = found.answer.decision.pools
    assert planned_pool.choice is not None
    assert planned_pool.choice.settings.max_num_batched_tokens == change.limits.step_tokens
    assert planned_pool.sequences == SEQUENCES, "the other setting stays"
    text = f"--max-num-batched-tokens {change.limits.step_tokens} instead of {STEP[kind]} lets a replica carry {after}."
    assert text in sentence(change)


def test_a_smaller_step_says_what_a_token_takes_now_without_prompts_and_then() -> None:
    change = taken(L40S, DOCUMENTS)
    times = [int(change.number(name)) for name in ("decode_ms", "promised_ms", "measured_ms")]
    assert times == sorted(times)
    assert times[1:] == [50, 60]
    assert times[0] < int(change.number("then_ms"))
    assert taken(L40S, replace(DOCUMENTS, token_seconds=0.6)).number("measured_ms") == 600


def test_a_larger_step_says_how_much_of_the_time_per_token_prompts_take() -> None:
    assert taken(H100, PROMPTS).number("prompt_percent") == 99


@pytest.mark.parametrize(("kind", "load"), [(L40S, DOCUMENTS), (H100, PROMPTS)])
def test_a_step_that_the_user_has_written_stays_and_a_replica_is_added(kind: str, load: Serves) -> None:
    fixed = runs(kind, engine=replace(ENGINE, max_batched_tokens=STEP[kind]))
    found = decide(situation(kind, load), about(fixed, room(kind, 4)))
    assert isinstance(found.decision, AddReplica)


@pytest.mark.parametrize(("kind", "load"), [(L40S, DOCUMENTS), (H100, PROMPTS)])
@pytest.mark.parametrize(
    "changed",
    [{"steps": tuple}, {"model": None}],
    ids=["no step fits", "the speed is not known"],
)
def test_without_the_facts_replicas_are_added(kind: str, load: Serves, changed: dict[str, Any]) -> None:
    assert not is_restep(taken(kind, load, room(kind, 8), **changed))


def test_the_lengths_of_a_few_requests_restart_nothing() -> None:
    few = replace(DOCUMENTS, rate=0.05)
    assert not is_restep(taken(L40S, few, memory=LoopMemory(strained_since=NOW - 3600)))
    assert is_restep(taken(L40S, few))


def test_the_load_of_the_first_minute_restarts_nothing() -> None:
    usual = situation(H100, PROMPTS)
    traffic = usual.load.traffic
    assert traffic is not None
    for seconds, is_due in ((59.9, False), (60.0, True)):
        short = replace(traffic, steady=replace(traffic.steady, seconds=seconds))
        where = replace(usual, load=replace(usual.load, traffic=short))
        assert is_restep(decide(where, about(runs(H100), room(H100, 8))).decision) == is_due


def test_a_time_that_was_missed_for_a_moment_restarts_nothing() -> None:
    assert not is_restep(taken(L40S, DOCUMENTS, room(L40S, 8), strained=299.0))
    assert is_restep(taken(L40S, DOCUMENTS, room(L40S, 8), strained=301.0))


def test_engines_that_would_not_fit_with_a_step_do_not_get_it_in_any_mode() -> None:
    """The steps that were found say that it fits, and the plan says that it does not: the plan decides."""
    for mode in (Mode.AUTO, Mode.RECOMMEND):
        where = situation(H100, PROMPTS, policy=replace(AUTO, mode=mode))
        who = runs(H100)
        now = about(who, room(H100))
        refused = replace(now, ask=partial(_outgrown, now))
        found = decide(where, refused)
        assert not is_restep(found.decision)
        assert is_restep(decide(where, now).decision)


def _outgrown(now: WhatIf, changed: Tenant) -> Any:
    too_large = replace(changed, pools=tuple(replace(each, limits=StepLimits(10**7)) for each in changed.pools))
    wide = replace(too_large, request=replace(changed.request, shape=replace(changed.request.shape, concurrency=2_000)))
    answer = now.ask(wide)
    assert answer.decision.outgrown is not None
    return answer


def test_without_room_for_one_more_replica_the_step_waits() -> None:
    found = taken(L40S, DOCUMENTS, room(L40S, 1), policy=replace(AUTO, max_replicas=1))
    assert (type(found), found.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)


# -- the bounds --------------------------------------------------------------------------------------------------------


def after(seconds: float, kind: ChangeKind = ChangeKind.MOVE, reason: str = "", now: float = NOW) -> ChangeHistory:
    return ChangeHistory((ChangeRecord(now - seconds, kind, reason),))


@pytest.mark.parametrize(("kind", "load"), [(L40S, DOCUMENTS), (H100, PROMPTS)])
def test_the_bounds_of_all_restarts_hold(kind: str, load: Serves) -> None:
    one = replace(AUTO, max_replicas=1)
    cooling = taken(kind, load, policy=one, history=after(AUTO.cooldown_seconds - 1))
    assert (type(cooling), cooling.reason) == (Wait, DecisionReason.COOLING_DOWN)
    assert is_restep(taken(kind, load, policy=one, history=after(AUTO.cooldown_seconds + 1)))
    spent = taken(kind, load, policy=replace(one, changes_per_hour=0))
    assert (type(spent), spent.reason) == (Wait, DecisionReason.HOURLY_BUDGET_SPENT)
    starting = taken(kind, load, policy=replace(one, max_replicas=2), replicas=2)
    assert not is_restep(starting)


@pytest.mark.parametrize(("kind", "load", "reason"), [(L40S, DOCUMENTS, SMALLER), (H100, PROMPTS, LARGER)])
def test_the_step_is_not_changed_twice_within_a_day(kind: str, load: Serves, reason: DecisionReason) -> None:
    other = SMALLER if reason is LARGER else LARGER
    for seconds, is_due in ((ONE_STEP_SECONDS - 1, False), (ONE_STEP_SECONDS + 1, True)):
        history = after(seconds, ChangeKind.RETUNE, other.value)
        assert is_restep(taken(kind, load, history=history)) == is_due


@pytest.mark.parametrize(("kind", "load", "reason"), [(L40S, DOCUMENTS, SMALLER), (H100, PROMPTS, LARGER)])
def test_a_change_that_did_not_help_is_not_made_again(kind: str, load: Serves, reason: DecisionReason) -> None:
    """The load still asks for a step in the same direction a day later, so the first one did not do what was said."""
    for seconds, is_due in ((ONE_STEP_SECONDS + 1, False), (STEP_AGAIN_SECONDS + 1, True)):
        history = after(seconds, ChangeKind.RETUNE, reason.value)
        assert is_restep(taken(kind, load, history=history)) == is_due


def test_another_limit_of_requests_is_no_change_of_the_step() -> None:
    history = after(7200, ChangeKind.RETUNE, DecisionReason.BATCH_LIMIT_BINDS.value)
    assert is_restep(taken(L40S, DOCUMENTS, history=history))


def test_a_change_of_the_step_is_remembered_for_as_long_as_it_counts() -> None:
    history = after(0, ChangeKind.RETUNE, SMALLER.value)
    for minutes in range(5, 24 * 60, 5):
        kind = ChangeKind.ADD if minutes % 10 else ChangeKind.REMOVE
        history = history.recorded(ChangeRecord(NOW + 60 * minutes, kind))
    assert history.changes[0].reason == SMALLER.value
    assert len(history.changes) < 40, "others are forgotten"
    later = history.recorded(ChangeRecord(NOW + STEP_AGAIN_SECONDS + 1, ChangeKind.ADD))
    for index in range(10):
        later = later.recorded(ChangeRecord(NOW + STEP_AGAIN_SECONDS + 100 * index, ChangeKind.REMOVE))
    assert all(mark.reason != SMALLER.value for mark in later.changes)


# -- any sequence of signals -------------------------------------------------------------------------------------------

turns = st.tuples(
    st.sampled_from([15, 300, 1800, 3600, 6 * 3600, 24 * 3600]),
    st.sampled_from([0.02, 0.049, 0.06, 0.3]),
    st.sampled_from([(6000.0, 100.0), (6000.0, 2.0), (1000.0, 250.0), (12_000.0, 20.0)]),
    st.sampled_from([0.2, 2.0, 9.0]),
    st.sampled_from([Slo(5, 0.05), Slo(2, 60), Slo(5, 0.1)]),
    st.booleans(),
)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([L40S, H100]), st.lists(turns, min_size=2, max_size=12))
def test_no_sequence_of_signals_changes_the_step_to_and_fro(kind: str, taken_turns: list[tuple[Any, ...]]) -> None:
    """Whatever the load is, and whether or not the operator restarts in between."""
    step, now, history, made = STEP[kind], NOW, ChangeHistory(), list[ChangeRecord]()
    policy = replace(AUTO, max_replicas=1, cooldown_seconds=0)
    for seconds, token, (prompt, output), rate, slo, adds in taken_turns:
        now += seconds
        load = Serves(rate=rate, prompt=prompt, output=output, token_seconds=token, running=4, capacity=KV_TOKENS)
        where = situation(kind, load, step=step, now=now, slo=slo, policy=policy, history=history)
        change = decide(where, about(runs(kind, step), room(kind))).decision
        if is_restep(change):
            assert isinstance(change, Retune)
            step, mark = change.limits.step_tokens, ChangeRecord(now, kind_of(change), change.reason.value)
            made.append(mark)
            history = history.recorded(mark)
        history = history.recorded(ChangeRecord(now, ChangeKind.ADD)) if adds else history
    pairs = list(pairwise(made))
    assert all(later.at - earlier.at >= ONE_STEP_SECONDS for earlier, later in pairs)
    repeated = [later.at - earlier.at for earlier, later in pairs if earlier.reason == later.reason]
    assert all(seconds >= STEP_AGAIN_SECONDS for seconds in repeated)


def test_sequences_of_signals_do_change_the_step() -> None:
    """The neighbour of the test above: a load that changes for good gets its step, and gets it back."""
    assert is_restep(taken(L40S, DOCUMENTS))
    back = taken(H100, PROMPTS, history=after(ONE_STEP_SECONDS, ChangeKind.RETUNE, SMALLER.value))
    assert is_restep(back)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 3e6), st.sampled_from([*STEP_REASONS, DecisionReason.BATCH_LIMIT_BINDS]))),
    st.sampled_from(STEP_REASONS),
)
def test_what_may_be_changed_depends_on_the_changes_of_the_step_alone(
    marks: list[tuple[float, DecisionReason]], reason: DecisionReason
) -> None:
    made = sorted(
        (ChangeRecord(NOW - age, ChangeKind.RETUNE, each.value) for age, each in marks), key=lambda mark: mark.at
    )
    where = replace(live.situation(DOCUMENTS), history=ChangeHistory(tuple(made)))
    own = [mark for mark in made if mark.reason in STEP_REASONS]
    quiet = all(NOW - mark.at >= ONE_STEP_SECONDS for mark in own)
    again = bool(own) and own[-1].reason == reason.value and NOW - own[-1].at < STEP_AGAIN_SECONDS
    if len({mark.at for mark in own}) == len(own):
        assert may_change_step(reason, where) == (quiet and not again)
