"""``plimsoll capacity`` at a prompt: how many more fit, on which GPUs, at which price, and what blocks the next."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
MODEL = "Qwen/Qwen2.5-7B-Instruct"
MINIMAL = str(ROOT / "examples" / "01-minimal" / "deployment.yaml")


def fleet(folder: Path, gpus: int, held: int = 0) -> str:
    """A node of L40S of which a pod holds some."""
    node = gpu_node("n0", "L40S", gpus)
    holder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "training", "namespace": "others"},
        "spec": {"nodeName": "n0", "containers": [{"resources": {"limits": {"nvidia.com/gpu": held}}}]},
        "status": {"phase": "Running"},
    }
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump_all([node, holder] if held else [node]))
    return str(path)


def test_the_table_names_the_number_the_price_and_what_blocks_the_next_one(run: Run, tmp_path: Path) -> None:
    status, shown, _ = run("capacity", MODEL, "--fleet", fleet(tmp_path, 4, held=1))
    assert status == 0
    assert "3 more replicas fit: 3 on l40s-48gb x 1 for $" in shown
    assert "The next one has no place: l40s-48gb x 1 fits, but takes 1 GPU on one node and at most 0 are free." in shown


def test_json_and_yaml_hold_the_same_figures(run: Run, tmp_path: Path) -> None:
    words = ("capacity", MODEL, "--fleet", fleet(tmp_path, 4), "-o")
    found = json.loads(run(*words, "json")[1])
    assert yaml.safe_load(run(*words, "yaml")[1]) == found
    assert (found["moreReplicas"], found["placedReplicas"], found["next"]["reason"]) == (4, 0, "GpusTaken")
    places = {(each["gpuType"], each["tensorParallel"]): each for each in found["places"]}
    two = places["l40s-48gb", 2]
    assert (two["fitAlone"], two["ofTheTotal"]) == (2, 0)
    assert abs(float(found["hourlyPrice"]) - 4 * float(places["l40s-48gb", 1]["hourlyPriceEach"])) <= 0.03


def test_a_manifest_and_the_options_of_a_model_ask_the_same_way(run: Run, tmp_path: Path) -> None:
    where = fleet(tmp_path, 4)
    status, shown, _ = run("capacity", "-f", MINIMAL, "--fleet", where)
    assert (status, "4 more replicas fit" in shown) == (0, True)
    status, shown, _ = run("capacity", MODEL, "--tp", "4", "--fleet", where)
    assert (status, "1 more replica fits: 1 on l40s-48gb x 4" in shown) == (0, True)


def test_a_name_of_several_types_counts_all_of_them_and_a_note_names_them(run: Run, tmp_path: Path) -> None:
    words = ("capacity", MODEL, "--fleet", fleet(tmp_path, 2), "-o", "json")
    status, shown, said = run(*words, "--gpu", "NVIDIA L40S", "--gpu", "H100")
    assert (status, json.loads(shown)["moreReplicas"]) == (0, 2)
    (note,) = json.loads(shown)["notes"]
    assert note == "H100 may be h100-nvl-94gb, h100-pcie-80gb or h100-sxm-80gb. All of them count."
    assert f"note: {note}" in said
    assert run(*words, "--gpu", "H100")[0] == 1
    assert json.loads(run(*words, "--gpu", "l40s-48gb")[1])["notes"] == []


def test_where_none_fits_the_status_is_one_and_the_shortfall_is_named(run: Run, tmp_path: Path) -> None:
    model = "meta-llama/Llama-3.3-70B-Instruct"
    status, shown, _ = run("capacity", model, "--fleet", fleet(tmp_path, 1))
    assert status == 1
    assert "No more replica fits." in shown
    assert "No place takes one: l40s-48gb x " in shown


def test_bad_input_is_named_with_its_fix(run: Run, tmp_path: Path) -> None:
    where = fleet(tmp_path, 1)
    for words, sentence in (
        ((), "Name a model, or one InferenceDeployment with -f."),
        ((MODEL, "-f", MINIMAL), "Name a model, or one InferenceDeployment with -f."),
        ((MODEL, "--gpu", "l99"), "l99"),
        (("-f", MINIMAL, "--concurrency", "4"), "write them into the manifest"),
    ):
        status, _, said = run("capacity", *words, "--fleet", where)
        assert (status, sentence in said) == (2, True), said
