"""Files of a checkpoint: the headers of safetensors files, and a whole checkpoint in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import MIB
from plimsoll.facts.models.tensors import Tensor

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

LENGTH_BYTES = 8
"""A file begins with the length of its header, little-endian. Source: the safetensors format."""

LARGEST_HEADER_BYTES = 16 * MIB
"""Enough for a hundred thousand tensors in one file; the format itself allows 100 MB."""

MOST_FILES = 512
"""Most files of one checkpoint. The largest published checkpoints have some 200 files."""

MOST_TENSORS = 1_000_000

_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.safetensors")
_LARGEST_SIDE = 2**48
_MOST_DIMENSIONS = 16


def header_length(start: bytes) -> int | None:
    """Return the length of the header from the first eight bytes of the file; None if no header can be that long."""
    if len(start) < LENGTH_BYTES:
        return None
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    return length if 0 < length <= LARGEST_HEADER_BYTES else None


def parse_header(header: bytes) -> list[Tensor] | None:
    """Return the tensors that a header lists; None if it is no valid header."""
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, dict) or len(entries) > MOST_TENSORS:
        return None
    tensors = [_tensor(name, entry) for name, entry in entries.items() if name != "__metadata__"]
    found = [tensor for tensor in tensors if tensor is not None]
    return found if len(found) == len(tensors) else None


def _tensor(name: str, entry: object) -> Tensor | None:
    if not isinstance(entry, dict):
        return None
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        return None
    if not all(type(side) is int and 0 <= side <= _LARGEST_SIDE for side in shape):
        return None
    return Tensor(name, dtype, tuple(shape))


def files_of(index: Mapping[str, object]) -> list[str] | None:
    """Return the files that an index names, each once; None if it names none, too many, or one outside the folder."""
    weights = index.get("weight_map")
    if not isinstance(weights, dict):
        return None
    names = set(map(str, weights.values()))
    usable = all(_FILE.fullmatch(name) and ".." not in name for name in names)
    return sorted(names) if usable and 0 < len(names) <= MOST_FILES else None


_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
_LARGEST_FILE_BYTES = 64 * MIB
"""Largest JSON file that is read: an index of a hundred thousand tensors has some ten MiB."""


def read_local_checkpoint(path: Path) -> tuple[dict[str, object], list[Tensor] | None]:
    """Read the ``config.json`` of a folder and the tensors of its safetensors files.

    Args:
        path: a folder as the Hub's library downloads it.

    Returns:
        The configuration, with ModelOpt's sidecar as its ``quantization_config`` if it has none; and every tensor,
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
