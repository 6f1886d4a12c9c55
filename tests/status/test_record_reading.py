"""A status that somebody has written into: what holds together is used, the rest is named and ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll import __version__
from plimsoll.app.watch import pruning
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.decisions.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, EngineVersion, StepLimits
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.placement.demands.clocks import EarlierSettings, MoveClock, RetuneClock
from plimsoll.placement.demands.failed_moves import Delay, FailedMove
from plimsoll.placement.demands.pools import Pool, PoolState
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Learned
from plimsoll.status.record.places import place_doubt, split_of
from plimsoll.status.record.reading import Record, read, record_of, whole_status, with_status
from plimsoll.status.writing import document_of
from tests.support.bodies import POOL, inference_deployment_body
from tests.support.tables import every_case

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
UNDER_WAY: Json = {
    "pools": ["l4-24gb-tp1"], "beganAt": "2027-01-15T07:00:00Z", "dueAt": "2027-01-15T07:15:00Z", "spec": "s",
}  # fmt: skip
FAILED: Json = {
    "gpuType": "l4-24gb", "tensorParallel": 1, "at": "2027-01-15T06:00:00Z", "until": "2027-01-15T12:00:00Z",
    "times": 1, "reason": "EngineCrashed", "message": "no such file", "spec": "s",
}  # fmt: skip
SEEN: Json = {
    "model": "m", "precision": "bf16", "kvPrecision": "fp8", "gpuType": "l4-24gb", "engineVersion": "0.32.0",
    "tensorParallel": 1, "pipelineParallel": 2, "options": "x", "batchedTokens": 2048, "maxSequences": 8,
    "witness": "Metrics", "predictedKvBytes": 7, "availableKvBytes": 6, "spec": "s", "release": __version__,
}  # fmt: skip
TOO_SMALL: Json = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 5, "spec": "s"}
LOOP: Json = {
    "decision": "Keep", "reason": "WithinBand", "message": "", "baseReplicas": 1, "targetReplicas": 3,
    "changes": [{"at": "2027-01-15T08:00:00Z", "kind": "Add", "reason": "SustainedQueue", "replicas": 3}],
    "learned": {"pool": "h100-sxm-80gb-tp1", "tokenTimePercent": 125, "startupSeconds": 90},
    "diagnosis": "NothingToChange",
}  # fmt: skip
BEFORE: Json = {"name": "h100-sxm-80gb-tp1", "maxSequences": 8, "drainSeconds": 120, "inputs": "i"}
RETUNED: Json = {
    "pools": [BEFORE], "beganAt": "2027-01-15T07:00:00Z", "dueAt": "2027-01-15T07:15:00Z", "replicaSeconds": 900,
    "spec": "s",
}  # fmt: skip
PLANNED: Json = {
    "type": "Planned", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z",
}  # fmt: skip
FIGURES: Json = {
    "fit": "No", "weightsBytes": 16_000, "kvCacheBytes": 3000, "activationsBytes": 900, "slackBytes": 500,
    "expectedBytes": 19_850, "computedBytes": 21_000, "overrideBytes": 30_000, "budgetBytes": 20_000,
    "usableBytes": 22_000, "kvNeededTokens": 64, "kvCapacityTokens": 32,
}  # fmt: skip
REJECTED: Json = {
    "gpuType": "l4-24gb", "tensorParallel": 1, "reason": "TooLittleVram", "message": "no", "figures": FIGURES,
    "hourlyPrice": "0.80", "priceSource": "list",
}  # fmt: skip
RULED_OUT: Json = {"gpuType": "l4-24gb", "tensorParallel": 2, "reason": "NodeTooSmall", "message": "no"}
CHEAPER: Json = {"kind": "NarrowKvCache", "message": "yes", "hourlySaving": "1.50", "tpotMilliseconds": 40}
HELPS: Json = {"kind": "AddGpus", "message": "yes"}
BYTES = (
    "weights", "kvCache", "activations", "cudaGraphs", "overhead", "margin", "computed", "budget", "usable", "outside",
)  # fmt: skip
ESTIMATE: Json = {
    "gpuType": "h100-sxm-80gb", "tensorParallel": 1, **{f"{name}Bytes": 1 for name in BYTES}, "kvBytesPerToken": 1,
    "kvNeededTokens": 1, "kvCapacityTokens": 1, "gibPerGpu": "1.0",
}  # fmt: skip
PLACEMENT: Json = {
    "gpuType": "h100-sxm-80gb", "nodeSelector": {"nvidia.com/gpu.product": "H100"}, "tensorParallel": 1,
    "pipelineParallel": 1, "gpusPerReplica": 1, "warnings": ["careful"],
    "engine": {
        "maxModelLen": 1, "maxNumSeqs": 1, "maxNumBatchedTokens": 1, "gpuMemoryUtilizationPercent": 90,
        "dtype": "bfloat16", "kvCacheDtype": "auto", "enforceEager": False, "version": "0.32.0",
    },
}  # fmt: skip
GOOD: Json = {
    "observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "replicasSummary": "1/2", "selector": "a=b",
    "url": "http://x", "rejectionsOmitted": 4, "pools": [ENTRY], "rehomings": [LEFT], "observations": [SEEN],
    "tooSmall": [TOO_SMALL], "conditions": [PLANNED], "rejections": [REJECTED, RULED_OUT], "remedies": [HELPS],
    "suggestions": [CHEAPER],
    "model": {"architecture": "A", "source": "Hub", "precision": "bf16", "kvPrecision": "bf16"},
    "estimate": ESTIMATE, "placement": PLACEMENT, "rebalancing": LOOP, "move": UNDER_WAY,
    "retune": RETUNED, "failedMoves": [FAILED, {**FAILED, "maxSequences": 64}],
}  # fmt: skip


INT, TEXT = "Input should be a valid integer", "Input should be a valid string"
NUMBER_OF_GPUS = "is no number of GPUs"


def fields(record: Record) -> Json:
    """The usable part as JSON."""
    return document_of(whole_status(record))


def test_what_the_operator_wrote_is_used_as_it_is() -> None:
    record = read(GOOD)
    assert (fields(record), record.complaints, record.lost_pools) == (GOOD, (), False)
    assert read(None) == Record()
    assert (fields(Record()), Record().lost_pools) == ({}, False)


def test_entries_become_the_values_that_decisions_are_made_from() -> None:
    record = read({**GOOD, "pools": [{**ENTRY, "batchedTokens": 2048, "served": True, "drainSeconds": 240}]})
    target = Target("h100-sxm-80gb", Split(1), ("nvidia.com/gpu.product", "H100"), "nvidia.com/gpu")
    assert record.pools == (
        Pool(POOL, target, PoolState.ACTIVE, 1, 2, limits=StepLimits(2048), served=True, drain_seconds=240),
    )
    assert record.rehomings == (Rehoming("l4-24gb", Split(1), "InsufficientGpus", at=1_799_996_400.0),)
    kind = EngineKind("m", Precision.BF16, KvPrecision.FP8, "l4-24gb", EngineVersion(0, 32), Split(1, 2), "x")
    assert record.observations == (Seen(Observation(kind, Witness.METRICS, 7, 6, StepLimits(2048, 8)), "s"),)
    assert record.history == ChangeHistory((ChangeRecord(NOW, ChangeKind.ADD, "SustainedQueue", 3),))
    assert record.learned == Learned("h100-sxm-80gb-tp1", 1.25, 90.0)
    assert record.move == MoveClock(("l4-24gb-tp1",), 1_799_996_400.0, 1_799_997_300.0, "s")
    delay = Delay("EngineCrashed", "no such file")
    at = 1_799_992_800.0
    failed = FailedMove("l4-24gb", Split(1), delay, at=at, until=at + 6 * 3600, times=1, spec="s")
    assert record.failed_moves == (failed, replace(failed, limits=StepLimits(sequences=64)))
    before = EarlierSettings(POOL, StepLimits(sequences=8), 120, "i")
    assert record.retune == RetuneClock((before,), 1_799_996_400.0, 900, "s")


def test_a_move_that_was_taken_back_without_a_turn_of_the_live_loop_is_in_its_history() -> None:
    later = {**FAILED, "at": "2027-01-15T09:00:00Z", "until": "2027-01-15T15:00:00Z"}
    history = read({**GOOD, "failedMoves": [FAILED, later]}).history
    assert history.changes[1:] == (ChangeRecord(NOW + 3600, ChangeKind.ROLL_BACK, "EngineCrashed"),)
    known = {"at": "2027-01-15T09:00:00Z", "kind": "RollBack", "reason": "EngineCrashed"}
    loop = {**LOOP, "changes": [*LOOP["changes"], known]}
    assert read({**GOOD, "failedMoves": [FAILED, later], "rebalancing": loop}).history == history, "once"
    assert [mark.kind for mark in read({"failedMoves": [FAILED]}).history.changes] == [ChangeKind.ROLL_BACK]


def test_a_pool_on_nodes_with_several_labels_has_them_all_and_one_that_names_none_is_left_out() -> None:
    labels = ["nvidia.com/gpu.product=H100", "nvidia.com/gpu.product=H100-SXM5", "plimsoll.dev/gpu-type=h100=x"]
    (only,) = read({"pools": [{**ENTRY, "nodeLabels": labels}]}).pools
    assert only.target.labels == (
        ("nvidia.com/gpu.product", "H100"),
        ("nvidia.com/gpu.product", "H100-SXM5"),
        ("plimsoll.dev/gpu-type", "h100=x"),
    )
    (spot,) = read({"pools": [{**ENTRY, "capacityType": "Spot"}]}).pools
    assert (spot.target.capacity, only.target.capacity) == (CapacityType.SPOT, None)
    unknown = read({"pools": [{**ENTRY, "capacityType": "Free"}]})
    assert unknown.complaints == ("status.pools[0] is ignored: capacityType 'Free' is none of OnDemand, Spot",)
    wrong = read({"pools": [{**ENTRY, "nodeLabels": ["H100"]}]})
    assert (wrong.pools, wrong.complaints) == (
        (),
        ("status.pools[0] is ignored: nodeLabels ['H100'] is no list of key=value",),
    )


def test_the_condition_of_a_type_is_found_by_its_type() -> None:
    planned, absent = read(GOOD).condition("Planned"), read(GOOD).condition("Stalled")
    assert planned is not None
    assert (planned.status, absent) == ("True", None)


def test_fields_of_a_later_release_do_no_harm_and_are_not_kept() -> None:
    later = {
        **GOOD,
        "mood": "good",
        "pools": [{**ENTRY, "zone": "a"}],
        "rebalancing": {**LOOP, "mood": "good", "learned": {**LOOP["learned"], "shape": 1}},
        "placement": {**PLACEMENT, "engine": {**PLACEMENT["engine"], "flag": {"of": "tomorrow"}}},
    }
    assert read(later) == read(GOOD)


def test_a_value_that_is_nested_very_deeply_is_as_wrong_as_any_other() -> None:
    deep: Json = {}
    for _ in range(100_000):
        deep = {"a": deep}
    record = read({**GOOD, "rebalancing": {**LOOP, "message": deep}, "pools": [{**ENTRY, "unknown": deep}]})
    assert record.complaints == (f"status.rebalancing is ignored: message: {TEXT}",)
    assert len(record.pools) == 1


def test_a_field_by_its_name_in_the_code_is_an_unknown_field() -> None:
    assert read({"pools": [ENTRY | {"batched_tokens": 5}], "ready_replicas": 3}) == read({"pools": [ENTRY]})


POOLS: list[tuple[Json, str]] = [
    ({"replicas": -1}, "replicas -1 is not between 0 and 1000"),
    ({"replicas": 1001}, "replicas 1001 is not between 0 and 1000"),
    ({"replicas": "2"}, f"replicas: {INT}"),
    ({"replicas": True}, f"replicas: {INT}"),
    ({"replicas": None}, f"replicas: {INT}"),
    ({"tensorParallel": 0}, f"tensorParallel 0 {NUMBER_OF_GPUS}"),
    ({"tensorParallel": 65}, "a replica of 65 GPUs is larger than any node"),
    ({"tensorParallel": 10**30}, "a number is beyond 9007199254740992"),
    ({"pipelineParallel": 0}, f"pipelineParallel 0 {NUMBER_OF_GPUS}"),
    ({"tensorParallel": 8, "pipelineParallel": 16}, "a replica of 128 GPUs is larger than any node"),
    ({"generation": -1}, "generation -1 is negative"),
    ({"state": "Gone"}, "state: String should match pattern '^(Active|Retiring)$'"),
    ({"nodeSelector": {}}, "nodeSelector {} is not one label"),
    ({"nodeSelector": {"a": "b", "c": "d"}}, "nodeSelector {'a': 'b', 'c': 'd'} is not one label"),
    ({"nodeSelector": ["a"]}, "nodeSelector: Input should be a valid dictionary"),
    ({"nodeSelector": {"a": ""}}, "nodeSelector {'a': ''} is not one label"),
    ({"nodeSelector": {"": "a"}}, "nodeSelector {'': 'a'} is not one label"),
    ({"resource": "cpu"}, "resource 'cpu' is none of GPUs"),
    ({"resource": ""}, "resource '' is none of GPUs"),
    ({"resource": 1}, f"resource: {TEXT}"),
    ({"gpuType": "l4-24gb"}, "its name is not l4-24gb-tp1, which GPU type and split give"),
    ({"gpuType": None}, f"gpuType: {TEXT}"),
    ({"name": "other"}, f"its name is not {POOL}, which GPU type and split give"),
    ({"name": f"{POOL}-abacus-9"}, f"its name is not {POOL}, which GPU type and split give"),
    ({"name": None}, f"name: {TEXT}"),
    ({"pipelineParallel": 2}, f"its name is not {POOL}-pp2, which GPU type and split give"),
    ({"batchedTokens": 0}, "batchedTokens 0 is less than 1"),
    ({"maxSequences": 0}, "maxSequences 0 is not between 1 and 65536"),
    ({"maxSequences": 65_537}, "maxSequences 65537 is not between 1 and 65536"),
    ({"drainSeconds": 0}, "drainSeconds 0 is not between 1 and 3600"),
    ({"drainSeconds": 3601}, "drainSeconds 3601 is not between 1 and 3600"),
    ({"drainSeconds": "90"}, f"drainSeconds: {INT}"),
    ({"kvTokensReported": "many"}, f"kvTokensReported: {INT}"),
    ({"kvTokensReported": -(2**53) - 1}, "a number is beyond 9007199254740992"),
]


@every_case(("change", "why"), POOLS, ids=str)
def test_a_pool_that_does_not_hold_together_is_ignored_and_its_neighbour_is_not(change: Json, why: str) -> None:
    other = {**ENTRY, "name": "l4-24gb-tp1", "gpuType": "l4-24gb"}
    record = read({"pools": [{**ENTRY, **change}, other]})
    assert fields(record) == {"pools": [other]}
    assert [pool.name for pool in record.pools] == ["l4-24gb-tp1"]
    assert record.complaints == (f"status.pools[0] is ignored: {why}",)
    assert record.lost_pools


@every_case(
    "change",
    [
        {"replicas": 0}, {"replicas": 1000}, {"generation": 0}, {"batchedTokens": 1}, {"state": "Retiring"},
        {"tensorParallel": 64, "name": "h100-sxm-80gb-tp64"}, {"kvTokensReported": 2**53},
        {"drainSeconds": 1}, {"drainSeconds": 3600},
        {"tensorParallel": 8, "pipelineParallel": 8, "name": "h100-sxm-80gb-tp8-pp8"},
    ],
    ids=str,
)  # fmt: skip
def test_a_pool_at_the_edge_of_what_we_write_is_used(change: Json) -> None:
    record = read({"pools": [{**ENTRY, **change}]})
    assert fields(record) == {"pools": [{**ENTRY, **change}]}
    assert (len(record.pools), record.complaints, record.lost_pools) == (1, (), False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"replicas": 0}, "replicas 0 is not between 1 and 1000"),
        ({"replicas": 1001}, "replicas 1001 is not between 1 and 1000"),
        ({"concurrency": 0}, "concurrency 0 is not between 1 and 65536"),
        ({"spec": None}, f"spec: {TEXT}"),
    ],
    ids=str,
)
def test_a_size_that_nobody_writes_is_ignored_and_chosen_again(change: Json, why: str) -> None:
    size = {"replicas": 3, "concurrency": 8, "spec": "digest"}
    for edge in ({}, {"replicas": 1}, {"replicas": 1000}, {"concurrency": 1}, {"concurrency": 65536}):
        assert read({"size": {**size, **edge}}).status.size is not None
    record = read({"size": {**size, **change}, "pools": [ENTRY]})
    assert (record.status.size, len(record.pools)) == (None, 1)
    assert record.complaints == (f"status.size is ignored: {why}",)


def test_two_pools_of_two_names_are_both_used() -> None:
    both = [ENTRY, {**ENTRY, "name": "l4-24gb-tp1", "gpuType": "l4-24gb"}]
    record = read({"pools": both})
    assert fields(record) == {"pools": both}
    assert ([pool.gpu_type for pool in record.pools], record.lost_pools) == (["h100-sxm-80gb", "l4-24gb"], False)


def test_of_two_pools_of_one_name_the_first_counts() -> None:
    record = read({"pools": [ENTRY, {**ENTRY, "replicas": 9}]})
    assert fields(record) == {"pools": [ENTRY]}
    assert record.complaints == ("status.pools[1] is ignored: another entry has the same name",)
    assert record.lost_pools


ENTRIES: list[tuple[str, Any, str]] = [
    ("rehomings", {**LEFT, "at": "soon"}, "at 'soon' is no time"),
    ("rehomings", {**LEFT, "at": "9999-12-31T23:59:59-12:00"}, "at '9999-12-31T23:59:59-12:00' is no time"),
    ("rehomings", {**LEFT, "tensorParallel": -4}, f"tensorParallel -4 {NUMBER_OF_GPUS}"),
    ("failedMoves", {**FAILED, "at": "soon"}, "at 'soon' is no time"),
    ("failedMoves", {**FAILED, "until": ""}, "until '' is no time"),
    (
        "failedMoves",
        {**FAILED, "until": "2099-01-01T00:00:00Z"},
        "until 2099-01-01T00:00:00Z is not within 21600 s after at 2027-01-15T06:00:00Z",
    ),
    (
        "failedMoves",
        {**FAILED, "until": "2027-01-15T05:00:00Z"},
        "until 2027-01-15T05:00:00Z is not within 21600 s after at 2027-01-15T06:00:00Z",
    ),
    ("failedMoves", {**FAILED, "times": 0}, "times 0 is not between 1 and 99"),
    ("failedMoves", {**FAILED, "times": 100}, "times 100 is not between 1 and 99"),
    ("failedMoves", {**FAILED, "reason": "two words"}, "reason 'two words' is not one word"),
    ("failedMoves", {**FAILED, "tensorParallel": 0}, f"tensorParallel 0 {NUMBER_OF_GPUS}"),
    ("failedMoves", {**FAILED, "batchedTokens": 0}, "batchedTokens 0 is less than 1"),
    ("failedMoves", {**FAILED, "maxSequences": 0}, "maxSequences 0 is not between 1 and 65536"),
    ("observations", {**SEEN, "predictedKvBytes": "x"}, f"predictedKvBytes: {INT}"),
    ("observations", {**SEEN, "engineVersion": "newest"}, "engineVersion 'newest' is no release"),
    ("observations", {**SEEN, "kvPrecision": "fp9"}, f"kvPrecision 'fp9' is none of {', '.join(KvPrecision)}"),
    ("observations", {**SEEN, "batchedTokens": 0}, "batchedTokens and maxSequences must be 1 at least"),
    ("observations", {**SEEN, "maxSequences": 0}, "batchedTokens and maxSequences must be 1 at least"),
    ("observations", {**SEEN, "tensorParallel": 0}, f"tensorParallel 0 {NUMBER_OF_GPUS}"),
    ("observations", {**SEEN, "predictedKvBytes": 10**40}, "a number is beyond 9007199254740992"),
    ("tooSmall", {**TOO_SMALL, "kvTokens": -1}, "kvTokens: Input should be greater than or equal to 0"),
    ("tooSmall", {**TOO_SMALL, "pipelineParallel": 0}, f"pipelineParallel 0 {NUMBER_OF_GPUS}"),
    ("tooSmall", {"gpuType": "l4-24gb", "kvTokens": 5, "spec": "s"}, "tensorParallel: Field required"),
    ("tooSmall", "everything", "it is no mapping"),
    ("conditions", {**PLANNED, "status": "Perhaps"}, "status: String should match pattern '^(True|False|Unknown)$'"),
    ("rejections", {**REJECTED, "reason": 5}, f"reason: {TEXT}"),
    ("rejections", {**REJECTED, "figures": {**FIGURES, "budgetBytes": "x"}}, f"figures.budgetBytes: {INT}"),
    ("rejections", {**REJECTED, "figures": {"fit": "No"}}, "figures.weightsBytes: Field required"),
    ("remedies", {**HELPS, "message": None}, f"message: {TEXT}"),
]


@every_case(("name", "entry", "why"), ENTRIES)
def test_so_is_any_other_entry(name: str, entry: Any, why: str) -> None:
    record = read({**GOOD, name: [entry, *GOOD[name]]})
    assert fields(record) == GOOD
    assert record.complaints == (f"status.{name}[0] is ignored: {why}",)
    assert not record.lost_pools


def test_an_observation_of_another_release_is_shown_and_teaches_nothing() -> None:
    other = {**SEEN, "release": "0.0.1", "precision": "of that release"}
    record = read({"observations": [other, SEEN]})
    assert fields(record) == {"observations": [other, SEEN]}
    assert (len(record.observations), record.complaints) == (1, ())


@pytest.mark.parametrize(("due", "is_known"), [("07:00:00", True), ("07:00:01", True), ("07:00:02", False)])
def test_times_in_whole_seconds_may_be_a_second_further_apart(due: str, *, is_known: bool) -> None:
    """A move may take two days at most."""
    record = read({**GOOD, "move": {**UNDER_WAY, "beganAt": "2027-01-15T07:00:00Z", "dueAt": f"2027-01-17T{due}Z"}})
    assert ("move" in fields(record)) is is_known


@pytest.mark.parametrize("avoids", [["n1", ""], ["n1", 5], [f"n{index}" for index in range(17)], ("n1", "n2"), "n1"])
def test_avoided_nodes_are_a_list_of_at_most_sixteen_names(avoids: object) -> None:
    good = {"accelerator": "h100"}, "nvidia.com/gpu"
    assert "is no list of at most 16 names" in place_doubt(*good, avoids=avoids)
    assert place_doubt(*good, avoids=[f"n{index}" for index in range(16)]) == ""


def test_an_observation_of_the_smallest_step_is_used() -> None:
    record = read({"observations": [{**SEEN, "batchedTokens": 1, "maxSequences": 1}]})
    assert [each.observation.limits for each in record.observations] == [StepLimits(1, 1)]
    assert record.complaints == ()


PARTS: list[tuple[str, Any, str]] = [
    ("rebalancing", {**LOOP, "targetReplicas": 1001}, "targetReplicas 1001 is not between 0 and 1000"),
    ("rebalancing", {**LOOP, "targetReplicas": -1}, "targetReplicas -1 is not between 0 and 1000"),
    ("rebalancing", {**LOOP, "baseReplicas": 1001}, "baseReplicas 1001 is not between 0 and 1000"),
    ("rebalancing", {**LOOP, "changes": "now"}, "changes: Input should be a valid list"),
    ("rebalancing", {**LOOP, "reason": 5}, f"reason: {TEXT}"),
    ("rebalancing", {**LOOP, "learned": {**LOOP["learned"], "pool": 5}}, f"learned.pool: {TEXT}"),
    ("rebalancing", [LOOP], "it is no mapping"),
    ("estimate", {**ESTIMATE, "weightsBytes": -1}, "weightsBytes: Input should be greater than or equal to 0"),
    ("placement", {**PLACEMENT, "engine": {}}, "engine.maxModelLen: Field required"),
    ("model", "llama", "it is no mapping"),
    ("move", {**UNDER_WAY, "beganAt": "once"}, "beganAt 'once' is no time"),
    (
        "move",
        {**UNDER_WAY, "dueAt": "2027-02-15T07:15:00Z"},
        "dueAt 2027-02-15T07:15:00Z is not within 172800 s after beganAt 2027-01-15T07:00:00Z",
    ),
    ("move", {**UNDER_WAY, "pools": "all"}, "pools: Input should be a valid list"),
    ("retune", {**RETUNED, "beganAt": "once"}, "beganAt 'once' is no time"),
    ("retune", {**RETUNED, "replicaSeconds": 0}, "replicaSeconds 0 is not between 1 and 86400"),
    ("retune", {**RETUNED, "replicaSeconds": 86_401}, "replicaSeconds 86401 is not between 1 and 86400"),
    ("retune", {**RETUNED, "pools": [{**BEFORE, "maxSequences": 0}]}, "maxSequences 0 is not between 1 and 65536"),
    ("retune", {**RETUNED, "pools": [{**BEFORE, "batchedTokens": 0}]}, "batchedTokens 0 is less than 1"),
    ("retune", {**RETUNED, "pools": [{**BEFORE, "batchedTokens": 10**40}]}, "a number is beyond 9007199254740992"),
    (
        "retune",
        {**RETUNED, "pools": [BEFORE, {**BEFORE, "drainSeconds": 0}]},
        "drainSeconds 0 is not between 1 and 3600",
    ),
]


@every_case(("name", "part", "why"), PARTS)
def test_a_part_that_nobody_could_have_written_is_forgotten_and_the_others_are_not(
    name: str, part: Any, why: str
) -> None:
    record = read({**GOOD, name: part})
    assert fields(record) == {other: value for other, value in GOOD.items() if other != name}
    assert record.complaints == (f"status.{name} is ignored: {why}",)


@pytest.mark.parametrize("name", ["pools", "observations", "conditions"])
def test_a_list_that_is_none_is_ignored_and_named(name: str) -> None:
    record = read({**GOOD, name: {"0": "x"}})
    assert fields(record) == {other: value for other, value in GOOD.items() if other != name}
    assert record.complaints == (f"status.{name} is ignored: it is no list",)


@pytest.mark.parametrize(("name", "value"), [("replicas", "3"), ("readyReplicas", True), ("url", 5), ("selector", [])])
def test_a_shown_field_of_a_wrong_type_is_left_out(name: str, value: Any) -> None:
    assert read({**GOOD, name: value}) == read({other: kept for other, kept in GOOD.items() if other != name})


def test_a_status_that_is_no_mapping_is_none() -> None:
    assert read(["Ready"]) == Record(complaints=("status is ignored: it is no mapping",))


def test_without_a_live_loop_there_is_no_history() -> None:
    assert read({}).history == ChangeHistory()


def test_changes_without_a_time_or_of_an_unknown_kind_are_left_out_of_the_history() -> None:
    [known] = LOOP["changes"]
    loop = {**LOOP, "changes": [{**known, "at": "yesterday"}, {**known, "kind": "Guess"}, known]}
    record = read({"rebalancing": loop})
    assert record.history == ChangeHistory((ChangeRecord(NOW, ChangeKind.ADD, "SustainedQueue", 3),))
    assert record.learned == Learned("h100-sxm-80gb-tp1", 1.25, 90.0)


def test_a_speed_that_nobody_could_have_measured_is_left_out() -> None:
    loop = {**LOOP, "learned": {**LOOP["learned"], "tokenTimePercent": 0}}
    assert read({"rebalancing": loop}).learned is None
    assert read({}).learned is None


@pytest.mark.parametrize(("written", "known"), [(90, 90.0), (1, 1.0), (0, None), (-1, None), (None, None)])
@pytest.mark.parametrize(
    ("field", "attribute"),
    [("startupSeconds", "startup_seconds"), ("mostWork", "most_work"), ("outputTokens", "output_tokens")],
)
def test_a_figure_that_was_learned_is_read_where_it_can_be_one(
    field: str, attribute: str, written: int | None, known: float | None
) -> None:
    """A start may take no time that counts; work and answers are of one token at least."""
    learned = read({"rebalancing": {**LOOP, "learned": {**LOOP["learned"], field: written}}}).learned
    known = 0.0 if (field, written) == ("startupSeconds", 0) else known
    changed: dict[str, Any] = {"startup_seconds": 90.0, attribute: known}
    assert learned == Learned("h100-sxm-80gb-tp1", 1.25, **changed)


@pytest.mark.parametrize(
    ("written", "known"), [(270, 2.7), (1, 0.01), (0, 0.5), (-5, 0.5), (99_999, 10.0), (None, 0.5)]
)
def test_how_unevenly_requests_are_spread_is_read_within_its_bounds(written: int | None, known: float) -> None:
    learned = read({"rebalancing": {**LOOP, "learned": {**LOOP["learned"], "dispersionPercent": written}}}).learned
    assert learned is not None
    assert learned.dispersion == known


def test_the_store_reads_a_status_once_and_says_the_same() -> None:
    body = inference_deployment_body(status={"pools": [{**ENTRY, "replicas": -1}]})
    kept = pruning.inference_deployment(body)
    assert record_of(kept) is record_of(kept)
    assert record_of(kept) == record_of(body)


def test_a_status_that_is_being_written_counts_in_place_of_the_one_that_is_shown() -> None:
    shown = pruning.inference_deployment(inference_deployment_body(status={"pools": [ENTRY]}))
    written = with_status(shown, {"pools": [{**ENTRY, "replicas": 7}]})
    assert [pool.replicas for pool in record_of(written).pools] == [7]
    assert [pool.replicas for pool in record_of(shown).pools] == [2]
    assert written["status"]["pools"][0]["replicas"] == 7


def test_a_live_loop_at_no_replicas_and_at_the_most_is_used() -> None:
    for number in (0, 1000):
        loop = {**LOOP, "baseReplicas": number, "targetReplicas": number}
        assert (fields(read({"rebalancing": loop}))["rebalancing"], read({"rebalancing": loop}).complaints) == (
            loop,
            (),
        )


@pytest.mark.parametrize("name", ["baseReplicas", "targetReplicas"])
def test_a_live_loop_that_has_not_decided_a_number_yet_is_used(name: str) -> None:
    loop = {key: value for key, value in LOOP.items() if key != name}
    assert read({"rebalancing": loop}).complaints == ()


def test_splits_of_one_stage_and_of_several_are_told_apart() -> None:
    flat = {**TOO_SMALL, "tensorParallel": 2}
    record = read({"tooSmall": [flat, {**flat, "pipelineParallel": 3}]})
    assert [split_of(entry) for entry in record.status.too_small or ()] == [Split(2, 1), Split(2, 3)]


def test_an_observation_without_an_engine_is_of_the_default_one() -> None:
    plain, other = read({"observations": [SEEN]}), read({"observations": [{**SEEN, "engine": "other"}]})
    assert [each.observation.kind.engine for each in plain.observations] == [DEFAULT_ENGINE]
    assert [each.observation.kind.engine for each in other.observations] == ["other"]
