"""The policy in a simulation is the live loop itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import Task
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Retune
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from plimsoll.simulation.loop import open_room
from plimsoll.simulation.result import Happening
from plimsoll.simulation.run import MOST_REPLICAS, kind_of_replica
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.workload import Workload
from tests.support.simulation_runs import HEAVY, LIGHT, kind, policy, simulation_run
from tests.support.tables import every_case

RISE = replace(
    HEAVY, requests_per_second=0.3, burst_factor=10.0, burst_seconds=900, burst_every_seconds=900, minutes=30
)

Seen = list[tuple[Situation, LoopResult]]


def seen_of(workload: Workload, most: int = 5, mode: Mode = Mode.AUTO) -> Seen:
    found: Seen = []
    simulate(
        simulation_run(workload, policy(most, mode)), lambda situation, decided: found.append((situation, decided))
    )
    return found


def test_every_turn_decides_what_decide_says() -> None:
    seen, settings = seen_of(HEAVY), kind()
    assert len(seen) == 39
    before_any_retune = 0
    for situation, decided in seen:
        room = open_room(settings.request.with_replicas(situation.placement.replicas), settings.option)
        assert decide(situation, room).decision == decided.decision
        before_any_retune += 1
        if isinstance(decided.decision, Retune):
            break
    assert before_any_retune >= 1


def test_replicas_are_added_where_the_load_needs_them_and_serve_after_their_start() -> None:
    result = simulate(simulation_run(RISE, policy()))
    decided = [each for each in result.events if each.kind is Happening.DECISION]
    served = [each for each in result.events if each.kind is Happening.SERVES]
    assert decided
    assert served
    assert served[0].at == pytest.approx(decided[0].at + 120)
    assert max(each.ready for each in result.moments) > 1
    assert "the policy acts" in result.summary


def test_events_are_the_decisions_with_their_sentences() -> None:
    found: Seen = []
    result = simulate(simulation_run(RISE, policy()), lambda situation, decided: found.append((situation, decided)))
    made = [each for each in result.events if each.kind is Happening.DECISION]
    changes = {situation.now: decided.decision for situation, decided in found if decided.answer is not None}
    assert [each.at for each in made] == list(changes)
    for each in made:
        assert each.sentence.endswith(sentence(changes[each.at]))
        assert each.reason == changes[each.at].reason


def test_a_light_load_changes_nothing() -> None:
    assert {decided.decision.reason for _, decided in seen_of(LIGHT)} <= {
        DecisionReason.WITHIN_BAND,
        DecisionReason.METRICS_MISSING,
        DecisionReason.WINDOW_NOT_COVERED,
    }


def test_recommendations_are_proposed_and_not_made() -> None:
    result = simulate(simulation_run(HEAVY, policy(mode=Mode.RECOMMEND)))
    kinds = {each.kind for each in result.events}
    assert Happening.PROPOSAL in kinds
    assert Happening.DECISION not in kinds
    assert {each.wanted for each in result.moments} == {1}
    assert "only proposes" in result.summary


def test_a_loop_that_is_off_says_nothing() -> None:
    result = simulate(simulation_run(HEAVY, policy(mode=Mode.OFF)))
    assert not {Happening.PROPOSAL, Happening.DECISION, Happening.HELD_BACK} & {each.kind for each in result.events}
    assert {each.wanted for each in result.moments} == {1}


def test_never_more_replicas_than_allowed_and_the_bound_is_named() -> None:
    result = simulate(simulation_run(HEAVY, policy(2)))
    assert max(each.wanted for each in result.moments) == 2
    assert DecisionReason.AT_MAX_REPLICAS in {each.reason for each in result.events}


def test_too_many_replicas_go_after_the_cool_down() -> None:
    calm = replace(policy(), cooldown_seconds=300)
    result = simulate(replace(simulation_run(LIGHT, calm), replicas=4))
    assert result.moments[0].wanted == 4
    assert result.moments[-1].wanted < 4
    assert result.totals.lost == 0
    first = next(each for each in result.events if each.kind is Happening.DECISION)
    assert first.at >= 300
    assert first.reason == DecisionReason.SUSTAINED_SLACK


def test_other_settings_replace_every_engine_and_the_estimate_says_their_cache() -> None:
    tight = simulation_run(replace(HEAVY, requests_per_second=1.0), policy(), found=kind(concurrency=2))
    found: Seen = []
    result = simulate(tight, lambda situation, decided: found.append((situation, decided)))
    change = next(decided.decision for _, decided in found if isinstance(decided.decision, Retune))
    changed = tight.kind.with_limits(change.limits)
    assert changed is not None
    assert changed.limits.max_num_seqs == change.limits.sequences > tight.kind.limits.max_num_seqs
    assert changed.limits.kv_tokens <= tight.kind.limits.kv_tokens
    assert result.moments[0].sequence_slots == 2
    assert result.moments[-1].sequence_slots >= change.limits.sequences


def test_additions_are_the_numbers_of_the_decisions() -> None:
    wanted = 1
    for situation, decided in seen_of(RISE):
        assert situation.placement.replicas == wanted
        if isinstance(decided.decision, AddReplica) and decided.answer is not None:
            wanted += decided.decision.count
        elif decided.answer is not None:
            wanted = decided.answer.tenant.request.replicas


@every_case(
    ("field", "changes"),
    [
        ("replicas", {"replicas": MOST_REPLICAS + 1}),
        ("replicas", {"replicas": 0}),
        ("max-replicas", {"policy": policy(MOST_REPLICAS + 1)}),
        ("min-replicas", {"policy": replace(policy(), min_replicas=0)}),
        ("startup", {"startup_seconds": 0}),
        ("startup", {"startup_seconds": float("nan")}),
        ("patience", {"patience_seconds": 0}),
        ("sample-seconds", {"sample_seconds": 0.1}),
        ("prompt + output", {"workload": replace(HEAVY, prompt_tokens=4000)}),
    ],
)
def test_a_run_out_of_range_is_refused_by_name(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(simulation_run(), **changes)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.fix


def test_what_no_engine_serves_by_tokens_is_refused() -> None:
    request, place = kind().request, kind().place
    pooling = replace(request, model=replace(request.model, task=Task.POOL))
    with pytest.raises(InvalidInput, match="Name a model that generates"):
        kind_of_replica(pooling, place)
    with pytest.raises(InvalidInput, match="tensor parallelism alone"):
        kind_of_replica(request, replace(place, split=Split(1, 2)))
    assert kind_of_replica(request, place).limits == kind().limits
