"""The table of releases against starts that ran: their releases had their classes and read their checkpoints."""

from __future__ import annotations

from benchmarks.accuracy.cases import Outcome
from benchmarks.accuracy.loading import Sources, load
from benchmarks.accuracy.ours import facts_of
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.releases.support import lacks


def test_no_start_that_ran_lacks_anything() -> None:
    ran = [each for each in load(Sources(oracle=None)).scored if each.case.measured.outcome is Outcome.OK]
    assert len(ran) > 100
    for each in ran:
        setup = each.setup
        facts = facts_of(setup.model, setup.config)
        found = list(lacks(facts, facts.checkpoint.precision, setup.version))
        assert found == [], each.case.id
        assert list(lacks(facts, facts.checkpoint.precision, EngineVersion(0, 32))) == [], each.case.id
