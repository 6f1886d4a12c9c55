"""Every option of every deployment gets a speed, so that one must take little time."""

from __future__ import annotations

from statistics import median
from time import process_time

from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import KvPrecision, Precision
from plimsoll.performance.model import Load, performance
from tests.support.model_configs import facts_of
from tests.support.planning import H100, gpu

NOISE = 4
"""How much slower than on a quiet machine a shared one may be."""

TIMES = 200


def test_one_evaluation_takes_half_a_millisecond_at_most() -> None:
    facts, card = facts_of("Qwen__Qwen3-235B-A22B"), gpu(H100)
    spent: list[float] = []
    for running in range(1, TIMES):
        start = process_time()
        performance(facts, Precision.FP8, KvPrecision.FP8, card, Split(8), Load(2048, 512, running), 8192)
        spent.append((process_time() - start) * 1000)
    print(f"one evaluation: {median(spent):.3f} ms")  # noqa: T201 - the figure is what one wants to see
    assert median(spent) <= 0.5 * NOISE


def test_a_new_split_takes_ten_milliseconds_at_most() -> None:
    facts, card = facts_of("Qwen__Qwen3-235B-A22B"), gpu(H100)
    splits = [Split(tensor, stages) for tensor in (1, 2, 4, 8) for stages in (1, 2, 3, 4, 5)]
    spent: list[float] = []
    for split in splits:
        start = process_time()
        performance(facts, Precision.FP8, KvPrecision.BF16, card, split, Load(2048, 512, 16), 8192)
        spent.append((process_time() - start) * 1000)
    print(f"a new split: {median(spent):.3f} ms")  # noqa: T201 - the figure is what one wants to see
    assert median(spent) <= 10 * NOISE
