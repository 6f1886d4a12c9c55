"""Memory that a running engine takes outside its budget. It must fit into the share that utilization leaves free."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.cuda_graphs import GraphMemory
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.non_torch import outside_bytes
from plimsoll.engines.vllm.memory.sampler import sampler_bytes

MXFP4_SCRATCH_BYTES = 2 * GIB
"""Kernel scratch of MXFP4 experts that the profiling run does not include.

gpt-oss-20b on an H100 (vLLM 0.19.0) died in sampler warm-up with 1.6 GiB to spare by every other term on one GPU and
with 0.4 GiB on two, and ran with 4.3 GiB to spare.
"""


def outside_budget_bytes(
    model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw, graphs: GraphMemory, *, sequences: int
) -> int:
    """Return the bytes of CUDA's context, NCCL, uncharged graphs, and what the profiling run does not include."""
    uncharged = max(0, graphs.actual_bytes - graphs.estimated_bytes)
    return outside_bytes(gpu, split) + uncharged + _unprofiled_bytes(model, gpu, law, sequences)


def _unprofiled_bytes(model: ModelFacts, gpu: GpuType, law: EngineLaw, sequences: int) -> int:
    scratch = MXFP4_SCRATCH_BYTES if model.checkpoint.precision is Precision.MXFP4 else 0
    if law.profiles_sampler:
        return scratch
    return scratch + sampler_bytes(law.sampler_of(model, gpu), vocabulary=model.vocabulary, rows=sequences)
