"""The memory that CUDA, ROCm and NCCL take outside PyTorch: inside the engine's budget and outside it."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.cluster.gpus import GpuType, Interconnect
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import OVERHEAD, Derivation, Line, Term
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.rocm_attention import chosen_attention, spilled_bytes
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.kinds import is_rdna, shared_bytes

_HOPPER = 9

SILENT_STAGE_BYTES = int(0.07 * GIB)
"""A pipeline stage that does not sample loads no sampling kernels (vLLM 0.19.0, PP 2 and 4)."""

SMALL_CARD_SAVES_BYTES = int(0.25 * GIB) - int(0.14 * GIB)
"""How much lower the base of one GPU is below :data:`SMALL_CARD`: kernels reserve memory for every multiprocessor.

20 starts of 0.12, where H100 has 0.14: 0.04 GiB are left on A100 40GB and RTX 3090, 0.02 on RTX 4090, 0.06 on RTX 5090
and RTX 5000 Ada, the same for every model of a GPU to 0.02 GiB (but for FP8 on Ada, 0.15 more). Since 0.17 it is 0.14
where H100 has 0.25.
"""

SMALL_CARD = 64 * GIB

LINK_BYTES = int(0.06 * GIB)
"""NCCL without an NVSwitch that reduces: 0.0 to 0.2 GiB on 3090, T4, L40S and A100 (logs, TP 2 to 8)."""

XGMI_BYTES = int(0.5 * GIB)
"""RCCL over Infinity Fabric: no log reports it; the band is wide."""

ALL_TO_ALL_BYTES = int(1.5 * GIB)
"""Buffers that exchange tokens between the data-parallel ranks of experts (2 to 4 GiB in all, where logged)."""

RDNA_BYTES = int(0.45 * GIB)
"""The extra bytes of ROCm on gfx11 and gfx12: 0.3 to 0.6 GiB over NVIDIA's base on R9700 (25 logs, without AITER)."""

UNIFIED_BYTES = int(2.0 * GIB)
"""The use by other processes of a GPU that shares the host's memory, while the engine starts: 1.9 GiB in the log that
gives flags, 2.8 to 5.7 in total in those that do not."""

_OUTSIDE_ONE, _OUTSIDE_SWITCH, _OUTSIDE_LINK = 0.6, 2.2, 1.2
"""GiB. One GPU 0.41 to 0.60; TP over NVSwitch 1.53 to 2.47; over PCIe 0.96 and less (H100, H200, B200-class logs)."""

_OUTSIDE_RDNA, _OUTSIDE_RDNA_LINK = 0.04, 1.0
"""GiB. AMD graphics cards: all 13 starts on one R9700 ran with 0.64 GiB outside the budget, of which the graphs take
0.35 to 0.59 (0.11 and 0.13, 64 sequences). On two of them, two of seven starts ran out of memory with 0.64 GiB; four
ran with 1.59 and 1.91."""


def overhead_term(rank: Rank) -> Term:
    """Return the bytes allocated outside PyTorch after the engine's first snapshot, so inside its budget."""
    return Term(OVERHEAD, sum([size for _, size in _rank_parts(rank)]), _derivation, rank)


def _derivation(rank: Rank) -> Derivation:
    formula = f"outside PyTorch, inside the budget, as of vLLM {rank.law.since}"
    return Derivation(formula, tuple(Line("measured", name, size) for name, size in _rank_parts(rank)))


def _rank_parts(rank: Rank) -> tuple[tuple[str, int], ...]:
    captures = not (rank.settings.enforce_eager or rank.law.runs_v2(rank.request.model, rank.gpu))
    parts = non_torch_parts(rank.gpu, rank.split, rank.law, last_stage=rank.is_last, captures=captures)
    engine = rank.request.engine
    spilled = spilled_bytes(rank.gpu, rank.request.model, rank.law.release, chosen_attention(engine.unfollowed))
    return (*parts, ("scratch memory of Triton's attention kernel", spilled)) if spilled else parts


def non_torch_parts(
    gpu: GpuType | None, split: Split, law: EngineLaw, *, last_stage: bool = True, captures: bool = True
) -> tuple[tuple[str, int], ...]:
    """Return the parts of the overhead: a name for each part, and its bytes. Empty parts are left out.

    ``captures`` means that the first model runner serves the model with CUDA graphs. The second tries none until 0.28.
    """
    base, base_name = law.base_bytes, f"CUDA and kernels, vLLM {law.since} and later"
    if not last_stage and split.pipeline_parallel > 1:
        base, base_name = SILENT_STAGE_BYTES, "CUDA and kernels of a stage that does not sample"
    small = law.base_bytes - SMALL_CARD_SAVES_BYTES
    if gpu is not None and gpu.usable_bytes < SMALL_CARD and base > small:
        base, base_name = small, f"CUDA and kernels, at most this much below {SMALL_CARD // GIB} GiB"
    parts = ((base_name, base), *_platform_parts(gpu), *_link_parts(gpu, split, law, captures=captures))
    return tuple((name, size) for name, size in parts if size)


def outside_bytes(gpu: GpuType | None, split: Split) -> int:
    """Return the bytes of CUDA context and NCCL set-up before the snapshot, which are outside the budget.

    CUDA graphs that the release does not charge are outside the budget as well, but not in this figure.
    """
    if gpu is not None and gpu.unified_memory:
        return shared_bytes(gpu)
    if gpu is not None and is_rdna(gpu):
        return int((_OUTSIDE_RDNA if split.gpus == 1 else _OUTSIDE_RDNA_LINK) * GIB)
    if split.gpus == 1:
        return int(_OUTSIDE_ONE * GIB)
    fast = gpu is None or gpu.interconnect is not Interconnect.PCIE
    return int((_OUTSIDE_SWITCH if fast else _OUTSIDE_LINK) * GIB)


def has_switch(gpu: GpuType | None) -> bool:
    """Whether NCCL may let an NVSwitch reduce in the network (NVLS): Hopper and later, joined by NVLink.

    An inference: A100 nodes have NVSwitch without NVLS and log a tenth of what Hopper does (0.17 to 0.19 GiB at TP2).
    """
    if gpu is None:
        return True
    capability = gpu.compute_capability
    return gpu.interconnect is Interconnect.NVLINK and capability is not None and capability[0] >= _HOPPER


def _platform_parts(gpu: GpuType | None) -> Iterator[tuple[str, int]]:
    if gpu is not None and is_rdna(gpu):
        yield "ROCm on a graphics card", RDNA_BYTES
    if gpu is not None and gpu.unified_memory:
        yield "memory shared with the host: what else happens there", UNIFIED_BYTES


def _link_parts(gpu: GpuType | None, split: Split, law: EngineLaw, *, captures: bool) -> Iterator[tuple[str, int]]:
    if split.expert_parallel and split.data_parallel > 1:
        yield "tokens exchanged between data-parallel ranks", ALL_TO_ALL_BYTES
    if split.tensor_parallel == 1:
        return
    ranks = f"between {split.tensor_parallel} ranks"
    if has_switch(gpu):
        yield f"NCCL over NVSwitch {ranks}", law.switch_bytes
        if captures:
            yield f"left by a capture that is tried meanwhile, {ranks}", law.captured_switch_bytes
    elif gpu is not None and gpu.interconnect is Interconnect.XGMI:
        yield f"RCCL over Infinity Fabric {ranks}", XGMI_BYTES
    else:
        yield f"NCCL {ranks} without an NVSwitch", LINK_BYTES
