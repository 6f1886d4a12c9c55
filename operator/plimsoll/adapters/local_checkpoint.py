"""Read a checkpoint in a folder: its configuration and the headers of its files."""

from __future__ import annotations

import json
from pathlib import Path

from plimsoll.adapters.safetensors_headers import (
    INDEX_FILE,
    LENGTH_BYTES,
    MOST_FILES,
    files_of,
    header_length,
    parse_header,
)
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import MIB
from plimsoll.facts.models.tensors import Tensor

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
_LARGEST_FILE_BYTES = 64 * MIB
"""Largest JSON file that is read: an index of a hundred thousand tensors has some ten MiB."""


def read_local_checkpoint(path: Path) -> tuple[dict[str, object], list[Tensor] | None]:
    """Read the ``config.json`` of a folder and the tensors of its safetensors files.

    Args:
        path: a folder as the Hub's library downloads it.

    Returns:
        The configuration, with ModelOpt's sidecar as its ``quantization_config`` where it has none; and every tensor,
        or None if a file is missing or is no safetensors file.

    Raises:
        InvalidInput: there is no ``config.json``, or it is no JSON object.
    """
    config = _object(path / _CONFIG)
    if config is None:
        raise InvalidInput(_CONFIG, str(path), "Name a folder that holds the model's config.json, one JSON object.")
    if config.get("quantization_config") is None:
        sidecar = (_object(path / _QUANTIZATION) or {}).get("quantization")
        if isinstance(sidecar, dict):
            config["quantization_config"] = {"quant_method": "modelopt", **sidecar}
    return config, _tensors(path)


def names_in(folder: Path) -> frozenset[str]:
    """Return the names of the files of a folder."""
    return frozenset(each.name for each in folder.iterdir() if each.is_file())


def _tensors(folder: Path) -> list[Tensor] | None:
    files = _files(folder)
    if not files or len(files) > MOST_FILES:
        return None
    tensors: list[Tensor] = []
    for file in files:
        found = _header(file)
        if found is None:
            return None
        tensors += found
    return tensors


def _files(folder: Path) -> list[Path]:
    """Return the files that the index names. Without an index, return all files except ``consolidated`` ones.

    ``consolidated`` files hold the same weights a second time; they count only if there are no other files.
    """
    index = _object(folder / INDEX_FILE)
    if index is not None:
        return [folder / name for name in files_of(index) or ()]
    files = sorted(folder.glob("*.safetensors"))
    return [file for file in files if not file.name.startswith("consolidated")] or files


def _header(file: Path) -> list[Tensor] | None:
    try:
        with file.open("rb") as stream:
            length = header_length(stream.read(LENGTH_BYTES))
            return None if length is None else parse_header(stream.read(length))
    except OSError:
        return None


def _object(file: Path) -> dict[str, object] | None:
    try:
        if file.stat().st_size > _LARGEST_FILE_BYTES:
            return None
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
