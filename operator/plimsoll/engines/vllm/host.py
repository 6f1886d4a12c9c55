"""The host memory and CPU of one vLLM pod: a sum per pod and per rank, with its sources.

vLLM's arguments that take host memory, in every spelling that its parser accepts.

Names from vLLM's ``engine/arg_utils.py`` and ``config/cache.py``, 0.32. The parser accepts ``_`` for ``-``,
``--flag=value``, ``--flag value`` and abbreviations, and ``--flag.key`` for one key of a JSON value. The last value of
a flag counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.host import HostEstimate, HostTerm
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, HostUse, KvKeeper
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB, ceil_div
from plimsoll.memory.residency import host_weights

PROCESSES_BYTES = 3 * GIB
"""The API server and the engine core of one engine. After its imports, and before any request, each holds 0.86 GiB
(measured on the CPU build of vLLM 0.32); the rest is for tokenizers, requests and the scheduler's tables."""

RANK_BYTES = 2 * GIB
"""Python, PyTorch's libraries and the driver's context of one rank. Together with ``LOADING_BYTES`` it is what a rank
was seen to hold while it loaded a checkpoint: 3.0 GiB of anonymous memory (kernel log in vllm#57469, H20, TP 4)."""

LOADING_BYTES = 1 * GIB
"""Tensors of one rank on their way to the GPU. Checkpoint files are mapped by default: their pages belong to the page
cache, which the kernel takes back (``model_loader/weight_utils.py``, ``safetensors_weights_iterator``)."""

WHOLE_FILE_BYTES = 5 * 10**9
"""The size of a checkpoint file, which ``--safetensors-load-strategy eager`` reads as a whole. 5 GB is the largest file
that the ``transformers`` library writes by default (``max_shard_size``)."""

LEAST_SHM_BYTES = 2 * GIB
"""The smallest ``/dev/shm``. vLLM's guide for one node uses it."""

RANK_SHM_BYTES = 1 * GIB
"""Shared memory of one rank: message queues of 160 MiB (``VLLM_MQ_MAX_CHUNK_BYTES_MB``) and NCCL's segments."""

CPU_MILLIS_OF_ENGINE = 1000
CPU_MILLIS_OF_RANK = 1000
"""vLLM's guide to optimization counts at least two processes per engine and one per GPU, all of them busy. The API
server and the engine core take turns, so they get one core together: 2 cores on one GPU, 9 on eight."""

FLOOR_OF_RANK_BYTES = 1 * GIB
"""The least memory of one rank's process, for the bound below which the engine is killed for sure. A third of what was
measured (``RANK_BYTES``)."""

IN_SHM_SINCE = EngineVersion(0, 27)
"""Since this release, native offloading keeps KV cache in a file in ``/dev/shm`` (``v1/kv_offload/cpu``); from 0.28 on
the engine does not start where the file has no room. On AMD GPUs the buffers stay private."""

SERVER_SINCE = EngineVersion(0, 23)
"""Since this release, the ``lmcache`` backend is a server outside the pod (``config/vllm.py``)."""

PRIVATE_FACTOR = 2
"""Private buffers take up to this many times the size asked for, because each is rounded up to a power of two. 1.92
times was measured (vllm#53042)."""


def host(request: Request, vendor: Vendor, split: Split) -> HostEstimate:
    """Return the host memory and CPU of the pod of one replica."""
    engine = request.engine
    tables = tuple(_tables(request, split))
    plain = _plain(split.gpus, split.data_parallel, reads_whole_files=engine.host.reads_whole_files)
    if not engine.fills_host_memory and not tables:
        return plain
    in_shm = tuple(_in_shm(engine.host, vendor, engine.version))
    return HostEstimate(
        terms=(
            *plain.terms,
            *_weights(request, split),
            *tables,
            *in_shm,
            *_private(engine.host, vendor, engine.version, split.gpus),
        ),
        cpu_millis=plain.cpu_millis,
        shm_bytes=plain.shm_bytes + sum(term.size_bytes for term in in_shm),
        floor_bytes=split.gpus * FLOOR_OF_RANK_BYTES,
    )


