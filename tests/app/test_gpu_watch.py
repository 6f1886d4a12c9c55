"""When the activity of GPUs is asked for, and what a failure costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from plimsoll.app.live.gpu_watch import PATIENCE_SECONDS, YOUNG_SECONDS, GpuWatch
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import GpuActivity

NOW = 1_700_000_000.0
KEY, OTHER, THIRD, EMPTY = (ObjectKey("ns", name) for name in ("llama", "other", "third", "empty"))
BUSY = GpuActivity(0.8, 0.1)


@dataclass
class Reader:
    answer: GpuActivity | None
    asked: list[Mapping[ObjectKey, Collection[str]]] = field(default_factory=list)

    def gpu_activities(
        self, pods: Mapping[ObjectKey, Collection[str]], *, now: float
    ) -> dict[ObjectKey, GpuActivity | None]:
        assert now > 0
        self.asked.append(pods)
        return dict.fromkeys(pods, self.answer)


@pytest.mark.parametrize(("answer", "seconds"), [(BUSY, YOUNG_SECONDS), (None, PATIENCE_SECONDS)])
def test_an_answer_holds_for_a_while_and_no_answer_for_longer(answer: GpuActivity | None, seconds: float) -> None:
    watch, reader = GpuWatch(), Reader(answer)
    for age in (0.0, seconds / 2, seconds - 1):
        assert watch.activities(reader, {KEY: ("a",)}, NOW + age) == {KEY: answer}
    assert reader.asked == [{KEY: ("a",)}]
    watch.activities(reader, {KEY: ("a", "b")}, NOW + seconds)
    assert reader.asked[1:] == [{KEY: ("a", "b")}]


def test_a_clock_that_was_set_back_asks_again() -> None:
    watch, reader = GpuWatch(), Reader(BUSY)
    for now in (NOW, NOW - 3600):
        watch.activities(reader, {KEY: ("a",)}, now)
    assert len(reader.asked) == 2


def test_one_question_is_about_all_objects_without_an_answer_and_each_has_its_own() -> None:
    watch, reader = GpuWatch(), Reader(BUSY)
    assert watch.activities(Reader(None), {KEY: ("a",)}, NOW) == {KEY: None}
    more = {KEY: ("a",), OTHER: ("b",), THIRD: ("c",), EMPTY: ()}
    assert watch.activities(reader, more, NOW) == {KEY: None, OTHER: BUSY, THIRD: BUSY}
    assert reader.asked == [{OTHER: ("b",), THIRD: ("c",)}]


def test_a_source_that_knows_no_gpus_and_an_object_without_pods_ask_nothing() -> None:
    watch, reader = GpuWatch(), Reader(BUSY)
    assert watch.activities(object(), {KEY: ("a",)}, NOW) == {}
    assert watch.activities(reader, {KEY: ()}, NOW) == {}
    assert (watch.answers, reader.asked) == ({}, [])
