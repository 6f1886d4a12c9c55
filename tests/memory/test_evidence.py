"""The kinds of starts that were measured, and the bands where a start was far off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy.loading import DATA, LOGS, RUNS, Sources, load
from benchmarks.accuracy.ours import facts_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.band import band_width
from plimsoll.engines.vllm.memory.doubts import (
    CITED,
    MEASURED,
    Region,
    region_of,
    unseen,
)
from plimsoll.engines.vllm.memory.laws.laws import NEWEST_VERSION, law_for
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphMemory
from plimsoll.engines.vllm.memory.outside.non_torch import outside_bytes
from plimsoll.engines.vllm.memory.outside.outside_budget import PREFILL_TOKEN_BYTES, outside_budget
from plimsoll.memory.kinds import Card, Layers, Ways, pair_words, shared_bytes
from tests.support.planning import H100, L4, L40S, gpu, model


def recorded(runs: Path | None, logs: Path) -> Iterator[Region]:
    for scored in load(Sources(runs=runs, logs=logs, oracle=None)).scored:
        setup = scored.setup
        if setup.gpu is None:
            continue
        degrees = (setup.tensor_parallel, setup.pipeline_parallel, setup.data_parallel)
        split = Split(*degrees, expert_parallel=setup.expert_parallel)
        yield region_of(facts_of(setup.model, setup.config), setup.gpu, split, law_for(setup.version))


def test_the_measured_kinds_are_those_of_the_records() -> None:
    files = ((RUNS, LOGS), (None, DATA / "later_logs.json"), (None, DATA / "own_starts.json"))
    assert {region for pair in files for region in recorded(*pair)} == MEASURED
    assert not MEASURED & CITED


def test_a_pair_that_no_start_had_is_named_and_its_neighbour_has_none() -> None:
    law, plain = law_for(NEWEST_VERSION), model()
    assert unseen(plain, gpu(H100), Split(1), law) == ()
    assert unseen(plain, gpu(L4), Split(1), law) == ()
    assert (Card.ADA, Ways.STAGES) in unseen(plain, gpu(L4), Split(1, 2), law)
    assert (Card.HOPPER, Ways.STAGES) not in unseen(plain, gpu(H100), Split(1, 2), law)


def test_a_pair_is_a_part_of_a_sentence() -> None:
    assert pair_words((Layers.EXPERTS, Card.ADA)) == "experts on Ada cards"
    assert pair_words((Card.ADA, Ways.STAGES)) == "Ada cards in engines with pipeline parallelism"
    assert pair_words((Layers.DENSE, Ways.ONE)) == "plain layers in engines on one GPU"
    assert pair_words((Layers.LATENT, "model runner V2")) == "latent attention under model runner V2"


@pytest.mark.parametrize(
    ("split", "ways"),
    [
        (Split(1), Ways.ONE),
        (Split(2), Ways.TENSOR),
        (Split(7), Ways.TENSOR),
        (Split(8), Ways.WIDE),
        (Split(8, 2), Ways.STAGES),
        (Split(1, 1, 2), Ways.ENGINES),
        (Split(2, expert_parallel=True), Ways.ENGINES),
    ],
)
def test_each_split_counts_as_one_way(split: Split, ways: Ways) -> None:
    assert region_of(model(), gpu(H100), split, law_for(NEWEST_VERSION)).ways is ways


def width(name: str, split: Split, release: EngineVersion, runner: int | None = None) -> list[float]:
    """The band of a plain model with experts, in GiB below and above."""
    found = band_width(model("Qwen/Qwen3-30B-A3B"), gpu(name), split, law_for(release, runner))
    return [found.low / GIB, found.high / GIB]


B200, RELEASE = "b200-sxm-180gb", EngineVersion(0, 32)


def test_the_band_is_as_wide_as_the_error_where_a_start_was_far_off() -> None:
    """Each with a neighbour that was not: another card, another split, another runner, no charge for graphs."""
    engines = Split(1, 1, 8, expert_parallel=True)
    (low, high), charged = width(B200, engines, EngineVersion(0, 19)), width(B200, engines, RELEASE)
    assert charged == pytest.approx([low + 0.24, high + 0.19 + 60])
    (low, high), hopper = width(H100, engines, EngineVersion(0, 19)), width(H100, engines, RELEASE)
    assert hopper[1] < high + 1
    old = EngineVersion(0, 23)
    first, second = (width(L40S, Split(8), old, runner) for runner in (1, 2))
    assert first == pytest.approx([second[0] + 0.24, second[1] + 0.19 + 7])
    four = [width(L40S, Split(4), old, runner) for runner in (1, 2)]
    assert four[0] == pytest.approx([four[1][0] + 0.24, four[1][1] + 0.19])
    assert width(H100, Split(8), old, 1)[1] < width(H100, Split(8), old, 2)[1] + 1


def test_hyper_connections_on_amds_accelerators_have_a_band_of_their_own() -> None:
    def seen(name: str, card: str) -> tuple[float, float]:
        found = band_width(model(name), gpu(card), Split(8), law_for(RELEASE))
        return found.low / GIB, found.high / GIB

    plain, streams = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V4-Flash"
    on_amd, on_nvidia = (
        [after - before for before, after in zip(seen(plain, card), seen(streams, card), strict=True)]
        for card in ("mi300x-192gb", "h200-sxm-141gb")
    )
    assert on_amd == pytest.approx([1.0, 1.5 + 35])
    assert on_nvidia == pytest.approx([1.0, 1.5])


def test_the_law_follows_the_runner_that_is_named() -> None:
    free, first, second = (law_for(EngineVersion(0, 25, 1), runner) for runner in (None, 1, 2))
    plain = model()
    assert [law.runs_v2(plain, gpu(H100)) for law in (free, first, second)] == [True, False, True]
    assert [law.offloads_weights_of(plain, gpu(H100)) for law in (free, first, second)] == [False, True, False]
    assert [law.offloads_weights_of_runner(runner) for law in (free, first) for runner in (1, 2)] == [True, False] * 2
    since = law_for(EngineVersion(0, 28))
    assert since.offloads_weights_of_runner(2)
    assert since.offloads_weights_of(plain, gpu(H100))


@pytest.mark.parametrize("capability", [(9, 0), (12, 0)])
def test_a_prefill_of_recurrent_layers_counts_by_step_where_it_was_seen(capability: tuple[int, int]) -> None:
    recurrent, plain = model("Qwen/Qwen3.5-27B"), model()
    card = replace(gpu("rtx-5090-32gb"), compute_capability=capability)
    no_graphs = GraphMemory(0, 0)

    def grows(facts: ModelFacts, release: EngineVersion) -> int:
        outside = outside_budget(facts, card, Split(1), law_for(release))
        return outside.total_bytes(no_graphs, 1, 4096) - outside.total_bytes(no_graphs, 1, 1024)

    seen = PREFILL_TOKEN_BYTES * 3072 if capability == (12, 0) else 0
    assert grows(recurrent, EngineVersion(0, 26)) == grows(recurrent, EngineVersion(0, 32)) == seen
    assert grows(recurrent, EngineVersion(0, 25)) == grows(plain, EngineVersion(0, 32)) == 0
    assert PREFILL_TOKEN_BYTES == 430 * 1024


def test_a_card_that_shares_its_hosts_memory_leaves_a_part_of_it_to_the_host() -> None:
    shared, own = gpu("gb10-128gb"), gpu(H100)
    assert shared_bytes(shared) == outside_bytes(shared, Split(1)) == shared.usable_bytes * 17 // 100
    assert shared_bytes(own) == 0
    assert outside_bytes(own, Split(1)) < GIB
