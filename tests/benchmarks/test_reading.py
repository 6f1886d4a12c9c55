"""Other people's files: other keys, other shapes, and rows that make no sense."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.accuracy.cases import BadRow, Outcome
from benchmarks.accuracy.loading import LOGS, MODELS, RUNS
from benchmarks.accuracy.reading.configs import ConfigShelf
from benchmarks.accuracy.reading.gpus import find_gpu
from benchmarks.accuracy.reading.oracle import read_oracle
from benchmarks.accuracy.reading.records import outcome_of, read_records
from tests.support.tables import every_case


def written(folder: Path, text: str, name: str = "rows.json") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_record_under_other_keys_and_with_figures_as_text(tmp_path: Path) -> None:
    row = {
        "Model": "a/b",
        "TP": "2",
        "vllm_version": "0.11.0",
        "available_kv_gib": "4.08 GiB",
        "kv_cache_tokens": "97,088",
        "status": "success",
        "expert_parallel": "true",
        "dtype": "torch.float16",
    }
    bad: list[BadRow] = []
    (found,) = read_records(written(tmp_path, json.dumps([row])), "logs", bad)
    assert bad == []
    assert (found.model, found.tensor_parallel, found.expert_parallel, found.dtype) == ("a/b", 2, True, "float16")
    assert (found.measured.kv_gib, found.measured.kv_tokens, found.measured.outcome) == (4.08, 97088, Outcome.OK)


def test_json_lines_and_an_object_with_a_list_are_read(tmp_path: Path) -> None:
    lines = written(tmp_path, '{"model": "a"}\n\n{"model": "b"}\n', "lines.jsonl")
    wrapped = written(tmp_path, '{"runs": [{"model": "a"}, {"model": "b"}]}')
    for path in (lines, wrapped):
        assert [each.model for each in read_records(path, "logs", [])] == ["a", "b"]


def test_bad_rows_are_named_and_the_others_are_kept(tmp_path: Path) -> None:
    bad: list[BadRow] = []
    text = '{"id": "x", "model": "a", "tp": "many"}\nnonsense\n[1]\n{"id": "y", "model": "b"}\n'
    found = read_records(written(tmp_path, text), "logs", bad)
    assert [each.id for each in found] == ["y"]
    assert {row.name for row in bad} == {"x", "rows.json:2"}
    assert any("tp" in row.reason or "tensor" in row.reason for row in bad)


def test_records_without_an_id_are_named_by_their_flags_and_never_alike(tmp_path: Path) -> None:
    row = {"model": "a/b", "gpu": "H100", "tp": 1}
    found = read_records(written(tmp_path, json.dumps([row, row])), "runs", [])
    assert [each.id for each in found] == ["a/b/H100/tp1pp1", "a/b/H100/tp1pp1#2"]


@every_case(
    ("text", "outcome"),
    [
        ("ok", Outcome.OK),
        ("insufficient-kv", Outcome.INSUFFICIENT_KV),
        ("OOM", Outcome.OOM),
        ("failed-other", Outcome.FAILED),
        ("failed", Outcome.FAILED),
        (None, Outcome.FAILED),
    ],
)
def test_outcomes(text: str | None, outcome: Outcome) -> None:
    assert outcome_of(text) is outcome


def test_a_stated_cause_and_printed_figures_tell_the_outcome() -> None:
    assert outcome_of("failed", failure={"kind": "oom"}) is Outcome.OOM
    assert outcome_of(None, measured=True) is Outcome.OK


def test_oracle_rows_in_both_forms_and_the_fullest_stage(tmp_path: Path) -> None:
    bad: list[BadRow] = []
    rows = [
        {"config": "a__b", "tp": 2, "pp": 2, "stage": 0, "ep": False, "quantized": False, "bytes": 10},
        {"config": "a__b", "tp": 2, "pp": 2, "stage": 1, "ep": False, "quantized": False, "bytes": 12},
        {"file": "c__d.json", "tensor_parallel_size": 4, "weight_bytes": 7, "params_per_rank": 3},
        {"model": "e/f", "params": 5},
        {"bytes": 1},
    ]
    found = read_oracle(written(tmp_path, "\n".join(map(json.dumps, rows))), bad)
    assert [(row.config, row.tensor_parallel, row.bytes, row.parameters) for row in found] == [
        ("a__b", 2, 12, None),
        ("c__d", 4, 7, 3),
        ("e/f", 1, None, 5),
    ]
    assert [row.name for row in bad] == ["rows.json:5"]


def test_configurations_by_index_by_file_name_and_derived(tmp_path: Path) -> None:
    for stem in ("own__model", "meta-llama__Llama-3.1-8B-Instruct"):
        written(tmp_path, json.dumps({"hidden_size": 1, "text_config": {"a": 1, "b": 2}}), f"{stem}.json")
    written(tmp_path, json.dumps([{"model": "Nice/Name", "file": "own__model.json"}]), "index.json")
    written(tmp_path, "{", "broken.json")
    bad: list[BadRow] = []
    shelf = ConfigShelf(tmp_path, MODELS, bad)
    assert [row.name for row in bad] == ["broken.json"]
    assert all(shelf.find(name) for name in ("Nice/Name", "own/model", "own__model", "OWN/MODEL"))
    assert shelf.find("no/such") is None
    derived = shelf.find("redhatai/meta-llama-3.1-8b-instruct-quantized.w8a8")
    assert derived is not None
    assert derived.config["hidden_size"] == 1
    assert derived.config["quantization_config"]["quant_method"] == "compressed-tensors"


@every_case(
    ("name", "kind"),
    [
        ("H100-80GB", "h100-sxm-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB", "a100-sxm-80gb"),
        ("Tesla T4 x2 (Kaggle)", "t4-16gb"),
        ("NVIDIA L40S", "l40s-48gb"),
        ("NVIDIA L4", "l4-24gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("NVIDIA GeForce RTX 4090 48GB (modded)", "rtx-4090-48gb"),
        ("NVIDIA GB10 (DGX Spark)", "gb10-128gb"),
    ],
)
def test_gpus_by_the_names_that_records_write(name: str, kind: str) -> None:
    found = find_gpu(name, None)
    assert found is not None
    assert found.gpu.name == kind


@every_case(
    ("name", "total", "capability"),
    [
        ("NVIDIA GeForce RTX 4080 16GB", 15.99, (8, 9)),
        ("NVIDIA GeForce RTX 3080 Ti", 11.75, (8, 6)),
        ("NVIDIA GeForce RTX 5070 Ti", 15.5, (12, 0)),
        ("NVIDIA RTX PRO 4000 Blackwell", 23.4, (12, 0)),
        ("NVIDIA RTX 4000 Ada Generation", 19.5, (8, 9)),
        ("NVIDIA RTX A4000", 15.7, (8, 6)),
    ],
)
def test_a_card_that_is_not_catalogued_is_one_of_its_series(
    name: str, total: float, capability: tuple[int, int]
) -> None:
    found = find_gpu(name, total)
    assert found is not None
    assert found.gpu.compute_capability == capability
    assert found.gpu.usable_bytes == int(total * 2**30)


def test_flags_in_one_text_are_a_command_line(tmp_path: Path) -> None:
    row = {"model": "a/b", "other_flags": "--enable-lora --max-loras 4"}
    (found,) = read_records(written(tmp_path, json.dumps([row])), "logs", [])
    assert found.other_flags == {"cli": "--enable-lora --max-loras 4"}


def test_no_gpu_without_a_name_or_a_total() -> None:
    assert find_gpu(None, None) is None
    assert find_gpu("Some Accelerator", None) is None


def test_every_carried_record_is_read() -> None:
    bad: list[BadRow] = []
    runs, logs = read_records(RUNS, "runs", bad), read_records(LOGS, "logs", bad)
    assert bad == []
    assert (len(runs), len(logs)) == (36, 153)
    assert len({each.id for each in (*runs, *logs)}) == 189
    assert all(each.source for each in (*runs, *logs))
