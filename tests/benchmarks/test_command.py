"""The command on files that somebody brings along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.report import BEGIN, END
from tests.support.accuracy import LLAMA_8B

ROW = {
    "id": "mine",
    "model": "own/model",
    "gpu": "NVIDIA H100 80GB HBM3",
    "vllm_version": "0.19.0",
    "max_model_len": 8192,
    "gpu_memory_utilization": 0.9,
    "weights_gib": 14.99,
    "available_kv_gib": 53.9,
    "outcome": "ok",
}


@pytest.fixture(name="folder")
def own_files(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "own__model.json").write_text(json.dumps(LLAMA_8B))
    (tmp_path / "logs.json").write_text(json.dumps([ROW, {"id": "other", "model": "no/config"}, 7]))
    (tmp_path / "oracle.jsonl").write_text('{"config": "own__model", "tp": 2, "bytes": 8030801920}\n')
    (tmp_path / "doc.md").write_text(f"# Doc\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    return tmp_path


def run(folder: Path, *more: str) -> int:
    return main(
        [
            *("--logs", str(folder / "logs.json")),
            *("--configs", str(folder / "configs")),
            *("--oracle", str(folder / "oracle.jsonl")),
            *("--predictions", str(folder / "out" / "predictions.jsonl")),
            *more,
        ]
    )


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    text = (folder / "out" / "predictions.jsonl").read_text()
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


def test_every_prediction_stands_beside_its_measurement(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--peers", "KAITO,GPUStack", "--json", str(folder / "table.json")) == 0
    found = lines(folder)
    assert found["mine"]["measured"]["kv_gib"] == 53.9
    assert set(found["mine"]["predictions"]) == {"plimsoll", "KAITO", "GPUStack"}
    assert found["own__model/tp2pp1"]["measured"]["bytes"] == 8030801920
    assert found["other"] == {"id": "other", "kind": "left out", "reason": "no configuration: no/config"}
    assert found["logs.json:3"]["kind"] == "unreadable"
    assert "| KV GiB | 1 |" in capsys.readouterr().out
    assert json.loads((folder / "table.json").read_text())["predictors"][1]["name"] == "KAITO"


def test_own_records_are_scored_alone_and_as_held_out(folder: Path) -> None:
    run(folder, "--peers", "none")
    found = lines(folder)
    assert set(found) == {"mine", "own__model/tp2pp1", "other", "logs.json:3"}
    assert found["mine"]["held_out"] is True


def test_our_estimate_answers_and_is_near_on_a_plain_model(folder: Path) -> None:
    run(folder, "--peers", "none")
    said = lines(folder)["mine"]["predictions"]["plimsoll"]
    assert said["weights_gib"] == pytest.approx(14.96, abs=0.05)
    assert said["kv_low_gib"] <= 53.9 <= said["kv_high_gib"]
    assert said["verdict"] == "sure"
    weights = lines(folder)["own__model/tp2pp1"]["predictions"]["plimsoll"]["weights_gib"]
    assert weights * 2**30 == pytest.approx(8030801920, rel=1e-4)


def test_the_table_is_written_between_the_markers(folder: Path) -> None:
    run(folder, "--peers", "none", "--write", str(folder / "doc.md"))
    text = (folder / "doc.md").read_text()
    assert text.startswith("# Doc\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "weights GiB" in text


def test_a_document_without_markers_is_refused(folder: Path) -> None:
    (folder / "doc.md").write_text("nothing")
    with pytest.raises(ValueError, match="has no lines"):
        run(folder, "--peers", "none", "--write", str(folder / "doc.md"))


def test_an_unknown_peer_ends_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--peers", "nobody") == 2
    assert "is no peer" in capsys.readouterr().err
