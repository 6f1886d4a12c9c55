"""Any JSON at all as a status: every reader of it copes, and what is written from it is sound."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app.watch import pruning
from plimsoll.decision.lessons import remembered
from plimsoll.decision.observing import observed_capacities, reported_tokens
from plimsoll.decision.surroundings import Surroundings, pool_views, read_pools, wanted_replicas
from plimsoll.decision.turns import Standing
from plimsoll.placement.demands import failed_moves
from plimsoll.placement.demands.clocks import trusted
from plimsoll.placement.demands.rehoming import of_last_hour
from plimsoll.status.record.reading import read, record_of
from plimsoll.status.record.report import Report
from plimsoll.status.writing import document_of, new_status
from tests.status.test_record_reading import (
    ENTRY,
    ESTIMATE,
    FAILED,
    LEFT,
    LOOP,
    NOW,
    PLACEMENT,
    PLANNED,
    SEEN,
    TOO_SMALL,
    UNDER_WAY,
    Json,
)
from tests.support.bodies import inference_deployment_body
from tests.support.tables import examples

LONGEST_SECONDS = 86_400.0

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def damaged(entry: Json) -> st.SearchStrategy[Json]:
    """An entry with some of its fields replaced by anything."""
    return st.dictionaries(st.sampled_from(sorted(entry)), json, max_size=3).map(lambda change: {**entry, **change})


statuses = json | st.fixed_dictionaries(
    {},
    optional={
        "pools": st.lists(damaged(ENTRY), max_size=3) | json,
        "rehomings": st.lists(damaged(LEFT), max_size=3) | json,
        "observations": st.lists(damaged(SEEN), max_size=2) | json,
        "move": damaged(UNDER_WAY) | json,
        "failedMoves": st.lists(damaged(FAILED), max_size=3) | json,
        "tooSmall": st.lists(damaged(TOO_SMALL), max_size=2) | json,
        "rebalancing": damaged(LOOP) | json,
        "conditions": st.lists(damaged(PLANNED), max_size=3) | json,
        "placement": damaged(PLACEMENT) | json,
        "estimate": damaged(ESTIMATE) | json,
        "observedGeneration": json,
    },
)


@given(statuses)
@example({"move": {**UNDER_WAY, "pools": []}})  # a list that its model requires, and that is empty
@settings(max_examples=examples(300), deadline=None)
def test_whatever_a_status_holds_every_reader_of_it_copes(raw: Any) -> None:
    record = record_of(pruning.inference_deployment(inference_deployment_body(status=raw)))
    around = Surroundings({}, {})
    pools = read_pools(record, around, wanted=1, now=NOW, grace_seconds=1)
    assert all(0 <= pool.replicas <= 1000 and 1 <= pool.split.gpus <= 64 for pool in pools)
    assert 0 <= wanted_replicas(inference_deployment_body(status=raw, spec={"replicas": 2})) <= 1000
    of_last_hour(record.rehomings, NOW)
    assert len(failed_moves.remembered(record.failed_moves, (), "s", NOW)) <= failed_moves.MOST_REMEMBERED
    clock = trusted(record.move, "s", NOW)
    assert clock is None or (clock.began <= NOW and clock.due <= NOW + 2 * LONGEST_SECONDS)
    remembered(record.observations, "s")
    observed_capacities(record, "s", pools, around, reported_tokens(record, 1, {}))
    pool_views(around, record, {}, now=NOW)
    spec = InferenceDeploymentSpec.model_validate({"model": {"name": "a/b"}, "contextLength": 9, "concurrency": 1})
    Standing.read(spec, record)
    written = document_of(new_status(Report("x", 1, 1), record, "2026-01-01T00:00:00Z"))
    assert read(written).complaints == ()
