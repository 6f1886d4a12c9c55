"""The geometry of the heat map: every step has its own height and its own class, and no samples is no low load."""

from __future__ import annotations

import math

import pytest

from plimsoll.console.drawing.heat_map import BARS_HEIGHT, HEIGHT, LoadStep, key_of, step_of, strip_of
from tests.support.tables import every_case


@every_case(
    ("share", "step"),
    [
        (0.0, LoadStep.BELOW_30),
        (0.299, LoadStep.BELOW_30),
        (0.3, LoadStep.BELOW_50),
        (0.5, LoadStep.BELOW_70),
        (0.7, LoadStep.BELOW_80),
        (0.799, LoadStep.BELOW_80),
        (0.8, LoadStep.TOO_MUCH),
        (0.9, LoadStep.BELOW_FULL),
        (0.994, LoadStep.BELOW_FULL),
        (0.995, LoadStep.FULL),
        (1.2, LoadStep.FULL),
    ],
)
def test_steps_are_absolute(share: float, step: LoadStep) -> None:
    assert step_of(share) is step


@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf, -0.01])
def test_what_is_no_share_is_unknown_and_zero_is_not(odd: float | None) -> None:
    assert step_of(odd) is LoadStep.UNKNOWN
    assert step_of(0) is LoadStep.BELOW_30


def test_each_step_has_its_own_word_class_and_height() -> None:
    assert len({step.word for step in LoadStep}) == len(LoadStep)
    assert len({step.css for step in LoadStep}) == len(LoadStep)
    assert len({key_of(step).bands[0].path for step in LoadStep if step is not LoadStep.UNKNOWN}) == len(LoadStep) - 1


def test_columns_of_one_step_are_one_path() -> None:
    low, full = LoadStep.BELOW_30, LoadStep.FULL
    strip = strip_of([low, low, full, low])
    assert [band.css for band in strip.bands] == [low.css, full.css]
    assert strip.bands[0].path == f"M0 {HEIGHT - 3}h12v3h-12z M18 {HEIGHT - 3}h6v3h-6z"
    assert strip.bands[1].path == f"M12 {HEIGHT - BARS_HEIGHT}h6v{BARS_HEIGHT}h-6z"
    assert (strip.width, strip.height, strip.view_box) == (24, HEIGHT, f"0 0 24 {HEIGHT}")


def test_queues_are_marks_above_their_columns() -> None:
    assert strip_of([LoadStep.FULL] * 3, [False, True, False]).marks == "M6 0h6l-3 4z"
    assert strip_of([LoadStep.FULL] * 3, [False] * 3).marks == ""


def test_a_row_without_columns_has_no_drawing() -> None:
    assert strip_of([]).bands == ()
