"""The names that ``plimsoll estimate`` accepts, and its suggestions for those that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.questions.names import meant_types, named
from plimsoll.domain.errors import InvalidInput
from tests.cli.conftest import Run
from tests.cli.test_estimate import Ran, one
from tests.support.tables import every_case

MODEL = "Qwen/Qwen3-8B"


@every_case(
    ("name", "gpu_type"),
    [
        ("h100-sxm-80gb", "h100-sxm-80gb"),
        ("H100-SXM-80GB", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA-A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090-24gb"),
        ("nvidia geforce rtx 3090", "rtx-3090-24gb"),
        ("Tesla T4", "t4-16gb"),
        ("NVIDIA L40S", "l40s-48gb"),
        ("L4", "l4-24gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("AMD Instinct MI355X", "mi355x-288gb"),
        ("AMD Radeon RX 9070 XT", "rx-9070-xt-16gb"),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm-80gb-mig-3g.40gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "a100-sxm-80gb-mig-3g.40gb"),
    ],
)
def test_a_gpu_is_named_as_drivers_and_labels_name_it(name: str, gpu_type: str) -> None:
    assert meant_types([name]) == ((gpu_type,), ())


def test_every_type_and_every_label_of_the_catalogue_names_its_type() -> None:
    for gpu in load_gpu_types():
        for name in (gpu.name, gpu.name.upper(), *gpu.product_labels):
            assert meant_types([name]).types == (gpu.name,)
        assert meant_types([gpu.name]).notes == ()


def test_names_of_one_type_are_one_answer() -> None:
    assert meant_types(["L4", "l4-24gb", "Tesla T4"]) == (("l4-24gb", "t4-16gb"), ())


@every_case(
    ("name", "taken", "others"),
    [
        ("NVIDIA A100", "a100-pcie-40gb", ("a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb")),
        ("A100 80GB", "a100-pcie-80gb", ("a100-sxm-80gb",)),
        ("H100", "h100-pcie-80gb", ("h100-nvl-94gb", "h100-sxm-80gb")),
        ("H20", "h20-96gb", ("h20-141gb",)),
        ("A800", "a800-pcie-80gb", ("a800-sxm-80gb",)),
        ("GH200", "gh200-96gb", ("gh200-144gb",)),
        ("Tesla V100", "v100-sxm2-16gb", ("v100-sxm2-32gb",)),
        ("NVIDIA GeForce RTX 3080", "rtx-3080-10gb", ("rtx-3080-12gb",)),
        ("rtx 2080 ti", "rtx-2080-ti-11gb", ("rtx-2080-ti-22gb",)),
    ],
)
def test_a_name_of_several_sizes_is_the_least_of_them_and_a_note_names_the_others(
    name: str, taken: str, others: tuple[str, ...]
) -> None:
    types, (note,) = meant_types([name, name])
    assert types == (taken,)
    assert f"It is read as {taken}" in note
    assert all(each in note for each in others)


@every_case(
    "name",
    ["L40", "NVIDIA H200", "NVIDIA H100 NVL", "NVIDIA-GH200-480GB", "RTX 3080 12GB", "RTX 4080", "B300", "H20 141GB"],
)
def test_a_name_of_one_size_has_no_note(name: str) -> None:
    assert meant_types([name]).notes == ()


def test_no_type_of_that_name_is_smaller_than_the_one_that_is_taken() -> None:
    types = {gpu.name: gpu for gpu in load_gpu_types() if not gpu.is_slice}
    for gpu in types.values():
        chip = gpu.name.rpartition("-")[0].removesuffix("-sxm").removesuffix("-pcie")
        try:
            (taken,), notes = meant_types([chip])
        except InvalidInput:
            continue
        assert types[taken].total_bytes <= gpu.total_bytes, chip
        assert notes or taken in gpu.name, chip


def test_an_estimate_notes_which_size_was_taken_in_the_text_and_in_the_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "Note: NVIDIA A100 may be a100-pcie-40gb" in Ran(capsys, [MODEL, "--gpu", "NVIDIA A100"]).shown
    assert "It is read as h20-96gb" in one(capsys, MODEL, "--gpu", "H20")["notes"][0]
    assert one(capsys, MODEL, "--gpu", "h20-141gb")["notes"] == []


@every_case(
    ("name", "offered"),
    [
        ("NVIDIA RTX PRO", "did you mean rtx-pro-4000-24gb, rtx-pro-4500-32gb or rtx-pro-5000-48gb?"),
        ("h1000", "did you mean h100-nvl-94gb"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "did you mean rtx-4090-24gb?"),
        ("AMD Instinct MI250X / MI250", "did you mean mi250x-128gb?"),
        ("rtx-4091-24gb", "did you mean rtx-4090-24gb"),
    ],
)
def test_a_gpu_that_is_not_meant_for_sure_is_asked_back(name: str, offered: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        meant_types([name])
    assert offered in str(refused.value)


@pytest.mark.parametrize("name", ["", "  ", "abacus", "NVIDIA"])
def test_a_gpu_that_nobody_knows_gets_no_suggestion(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        meant_types([name])
    assert "There is no such GPU type; `plimsoll gpus` lists them all." in str(refused.value)


@every_case(
    "source",
    [
        MODEL,
        f"https://huggingface.co/{MODEL}",
        f"https://huggingface.co/{MODEL}/",
        f"https://huggingface.co/{MODEL}/tree/main",
        f"https://huggingface.co/{MODEL}/blob/main/config.json?download=true#top",
        f"https://hf.co/{MODEL}//",
        f"hf.co/{MODEL}",
        f"HTTPS://WWW.HuggingFace.co/{MODEL}/discussions/3",
    ],
)
def test_the_address_of_a_model_is_its_name(source: str) -> None:
    assert named(source) == (MODEL, ())


def test_a_name_in_other_capitals_is_the_catalogued_one_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert named("qwen/qwen3-8b").source == MODEL
    shown = Ran(capsys, ["qwen/qwen3-8b", "--gpu", "L4"]).shown
    assert "Note: qwen/qwen3-8b is read as Qwen/Qwen3-8B" in shown
    assert one(capsys, "QWEN/QWEN3-8B", "--gpu", "L4")["notes"]
    assert one(capsys, MODEL, "--gpu", "L4")["notes"] == []


def test_a_file_of_that_name_stays_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen" / "qwen3-8b").mkdir(parents=True)
    assert named("qwen/qwen3-8b") == ("qwen/qwen3-8b", ())


@pytest.mark.parametrize("source", ["https://huggingface.co/datasets/a/b", "https://example.com/a/b", "huggingface.co"])
def test_an_address_of_no_model_is_left_as_it_is(source: str) -> None:
    assert named(source) == (source, ())


def test_an_address_of_a_revision_names_the_field_for_it() -> None:
    with pytest.raises(InvalidInput, match=r"Name Qwen/Qwen3-8B, or write a manifest with spec\.model\.revision v2\."):
        named(f"https://huggingface.co/{MODEL}/tree/v2")


@pytest.mark.parametrize("typed", ["Qwen3-8B", "qwen3-8b", "Qwen/Qwen3-8", "Qwn/Qwen3-8B"])
def test_an_unknown_model_gets_suggestions(run: Run, typed: str) -> None:
    status, _, error = run("estimate", typed)
    assert status == 2
    assert "Did you mean " in error
    assert MODEL in error


@every_case(
    ("asked", "offered"),
    [
        ("someone/Qwen3.6-27B-AWQ-4bit", "Qwen/Qwen3.6-27B (bf16), Lorbus/Qwen3.6-27B-int4-AutoRound (gptq)"),
        ("someone/Huihui-Qwen3.6-35B-A3B-abliterated", "Qwen/Qwen3.6-35B-A3B (bf16)"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B-Instruct (bf16)"),
    ],
)
def test_a_checkpoint_built_on_a_catalogued_model_gets_that_model(run: Run, asked: str, offered: str) -> None:
    status, _, error = run("estimate", asked)
    assert status == 2
    assert "other checkpoints of the same model: " + offered in error
    assert "Name the one with the precision that you want" in error


@pytest.mark.parametrize("asked", ["someone/Qwen3.6-270B-AWQ", "someone/27B", "someone/Mix-of-4B-and-8B"])
def test_a_name_of_another_size_is_not_built_on_it(run: Run, asked: str) -> None:
    assert "other checkpoints of the same model" not in run("estimate", asked)[2]


def test_a_model_like_no_other_gets_none(run: Run) -> None:
    status, _, error = run("estimate", "somebody/something-of-her-own")
    assert status == 2
    assert "Did you mean" not in error


def test_an_address_in_a_manifest_is_refused_with_the_name_to_write(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    spec = f"spec: {{model: {{name: 'https://huggingface.co/{MODEL}/tree/v2'}}, contextLength: 10, concurrency: 1}}"
    head = "apiVersion: plimsoll.dev/v1alpha1\nkind: InferenceDeployment\nmetadata: {name: x}\n"
    manifest.write_text(head + spec)
    status, _, error = run("estimate", str(manifest))
    assert status == 2
    assert "spec.model.name" in error
    assert "Write the name alone, Qwen/Qwen3-8B, and its revision v2 in the field revision" in error
    manifest.write_text(head + spec.replace("https://huggingface.co/", "!"))
    assert "Write the name alone" not in run("estimate", str(manifest))[2]
