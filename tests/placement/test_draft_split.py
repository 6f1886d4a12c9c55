"""A draft is cut over as many GPUs as its model: a degree must suit both."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import Speculation
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.divisibility import replica_refusal
from tests.support.planning import ENGINE, H100, chosen, fleet, model, node, placed, request

SMALL = "Qwen/Qwen2.5-0.5B-Instruct"


def drafting(draft: str | None) -> Request:
    speculation = None if draft is None else Speculation(3, model(draft))
    return request("Qwen/Qwen2.5-72B-Instruct", engine=replace(ENGINE, speculation=speculation))


def test_a_degree_that_the_draft_does_not_allow_is_refused_and_says_of_whom_it_speaks() -> None:
    refused = replica_refusal(drafting(SMALL), H100, Split(4))
    assert refused is not None
    assert (refused.reason, refused.split) == (Reason.HEADS_NOT_DIVISIBLE, Split(4))
    assert rejection_sentence(refused) == f"the draft {SMALL}: 14 attention heads do not divide; 2 works"


def test_the_model_s_own_refusal_comes_first() -> None:
    refused = replica_refusal(drafting(SMALL), H100, Split(3))
    assert refused is not None
    assert rejection_sentence(refused).startswith("64 attention heads do not divide")


def test_without_a_draft_and_with_one_that_divides_the_degree_is_free() -> None:
    assert replica_refusal(drafting(None), H100, Split(4)) is None
    assert replica_refusal(drafting("Qwen/Qwen2.5-7B-Instruct"), H100, Split(4)) is None


def test_placement_takes_a_degree_that_suits_both() -> None:
    where = fleet(node("h", H100, 8))
    assert chosen(placed(drafting("Qwen/Qwen2.5-7B-Instruct"), where).choice) == (H100, 4)
    assert chosen(placed(drafting(SMALL), where).choice) == (H100, 2)
