"""``plimsoll plan -f`` of folders, streams and mixed files: what cannot be used is named and hides nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.adapters.hub.hub import HubModels
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.cli import planning
from plimsoll.cli.reading.files import MAX_YAML_BYTES
from plimsoll.decision import decide as decide_module
from plimsoll.decision.deployment import Deployment
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.status.record.report import Report
from tests.cli.conftest import Run, deployments

ROOT = Path(__file__).resolve().parents[2]
FLEET = str(ROOT / "examples" / "fleet.yaml")

DEPLOYMENT = """apiVersion: plimsoll.dev/v1alpha1
kind: InferenceDeployment
metadata: {{name: {name}, namespace: team}}
spec:
  model: {{name: {model}}}
  contextLength: {context}
  concurrency: {concurrency}
"""


def manifest(
    name: str, *, context: object = 4096, concurrency: int = 8, model: str = "Qwen/Qwen2.5-7B-Instruct"
) -> str:
    return DEPLOYMENT.format(name=name, context=context, concurrency=concurrency, model=model)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "deploy"
    made.mkdir()
    return made


def names(shown: str) -> list[str]:
    return [entry["name"] for entry in deployments(shown)]


def test_a_folder_is_its_files_in_order_and_those_below_only_if_asked(run: Run, folder: Path) -> None:
    (folder / "b.yaml").write_text(manifest("second"))
    (folder / "a.yml").write_text(manifest("first"))
    (folder / "c.json").write_text(json.dumps(yaml.safe_load(manifest("third"))))
    (folder / "README.md").write_text("# No manifest")
    (folder / "below").mkdir()
    (folder / "below" / "d.yaml").write_text(manifest("below"))

    assert names(run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")[1]) == ["first", "second", "third"]
    status, shown, _ = run("plan", "-R", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (0, ["first", "second", "below", "third"])


def test_a_file_that_is_named_twice_is_read_once(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(manifest("one"))
    status, shown, _ = run("plan", "-f", str(folder), "-f", str(folder / "a.yaml"), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (0, ["one"])


def test_a_folder_without_manifests_says_which_files_count(run: Run, folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "d.yaml").write_text(manifest("below"))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET)
    assert (status, shown) == (2, "")
    assert f"-f: '{folder}' cannot be used. Use -R" in told
    assert ".yaml, .yml, .json" in told


def test_standard_input_is_a_file_like_any_other(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(manifest("filed"))
    stream = manifest("piped") + "---\n" + manifest("broken", context="long")
    status, shown, told = run("plan", "-f", "-", "-f", str(folder), "--fleet", FLEET, "-o", "json", stdin=stream)
    assert (status, names(shown)) == (2, ["piped", "filed"])
    assert "error: standard input, document 2, InferenceDeployment team/broken: spec.contextLength: 'long'" in told


def test_the_fleet_may_come_in_a_pipe(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(manifest("one"))
    piped = Path(FLEET).read_text(encoding="utf-8")
    assert run("plan", "-f", str(folder), "--fleet", "-", stdin=piped)[0] == 0


@pytest.mark.parametrize("second", [("--fleet", "-"), ("--prices", "-"), ("-f", "-")], ids=["fleet", "prices", "f"])
def test_only_one_option_may_read_standard_input(run: Run, second: tuple[str, str]) -> None:
    status, _, told = run("plan", "-f", "-", *second, stdin=manifest("one"))
    assert status == 2
    assert f"error: -f and {second[0]}: '-' cannot be used. Only one of them can be standard input" in told


def test_one_bad_document_hides_none_of_the_others(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(
        "# Ours\n---\n"
        + manifest("good")
        + "---\n"
        + manifest("typo", context="long")
        + "---\nmetadata: {name: [unclosed\n---\n- a list\n---\n"
        + manifest("after")
    )
    (folder / "b.yaml").symlink_to(folder / "gone")
    (folder / "c.yaml").write_bytes(b"\xff\xfe\xfa")
    (folder / "d.yaml").write_text(manifest("last"))

    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")

    assert (status, names(shown)) == (2, ["good", "after", "last"])
    place = f"error: {folder}/a.yaml, document"
    lines = told.splitlines()
    assert f"{place} 2, InferenceDeployment team/typo: spec.contextLength: 'long' cannot be used." in told
    assert any(line.startswith(f"{place} 3: It is not YAML at line 20, column 1: ") for line in lines), told
    assert f"{place} 4: Write Kubernetes objects: a mapping with apiVersion and kind." in lines
    assert any(line.startswith(f"error: file: '{folder}/b.yaml' cannot be used. It cannot be read: ") for line in lines)
    assert any(line.startswith(f"error: file: '{folder}/c.yaml' cannot be used. It cannot be read: ") for line in lines)
    assert lines[-1] == "error: 5 of the inputs cannot be used (see above): this plan is without them."


def test_bad_input_outweighs_what_has_no_place(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(manifest("huge", context=32_768, concurrency=16_384))
    assert run("plan", "-f", str(folder), "--fleet", FLEET)[0] == 1
    (folder / "b.yaml").write_text("a: [")
    assert run("plan", "-f", str(folder), "--fleet", FLEET)[0] == 2


def test_all_share_one_ledger_and_the_first_is_served_first(run: Run, folder: Path) -> None:
    # One L4 takes one of them; the price tells which.
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(manifest(name) + "  gpu: {allow: [l4-24gb]}\n")
    status, shown, _ = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, [entry["placed"] for entry in deployments(shown)]) == (1, [True, False])
    both = ("-f", str(folder / "b.yaml"), "-f", str(folder / "a.yaml"))
    status, shown, _ = run("plan", *both, "--fleet", FLEET, "-o", "json")
    assert [(entry["name"], entry["placed"]) for entry in deployments(shown)] == [
        ("b", True),
        ("a", False),
    ]


def test_other_kinds_are_passed_over_with_a_note(run: Run, folder: Path) -> None:
    services = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: team}\n"
    (folder / "a.yaml").write_text(f"{services}---\n{services}---\nreplicas: 3\n---\n{manifest('one')}")
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (0, ["one"])
    assert told == (
        "note: only InferenceDeployments are planned; passed over: 2 x Service, 1 x without a kind "
        f"(the first: {folder}/a.yaml, document 1, Service team/web).\n"
    )


def test_a_slip_in_our_own_kind_is_no_other_kind(run: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(manifest("one") + "---\n" + manifest("two").replace("Deployment", "Deploymnet"))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (2, ["one"])
    assert "document 2, InferenceDeploymnet team/two: kind: 'plimsoll.dev/v1alpha1/InferenceDeploymnet'" in told


def test_objects_in_a_list_are_named_by_their_number(run: Run, folder: Path) -> None:
    items = [yaml.safe_load(manifest(name, context=length)) for name, length in (("good", 4096), ("bad", -1))]
    (folder / "a.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, 7]}))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (2, ["good"])
    assert "a.json, document 1, item 2, InferenceDeployment team/bad: spec.contextLength: -1" in told
    assert "a.json, document 1, item 3: Write Kubernetes objects" in told


def test_namesakes_are_both_left_out_and_both_named(run: Run, folder: Path) -> None:
    for file, name in (("a.yaml", "twin"), ("b.yaml", "twin"), ("c.yaml", "single")):
        (folder / file).write_text(manifest(name))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (2, ["single"])
    assert f"error: {folder}/b.yaml, document 1, InferenceDeployment team/twin: metadata.name: 'team/twin'" in told
    assert f"It is also the name of {folder}/a.yaml, document 1, InferenceDeployment team/twin." in told


def test_objects_of_several_are_one_stream(run: Run, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(manifest(name))
    _, shown, _ = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "objects")
    bodies = list(yaml.safe_load_all(shown))
    assert [body["metadata"]["name"] for body in bodies if body["kind"] == "Service"] == ["a", "b"]
    _, shown, _ = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "yaml")
    assert [entry["name"] for entry in yaml.safe_load(shown)["deployments"]] == ["a", "b"]


def test_a_model_that_no_source_knows_is_asked_for_once(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def unavailable(self: object, name: str, *_: Any, **__: Any) -> None:
        del self
        asked.append(name)
        raise SourceUnavailable("the Hub did not answer")

    monkeypatch.setattr(HubModels, "facts", unavailable)
    for name in ("a", "b", "c"):
        (folder / f"{name}.yaml").write_text(manifest(name, model="nobody/nothing"))
    (folder / "d.yaml").write_text(manifest("known"))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown), asked) == (2, ["known"], ["nobody/nothing"])
    assert told.count("the Hub did not answer") == 3


def _name(given: InferenceDeployment | Deployment | Report) -> str:
    if isinstance(given, InferenceDeployment):
        return given.metadata.name
    return given.key.name if isinstance(given, Deployment) else given.name


@pytest.mark.parametrize(
    ("module", "step"),
    [(planning, "to_request"), (decide_module, "observe"), (decide_module, "under_way"), (planning, "new_status")],
    ids=["read", "observed", "rendered", "written"],
)
def test_an_accident_with_one_object_stays_with_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    whole = getattr(module, step)

    def stumbles(given: Any, *others: Any, **more: Any) -> Any:
        if _name(given) == "poison":
            raise ZeroDivisionError("by nothing")
        return whole(given, *others, **more)

    monkeypatch.setattr(module, step, stumbles)
    for name in ("before", "poison", "zafter"):
        (folder / f"{name}.yaml").write_text(manifest(name))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (2, ["before", "zafter"])
    assert f"{folder}/poison.yaml, document 1, InferenceDeployment team/poison: It cannot be planned" in told
    assert "ZeroDivisionError: by nothing" in told


def test_endless_and_huge_files_are_refused_in_time(run: Run, folder: Path) -> None:
    (folder / "huge.yaml").write_bytes(b"#" * (MAX_YAML_BYTES + 1))
    (folder / "one.yaml").write_text(manifest("one"))
    status, shown, told = run("plan", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (2, ["one"])
    assert f"file: '{folder}/huge.yaml' cannot be used. It holds more than 64 MiB" in told


def test_a_circle_of_folders_ends(run: Run, folder: Path) -> None:
    (folder / "one.yaml").write_text(manifest("one"))
    (folder / "again").symlink_to(folder)
    status, shown, _ = run("plan", "-R", "-f", str(folder), "--fleet", FLEET, "-o", "json")
    assert (status, names(shown)) == (0, ["one"])
