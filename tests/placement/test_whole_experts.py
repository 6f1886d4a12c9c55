"""Whole experts on each rank: only where their width cannot be divided, and known again from every record."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from plimsoll.adapters.highs import fleetwide
from plimsoll.cli.plans.tables import print_rejections
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.placement.demands.pools import Decision, Pool, Tenant
from plimsoll.placement.options.candidates import splits_for
from plimsoll.placement.plan import plan
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import read
from plimsoll.status.record.report import Report
from plimsoll.status.record.workload_trust import target_of
from plimsoll.status.writing import document_of, new_status
from tests.render.workloads import container, options, rendered
from tests.support.planning import LLAMA_8B, fleet, gpu, model, node, pool, refusal, request, unplaceable

BLOCKS, BLOCKLESS = "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-235B-A22B"
"""Experts 1,536 wide: eight ranks get 192 columns each, and the blocks of the first have 128."""

CARD = "a100-sxm-40gb"
WHOLE = Split(8, expert_parallel=True)
WHERE = fleet(node("a", CARD, 8))
WANTED = request(BLOCKS, context=8192, concurrency=4)


def decided(wanted: Request, *pools: Pool, generation: int = 1) -> Decision:
    (decision,) = plan([Tenant(wanted, generation, pools)], WHERE, solver=fleetwide())
    return decision


def test_whole_experts_are_a_candidate_only_where_their_width_does_not_divide() -> None:
    assert {each for each in splits_for(WANTED) if each.expert_parallel and each.data_parallel == 1} == {WHOLE}
    assert not any(each.expert_parallel and each.data_parallel == 1 for each in splits_for(request(BLOCKLESS)))
    assert not any(each.expert_parallel for each in splits_for(request(LLAMA_8B)))


def test_no_whole_experts_where_heads_are_what_does_not_divide() -> None:
    facts = replace(model(BLOCKS), heads=36)
    assert Split(8) in splits_for(request(facts))
    assert WHOLE not in splits_for(request(facts))


def test_the_replica_gets_whole_experts_and_the_engine_the_flag() -> None:
    decision = decided(WANTED)
    assert decision.choice is not None
    assert decision.choice.split == WHOLE
    assert refusal(unplaceable(WANTED, fleet(node("a", CARD, 4))), CARD, 4).reason is Reason.TOO_LITTLE_VRAM
    given = container(rendered(options(), WANTED, WHERE))["args"]
    assert given[given.index("--tensor-parallel-size") + 1] == "8"
    assert "--enable-expert-parallel" in given
    assert "--enable-expert-parallel" not in container(rendered(options(), request(), WHERE))["args"]


def test_a_rank_holds_whole_experts_of_the_same_bytes() -> None:
    decision = decided(WANTED)
    assert decision.choice is not None
    weights = decision.choice.estimate.weights_bytes
    by_halves = decided(replace(WANTED, overrides=Overrides(gpu_type=CARD, tensor_parallel=8))).choice
    assert by_halves is not None
    assert by_halves.split == WHOLE, "a forced degree of 8 is met by the only split of that degree"
    assert by_halves.estimate.weights_bytes == weights
    assert 8 * weights > 235e9


def test_what_runs_in_stages_keeps_its_split() -> None:
    runs = pool(CARD, 4, name=f"{CARD}-tp4-pp2", target=replace(pool(CARD, 4).target, split=Split(4, 2)))
    for generation in (1, 2):
        kept = decided(WANTED, runs, generation=generation)
        assert [each.split for each in kept.pools] == [Split(4, 2)]
    whole = pool(CARD, 8, target=replace(pool(CARD, 8).target, split=WHOLE))
    assert [each.split for each in decided(WANTED, whole).pools] == [WHOLE]


def test_status_and_workload_tell_the_split_again() -> None:
    decision = decided(WANTED)
    report = Report("a", 1, 1, decision, model=model(BLOCKS), engine_version="0.32.0", namespace="ml")
    written = document_of(new_status(report, read(None), "2026-01-01T00:00:00Z"))
    assert read(written).pools[0].target == decision.pools[0].target
    assert written["placement"]["expertParallel"] is True
    assert written["estimate"]["expertParallel"] is True
    entry = next(each for each in read(written).status.pools or ())
    assert split_of(entry) == WHOLE
    assert target_of(rendered(options(), WANTED, WHERE)) == decision.pools[0].target


def test_an_earlier_release_still_reads_the_pool_as_tensor_parallel() -> None:
    decision = decided(WANTED)
    report = Report("a", 1, 1, decision, model=model(BLOCKS), engine_version="0.32.0", namespace="ml")
    written = document_of(new_status(report, read(None), "2026-01-01T00:00:00Z"))
    del written["pools"][0]["expertParallel"]
    [old] = read(written).pools
    assert (old.name, old.split) == (f"{CARD}-tp8", Split(8))
    kept = decided(WANTED, replace(old, bound=1, ready=1, exists=True))
    assert [(each.name, each.replicas, each.choice) for each in kept.pools] == [(f"{CARD}-tp8", 1, None)]


def test_tables_mark_whole_experts() -> None:
    slow = fleet(node("a", gpu("l40s-48gb"), 8))
    (decision,) = plan([Tenant(WANTED, 1)], slow, solver=fleetwide())
    assert ("l40s-48gb", 8) in refusals_of(decision)
    report = Report("a", 1, 1, decision, model=model(BLOCKS), engine_version="0.32.0", namespace="ml")
    console = Console(file=io.StringIO(), width=120)
    print_rejections(console, new_status(report, read(None), "2026-01-01T00:00:00Z").rejections or [])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "8 EP" in shown


def refusals_of(decision: Decision) -> set[tuple[str, int]]:
    return {(each.gpu_type, each.split.tensor_parallel) for each in decision.rejections}
