"""A decoder layer over PCIe: when its work hides its copy, by batch, precision and card."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import Precision
from plimsoll.performance.layer_copy import LayerCopy, layer_copy
from plimsoll.performance.model import Load
from plimsoll.performance.step_costs import step_costs
from tests.support.planning import A100, H100, L4, LLAMA_8B, gpu, request
from tests.support.tables import every_case, examples

PARAMETERS = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
"""Of a layer of Llama 3.1 8B: four projections of attention and three of the MLP."""


def found(card: str, precision: Precision = Precision.BF16, running: float = 16, step: int = 8192) -> LayerCopy:
    wanted, kind = request(LLAMA_8B), gpu(card)
    costs = step_costs(wanted.model, precision, wanted.kv_precision, kind, Split(1))
    size = PARAMETERS * (1 if precision is Precision.FP8 else 2)
    return layer_copy(costs, kind, size, Load(1000, 100, running), step)


@every_case(
    ("card", "precision", "milliseconds", "tokens"),
    [
        # 436 MB at 50 and at 25 GB/s. Two operations a weight on 0.55 of 989, 312 and 121 Tflop/s take as long from
        # 2 bytes x peak / (2 x link) tokens on: 10,900, 6,900 and 2,700.
        (H100, Precision.BF16, 8.72, 10_900),
        (A100, Precision.BF16, 17.4, 6_900),
        (L4, Precision.BF16, 17.4, 2_700),
        # Half of the bytes, and twice the operations a second.
        (H100, Precision.FP8, 4.36, 10_900),
    ],
)
def test_a_copy_is_hidden_from_so_many_tokens_of_a_step_on(
    card: str, precision: Precision, milliseconds: float, tokens: int
) -> None:
    layer = found(card, precision)
    assert 1000 * layer.copied == pytest.approx(milliseconds, rel=0.01)
    assert layer.hidden_from == pytest.approx(tokens, rel=0.25)


def test_while_few_requests_generate_a_copy_takes_as_much_longer_as_the_link_is_slower() -> None:
    """A read of a layer at about 0.8 of 3,350 GB/s, against 50 GB/s: 54 times; gaps and serving make it less."""
    layer = found(H100, running=1)
    assert 30 < layer.copied / layer.decoding < 54


@settings(max_examples=examples(60), deadline=None)
@given(
    card=st.sampled_from([H100, A100, L4]),
    precision=st.sampled_from([Precision.BF16, Precision.FP8]),
    step=st.integers(1, 100_000),
)
def test_steps_below_the_cliff_do_not_hide_a_copy_and_others_do(card: str, precision: Precision, step: int) -> None:
    layer = found(card, precision, step=step)
    assert layer.hidden_from is not None
    assert (layer.reading >= layer.copied) is (step >= layer.hidden_from)
    assert found(card, precision, running=64).decoding >= found(card, precision, running=2).decoding
