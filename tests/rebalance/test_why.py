from __future__ import annotations

import re
import string

import pytest

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance import why
from plimsoll.rebalance.law.capacity import ConcurrencyLimit
from plimsoll.rebalance.state.allowance import Scope
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move, Retune, Wait
from plimsoll.rebalance.why import sentence


def test_every_reason_has_a_sentence() -> None:
    assert set(why._SENTENCES) == set(DecisionReason)  # noqa: SLF001 - the table is what is tested
    for text in why._SENTENCES.values():  # noqa: SLF001
        assert re.fullmatch(r"[A-Z{].*\.", text), text
        assert all(name is None or name.isidentifier() for _, name, _, _ in string.Formatter().parse(text))


KNOWN = (
    ("replicas", 1),
    ("needed", 3),
    ("waiting", 0),
    ("prompt_tokens", 1000),
    ("output_tokens", 200),
    ("arrivals_per_minute", 600),
    ("capacity_per_minute", 240),
    ("limit", "KvCache"),
    ("stuck", 0),
)


def test_sentences_carry_their_numbers() -> None:
    assert sentence(AddReplica(DecisionReason.ARRIVALS_EXCEED_CAPACITY, KNOWN)) == (
        "3 replicas are needed and 1 replica wanted so far: 600 requests a minute with prompts of 1,000 and answers of "
        "200 tokens, of which a replica carries 240 (the KV cache limits it)."
    )
    early = (*KNOWN, ("start_percent", 82), ("waiting", 3))
    assert sentence(AddReplica(DecisionReason.ARRIVALS_EXCEED_CAPACITY, early)).endswith(
        " a replica carries 240 (the KV cache limits it); another is started at 82 % of that; 3 requests wait."
    )
    assert sentence(
        Move(DecisionReason.NEED_OUTGREW_PLACEMENT, (("needed_bytes", 2**36), ("budget_bytes", 2**35)))
    ) == ("Another placement is needed: a GPU must hold 64.00 GiB and the one placed gives 32.00 GiB.")
    assert sentence(Wait(DecisionReason.AT_MAX_REPLICAS, (("wanted", "SustainedQueue"), ("max", 4)))) == (
        "Waiting (SustainedQueue): there are as many replicas as allowed, 4."
    )


WORDS = {"figure": "tpot", "limit": "KvCache", "scope": Scope.CLUSTER.value, "pod": "p", "wanted": "x", "nearest": ""}
SOURCES = (
    *("arrivals_per_minute", "at_gateway", "bound", "capacity_per_minute", "changes", "days", "enough"),
    *("expected_per_minute", "fresh", "mean_waiting", "moves", "needed", "output_tokens", "pod_waiting"),
    *("prompt_tokens", "rank_waiting", "ready", "replicas", "reversals", "stuck", "waiting"),
)
PLURAL = re.compile(
    r"\b1 (?:ready )?(?:replicas|requests|days|changes|moves|removals)\b|\b1 (?:of 1 )?(?:ready )?(?:replica|request) "
    r"(?:a minute )?(?:are|have|wait|do)\b|there are 1 |\b1 are allowed|\b1 of them do\b"
)


@pytest.mark.parametrize("reason", DecisionReason)
def test_one_of_a_thing_is_one_in_every_sentence(reason: DecisionReason) -> None:
    fields = {name for _, name, _, _ in string.Formatter().parse(why._SENTENCES[reason]) if name}  # noqa: SLF001
    numbers = dict.fromkeys((*fields, *SOURCES), 1) | WORDS
    assert PLURAL.findall(sentence(Wait(reason, tuple(numbers.items())))) == []


@pytest.mark.parametrize("limit", ConcurrencyLimit)
def test_every_limit_has_its_words(limit: ConcurrencyLimit) -> None:
    numbers = (*(each for each in KNOWN if each[0] != "limit"), ("limit", limit.value))
    assert "limits it)" in sentence(AddReplica(DecisionReason.ARRIVALS_EXCEED_CAPACITY, numbers))


def test_what_is_not_known_of_the_requests_is_not_said() -> None:
    unknown = (("replicas", 2), ("needed", 3), ("waiting", 12), ("stuck", 1))
    assert sentence(AddReplica(DecisionReason.ARRIVALS_EXCEED_CAPACITY, unknown)) == (
        "3 replicas are needed and 2 replicas wanted so far: nothing is known of the requests yet; 12 requests wait; 1 "
        "of them does not get ready."
    )
    assert sentence(Keep(DecisionReason.WITHIN_BAND, (("replicas", 1), ("waiting", 0), ("kv_percent", 60)))) == (
        "Nothing to change for 1 replica: nothing is known of the requests yet; 60 % of the KV cache is in use."
    )
    lengths = (*unknown, ("prompt_tokens", 10), ("output_tokens", 20))
    assert "requests with prompts of 10 and answers of 20 tokens; 12" in sentence(
        AddReplica(DecisionReason.ARRIVALS_EXCEED_CAPACITY, lengths)
    )


def test_a_stuck_replica_is_counted() -> None:
    numbers = (*(each for each in KNOWN if each[0] != "stuck"), ("stuck", 1), ("bound_seconds", 450))
    assert sentence(AddReplica(DecisionReason.REPLICAS_STUCK, numbers)).startswith(
        "1 replica did not get ready within 450 s, so others are needed in their place: 600 requests a minute"
    )


