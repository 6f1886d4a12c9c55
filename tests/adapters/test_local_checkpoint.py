"""A checkpoint in a folder: its configuration and its tensors, as far as they can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.adapters.hub.checkpoints import read_local_checkpoint
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.models.tensors import Tensor
from tests.adapters.fake_hub import safetensors

ONE = {"model.layers.0.w": ("BF16", [4, 2])}
TWO = {"model.layers.1.w": ("F8_E4M3", [4])}
BOTH = [Tensor("model.layers.0.w", "BF16", (4, 2)), Tensor("model.layers.1.w", "F8_E4M3", (4,))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"hidden_size": 64}')
    return tmp_path


def test_a_single_file(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors({**ONE, **TWO}))
    assert read_local_checkpoint(folder) == ({"hidden_size": 64}, BOTH)


def test_files_of_an_index_and_no_others(folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(safetensors(ONE))
    (folder / "b.safetensors").write_bytes(safetensors(TWO))
    (folder / "other.safetensors").write_bytes(safetensors(ONE))
    index = {"weight_map": {"model.layers.0.w": "a.safetensors", "model.layers.1.w": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_local_checkpoint(folder)[1] == BOTH


def test_a_second_copy_in_another_naming_is_not_read(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors({**ONE, **TWO}))
    (folder / "consolidated.safetensors").write_bytes(safetensors({"layers.0.w": ("BF16", [4, 2])}))
    assert read_local_checkpoint(folder)[1] == BOTH


def test_without_files_there_are_no_tensors(folder: Path) -> None:
    assert read_local_checkpoint(folder)[1] is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + b"\x00" * 7 + b"[]", b"\x02" + b"\x00" * 7 + b"{"])
def test_a_broken_file_makes_the_list_useless(folder: Path, content: bytes) -> None:
    (folder / "a.safetensors").write_bytes(safetensors(ONE))
    (folder / "b.safetensors").write_bytes(content)
    assert read_local_checkpoint(folder)[1] is None


def test_an_index_that_leads_out_of_the_folder_is_not_followed(folder: Path) -> None:
    outside = folder.parent / "outside.safetensors"
    outside.write_bytes(safetensors(ONE))
    index = {"weight_map": {"model.layers.0.w": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_local_checkpoint(folder)[1] is None


def test_the_sidecar_of_modelopt_is_read(folder: Path) -> None:
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    config, _ = read_local_checkpoint(folder)
    assert config["quantization_config"] == {"quant_method": "modelopt", "quant_algo": "FP8"}


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_folder_without_a_configuration_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"config\.json"):
        read_local_checkpoint(tmp_path)
