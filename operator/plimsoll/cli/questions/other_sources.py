"""Files and folders that are part of a model, or a model of another program: what they are, and what to ask instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MAGIC = b"GGUF"
"""The first bytes of a GGUF file. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

GGUF = (
    "GGUF files are models of llama.cpp, and no memory law covers them here. Name the checkpoint from which the file "
    "was made (owner/name on the Hub), with --precision for other numbers."
)

_ADAPTER, _INDEX, _CONFIG = "adapter_config.json", "model.safetensors.index.json", "config.json"
_LARGEST_BYTES = 1 << 20
"""Bytes of an adapter's configuration that are read; the usual ones have about a thousand."""

_WITH_CONFIG = (
    "Add the config.json of the same repository: name the folder that holds both, the config.json itself, or the model "
    "(owner/name)."
)


def other_source(path: Path) -> str | None:
    """Return what a file or a folder is and what to do, where it is no whole checkpoint; None where it may be one."""
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path) if path.is_file() else None
    except (OSError, ValueError):
        return None


def _of_folder(folder: Path) -> str | None:
    if (folder / _CONFIG).is_file():
        return None
    if (folder / _ADAPTER).is_file():
        return _adapter(folder / _ADAPTER)
    if any(folder.glob("*.gguf")):
        return GGUF
    if (folder / "params.json").is_file():
        return f"The folder holds a params.json in Mistral's own format, and no config.json. {_WITH_CONFIG}"
    if (folder / _INDEX).is_file():
        return f"The folder holds the index of a checkpoint's files, and no config.json. {_WITH_CONFIG}"
    if any(folder.glob("*.safetensors")):
        return f"The folder holds weights, and no config.json. {_WITH_CONFIG}"
    return None


def _of_file(file: Path) -> str | None:
    with file.open("rb") as stream:
        is_gguf = stream.read(len(_MAGIC)) == _MAGIC
    if is_gguf or file.suffix == ".gguf":
        return GGUF
    if file.name == _ADAPTER:
        return _adapter(file)
    if file.name == _INDEX:
        return f"It is the index of a checkpoint's files, which says nothing about its layers. {_WITH_CONFIG}"
    if file.suffix in (".safetensors", ".bin", ".pt", ".pth"):
        return f"It is one file of weights, which says nothing about the model's layers. {_WITH_CONFIG}"
    return None


def _adapter(file: Path) -> str:
    """Return the question about the model of an adapter, with a slot of its rank."""
    config = _object(file)
    base, rank = config.get("base_model_name_or_path"), config.get("r")
    name = base if isinstance(base, str) and base else "BASE"
    slot = rank if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0 else "RANK"
    return (
        f"It is an adapter (PEFT) for {name}, and not a model. Ask about its model with a slot for the adapter: "
        f"plimsoll estimate {name} --lora 1 {slot}"
    )


def _object(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        content = stream.read(_LARGEST_BYTES)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
