"""The Accuracy view: errors by model and GPU type, and one honest sentence about them."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.console.drawing.error_strip import EDGE, WIDTH, error_strip, reach_of
from plimsoll.console.views.accuracy import Accuracy, Measure, accuracy_of
from plimsoll.console.views.rows import DeploymentRow, ObservedRow, PoolRow, ProvedTooSmall, row_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB

ONE = Split(1)


def pool(predicted: int | None, reported: int | None, gpu_type: str = "l4-24gb") -> PoolRow:
    return PoolRow("p", gpu_type, ONE, 1, 1, kv_tokens_predicted=predicted, kv_tokens_reported=reported)


def row(name: str, *pools: PoolRow, model: str = "qwen", **more: Any) -> DeploymentRow:
    return DeploymentRow(ObjectKey("chat", name), "uid", "1", model, is_behind=False, pools=pools, **more)


def start(predicted: int, available: int | None) -> ObservedRow:
    return ObservedRow("qwen", "l4-24gb", ONE, "0.32.0", predicted, available)


def test_without_a_report_nobody_can_say() -> None:
    for rows in ([], [row("a", pool(1000, None))], [row("a", pool(None, 1000))], [row("a", pool(1000, 0))]):
        found = accuracy_of(rows)
        assert found == Accuracy("Nobody can say yet: no engine has reported its KV cache.", None, (), ())


def test_errors_are_grouped_by_model_and_gpu_type_and_the_worst_comes_first() -> None:
    rows = [
        row("a", pool(1010, 1000)),
        row("b", pool(970, 1000)),
        row("c", pool(1020, 1000)),
        row("d", pool(900, 1000, "h100-sxm-80gb")),
        row("e", pool(1000, 1000), model="llama"),
    ]
    far, many, exact = accuracy_of(rows).groups
    assert (many.model, many.gpu_type, many.errors, many.median) == ("qwen", "l4-24gb", (-30, 10, 20), "+1.0 %")
    assert many.worst is not None
    assert (many.worst.deployment.name, many.worst.error) == ("b", "-3.0 %")
    assert many.worst.figures == "970 predicted, 1,000 reported"
    assert (far.gpu_type, far.errors) == ("h100-sxm-80gb", (-100,))
    assert (exact.model, exact.median) == ("llama", "0.0 %")


@pytest.mark.parametrize(("errors", "median"), [((990, 1040), "+4.0 %"), ((960, 1010), "-4.0 %"), ((1010,), "+1.0 %")])
def test_the_median_of_two_is_the_one_further_from_zero(errors: tuple[int, ...], median: str) -> None:
    (group,) = accuracy_of([row(str(number), pool(each, 1000)) for number, each in enumerate(errors)]).groups
    assert group.median == median


def test_starts_are_compared_in_bytes_apart_from_tokens() -> None:
    seen = (start(11 * GIB, 10 * GIB), start(-GIB, 2 * GIB), start(3 * GIB, None))
    groups = accuracy_of([row("a", pool(1000, 1000), observed=seen)]).groups
    by_measure = {group.measure: group for group in groups}
    assert by_measure[Measure.TOKENS].errors == (0,)
    assert by_measure[Measure.BYTES].errors == (-1500, 100)
    (failed,) = by_measure[Measure.BYTES].too_small
    assert failed.figures == "3.0 GiB predicted, the engine ran out of memory"
    assert groups[0].measure is Measure.BYTES


def test_close_figures_and_memory_that_stayed_unused_are_trusted() -> None:
    found = accuracy_of([row("a", pool(1050, 1000)), row("b", pool(500, 1000))])
    assert found.is_trusted
    assert (
        found.answer == "Yes: nothing proved too small, and the largest of 2 known errors is -50.0 % (qwen on l4-24gb)."
    )


def test_a_promise_beyond_5_percent_is_named() -> None:
    found = accuracy_of([row("a", pool(1051, 1000)), row("b", pool(1000, 1000), model="llama")])
    assert not found.is_trusted
    assert found.answer.startswith("Not everywhere: over 5 % too much was promised in 1 of 2 groups;")
    assert found.answer.endswith("is +5.1 % (qwen on l4-24gb).")


def test_places_that_proved_too_small_are_named_with_their_deployment() -> None:
    small = ProvedTooSmall("l4-24gb", Split(2), 7000)
    found = accuracy_of([row("a", pool(1000, 1000), too_small=(small,))])
    assert not found.is_trusted
    assert found.answer.startswith("Not everywhere: one placement proved too small; the largest of 1 known errors")
    assert found.too_small == ((ObjectKey("chat", "a"), small),)
    alone = accuracy_of([row("a", too_small=(small,))])
    assert alone.answer == "No: one placement proved too small, and no engine has reported its KV cache."


def test_the_entries_are_read_from_the_status() -> None:
    place = {"gpuType": "l4-24gb", "tensorParallel": 1}
    body = {
        "metadata": {"namespace": "chat", "name": "a", "generation": 1},
        "status": {"tooSmall": [{**place, "kvTokens": 7000, "spec": "abc"}]},
    }
    assert row_of(body).too_small == (ProvedTooSmall("l4-24gb", ONE, 7000),)
    assert row_of({**body, "status": {}}).too_small == ()


def test_dots_stand_on_one_scale_around_zero() -> None:
    strip = error_strip([-100, 0, 100], 100, 50)
    assert [dot.x for dot in strip.dots] == [EDGE, WIDTH / 2, WIDTH - EDGE]
    assert strip.zero == WIDTH / 2
    assert strip.zero - strip.close[0] == strip.close[1] - strip.zero > 0
    assert not any(dot.is_beyond for dot in strip.dots)


def test_errors_off_the_scale_stand_at_its_end_and_are_marked() -> None:
    (dot,) = error_strip([5000], 1000, 50).dots
    assert (dot.x, dot.is_beyond, dot.permille) == (WIDTH - EDGE, True, 5000)
    assert [reach_of(errors) for errors in ([], [3], [-120], [99_999])] == [100, 100, 200, 1000]
