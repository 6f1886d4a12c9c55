"""Sources that are no whole checkpoint: the answer says what they are and what to ask instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.cli import main as command_line
from plimsoll.cli.questions.sources import other_source
from plimsoll.domain.errors import InvalidInput

GGUF = b"GGUF\x03\x00\x00\x00\x23\x01"
"""The magic number, version 3 and the first bytes of a count. Source: ggml's docs/gguf.md."""

ADAPTER = {"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA", "r": 32, "lora_alpha": 64}
"""Fields of PEFT's ``LoraConfig``."""


def asked(source: Path | str, *words: str) -> str:
    """The error of a question about a source."""
    with pytest.raises(InvalidInput) as caught:
        command_line.cli.main(["estimate", str(source), *words], standalone_mode=False)
    return str(caught.value)


def written(folder: Path, **files: Any) -> Path:
    """Write files into a folder; a value that is no text of bytes becomes JSON."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def test_a_gguf_file_is_named_by_its_first_bytes(tmp_path: Path) -> None:
    folder = written(tmp_path, model__gguf=GGUF, model__bin=GGUF, notes__txt=b"GGU")
    for source in (folder / "model.gguf", folder / "model.bin", folder):
        assert "GGUF files are models of llama.cpp" in asked(source)
    assert "GGUF files" not in asked(folder / "notes.txt")


@pytest.mark.parametrize("name", ["unsloth/Qwen3-8B-GGUF", "org/model-gguf", "org/model-Q4.gguf"])
def test_a_repository_of_gguf_files_is_named(name: str) -> None:
    assert "Name the checkpoint from which the file was made" in asked(name)


def test_an_adapter_is_asked_about_as_a_slot_of_its_model(tmp_path: Path) -> None:
    folder = written(tmp_path, adapter_config__json=ADAPTER, adapter_model__safetensors=b"\x08")
    for source in (folder, folder / "adapter_config.json"):
        assert asked(source).endswith("plimsoll estimate Qwen/Qwen3-8B --lora 1 32")
    command_line.cli.main(
        ["estimate", "Qwen/Qwen3-8B", "--lora", "1", "32", "--gpu", "h100-sxm-80gb"], standalone_mode=False
    )


def test_an_adapter_without_its_model_is_one_too(tmp_path: Path) -> None:
    folder = written(tmp_path, adapter_config__json={"r": "many"})
    assert asked(folder).endswith("plimsoll estimate BASE --lora 1 RANK")
    broken = written(tmp_path, adapter_config__json=b"{")
    assert "It is an adapter (PEFT)" in asked(broken)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"model__safetensors__index__json": {"weight_map": {}}}, "holds the index of a checkpoint's files"),
        ({"model__safetensors": b"\x08"}, "holds weights, and no config.json"),
        ({"params__json": {"dim": 4096}, "consolidated__safetensors": b"\x08"}, "in Mistral's own format"),
        ({"README__md": b"#"}, "The folder holds no config.json. Name a model (owner/name)"),
        ({}, "The folder holds no config.json. Name a model (owner/name)"),
    ],
)
def test_a_folder_without_a_configuration_says_what_it_holds(files: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in asked(written(tmp_path, **files))


def test_a_file_of_a_checkpoint_says_what_it_is(tmp_path: Path) -> None:
    folder = written(
        tmp_path, model__safetensors__index__json={"weight_map": {}}, model__safetensors=b"\x08", config__json={}
    )
    assert "It is the index of a checkpoint's files" in asked(folder / "model.safetensors.index.json")
    assert "It is one file of weights" in asked(folder / "model.safetensors")


def test_a_whole_checkpoint_is_none_of_these(tmp_path: Path) -> None:
    folder = written(tmp_path, config__json={}, adapter_config__json=ADAPTER, model__safetensors=b"\x08")
    assert other_source(folder) is None
    assert other_source(folder / "config.json") is None
    assert other_source(folder / "nothing") is None


def test_a_command_about_such_a_source_says_the_same(tmp_path: Path) -> None:
    folder = written(tmp_path, adapter_config__json=ADAPTER)
    assert "It is an adapter (PEFT) for Qwen/Qwen3-8B" in asked(f"vllm serve {folder}")
    assert "GGUF files" in asked("vllm serve unsloth/Qwen3-8B-GGUF:Q4_K_M")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40))
def test_any_content_is_named_or_left_to_others(tmp_path: Path, content: bytes) -> None:
    folder = written(tmp_path, adapter_config__json=content)
    assert "It is an adapter" in (other_source(folder) or "") or content[:4] == GGUF[:4]
