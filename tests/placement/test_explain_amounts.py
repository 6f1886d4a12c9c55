"""Amounts in the sentence of an estimate, at zero and on both sides of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.placement.explain import estimate_sentence
from tests.support.planning import H100, fleet, node, placed, request

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "words"), [(0, "margin 0.00 GiB"), (512 * MIB, "margin 0.50 GiB"), (-512 * MIB, "margin -0.50 GiB")]
)
def test_only_an_amount_below_zero_has_a_minus_sign(size: int, words: str) -> None:
    figures = placed(request(), fleet(node("h", H100))).choice.estimate
    assert f" + {words} = " in estimate_sentence(replace(figures, margin_bytes=size))
