"""A status that somebody has written into: what holds together is used, the rest is named and ignored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.app import pruning
from plimsoll.app.capacities import observed_capacities, reported_tokens
from plimsoll.app.objects import Surroundings, pool_views, read_pools, rehomings_of, wanted_replicas
from plimsoll.app.observations import remembered
from plimsoll.app.rebalancing import Standing
from plimsoll.app.status_reading import ReadStatus, read_status, status_of
from plimsoll.render.conditions import conditions
from plimsoll.render.report import Report
from plimsoll.render.status import status as render_status
from tests.support.bodies import POOL, inference_deployment_body

Json = dict[str, Any]
NOW = 1_800_000_000.0
ENTRY: Json = {
    "name": POOL,
    "gpuType": "h100-sxm-80gb",
    "tensorParallel": 1,
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "resource": "nvidia.com/gpu",
    "state": "Active",
    "generation": 1,
    "replicas": 2,
    "readyReplicas": 0,
}
LEFT: Json = {"gpuType": "l4-24gb", "tensorParallel": 1, "at": "2027-01-15T07:00:00Z", "reason": "InsufficientGpus"}
SEEN: Json = {
    "model": "m", "precision": "bf16", "kvPrecision": "bf16", "gpuType": "l4-24gb", "engineVersion": "0.32.0",
    "tensorParallel": 1, "options": "x", "batchedTokens": 2048, "maxSequences": 8, "witness": "Metrics",
    "predictedKvBytes": 1, "spec": "s", "release": "r",
}  # fmt: skip
TOO_SMALL: Json = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 5, "spec": "s"}
LOOP: Json = {"decision": "Keep", "reason": "WithinBand", "message": "", "baseReplicas": 1, "targetReplicas": 3}
GOOD: Json = {
    "observedGeneration": 1, "pools": [ENTRY], "rehomings": [LEFT], "observations": [SEEN], "tooSmall": [TOO_SMALL],
    "rebalancing": LOOP,
}  # fmt: skip


def test_what_the_operator_wrote_is_used_as_it_is() -> None:
    assert read_status(GOOD) == ReadStatus(GOOD)
    assert read_status(None) == ReadStatus()


def test_fields_of_a_later_release_do_no_harm() -> None:
    later = {
        **GOOD,
        "pools": [{**ENTRY, "zone": "a"}],
        "rebalancing": {**LOOP, "mood": "good", "ceiling": {"at": "2026-01-01T00:00:00Z", "shape": 1}},
    }
    assert read_status(later).complaints == ()
    assert read_status(later).status["pools"] == later["pools"]


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": -1}, {"replicas": 1001}, {"replicas": "2"}, {"replicas": True}, {"replicas": None},
        {"tensorParallel": 0}, {"tensorParallel": 128}, {"tensorParallel": 10**30}, {"pipelineParallel": 0},
        {"tensorParallel": 8, "pipelineParallel": 16}, {"generation": -1}, {"state": "Gone"},
        {"nodeSelector": {}}, {"nodeSelector": {"a": "b", "c": "d"}}, {"nodeSelector": ["a"]},
        {"nodeSelector": {"a": ""}},
        {"resource": "cpu"}, {"resource": ""}, {"resource": 1}, {"gpuType": "l4-24gb"}, {"gpuType": None},
        {"name": "something-else"}, {"name": None}, {"batchedTokens": 0}, {"kvTokensReported": "many"},
    ],
    ids=str,
)  # fmt: skip
def test_a_pool_that_does_not_hold_together_is_ignored_and_its_neighbour_is_not(change: Json) -> None:
    other = {**ENTRY, "name": "l4-24gb-tp1", "gpuType": "l4-24gb"}
    read = read_status({"pools": [{**ENTRY, **change}, other]})
    assert read.status["pools"] == [other]
    [complaint] = read.complaints
    assert complaint.startswith("status.pools[0] is ignored: ")
    assert read.lost_pools


def test_of_two_pools_of_one_name_the_first_counts() -> None:
    read = read_status({"pools": [ENTRY, {**ENTRY, "replicas": 9}]})
    assert read.status["pools"] == [ENTRY]


@pytest.mark.parametrize(
    ("field", "entry"),
    [
        ("rehomings", {**LEFT, "at": "soon"}),
        ("rehomings", {**LEFT, "tensorParallel": -4}),
        ("observations", {**SEEN, "predictedKvBytes": "x"}),
        ("observations", {**SEEN, "batchedTokens": 0}),
        ("observations", {**SEEN, "tensorParallel": 0}),
        ("observations", {**SEEN, "predictedKvBytes": 10**40}),
        ("tooSmall", {**TOO_SMALL, "kvTokens": -1}),
        ("tooSmall", {**TOO_SMALL, "pipelineParallel": 0}),
        ("tooSmall", "everything"),
    ],
)
def test_so_is_any_other_entry(field: str, entry: Any) -> None:
    read = read_status({**GOOD, field: [entry, *GOOD[field]]})
    assert read.status == GOOD
    assert [complaint.split(" is ignored")[0] for complaint in read.complaints] == [f"status.{field}[0]"]


@pytest.mark.parametrize(
    "change", [{"targetReplicas": 1001}, {"targetReplicas": -1}, {"changeTimes": "now"}, {"reason": 5}]
)
def test_a_live_loop_that_nobody_could_have_written_is_forgotten(change: Json) -> None:
    read = read_status({**GOOD, "rebalancing": {**LOOP, **change}})
    assert "rebalancing" not in read.status
    assert len(read.complaints) == 1


def test_the_store_reads_a_status_once_and_says_the_same() -> None:
    body = inference_deployment_body(status={"pools": [{**ENTRY, "replicas": -1}]})
    kept = pruning.inference_deployment(body)
    assert status_of(kept) is status_of(kept)
    assert status_of(kept) == status_of(body)


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
        "tooSmall": st.lists(damaged(TOO_SMALL), max_size=2) | json,
        "rebalancing": damaged(LOOP) | json,
        "conditions": st.lists(damaged({"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "t"}))
        | json,
        "placement": json,
        "estimate": json,
        "observedGeneration": json,
    },
)


@given(statuses)
@settings(max_examples=300, deadline=None)
def test_whatever_a_status_holds_every_reader_of_it_copes(raw: Any) -> None:
    read = status_of(pruning.inference_deployment(inference_deployment_body(status=raw)))
    around = Surroundings({}, {})
    pools = read_pools(read, around, wanted=1, now=NOW, grace_seconds=1)
    assert all(0 <= pool.replicas <= 1000 and 1 <= pool.split.gpus <= 64 for pool in pools)
    assert 0 <= wanted_replicas(inference_deployment_body(status=raw, spec={"replicas": 2})) <= 1000
    rehomings_of(read.status, NOW)
    remembered(read.status, "s")
    observed_capacities(read.status, "s", pools, around, reported_tokens(read.status, 1, {}))
    pool_views(around, read.status, {})
    spec = InferenceDeploymentSpec.model_validate({"model": {"name": "a/b"}, "contextLength": 9, "concurrency": 1})
    Standing.read(spec, read.status)
    conditions(Report("x", 1, 1), read.status.get("conditions") or (), "2026-01-01T00:00:00Z")
    render_status(Report("x", 1, 1), read.status, "2026-01-01T00:00:00Z")