@lru_cache(maxsize=64)
def _plain(ranks: int, engines: int, *, reads_whole_files: bool) -> HostEstimate:
    """Return the estimate of an engine that keeps no weights and no cache in host memory."""
    shm = max(LEAST_SHM_BYTES, ranks * RANK_SHM_BYTES)
    loading = WHOLE_FILE_BYTES if reads_whole_files else LOADING_BYTES
    terms = (
        HostTerm("processes", f"API server and engine core, {_of(engines, 'engine', PROCESSES_BYTES)}", 0),
        HostTerm("ranks", f"Python, PyTorch and the driver, {_of(ranks, 'rank', RANK_BYTES)}", 0),
        HostTerm("loading", f"tensors on their way to the GPU, {_of(ranks, 'rank', loading)}", 0),
        HostTerm("sharedMemory", f"in /dev/shm, {_of(ranks, 'rank', RANK_SHM_BYTES)}, at least 2 GiB", shm),
    )
    sizes = (engines * PROCESSES_BYTES, ranks * RANK_BYTES, ranks * loading, shm)
    return HostEstimate(
        terms=tuple(term._replace(size_bytes=size) for term, size in zip(terms, sizes, strict=True)),
        cpu_millis=engines * CPU_MILLIS_OF_ENGINE + ranks * CPU_MILLIS_OF_RANK,
        shm_bytes=shm,
    )


def _of(count: int, what: str, size: int) -> str:
    return f"{count} {what}{'' if count == 1 else 's'} x {size / GIB:.3g} GiB"


def _weights(request: Request, split: Split) -> Iterator[HostTerm]:
    kept = host_weights(request.model, request.precision, split, request.engine.residency)
    if kept.weights_bytes:
        yield HostTerm(
            "weights", f"decoder layers of {split.gpus} ranks that stay here", kept.weights_bytes, is_certain=True
        )
        yield HostTerm("pageLocking", "their buffers, rounded up to powers of two", kept.rounding_bytes)


def _tables(request: Request, split: Split) -> Iterator[HostTerm]:
    """Yield embeddings of n-grams: one copy for each engine, divided over its ranks (``config/engram.py``)."""
    if request.model.host_bytes and not request.engine.host.places_tables:
        size = split.data_parallel * request.model.host_bytes
        yield HostTerm("tables", "embeddings of n-grams, divided over the ranks", size, is_certain=True)


def _origin(use: HostUse) -> str:
    return "spec.kvCache.hostMemory" if use.by_spec else "extraArgs"


def _in_shm(use: HostUse, vendor: Vendor, version: EngineVersion) -> Iterator[HostTerm]:
    """Yield what the spec and the user's arguments put into ``/dev/shm``, in whole MiB."""
    if use.kv_bytes and _shares_cache(use, vendor, version):
        formula = f"KV cache in /dev/shm, by {_origin(use)}"
        yield HostTerm("kvCache", formula, _whole_mib(use.kv_bytes), is_certain=True)
    if use.media_bytes:
        yield HostTerm(
            "media", "processed media in /dev/shm, by extraArgs", _whole_mib(use.media_bytes), is_certain=True
        )


def _private(use: HostUse, vendor: Vendor, version: EngineVersion, ranks: int) -> Iterator[HostTerm]:
    """Yield KV cache in private buffers of the ranks."""
    if use.rank_bytes:
        formula = f"KV cache of LMCache, {_of(ranks, 'rank', use.rank_bytes)}, by extraArgs"
        yield HostTerm("kvCache", formula, ranks * use.rank_bytes)
    served = use.kv_keeper is KvKeeper.LMCACHE and version >= SERVER_SINCE
    if not use.kv_bytes or served or _shares_cache(use, vendor, version):
        return
    yield HostTerm("kvCache", f"KV cache in private buffers, by {_origin(use)}", use.kv_bytes, is_certain=True)
    if use.kv_keeper is not KvKeeper.LMCACHE:
        more = (PRIVATE_FACTOR - 1) * use.kv_bytes
        yield HostTerm("kvPageLocking", "its buffers, rounded up to powers of two", more)


def _shares_cache(use: HostUse, vendor: Vendor, version: EngineVersion) -> bool:
    if use.kv_keeper is KvKeeper.TIERS:
        return True
    return use.kv_keeper is KvKeeper.NATIVE and vendor is Vendor.NVIDIA and version >= IN_SHM_SINCE


def _whole_mib(size: int) -> int:
    return ceil_div(size, MIB) * MIB


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
_FILES = "fs"
"""The type of a tier that writes files. It has no size, and deletes none (``tiering/fs/manager.py``, 0.32)."""

_CPU_BYTES = "cpu_bytes_to_use"

