"""Read the header of a safetensors file: names, types and shapes of its tensors, without their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

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
