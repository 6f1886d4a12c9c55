"""The kinds of starts that the engine's law calls measured are those of the carried records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.loading import DATA, LOGS, RUNS, Sources, load
from benchmarks.accuracy.ours import facts_of
from plimsoll.domain.outcomes import Split
from plimsoll.engines.vllm.memory.evidence import CITED, MEASURED, Card, Region, Ways, region_of, unseen
from plimsoll.engines.vllm.memory.laws import NEWEST_VERSION, law_for
from tests.support.planning import H100, L4, gpu, model


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
