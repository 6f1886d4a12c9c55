"""Placements whose engines hold less KV cache than the load needs there."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.facts.models.pooling import as_pooling
from plimsoll.placement.options.feasibility import too_small
from tests.support.planning import H100, L4, fleet, node, request
from tests.support.pooling import qwen3_embedding

WHERE = fleet(node("h", H100), node("l", L4))


def observed(wanted: Request, *seen: tuple[str, int]) -> Request:
    return replace(wanted, observed=tuple(ObservedCapacity(kind, Split(1), tokens) for kind, tokens in seen))


def test_a_generating_engine_needs_all_requests_and_one_that_pools_a_step_of_its_card() -> None:
    generates = request(qwen3_embedding(), context=8192, concurrency=32)
    pools = replace(generates, model=as_pooling(generates.model))
    needs = ((generates, L4, 32 * 8192), (generates, H100, 32 * 8192), (pools, L4, 10_240), (pools, H100, 16_384))
    for wanted, kind, tokens in needs:
        assert too_small(observed(wanted, (kind, tokens)), WHERE) == ()
        found = observed(wanted, (kind, tokens - 1))
        assert too_small(found, WHERE) == found.observed


def test_they_are_sorted_and_an_honest_one_is_left_out() -> None:
    wanted = observed(request(context=4096, concurrency=8), (L4, 5), (H100, 4), (L4, 8 * 4096))
    assert [seen.kv_tokens for seen in too_small(wanted, WHERE)] == [4, 5]


def test_what_cannot_be_judged_any_more_stays() -> None:
    wanted = observed(request(context=4096, concurrency=8), ("l40s-48gb", 10**9))
    assert too_small(wanted, WHERE) == wanted.observed
    turbo = replace(request("Qwen/Qwen3-Next-80B-A3B-Instruct"), kv_precision=KvPrecision.TURBO_4BIT)
    stranger = replace(turbo, observed=(ObservedCapacity(H100, Split(1, context_parallel=2), 10**9),))
    assert too_small(stranger, WHERE) == stranger.observed
