"""The host memory and CPU of one vLLM pod: a sum per pod and per rank, with its sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from plimsoll.domain.engine_options import HostUse, KvKeeper
from plimsoll.domain.gpus import Vendor
from plimsoll.domain.host import HostEstimate, HostTerm
from plimsoll.domain.outcomes import Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB, MIB, ceil_div
from plimsoll.domain.versions import EngineVersion
from plimsoll.memory.pinned import host_weights

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
            *_private(engine.host, vendor, engine.version),
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


def _in_shm(use: HostUse, vendor: Vendor, version: EngineVersion) -> Iterator[HostTerm]:
    """Yield what the user's arguments put into ``/dev/shm``, in whole MiB."""
    if use.kv_bytes and _shares_cache(use, vendor, version):
        yield HostTerm("kvCache", "KV cache in /dev/shm, by extraArgs", _whole_mib(use.kv_bytes), is_certain=True)
    if use.media_bytes:
        yield HostTerm(
            "media", "processed media in /dev/shm, by extraArgs", _whole_mib(use.media_bytes), is_certain=True
        )


def _private(use: HostUse, vendor: Vendor, version: EngineVersion) -> Iterator[HostTerm]:
    """Yield KV cache in private buffers of the ranks."""
    served = use.kv_keeper is KvKeeper.LMCACHE and version >= SERVER_SINCE
    if not use.kv_bytes or served or _shares_cache(use, vendor, version):
        return
    yield HostTerm("kvCache", "KV cache in private buffers, by extraArgs", use.kv_bytes, is_certain=True)
    if use.kv_keeper is not KvKeeper.LMCACHE:
        more = (PRIVATE_FACTOR - 1) * use.kv_bytes
        yield HostTerm("kvPageLocking", "its buffers, rounded up to powers of two", more)


def _shares_cache(use: HostUse, vendor: Vendor, version: EngineVersion) -> bool:
    if use.kv_keeper is KvKeeper.TIERS:
        return True
    return use.kv_keeper is KvKeeper.NATIVE and vendor is Vendor.NVIDIA and version >= IN_SHM_SINCE


def _whole_mib(size: int) -> int:
    return ceil_div(size, MIB) * MIB