@pytest.mark.parametrize(
    "reason",
    [
        DecisionReason.BATCH_LIMIT_BINDS,
        DecisionReason.ARRIVALS_EXCEED_CAPACITY,
        DecisionReason.BACKLOG_TOO_LONG,
        DecisionReason.SUSTAINED_QUEUE,
    ],
)
def test_another_limit_is_said_with_what_it_gains(reason: DecisionReason) -> None:
    numbers = (*KNOWN, ("sequences", 16), ("to_sequences", 64), ("to_capacity_per_minute", 900))
    assert sentence(Retune(reason, numbers, StepLimits(sequences=64))).endswith(
        "; --max-num-seqs 64 instead of 16 lets a replica carry 900."
    )
    assert "--max-num-seqs" not in sentence(AddReplica(reason, KNOWN))


@pytest.mark.parametrize("reason", [DecisionReason.PROMPT_STEP_TOO_SMALL, DecisionReason.PROMPT_STEP_TOO_LARGE])
def test_another_step_is_said_with_what_it_gains(reason: DecisionReason) -> None:
    times = (("measured_ms", 60), ("promised_ms", 50), ("decode_ms", 30), ("then_ms", 44), ("prompt_percent", 70))
    numbers = (*KNOWN, *times, ("step", 2048), ("to_step", 512), ("to_capacity_per_minute", 900))
    said = sentence(Retune(reason, numbers, StepLimits(512)))
    assert said.endswith("; --max-num-batched-tokens 512 instead of 2048 lets a replica carry 900.")
    assert ("70 %" in said, "60 ms" in said) == (reason.endswith("Small"), reason.endswith("Large"))


def test_a_number_that_lacks_is_an_error_and_not_a_hole_in_the_prose() -> None:
    with pytest.raises(KeyError, match="replicas"):
        sentence(Keep(DecisionReason.WITHIN_BAND))


def test_a_pod_is_named_where_it_is_known() -> None:
    known = (("fresh", 1), ("ready", 2))
    named = sentence(Wait(DecisionReason.METRICS_MISSING, (*known, ("pod", "llama-1"))))
    assert named.startswith("Waiting: there are no metrics for pod llama-1; ")
    unnamed = sentence(Wait(DecisionReason.METRICS_MISSING, (*known, ("pod", ""))))
    assert unnamed.startswith("Waiting: there are no metrics for a pod; ")


def test_a_closed_window_names_the_next_one() -> None:
    numbers = (("wanted", "PlacementTooSmall"), ("opens", "2026-11-28T01:00:00Z"), ("minutes", 312))
    assert sentence(Wait(DecisionReason.OUTSIDE_MAINTENANCE_WINDOW, numbers)) == (
        "Waiting (PlacementTooSmall): no maintenance window is open. The next one opens at 2026-11-28T01:00:00Z, 312 "
        "min after this was decided."
    )


@pytest.mark.parametrize(
    ("scope", "where"),
    [("cluster", "of all deployments"), ("namespace", "in this namespace"), ("deployment", "of this deployment")],
)
def test_a_spent_share_names_what_it_is_a_share_of(scope: str, where: str) -> None:
    numbers = (("wanted", "PlacementTooSmall"), ("moves", 6), ("bound", 6), ("scope", scope))
    assert sentence(Wait(DecisionReason.FLEET_BUDGET_SPENT, numbers)) == (
        f"Waiting (PlacementTooSmall): the last hour saw 6 moves and changes of settings {where}, and the operator "
        "allows 6."
    )


@pytest.mark.parametrize(
    ("nearest", "end"), [("", "."), ("l4-24gb x 1 fits", "; nearest: l4-24gb x 1 fits.")], ids=["none", "one"]
)
def test_the_nearest_place_is_named_where_there_is_one(nearest: str, end: str) -> None:
    wait = Wait(DecisionReason.NO_PLACE_FOUND, (("wanted", "SustainedQueue"), ("nearest", nearest)))
    assert sentence(wait) == f"Waiting (SustainedQueue): no place was found for it{end}"


FOR_SPEED = (
    ("figure", "tpot"),
    ("measured_ms", 45),
    ("promised_ms", 30),
    ("alone_ms", 41),
    ("slowness_percent", 170),
    ("place", "l40s-48gb x 1"),
)


def test_a_promise_out_of_reach_is_said_with_what_the_new_place_gives() -> None:
    found = (*FOR_SPEED, ("to_place", "a100-sxm-80gb x 1"), ("to_replicas", 1), ("to_ms", 18))
    said = sentence(Move(DecisionReason.PROMISE_OUT_OF_REACH, found))
    assert said.endswith("(170 % of what the performance model says); 1 replica on a100-sxm-80gb x 1 would take 18 ms.")
    priced = sentence(Move(DecisionReason.PROMISE_OUT_OF_REACH, (*found, ("bill", "1.15"), ("to_bill", "1.59"))))
    assert priced.endswith("would take 18 ms, for 1.59 US dollars an hour instead of 1.15.")


def test_no_faster_place_is_said_with_the_promise() -> None:
    said = sentence(Wait(DecisionReason.NO_FASTER_PLACE, (*FOR_SPEED, ("wanted", "PromiseOutOfReach"))))
    assert said.startswith("Waiting (PromiseOutOfReach): the mean time per token is 45 ms and 30 ms are promised. ")


def test_an_expected_rise_says_when_from_what_and_how_sure() -> None:
    figures = (("expected_per_minute", 900), ("minutes", 15), ("days", 5), ("error_percent", 9))
    assert sentence(AddReplica(DecisionReason.RISE_EXPECTED, (*KNOWN, *figures))) == (
        "3 replicas are needed and 1 replica wanted so far: 900 requests a minute are expected in 15 min. This is from "
        "5 days before at the same time; such forecasts of them err by 9 %. Now there are 600 requests a minute with "
        "prompts of 1,000 and answers of 200 tokens, of which a replica carries 240 (the KV cache limits it)."
    )
