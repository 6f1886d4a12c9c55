"""The GPU types that ``--gpu`` names: as ``plimsoll gpus`` lists them, as drivers print them or as node labels say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.gpu_names import alike, offering
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.gpus import GpuType
from plimsoll.facts.cluster.gpu_match import match_gpu, same_chip

_SLICE = re.compile(r"\s+MIG\s+(?P<profile>\S+).*", re.IGNORECASE)
"""The end of a slice's name as drivers print it: ``NVIDIA A100-SXM4-80GB MIG 3g.40gb``."""


def meant_types(names: Sequence[str], field: str = "--gpu") -> tuple[str, ...]:
    """Return the catalogue's names for these names, without repetitions.

    Raises:
        InvalidInput: ``field`` names no type, or more than one. The error has suggestions.
    """
    return tuple(dict.fromkeys(_meant(name, field).name for name in names))


def _meant(name: str, field: str) -> GpuType:
    types = load_gpu_types()
    found = match_gpu(_SLICE.sub(r"-MIG-\g<profile>", name.strip()), None, None, types) if name.strip() else None
    exact = next((gpu for gpu in types if gpu.name == name.strip().lower()), found)
    if exact is None:
        raise InvalidInput(field, name, f"There is no such GPU type{_suggested(name, types)}.")
    return exact


def _suggested(name: str, types: Sequence[GpuType]) -> str:
    """Return the types that may be meant. A name without its form or its memory means several."""
    same = [gpu.name for gpu in same_chip(name, types)]
    return offering(same or alike(name, [gpu.name for gpu in types]) or _near(name, types))


def _near(name: str, types: Sequence[GpuType]) -> list[str]:
    """Return the types whose chip is spelt nearly so: ``h1000`` is near ``h100``."""
    chips = {gpu.name.partition("-")[0] for gpu in types}
    near = get_close_matches(name.strip().lower(), chips, 1)
    return [gpu.name for gpu in types if gpu.name.partition("-")[0] in near]
