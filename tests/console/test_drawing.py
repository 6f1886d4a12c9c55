"""Geometry of bars, hulls and strips: one scale, nothing beyond its end without a mark, and a sentence for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.console.drawing.bar import (
    DISC_ARM,
    PERCENT,
    WIDTH_OF_NEED,
    WIDTH_OF_TERM,
    BarScale,
    bar_of,
    common_scale,
    in_use,
    strip_of,
)
from plimsoll.console.drawing.hulls import Held, hulls_of
from plimsoll.console.views.figures import Figures
from plimsoll.domain.units import GIB
from tests.console.test_states import figures, row
from tests.support.tables import every_case

SCALE = BarScale(24 * GIB, 240.0)
"""10 units for each GiB."""


def test_a_scale_keeps_proportions_and_ends_at_its_end() -> None:
    assert [SCALE.at(size * GIB) for size in (-1, 0, 12, 24, 99)] == [0.0, 0.0, 120.0, 240.0, 240.0]
    assert common_scale([3, 8], 4.0) == BarScale(8, 4.0)
    nothing = common_scale([], 4.0)
    assert (nothing.at(5), len(nothing.ticks)) == (0.0, 1)


@every_case(("top", "step"), [(7, 1), (8, 2), (24, 4), (80, 16), (192, 32), (10_000, 128)])
def test_ticks_stand_at_round_numbers(top: int, step: int) -> None:
    ticks = BarScale(top * GIB, 100.0).ticks
    assert [tick.words for tick in ticks[:2]] == ["0", str(step)]
    assert all(tick.at <= 100.0 for tick in ticks)


def test_the_parts_of_a_bar_follow_one_another_up_to_the_line() -> None:
    bar = bar_of(figures(5), SCALE)
    assert [(part.kind, part.start, part.length) for part in bar.parts] == [
        ("weights", 0.0, 60.0),
        ("kv", 60.0, 20.0),
        ("activations", 80.0, 10.0),
        ("other", 90.0, 10.0),
        ("spare", 110.0, 50.0),
    ]
    assert (bar.band.start, bar.band.end) == (90.0, 110.0)
    assert (bar.line, bar.hull, bar.over, bar.live) == (160.0, 240.0, None, None)


def test_what_is_over_the_line_has_its_own_part_and_ends_with_the_scale() -> None:
    bar = bar_of(figures(-3), SCALE)
    assert bar.over is not None
    assert (bar.over.start, bar.over.end, bar.over.words) == (80.0, 110.0, "3.0")
    assert "spare" not in {part.kind for part in bar.parts}
    assert "3.0 GiB over the line" in bar.sentence
    beyond = bar_of(replace(figures(-3), weights=30 * GIB), SCALE)
    assert all(part.end <= SCALE.length for part in (*beyond.parts, beyond.band))


@pytest.mark.parametrize(("share", "end"), [(0.0, 60.0), (0.5, 100.0), (1.0, 140.0), (1.7, 140.0), (-1.0, 60.0)])
def test_the_live_cache_lies_on_the_pool_between_weights_and_line(share: float, end: float) -> None:
    """The pool: the budget of 16 GiB without what is not cache (8 GiB)."""
    bar = bar_of(figures(5), SCALE, share)
    assert bar.live is not None
    assert (bar.live.start, bar.live.end) == (60.0, end)
    assert f"{100 * share:.0f} % of the KV cache in use" in bar.sentence


def test_the_sentence_has_every_figure() -> None:
    assert bar_of(figures(5), SCALE).sentence == (
        "needs 9.0 to 11.0 GiB (weights 6.0, KV cache 2.0, activations 1.0, graphs and overhead 1.0); "
        "load line at 16.0 of 24.0 GiB; 5.0 GiB spare"
    )


def test_a_learned_correction_below_zero_draws_no_negative_part() -> None:
    bar = bar_of(replace(figures(5), other=-GIB), SCALE)
    assert min(part.length for part in bar.parts) >= 0
    assert figures(0).spare == 0
    assert "spare" not in {part.kind for part in bar_of(figures(0), SCALE).parts}


def held(letter: str, gpus: int, found: Figures | None) -> Held:
    return Held(letter, gpus, None if found is None else replace(row(), figures=found))


def test_a_node_has_its_pods_in_order_and_the_rest_free() -> None:
    hulls = hulls_of(24 * GIB, 4, [held("a", 2, figures(5)), held("", 1, None)], SCALE)
    paths = dict(hulls.paths)
    assert hulls.sentence == "4 GPUs: 2 of deployments, 1 of other pods, 1 free"
    assert paths["weights"].count("M") == 2
    assert (paths["foreign"].count("M"), paths["free"].count("M")) == (1, 1)
    assert "over" not in paths
    (bracket,) = hulls.brackets
    assert (bracket.start, bracket.length, bracket.letter) == (0.0, 38.0, "a")
    assert hulls.width == 88.0


def test_more_pods_than_gpus_are_all_drawn_and_none_is_free() -> None:
    hulls = hulls_of(24 * GIB, 1, [held("a", 2, None)], SCALE)
    assert "free" not in dict(hulls.paths)
    assert dict(hulls.paths)["mine"].count("M") == 2
    assert hulls.sentence.endswith("0 free")


def test_a_hull_over_its_line_is_marked() -> None:
    assert "over" in dict(hulls_of(24 * GIB, 1, [held("a", 1, figures(-3))], SCALE).paths)


def test_a_strip_is_as_long_as_its_share_of_the_largest_type() -> None:
    strip = strip_of(1, 2, 1, 8, "words")
    assert (strip.ours, strip.others, strip.free) == (PERCENT / 8, PERCENT / 4, PERCENT / 8)
    assert strip_of(0, 0, 0, 0, "none").free == 0.0


def test_a_hull_has_a_stroke_for_the_used_cache_where_it_is_known() -> None:
    known = replace(held("a", 1, figures(5)), live=0.5)
    assert "live" in dict(hulls_of(24 * GIB, 1, [known], SCALE).paths)
    assert "live" not in dict(hulls_of(24 * GIB, 1, [replace(known, live=None)], SCALE).paths)
    assert in_use(figures(5), 0.0) == figures(5).weights
    assert in_use(figures(5), 1.0) == figures(5).budget - (figures(5).activations + figures(5).other)


WIDE = BarScale(24 * GIB, 720.0)
"""The scale of the large bar: 30 units for each GiB."""


def test_a_large_bar_says_its_need_its_line_and_its_live_cache() -> None:
    bar = bar_of(figures(5), WIDE, 0.5)
    assert (bar.need.at, bar.need.anchor, bar.need.words) == (330.0, "end", "needs 9.0 to 11.0 GiB")
    assert (bar.line_label.at, bar.line_label.anchor, bar.line_label.words) == (480.0, "end", "load line 16.0 GiB")
    assert bar.live is not None
    assert bar.live.words == "50 % of the KV cache in use"


@every_case("spare", [9, 5, 0, -1, -3, -7])
@every_case("weights", [1, 6, 12])
def test_no_label_is_crossed_by_the_load_line_or_leaves_the_drawing(spare: int, weights: int) -> None:
    found = replace(figures(spare), weights=weights * GIB, budget=(weights + 5 + spare) * GIB)
    bar = bar_of(found, WIDE)
    end = bar.need.at + (WIDTH_OF_NEED if bar.need.anchor == "start" else 0)
    start = end - WIDTH_OF_NEED
    assert start >= 0 or bar.need.anchor == "start"
    assert end <= WIDE.length
    assert not start < bar.line < end


def test_a_need_over_the_line_says_by_how_much() -> None:
    assert bar_of(figures(-3), WIDE).need.words == "needs 9.0 to 11.0 GiB, 3.0 over"
    same = replace(figures(5), slack=0, margin=0)
    assert bar_of(same, WIDE).need.words == "needs 10.0 GiB"


def test_a_hull_has_the_memory_of_its_gpu_on_its_axis() -> None:
    assert hulls_of(24 * GIB - 1, 4, [], SCALE).top == "24"


def test_the_words_of_a_term_stand_clear_of_the_load_line() -> None:
    bar = bar_of(figures(5), WIDE)
    weights, kv, activations, *_ = bar.parts
    assert bar.label_at(weights) == 90.0
    assert bar.label_at(activations) is None  # 30 units have no room for words
    crossed = bar_of(replace(figures(5), kv_cache=8 * GIB, budget=12 * GIB), WIDE)
    kv = crossed.parts[1]
    assert kv.start < crossed.line < kv.end
    at = crossed.label_at(kv)
    assert at is not None
    assert at + WIDTH_OF_TERM / 2 <= crossed.line - DISC_ARM
    assert crossed.label_at(replace(kv, start=crossed.line - 60)) is None
