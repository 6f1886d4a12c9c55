"""How many chunks does vLLM make of the host memory of its native offloading? No GPU, no network, no model.

Runs inside the engine's environment. Standard input holds a JSON list of cases: ``bytes`` asked for, ``block`` (bytes
of a block on one rank), ``ranks``, and ``one_copy``, whether they hold the same latents. Standard output gets a JSON
list of answers: ``chunks``, ``chunk_bytes``, and ``file_bytes`` of the file in ``/dev/shm``, which vLLM itself makes, 0
if there is no chunk to keep. A case with ``region`` false has no file: it is too large for a test.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer all cases."""
    # vLLM logs to stdout; keep the real one for the answer and send everything else to stderr.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump([_answer(case, number) for number, case in enumerate(json.load(sys.stdin))], answer)
    answer.close()


def _answer(case: dict[str, Any], number: int) -> dict[str, int]:
    spec = _spec(case, f"plimsoll-{os.getpid()}-{number}")
    found = {"chunks": spec.num_chunks, "chunk_bytes": spec.kv_bytes_per_chunk}
    return found | ({"file_bytes": _file_bytes(spec)} if case["region"] else {})


def _spec(case: dict[str, Any], engine_id: str) -> Any:
    """Return the engine's own object. On a CPU only the one with tiers shares a file, by the same constructor."""
    config: Any = importlib.import_module("vllm.v1.kv_offload.config")
    ranks = case["ranks"]
    parallel = config.OffloadingParallelConfig(
        rank=0,
        world_size=ranks,
        tp_size=ranks,
        pp_size=1,
        pcp_size=1,
        dcp_size=1,
        data_parallel_index=0,
        data_parallel_size=1,
        data_parallel_rank_local=None,
        is_parallelism_agnostic=False,
    )
    asked = config.OffloadingConfig(
        groups=(),
        worker_kv_bytes_per_block=case["block"],
        enable_kv_cache_events=False,
        extra_config={"cpu_bytes_to_use": case["bytes"]},
        engine_id=engine_id,
        model=config.OffloadingModelConfig(name="m", dtype="bfloat16"),
        cache=config.OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=1),
        parallel=parallel,
        replicated_layout=case["one_copy"],
    )
    return importlib.import_module("vllm.v1.kv_offload.tiering.spec").TieringOffloadingSpec(asked)


def _file_bytes(spec: Any) -> int:
    """Let vLLM make the file, and return its size."""
    if not spec.num_chunks:
        return 0
    region = importlib.import_module("vllm.v1.kv_offload.cpu.shared_offload_region").SharedOffloadRegion(
        engine_id=spec.config.engine_id,
        num_chunks=spec.num_chunks,
        rank=None,
        kv_bytes_per_chunk=spec.kv_bytes_per_chunk,
        cpu_page_size=spec.cpu_page_size_per_worker,
    )
    file = Path(region.mmap_path)
    try:
        return file.stat().st_size
    finally:
        region.cleanup()
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
