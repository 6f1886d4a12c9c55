"""A token of a prefix that comes again: loaded from host memory, or computed once more."""

from __future__ import annotations

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.performance.reuse import ReuseTimes, reuse_times
from plimsoll.performance.step_costs import step_costs
from tests.support.planning import A100, H100, L4, LLAMA_8B, LLAMA_70B, gpu, request
from tests.support.tables import every_case

MICRO = 1e-6


def times(name: str, card: str, degree: int = 1, prompt: int = 1000) -> ReuseTimes:
    wanted, kind, split = request(name, context=8192), gpu(card), Split(degree)
    settings = VLLM.settings(wanted, kind, split)
    of_token = VLLM.estimate(wanted, kind, split, settings).kv_bytes_per_token
    costs = step_costs(wanted.model, wanted.precision, wanted.kv_precision, kind, split)
    return reuse_times(costs, kind, of_token, prompt, settings.max_num_batched_tokens)


@every_case(
    ("name", "card", "degree", "loaded"),
    [
        # 131,072 bytes of 32 layers, 8 heads of 128, keys and values in two bytes, at 50 GB/s.
        (LLAMA_8B, H100, 1, 2.62),
        (LLAMA_8B, A100, 1, 5.24),
        # 327,680 bytes of 80 layers, a quarter of them on each rank's own link.
        (LLAMA_70B, H100, 4, 1.64),
        (LLAMA_70B, H100, 8, 0.82),
    ],
)
def test_a_token_is_loaded_over_the_link_of_each_rank(name: str, card: str, degree: int, loaded: float) -> None:
    assert times(name, card, degree).loaded == pytest.approx(loaded * MICRO, rel=0.005)


@every_case(
    ("name", "card", "degree", "computed"),
    [
        # Two operations a weight: 16.06 Gflop over 0.55 of 989 Tflop/s are 29 us, 141 over four such 65.
        (LLAMA_8B, H100, 1, 29.5),
        (LLAMA_70B, H100, 4, 65.0),
        (LLAMA_8B, A100, 1, 93.6),
    ],
)
def test_computing_it_is_about_two_operations_a_weight(name: str, card: str, degree: int, computed: float) -> None:
    found = times(name, card, degree)
    assert found.computed == pytest.approx(computed * MICRO, rel=0.25)
    assert found.computed > 5 * found.loaded


def test_long_prefixes_cost_more_to_compute_and_the_same_to_load() -> None:
    short, long = (times(LLAMA_8B, L4, prompt=prompt) for prompt in (1000, 64_000))
    assert long.computed > 1.3 * short.computed
    assert long.loaded == short.loaded
