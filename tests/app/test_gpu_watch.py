"""When the activity of GPUs is asked for, and what a failure costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from plimsoll.app.live.gpu_watch import PATIENCE_SECONDS, YOUNG_SECONDS, GpuWatch
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import GpuActivity

NOW = 1_700_000_000.0
KEY, OTHER = ObjectKey("ns", "llama"), ObjectKey("ns", "other")
BUSY = GpuActivity(0.8, 0.1)


@dataclass
class Reader:
    answer: GpuActivity | None
    asked: list[tuple[str, Collection[str]]] = field(default_factory=list)

    def gpu_activity(self, namespace: str, pods: Collection[str]) -> GpuActivity | None:
        self.asked.append((namespace, pods))
        return self.answer


@pytest.mark.parametrize(("answer", "seconds"), [(BUSY, YOUNG_SECONDS), (None, PATIENCE_SECONDS)])
def test_an_answer_holds_for_a_while_and_no_answer_for_longer(answer: GpuActivity | None, seconds: float) -> None:
    watch, reader = GpuWatch(), Reader(answer)
    for age in (0.0, seconds / 2, seconds - 1):
        assert watch.activity(reader, KEY, ("a",), NOW + age) == answer
    assert reader.asked == [("ns", ("a",))]
    watch.activity(reader, KEY, ("a", "b"), NOW + seconds)
    assert reader.asked[1:] == [("ns", ("a", "b"))]


def test_a_clock_that_was_set_back_asks_again() -> None:
    watch, reader = GpuWatch(), Reader(BUSY)
    for now in (NOW, NOW - 3600):
        watch.activity(reader, KEY, ("a",), now)
    assert len(reader.asked) == 2


def test_each_object_has_its_own_answer() -> None:
    watch = GpuWatch()
    assert watch.activity(Reader(None), KEY, ("a",), NOW) is None
    assert watch.activity(Reader(BUSY), OTHER, ("b",), NOW) == BUSY


def test_a_source_that_knows_no_gpus_and_an_object_without_pods_ask_nothing() -> None:
    watch, reader = GpuWatch(), Reader(BUSY)
    assert watch.activity(object(), KEY, ("a",), NOW) is None
    assert watch.activity(reader, KEY, (), NOW) is None
    assert (watch.answers, reader.asked) == ({}, [])