_CONNECTOR, _SEVERAL = "kv_connector", "MultiConnector"
_IN_BUFFERS, _OF_LMCACHE = "SimpleCPUOffloadConnector", {"LMCacheConnector", "LMCacheConnectorV1"}
"""Connectors that keep KV cache in buffers of their own; several of them keep it side by side
(``MultiConnector``). ``LMCacheMPConnector`` asks a server outside the pod."""

_RANK_KEY, _RANK_VARIABLE, _FILE_VARIABLE = (
    "lmcache.max_local_cpu_size",
    "LMCACHE_MAX_LOCAL_CPU_SIZE",
    "LMCACHE_CONFIG_FILE",
)
"""The names under which LMCache reads the GiB of each rank: the connector's ``kv_connector_extra_config`` before the
variable, and that before the file. Source: ``vllm_v1_adapter.py`` (``_apply_extra_config``) and ``utils.py`` of LMCache
0.5.6."""

_LMCACHE_BYTES = 5 * GIB
"""The bytes that each rank keeps if nobody names a size (``max_local_cpu_size``, 5.0 GiB; ``LocalCPUBackend``)."""

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


def host_use(arguments: Iterable[str], environment: Mapping[str, str] = MappingProxyType({})) -> HostUse:
    """Return the host memory that these arguments and variables make the engine take.

    Raises:
        InvalidInput: the value of such an argument cannot be read.
    """
    given = list(_given(list(arguments)))
    last = {each.name: each for each in given if not each.key}
    use = _transferred([each for each in given if each.name == _TRANSFER], environment)
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
        rank_bytes=use.rank_bytes,
        has_file=use.has_file,
        fills_disk=use.fills_disk,
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


def _transferred(given: Iterable[_Given], environment: Mapping[str, str]) -> HostUse:
    """Return what ``--kv-transfer-config`` keeps, as one JSON object or key by key."""
    use, named, fills, connectors = HostUse(), None, False, set[str]()
    for each in given:
        if each.key:
            found = {each.key.rpartition(".")[2]: each.value}
        else:
            try:
                found = json.loads(each.value)
            except (ValueError, RecursionError):
                continue  # the engine refuses it with its own words; a value in several arguments is read by none
        use = _merged(use, found, each)
        connectors |= {value for key, value in _members(found) if key == _CONNECTOR and isinstance(value, str)}
        fills = fills or any(key == "type" and value == _FILES for key, value in _members(found))
        named = next((_rank_size(value, each) for key, value in _members(found) if key == _RANK_KEY), named)
    if not connectors & _OF_LMCACHE:
        return replace(use, fills_disk=fills)
    given_size = environment.get(_RANK_VARIABLE)
    size = _LMCACHE_BYTES if given_size is None else _rank_size(given_size, None)
    in_file = bool(environment.get(_FILE_VARIABLE)) and given_size is None and named is None
    beside = use if connectors - _OF_LMCACHE - {_SEVERAL} else HostUse()
    return replace(beside, rank_bytes=size if named is None else named, has_file=in_file, fills_disk=fills)


def _merged(use: HostUse, config: Any, given: _Given) -> HostUse:
    kept, keeper = use.kv_bytes, use.kv_keeper
    for key, value in _members(config):
        if key == _CPU_BYTES:
            kept = _human_readable(value, given)
        elif key == "spec_name" and value == _TIERING:
            keeper = KvKeeper.TIERS
        elif key == _CONNECTOR and value == _IN_BUFFERS:
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


def _rank_size(value: object, given: _Given | None) -> int:
    """Return the bytes of a number of GiB. ``given`` None: it is that of the variable."""
    try:
        size = int(float(str(value)) * GIB)
    except (ValueError, OverflowError):
        size = -1
    if not 0 <= size <= _LARGEST_BYTES:
        field = f"spec.podTemplate.env: {_RANK_VARIABLE}" if given is None else f"{_FIELD}[{given.position}]"
        raise InvalidInput(field, value, "LMCache takes a number of GiB for each rank, e.g. 20.")
    return size


def _human_readable(value: object, given: _Given) -> int:
    match = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)([kmgtKMGT]?)\s*", str(value))
    size = -1 if match is None else int(float(match[1]) * _SUFFIXES[match[2]])
    if not 0 <= size <= _LARGEST_BYTES:
        raise InvalidInput(
            f"{_FIELD}[{given.position}]", value, f"{_CPU_BYTES} takes a number of bytes, e.g. 16000000000."
        )
    return size
