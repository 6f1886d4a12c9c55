"""vLLM's arguments that take host memory, in every spelling that its parser accepts.

Names from vLLM's ``engine/arg_utils.py`` and ``config/cache.py``, 0.32. The parser accepts ``_`` for ``-``,
``--flag=value``, ``--flag value`` and abbreviations, and ``--flag.key`` for one key of a JSON value. The last value of
a flag counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from plimsoll.domain.engine_options import HostUse, KvKeeper
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB

_FIELD = "spec.engine.extraArgs"

_SIZE, _BACKEND, _TRANSFER = "kv-offloading-size", "kv-offloading-backend", "kv-transfer-config"
_MEDIA_TYPE, _MEDIA_SIZE, _LOADING = "mm-processor-cache-type", "mm-processor-cache-gb", "safetensors-load-strategy"
_TABLES = "engram-config"

SHORTEST = {
    _SIZE: "kv-offloading-s",
    _BACKEND: "kv-offloading-b",
    _TRANSFER: "kv-t",
    _MEDIA_TYPE: "mm-processor-cache-t",
    _MEDIA_SIZE: "mm-processor-cache-g",
    _LOADING: "safetensors-l",
    _TABLES: "eng",
}
"""The shortest spelling of each flag that no other flag shares."""

_MEDIA_CACHE_GIB = 4.0
"""The size of the media cache where the user gives none (``MultiModalConfig.mm_processor_cache_gb``)."""

_TIERING = "TieringOffloadingSpec"
_CPU_BYTES = "cpu_bytes_to_use"

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Suffixes of numbers, as vLLM's parser reads them: small letters are decimal (``human_readable_int``)."""

_LARGEST_BYTES = 2**60
"""No host has more memory. A larger figure is an error of the user."""


class _Given(NamedTuple):
    """A flag's name, the key behind its dot, its value, and the position of the argument that holds the value."""

    name: str
    key: str
    value: str
    position: int


def host_use(arguments: Iterable[str]) -> HostUse:
    """Return the host memory that these arguments make the engine take.

    Raises:
        InvalidInput: the value of such an argument cannot be read.
    """
    given = list(_given(list(arguments)))
    last = {each.name: each for each in given if not each.key}
    use = _transferred([each for each in given if each.name == _TRANSFER])
    size = last.get(_SIZE)
    if size is not None:
        native = use.kv_keeper if use.kv_keeper is KvKeeper.TIERS else KvKeeper.NATIVE
        lmcache = _BACKEND in last and last[_BACKEND].value == "lmcache"
        use = HostUse(_gib(size), KvKeeper.LMCACHE if lmcache else native)
    media = last.get(_MEDIA_TYPE)
    in_shm = media is not None and media.value == "shm"
    cache = _gib(last[_MEDIA_SIZE]) if _MEDIA_SIZE in last else int(_MEDIA_CACHE_GIB * GIB)
    return HostUse(
        kv_bytes=use.kv_bytes,
        kv_keeper=use.kv_keeper,
        media_bytes=cache if in_shm else 0,
        reads_whole_files=_LOADING in last and last[_LOADING].value == "eager",
        places_tables=any(each.name == _TABLES for each in given),
    )


def _given(arguments: list[str]) -> Iterator[_Given]:
    for index, argument in enumerate(arguments):
        if not argument.startswith("--"):
            continue
        flag, equals, value = argument[2:].partition("=")
        spelled, _, key = flag.partition(".")
        name = _full_name(spelled.replace("_", "-").lower())
        if name is None:
            continue
        if equals:
            yield _Given(name, key, value, index)
        elif index + 1 < len(arguments):
            yield _Given(name, key, arguments[index + 1], index + 1)


def _full_name(spelled: str) -> str | None:
    return next(
        (name for name, least in SHORTEST.items() if name.startswith(spelled) and spelled.startswith(least)), None
    )


def _gib(given: _Given) -> int:
    try:
        size = int(float(given.value) * GIB)
    except (ValueError, OverflowError):
        size = -1
    if not 0 <= size <= _LARGEST_BYTES:
        raise InvalidInput(
            f"{_FIELD}[{given.position}]", given.value, f"--{given.name} takes a number of GiB, e.g. 16."
        )
    return size


def _transferred(given: Iterable[_Given]) -> HostUse:
    """Return what ``--kv-transfer-config`` keeps, as one JSON object or key by key."""
    use = HostUse()
    for each in given:
        if each.key:
            found = {each.key.rpartition(".")[2]: each.value}
        else:
            try:
                found = json.loads(each.value)
            except (ValueError, RecursionError):
                continue  # the engine refuses it with its own words; a value in several arguments is read by none
        use = _merged(use, found, each)
    return use


def _merged(use: HostUse, config: Any, given: _Given) -> HostUse:
    kept, keeper = use.kv_bytes, use.kv_keeper
    for key, value in _members(config):
        if key == _CPU_BYTES:
            kept = _human_readable(value, given)
        elif key == "spec_name" and value == _TIERING:
            keeper = KvKeeper.TIERS
        elif key == "kv_connector" and value == "SimpleCPUOffloadConnector":
            keeper = KvKeeper.BUFFERS
    return HostUse(kept, keeper)


def _members(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield all members of nested JSON objects and lists. Walked without recursion."""
    pending = [config]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            yield from ((str(key), value) for key, value in node.items())
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _human_readable(value: object, given: _Given) -> int:
    match = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)([kmgtKMGT]?)\s*", str(value))
    size = -1 if match is None else int(float(match[1]) * _SUFFIXES[match[2]])
    if not 0 <= size <= _LARGEST_BYTES:
        raise InvalidInput(
            f"{_FIELD}[{given.position}]", value, f"{_CPU_BYTES} takes a number of bytes, e.g. 16000000000."
        )
    return size
