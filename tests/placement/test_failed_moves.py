"""Places that did not come up: for how long they are refused, and when they are forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.demands.failed_moves import (
    Delay,
    FailedMove,
    RollBack,
    pause_seconds,
    remembered,
    settings_refused,
    standing,
    without_failed,
)
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.places.warnings import failed_move_warning
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.status_schema import most_items

FIRST_PAUSE_SECONDS = 6 * 3600.0
FORGOTTEN_SECONDS = 7 * 86_400.0
LONGEST_PAUSE_SECONDS = 72 * 3600.0
MOST_REMEMBERED = 10

NOW = 1_800_000_000.0
ONE = Split(1)
CRASH = Delay("EngineCrashed", "no such file")


def failed(kind: str = L40S, age: float = 60.0, times: int = 1, spec: str = "s") -> FailedMove:
    at = NOW - age
    return FailedMove(kind, ONE, CRASH, at=at, until=at + pause_seconds(times), times=times, spec=spec)


def test_the_pause_doubles_up_to_three_days_and_ends_before_the_failure_is_forgotten() -> None:
    hours = [pause_seconds(times) / 3600 for times in (1, 2, 3, 4, 5, 6, 10**9)]
    assert hours == [6, 12, 24, 48, 72, 72, 72]
    assert FORGOTTEN_SECONDS > LONGEST_PAUSE_SECONDS


def test_a_first_failure_is_remembered_with_its_reason_and_a_second_one_doubles_its_pause() -> None:
    rolled = [RollBack(L40S, ONE, CRASH)]
    [first] = remembered((), rolled, "s", NOW)
    assert first == FailedMove(L40S, ONE, CRASH, at=NOW, until=NOW + FIRST_PAUSE_SECONDS, times=1, spec="s")
    later = NOW + 2 * FIRST_PAUSE_SECONDS
    [second] = remembered((first,), rolled, "s", later)
    assert (second.times, second.until) == (2, later + 2 * FIRST_PAUSE_SECONDS)


def test_a_failure_stands_until_its_pause_is_over_and_counts_for_a_week() -> None:
    assert standing((failed(age=FIRST_PAUSE_SECONDS - 1),), "s", NOW) != ()
    assert standing((failed(age=FIRST_PAUSE_SECONDS),), "s", NOW) == ()
    assert remembered((failed(age=FORGOTTEN_SECONDS - 1),), (), "s", NOW) != ()
    assert remembered((failed(age=FORGOTTEN_SECONDS),), (), "s", NOW) == ()


def test_another_start_forgets_it() -> None:
    assert standing((failed(),), "t", NOW) == remembered((failed(),), (), "t", NOW) == ()


def test_times_that_are_too_late_are_cut_so_that_no_place_is_refused_for_ever() -> None:
    ahead = replace(failed(), at=NOW + 10**9, until=NOW + 2 * 10**9)
    [found] = standing((ahead,), "s", NOW)
    assert (found.at, found.until) == (NOW, NOW + FIRST_PAUSE_SECONDS)


def test_no_more_is_kept_than_a_status_holds_and_the_latest_stay() -> None:
    many = tuple(failed(f"gpu-{index}", age=index) for index in range(MOST_REMEMBERED + 5))
    kept = remembered(many, (), "s", NOW)
    assert len(kept) == MOST_REMEMBERED == most_items("failedMoves")
    assert kept[-1].gpu_type == "gpu-0"


def refused(entry: FailedMove) -> list[Rejection]:
    """The places that a failure closes on a fleet of three GPU types."""
    judged = options(request(), fleet(node("l4", L4, 4), node("l", L40S, 4), node("h", H100, 4)))
    assert without_failed(judged, (entry,), "another") is judged, "another engine may come up there"
    found = without_failed(judged, (entry,), entry.engine)
    changed = [each for each, before in zip(found.verdicts, judged.verdicts, strict=True) if each != before]
    return [each for each in changed if isinstance(each, Rejection)]


def places(rejections: list[Rejection]) -> list[tuple[str, int]]:
    assert {each.reason for each in rejections} == {Reason.MOVE_FAILED}
    return [(each.gpu_type, each.split.gpus) for each in rejections]


def test_a_place_is_closed_with_all_larger_ones_of_its_gpu_type_and_no_other() -> None:
    assert places(refused(failed())) == [(L40S, 1), (L40S, 2), (L40S, 4)]
    assert places(refused(replace(failed(), split=Split(2)))) == [(L40S, 2), (L40S, 4)]


def test_where_memory_was_short_more_gpus_may_help() -> None:
    assert places(refused(replace(failed(), delay=Delay("EngineOutOfMemory")))) == [(L40S, 1)]


def test_the_numbers_of_the_refusal_are_those_of_the_failure() -> None:
    assert dict(refused(failed(times=3))[0].numbers) == {
        "failure": "EngineCrashed",
        "times": 3,
        "at": "2027-01-15T07:59:00Z",
        "until": "2027-01-16T07:59:00Z",
    }


@pytest.mark.parametrize("places", [(), (failed("gpu-of-nobody"),)], ids=["none", "elsewhere"])
def test_where_nothing_is_refused_the_options_are_the_same_object(places: tuple[FailedMove, ...]) -> None:
    judged = options(request(), fleet(node("l", L40S, 4)))
    assert any(isinstance(each, Option) for each in judged.verdicts)
    assert without_failed(judged, places, "vllm") is judged


def test_each_engine_has_its_own_failures_and_pauses_at_a_place() -> None:
    first = remembered((failed(),), [RollBack(L40S, ONE, CRASH, engine="sglang")], "s", NOW)
    assert [(each.engine, each.times) for each in first] == [("vllm", 1), ("sglang", 1)]
    second = remembered(first, [RollBack(L40S, ONE, CRASH, engine="sglang")], "s", NOW + 60)
    assert [(each.engine, each.times) for each in second] == [("vllm", 1), ("sglang", 2)]
    assert places(refused(replace(failed(), engine="sglang"))) == [(L40S, 1), (L40S, 2), (L40S, 4)]


def test_settings_that_failed_are_remembered_next_to_the_place_and_their_pause_doubles_whatever_they_were() -> None:
    first = remembered((failed(),), [RollBack(L40S, ONE, CRASH, StepLimits(sequences=64))], "s", NOW)
    assert [(each.limits.sequences, each.times) for each in first] == [(0, 1), (64, 1)]
    later = NOW + 2 * FIRST_PAUSE_SECONDS
    second = remembered(first, [RollBack(L40S, ONE, CRASH, StepLimits(sequences=48))], "s", later)
    assert [(each.limits.sequences, each.times) for each in second] == [(0, 1), (48, 2)]
    assert second[-1].until == later + 2 * FIRST_PAUSE_SECONDS


def test_settings_that_failed_close_no_place_and_only_those_of_their_place_are_refused() -> None:
    entry = replace(failed(), limits=StepLimits(sequences=64))
    assert refused(entry) == []
    assert settings_refused((failed(H100), entry), (L40S, ONE), "vllm")
    assert not settings_refused((entry,), (L40S, ONE), "sglang")
    assert not settings_refused((entry,), (L40S, Split(2)), "vllm")
    assert not settings_refused((failed(),), (L40S, ONE), "vllm"), "a move there failed, and it runs there now"


def test_only_what_failed_at_the_place_that_a_user_forces_is_said_there() -> None:
    wanted = request(constraints=GpuConstraints(allow=(L40S,), max_per_replica=1))
    runs_here = tenant(wanted, pool(L40S))
    here, elsewhere = failed(), failed(H100)
    settings_here, other_engine = replace(here, limits=StepLimits(sequences=64)), replace(here, engine="sglang")
    for known, said in ((here, True), (elsewhere, False), (settings_here, False), (other_engine, False)):
        [decision] = plan([replace(runs_here, failed=(known,))], fleet(node("l", L40S, 1), node("h", H100, 1)))
        assert (failed_move_warning(known) in decision.warnings) is said
