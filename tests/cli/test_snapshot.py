"""``--snapshot`` and ``plimsoll fleet export`` as a shell would run them, without a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from plimsoll.app.exports.document import text_of
from plimsoll.app.exports.exporting import export
from plimsoll.app.review.values import Means
from plimsoll.cli.commands import fleet
from tests.cli.conftest import Run
from tests.support.alone import command
from tests.support.exported import FilledCluster, filled_office, live_review, shown, text_from, wish


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[FilledCluster]:
    office = await filled_office(tmp_path)
    yield FilledCluster(office, office.now)
    await office.passes.reader.models.close()


@pytest.fixture
async def snapshot(cluster: FilledCluster, tmp_path: Path) -> Path:
    path = tmp_path / "fleet.json"
    path.write_text(await text_from(cluster, tmp_path), encoding="utf-8")
    return path


@pytest.fixture
def served(cluster: FilledCluster, tmp_path: Path) -> Path:
    """The manifest of an object that serves."""
    path = tmp_path / "served.yaml"
    path.write_text(yaml.safe_dump(wish(cluster, 2).body), encoding="utf-8")
    return path


async def test_plan_on_a_snapshot_prints_the_json_that_the_cluster_s_review_prints(
    cluster: FilledCluster, snapshot: Path, served: Path, tmp_path: Path
) -> None:
    ran = command(["plan", "--snapshot", str(snapshot), "-f", str(served), "-o", "json"], tmp_path, refused=frozenset())
    assert ran.status == 0, ran.err
    live = await live_review(cluster, tmp_path, [wish(cluster, 2)])
    printed = {name: value for name, value in json.loads(ran.out).items() if name not in {"formatVersion", "notes"}}
    assert printed["changes"][0].pop("source").startswith(str(served))
    expected: dict[str, Any] = json.loads(json.dumps(shown(live)))
    expected["changes"][0].pop("source")
    assert printed == expected


def test_plan_on_a_snapshot_alone_answers_for_every_object_of_it(run: Run, snapshot: Path) -> None:
    status, out, err = run("plan", "--snapshot", str(snapshot), "-o", "json")
    words = {each["name"]: (each["change"], each["reason"]) for each in json.loads(out)["changes"]}
    assert status == 1, err
    assert words["d0002"] == ("kept", "PlacementDecided")
    assert words["waits"] == ("waiting", "WaitingForGpus")
    status, out, err = run("plan", "--snapshot", str(snapshot), "--what-if", "waits.overrides=", "-o", "json")
    assert [(each["name"], each["change"]) for each in json.loads(out)["changes"]] == [("waits", "placed")], err
    assert status == 0


def test_plan_reads_a_snapshot_from_standard_input(run: Run, snapshot: Path) -> None:
    status, out, _ = run("plan", "--snapshot", "-", "--what-if", "waits.overrides=", stdin=snapshot.read_text())
    assert status == 0
    assert "team-9/waits" in out


def test_capacity_counts_on_a_snapshot(run: Run, snapshot: Path) -> None:
    words = ("capacity", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "l4-24gb", "--snapshot", str(snapshot), "-o", "json")
    status, out, err = run(*words)
    assert (status, json.loads(out)["moreReplicas"]) == (1, 0), err
    words = ("capacity", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "l40s-48gb", "--snapshot", str(snapshot), "-o", "json")
    status, out, err = run(*words)
    assert status == 0, err
    assert json.loads(out)["moreReplicas"] > 0


@pytest.mark.parametrize(
    "words", [("plan", "-f", "x.yaml"), ("capacity", "Qwen/Qwen2.5-7B-Instruct")], ids=lambda w: w[0]
)
def test_a_snapshot_and_a_fleet_exclude_each_other(run: Run, snapshot: Path, words: tuple[str, ...]) -> None:
    status, _, err = run(*words, "--snapshot", str(snapshot), "--fleet", "fleet.yaml")
    assert status == 2
    assert "--snapshot" in err
    assert "so does --fleet: leave one of them out" in err


def test_a_broken_snapshot_is_named_with_its_field(run: Run, snapshot: Path, served: Path) -> None:
    found = json.loads(snapshot.read_text())
    node = next(index for index, each in enumerate(found["objects"]) if each["kind"] == "Node")
    found["objects"][node]["status"]["allocatable"]["nvidia.com/gpu"] = "many"
    snapshot.write_text(json.dumps(found))
    status, _, err = run("plan", "--snapshot", str(snapshot), "-f", str(served))
    assert status == 2
    assert f"error: {snapshot}: objects[{node}]: Node n0000: status.allocatable[nvidia.com/gpu]: 'many'" in err
    snapshot.write_text(snapshot.read_text()[:2000])
    for words in (("plan", "-f", str(served)), ("capacity", "Qwen/Qwen2.5-7B-Instruct")):
        status, _, err = run(*words, "--snapshot", str(snapshot))
        assert (status, f"error: {snapshot}: line 1, column" in err) == (2, True), err
    status, _, err = run("plan", "--snapshot", str(snapshot.parent / "absent.json"))
    assert (status, "absent.json" in err) == (2, True)


def test_export_writes_a_file_or_standard_output_and_prints_its_notes(
    run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FilledCluster, tmp_path: Path
) -> None:
    asked: list[bool] = []

    def exported(*_: object, hash_names: bool) -> Any:
        asked.append(hash_names)
        return made

    made = replace(
        asyncio.run(export(cluster, Means(tmp_path), {}, now=cluster.now)), notes=("quotas cannot be read.",)
    )
    monkeypatch.setattr(fleet, "deciding_cluster", lambda _: SimpleNamespace(export=exported))
    file = tmp_path / "out.json"
    status, out, err = run("fleet", "export", "--hash-names", "--save", str(file))
    assert (status, out, file.read_text()) == (0, "", text_of(made))
    assert "note: quotas cannot be read." in err
    assert f"plimsoll plan --snapshot {file}" in err
    status, out, _ = run("fleet", "export")
    assert (status, out, asked) == (0, text_of(made), [True, False])
    status, _, err = run("fleet", "export", "--save", str(tmp_path))
    assert (status, "--save:" in err and "It cannot be written" in err) == (2, True)


def test_without_the_extra_of_the_operator_it_is_named(snapshot: Path, tmp_path: Path) -> None:
    for words in (["fleet", "export"], ["plan", "--snapshot", str(snapshot)]):
        ran = command(words, tmp_path)
        assert ran.status == 2
        assert "pip install 'plimsoll[operator]'" in ran.err
