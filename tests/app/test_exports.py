"""A snapshot leads to the same review as the cluster, and holds nothing that must stay in the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, RESOURCE_QUOTAS
from plimsoll.app.exports.exporting import export
from plimsoll.app.exports.replaying import replay, replay_capacity
from plimsoll.app.review.measuring import measure
from plimsoll.app.review.values import DeploymentWish, Means, Review, ReviewVerdict, WhatIf
from plimsoll.cli.plans.what_if import what_if_of
from plimsoll.domain.errors import InvalidInput
from tests.support.exported import (
    CANARY,
    FilledCluster,
    filled_office,
    live_review,
    replayed,
    review_of_all,
    shown,
    snapshot_of,
    text_from,
    wish,
)

pytestmark = pytest.mark.lengthy


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[FilledCluster]:
    office = await filled_office(tmp_path)
    yield FilledCluster(office, office.now)
    await office.passes.reader.models.close()


def index_of(cluster: FilledCluster, name: str) -> int:
    bodies = cluster.office.store.all(INFERENCE_DEPLOYMENTS)
    return [body["metadata"]["name"] for body in bodies].index(name)


def verdicts(found: Review) -> dict[str, tuple[str, str]]:
    return {change.key.name: (change.verdict.value, change.reason) for change in found.changes}


def unchanged(cluster: FilledCluster) -> list[DeploymentWish]:
    return [wish(cluster, index) for index in range(len(cluster.office.store.all(INFERENCE_DEPLOYMENTS)))]


async def test_unchanged_files_lead_to_the_review_that_the_cluster_gave(cluster: FilledCluster, tmp_path: Path) -> None:
    live = await live_review(cluster, tmp_path, unchanged(cluster))
    again = await replayed(cluster, tmp_path, unchanged(cluster))
    assert shown(again) == shown(live)
    assert verdicts(live)["d0000"] == ("kept", "PlacementDecided"), "its values are secret, and it does not restart"
    assert verdicts(live)["d0001"] == ("kept", "PlacementDecided"), "its size stays"
    assert verdicts(live)["waits"] == ("waiting", "WaitingForGpus")
    assert verdicts(live)["barred"] == ("refused", "NotPermitted")
    assert live.bill.before > 0


@pytest.mark.parametrize(
    ("name", "spec", "verdict"),
    [
        ("d0000", {"contextLength": 2048}, ReviewVerdict.CHANGED),
        ("d0000", {"replicas": 2}, ReviewVerdict.CHANGED),
        ("d0001", {"contextLength": 6000}, ReviewVerdict.CHANGED),
        ("d0002", {"overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 2}}, ReviewVerdict.MOVED),
        ("waits", {"overrides": None}, ReviewVerdict.PLACED),
        ("barred", {"podTemplate": None}, ReviewVerdict.PLACED),
        ("waits", {"concurrency": 4000, "contextLength": 131072}, ReviewVerdict.REFUSED),
    ],
    ids=str,
)
async def test_changed_files_lead_to_the_review_that_the_cluster_gave(
    cluster: FilledCluster, tmp_path: Path, name: str, spec: dict[str, Any], verdict: ReviewVerdict
) -> None:
    wishes = [wish(cluster, index_of(cluster, name), **spec)]
    live = await live_review(cluster, tmp_path, wishes)
    assert shown(await replayed(cluster, tmp_path, wishes)) == shown(live)
    assert live.changes[0].verdict is verdict


@pytest.mark.parametrize(
    "text", ["+2 h100-sxm-80gb x8", "-l4", "+1 l4", "d0000.contextLength=2048", "waits.overrides="]
)
async def test_a_question_without_files_has_the_answer_that_the_cluster_gave(
    cluster: FilledCluster, tmp_path: Path, text: str
) -> None:
    changes: tuple[WhatIf, ...] = what_if_of([text])
    live = await live_review(cluster, tmp_path, [], changes)
    assert shown(await replayed(cluster, tmp_path, [], changes)) == shown(live)


async def test_a_value_that_the_snapshot_leaves_out_counts_as_unchanged_and_a_note_says_so(
    cluster: FilledCluster, tmp_path: Path
) -> None:
    env = {"podTemplate": {"env": [{"name": "A", "value": "new"}]}}
    found = await replayed(cluster, tmp_path, [wish(cluster, 1, **env), wish(cluster, 2)])
    assert verdicts(found)["d0001"][0] == "kept"
    assert any("left out of file, too" in note for note in found.notes)
    plain = await replayed(cluster, tmp_path, [wish(cluster, 2)])
    assert not any("left out" in note for note in plain.notes)


async def test_a_snapshot_counts_the_replicas_that_the_cluster_counted(cluster: FilledCluster, tmp_path: Path) -> None:
    asked, means = wish(cluster, 2), Means(tmp_path)
    live = await measure(cluster, asked, means, {}, cluster.now)
    again = await replay_capacity(await snapshot_of(cluster, tmp_path), asked, means)
    assert (again.runs, again.capacity) == (live.runs, live.capacity)
    assert live.capacity.total > 0


async def test_no_secret_is_read_and_none_is_in_the_file(cluster: FilledCluster, tmp_path: Path) -> None:
    live = json.dumps([dict(each) for each in (await cluster.list(INFERENCE_DEPLOYMENTS)).items])
    assert live.count(CANARY) > 10
    for hash_names in (False, True):
        text = await text_from(cluster, tmp_path, hash_names=hash_names)
        assert [line for line in text.splitlines() if CANARY in line] == []
    assert cluster.secrets_read == 0


NAMES = re.compile(r"\b(team-\d|n00\d\d|d000\d|zone-\d|waits|barred)\b|acme|object-\d|uid-")


async def test_names_are_replaced_everywhere_and_gpus_and_models_stay(cluster: FilledCluster, tmp_path: Path) -> None:
    plain, hashed = await text_from(cluster, tmp_path), await text_from(cluster, tmp_path, hash_names=True)
    assert len(set(NAMES.findall(plain))) > 10
    assert [line for line in hashed.splitlines() if NAMES.search(line)] == []
    for word in ("NVIDIA-H100-80GB-HBM3", "meta-llama/Llama-3.1-8B-Instruct", "p5.48xlarge", "l4-24gb"):
        assert word in plain, word
        assert word in hashed, word
    assert hashed != await text_from(cluster, tmp_path, hash_names=True), "each file has a salt of its own"


async def test_a_kind_that_cannot_be_read_is_noted_in_the_file_and_on_a_hashed_one_without_names(
    cluster: FilledCluster, tmp_path: Path
) -> None:
    cluster.forbidden = RESOURCE_QUOTAS
    live = await live_review(cluster, tmp_path, unchanged(cluster))
    (note,) = [each for each in live.notes if "resourcequotas" in each]
    assert note in (await snapshot_of(cluster, tmp_path)).notes
    assert note in (await replayed(cluster, tmp_path, unchanged(cluster))).notes
    hashed = await snapshot_of(cluster, tmp_path, hash_names=True)
    assert hashed.notes == ("resourcequotas cannot be read: the plan is without them.",)


@pytest.mark.parametrize(("name", "value"), [("POD_POLICY", "[]"), ("NODE_GROUPS", "{")])
async def test_a_setting_that_cannot_be_used_is_named_and_gets_into_no_file(
    cluster: FilledCluster, tmp_path: Path, name: str, value: str
) -> None:
    for hash_names in (False, True):
        with pytest.raises(InvalidInput, match=r"Write a JSON"):
            await export(cluster, Means(tmp_path), {f"PLIMSOLL_{name}": value}, hash_names=hash_names)


async def test_decisions_on_a_hashed_snapshot_differ_in_names_only(cluster: FilledCluster, tmp_path: Path) -> None:
    plain = await review_of_all(await snapshot_of(cluster, tmp_path), tmp_path)
    hashed = await review_of_all(await snapshot_of(cluster, tmp_path, hash_names=True), tmp_path)

    def decided(found: Review) -> list[object]:
        return [
            (change.verdict, change.reason, change.before, change.after, change.restarts, change.regardless)
            for change in found.changes
        ]

    assert decided(hashed) == decided(plain)
    assert not any("digests" in note for note in hashed.notes)
    assert hashed.bill == plain.bill
    assert [change.key.name for change in plain.changes] == [
        "d0000", "d0001", "d0002", "d0003", "d0004", "barred", "waits",
    ]  # fmt: skip
    assert {change.verdict for change in plain.changes} == {
        ReviewVerdict.KEPT,
        ReviewVerdict.WAITING,
        ReviewVerdict.REFUSED,
    }


async def test_files_for_a_hashed_snapshot_are_new_objects_and_a_note_says_so(
    cluster: FilledCluster, tmp_path: Path
) -> None:
    hashed = await snapshot_of(cluster, tmp_path, hash_names=True)
    found = await replay(hashed, [wish(cluster, 3)], Means(tmp_path))
    assert (found.changes[0].verdict, found.changes[0].before) == (ReviewVerdict.PLACED, ())
    assert any("digests" in note for note in found.notes)
