"""The KV cache that engines reported against what the load needs, at the bound."""

from __future__ import annotations

from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.placement.options.candidates import candidate_on
from plimsoll.placement.options.feasibility import judge
from tests.support.planning import H100, fleet, node, placed, request

FLEET = fleet(node("h", H100))
NEEDED = placed(request(), FLEET).choice.estimate.kv_needed_tokens


def judged(tokens: int) -> Option | Rejection:
    """The verdict on one H100 where an engine reported this many tokens."""
    there = FLEET.of_type(H100)[0]
    wanted = request(observed=(ObservedCapacity(H100, Split(1), tokens),))
    return judge(wanted, candidate_on(there.gpu, Split(1), FLEET, restricted=False), FLEET)


def test_an_engine_that_reported_as_much_as_is_needed_fits() -> None:
    assert NEEDED > 0
    assert isinstance(judged(NEEDED), Option)


def test_one_token_less_than_needed_is_too_small_and_both_figures_are_given() -> None:
    found = judged(NEEDED - 1)
    assert isinstance(found, Rejection)
    assert (found.gpu_type, found.split, found.reason) == (H100, Split(1), Reason.OBSERVED_TOO_SMALL)
    assert dict(found.numbers) == {"need_tokens": NEEDED, "have_tokens": NEEDED - 1}
