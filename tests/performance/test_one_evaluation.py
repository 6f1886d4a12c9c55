"""Every option of every deployment gets a speed, so that one must take little work: calls, which no machine changes."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.performance.model import Load, performance
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu
from tests.support.work import counted_calls

FACTS, CARD = facts_of("Qwen__Qwen3-235B-A22B"), gpu(H100)


def test_one_evaluation_is_two_hundred_and_fifty_calls_at_most() -> None:
    performance(FACTS, Precision.FP8, KvPrecision.FP8, CARD, Split(8), Load(2048, 512, 200), 8192)
    for running in range(1, 200):
        with counted_calls() as calls:
            performance(FACTS, Precision.FP8, KvPrecision.FP8, CARD, Split(8), Load(2048, 512, running), 8192)
        assert calls.amount < 250


def test_a_new_split_is_thirty_thousand_calls_at_most() -> None:
    for split in [Split(tensor, stages) for tensor in (1, 2, 4, 8) for stages in (1, 2, 3, 4, 5)]:
        with counted_calls() as calls:
            performance(FACTS, Precision.FP8, KvPrecision.BF16, CARD, split, Load(2048, 512, 16), 8192)
        assert calls.amount < 30_000
