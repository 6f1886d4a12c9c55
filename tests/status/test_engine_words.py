"""The sentence of each engine that was compared: which one is taken, and what speaks against the others."""

from __future__ import annotations

import pytest

from plimsoll.domain.public_words import EngineReason, Numbers
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.status.words.engines import offer_sentence

OTHER: Numbers = (("other", "sglang"),)
COSTS: Numbers = (*OTHER, ("cost", "1.2500"), ("other_cost", "2.5000"))


@pytest.mark.parametrize(
    ("reason", "numbers", "ends"),
    [
        (
            EngineReason.SURER_FIT,
            (*OTHER, ("fit", "Sure"), ("other_fit", "Probable")),
            ": its fit is Sure, the other's Probable.",
        ),
        (EngineReason.SURER_FIT, (*OTHER, ("fit", "Sure"), ("other_fit", "Sure")), "."),
        (EngineReason.SURER_FIT, OTHER, "."),
        (
            EngineReason.LESS_SURE,
            (*OTHER, ("fit", "Probable"), ("other_fit", "Sure")),
            ": its fit is Probable, the other's Sure.",
        ),
        (EngineReason.LOWER_COST, COSTS, ": $1.2500 against $2.5000 an hour, with what waiting is worth."),
        (
            EngineReason.HIGHER_COST,
            (*COSTS, ("million", "3.10"), ("other_million", "4.20")),
            ": $1.2500 against $2.5000 an hour, with what waiting is worth, and a million tokens $3.10 against $4.20.",
        ),
    ],
)
def test_the_figures_that_decide_follow_the_reason(reason: EngineReason, numbers: Numbers, ends: str) -> None:
    offer = EngineOffer("vllm", "0.32.0", reason, numbers)
    said = offer_sentence(offer)
    without = offer_sentence(EngineOffer("vllm", "0.32.0", reason, OTHER))
    assert said == without.removesuffix(".") + ends
