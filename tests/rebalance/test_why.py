from __future__ import annotations

import re
import string

import pytest

from plimsoll.rebalance import why
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, Keep, Move, Wait
from plimsoll.rebalance.why import sentence


def test_every_reason_has_a_sentence() -> None:
    assert set(why._SENTENCES) == set(DecisionReason)  # noqa: SLF001 - the table is what is tested
    for text in why._SENTENCES.values():  # noqa: SLF001
        assert re.fullmatch(r"[A-Z].*\.", text), text
        assert all(name is None or name.isidentifier() for _, name, _, _ in string.Formatter().parse(text))


def test_sentences_carry_their_numbers() -> None:
    numbers = (
        ("pressure_percent", 91),
        ("bound_percent", 80),
        ("demanded_tokens", 91000),
        ("held_tokens", 100000),
        ("replicas", 1),
        ("unknown", 0),
        ("seconds", 300),
    )
    assert sentence(AddReplica(DecisionReason.SUSTAINED_KV_PRESSURE, numbers)) == (
        "One replica more is needed: for 300 s the requests needed at least 91 % of the KV cache of 1 replica "
        "(91000 of 100000 tokens), and 80 % is too much."
    )
    assert sentence(
        Move(DecisionReason.NEED_OUTGREW_PLACEMENT, (("needed_bytes", 2**36), ("budget_bytes", 2**35)))
    ) == ("Another placement is needed: a GPU must hold 64.00 GiB and the one placed gives 32.00 GiB.")
    assert sentence(Wait(DecisionReason.AT_MAX_REPLICAS, (("wanted", "SustainedQueue"), ("max", 4)))) == (
        "Waiting (SustainedQueue): there are as many replicas as allowed, 4."
    )


def test_a_number_that_lacks_is_an_error_and_not_a_hole_in_the_prose() -> None:
    with pytest.raises(KeyError, match="seconds"):
        sentence(Keep(DecisionReason.WITHIN_BAND))


def test_a_pod_is_named_where_it_is_known() -> None:
    known = (("fresh", 1), ("ready", 2))
    named = sentence(Wait(DecisionReason.METRICS_MISSING, (*known, ("pod", "llama-1"))))
    assert named.startswith("Waiting: there are no metrics for pod llama-1; ")
    unnamed = sentence(Wait(DecisionReason.METRICS_MISSING, (*known, ("pod", ""))))
    assert unnamed.startswith("Waiting: there are no metrics for a pod; ")


@pytest.mark.parametrize(
    ("nearest", "end"), [("", "."), ("l4-24gb x 1 fits", "; nearest: l4-24gb x 1 fits.")], ids=["none", "one"]
)
def test_the_nearest_place_is_named_where_there_is_one(nearest: str, end: str) -> None:
    wait = Wait(DecisionReason.NO_PLACE_FOUND, (("wanted", "SustainedQueue"), ("nearest", nearest)))
    assert sentence(wait) == f"Waiting (SustainedQueue): no place was found for it{end}"


def test_unknown_replicas_are_counted_where_there_are_any() -> None:
    numbers = (("seconds", 120), ("waiting", 15), ("replicas", 3), ("unknown", 1), ("bound", 15))
    assert sentence(AddReplica(DecisionReason.SUSTAINED_QUEUE, numbers)) == (
        "One replica more is needed: for 120 s at least 15 requests waited at 3 replicas, 1 of them unknown, and 15 "
        "are too many."
    )
