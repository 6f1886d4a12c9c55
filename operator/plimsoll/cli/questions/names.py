"""The names that users give: of a model, in any capitals, and of GPU types, as drivers or node labels spell them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.adapters.hub.models import catalogued_spelling
from plimsoll.api.gpu_names import alike, offering
from plimsoll.domain.cluster.gpus import GpuType, Interconnect
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.cluster.gpu_labels import match_gpu, of_this_name, same_chip, states_size
from plimsoll.facts.models.hub_address import read_hub_address


class NamedSource(NamedTuple):
    """The source that was meant, and notes for the user if it is not the one that was typed."""

    source: str
    notes: tuple[str, ...] = ()


def named(source: str, field: str = "MODEL") -> NamedSource:
    """Return the source as the sources of facts know it. Files and folders stay as they are.

    Raises:
        InvalidInput: ``field`` holds the address of a revision, which the command cannot look up.
    """
    return NamedSource(source) if Path(source).exists() else named_model(source, field)


def named_model(source: str, field: str = "MODEL") -> NamedSource:
    """Return the name of the model that was meant, without a look at any file.

    Raises:
        InvalidInput: ``field`` holds the address of a revision, which the command cannot look up.
    """
    if source in catalogued_models():
        return NamedSource(source)
    name = _without_address(source, field)
    known = catalogued_spelling(name)
    if known is None or known == name:
        return NamedSource(name)
    return NamedSource(known, (f"{name} is read as {known}: names on the Hub never differ in capitals alone.",))


def _without_address(source: str, field: str) -> str:
    found = read_hub_address(source)
    if found is None:
        return source
    if found.revision is not None:
        fix = f"Name {found.name}, or write a manifest with spec.model.revision {found.revision}."
        raise InvalidInput(field, source, fix)
    return found.name


_SLICE = re.compile(r"\s+MIG\s+(?P<profile>\S+).*", re.IGNORECASE)
"""The end of a slice's name as drivers print it: ``NVIDIA A100-SXM4-80GB MIG 3g.40gb``."""


class Meant(NamedTuple):
    """The catalogue's names of the GPU types that were meant, and notes for the user if a name fits several."""

    types: tuple[str, ...]
    notes: tuple[str, ...] = ()


def meant_types(names: Sequence[str], field: str = "--gpu", *, every: bool = False) -> Meant:
    """Return the catalogue's names for these names, without repetitions, and a note for each name that fits several.

    Of several types with one name (``A100``), it is the one with the least memory and bandwidth: what fits there fits
    on the others. ``every`` is for a question about GPUs that are there: then all of them are returned.

    Raises:
        InvalidInput: ``field`` names no type, or more than one chip. The error has suggestions.
    """
    types: list[str] = []
    notes: list[str] = []
    for name in map(str.strip, names):
        gpu, others = _meant(name, field)
        types += [each.name for each in ((gpu, *others) if every else (gpu,))]
        taken = "All of them count." if every else f"It is read as {gpu.name}; write the name of the one you have."
        notes += [f"{_several(name, gpu, others)} {taken}"] if others else []
    return Meant(tuple(dict.fromkeys(types)), tuple(dict.fromkeys(notes)))


def _meant(name: str, field: str) -> tuple[GpuType, tuple[GpuType, ...]]:
    types = load_gpu_types()
    exact = next((gpu for gpu in types if gpu.name == name.lower()), None)
    if exact is not None:
        return exact, ()
    found = match_gpu(_SLICE.sub(r"-MIG-\g<profile>", name), None, None, types) if name else None
    named = of_this_name(name, types)
    if found is not None:
        return found, _of_other_sizes(name, found, named)
    if not named:
        raise InvalidInput(field, name, f"There is no such GPU type{_suggested(name, types)}.")
    least, *others = sorted(named, key=_size)
    return least, tuple(others)


def _of_other_sizes(name: str, found: GpuType, named: Sequence[GpuType]) -> tuple[GpuType, ...]:
    """Return the types of the same name with another memory; none if the name states the size."""
    if found.is_slice or states_size(name):
        return ()
    return tuple(gpu for gpu in named if gpu.total_bytes != found.total_bytes)


def _size(gpu: GpuType) -> tuple[int, int, bool, str]:
    is_joined = gpu.interconnect is not Interconnect.PCIE
    return gpu.total_bytes, gpu.memory_bandwidth_gb_per_second, is_joined, gpu.name


def _several(name: str, taken: GpuType, others: Sequence[GpuType]) -> str:
    *most, last = sorted(each.name for each in (taken, *others))
    return f"{name} may be {', '.join(most)} or {last}."


def _suggested(name: str, types: Sequence[GpuType]) -> str:
    """Return the types that may be meant. A name without all words of its chip means several."""
    same = [gpu.name for gpu in same_chip(name, types)]
    return offering(same or alike(name, [gpu.name for gpu in types]) or _near(name, types))


def _near(name: str, types: Sequence[GpuType]) -> list[str]:
    """Return the types whose chip is spelt nearly so: ``h1000`` is near ``h100``."""
    chips = {gpu.name.partition("-")[0] for gpu in types}
    near = get_close_matches(name.strip().lower(), chips, 1)
    return [gpu.name for gpu in types if gpu.name.partition("-")[0] in near]
