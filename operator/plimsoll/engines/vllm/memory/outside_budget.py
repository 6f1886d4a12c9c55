"""Memory that a running engine takes outside its budget. It must fit into the share that utilization leaves free."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import MIB
from plimsoll.engines.vllm.memory.cuda_graphs import GraphMemory, GraphParts
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.libraries import workspace_bytes
from plimsoll.engines.vllm.memory.non_torch import outside_bytes
from plimsoll.engines.vllm.memory.sampler import Sampling, sampling

MXFP4_SEQUENCE_BYTES = 2 * MIB
"""The bytes that warming up the sampler takes for each sequence of a model with MXFP4 experts. No profiling run has
them.

gpt-oss-20b on H100 (vLLM 0.19.0, 1,024 sequences) died in sampler warm-up with 1.4 GiB to spare by every other term on
one GPU and with none on two, and ran with 3.8 GiB to spare. With 32 and 64 sequences it ran with 0.5 to 1.5 GiB to
spare on RTX 3090 to 5090 (four starts of 0.12), and with 0.15 GiB on R9700.
"""

HANDLES_BYTES = 64 * MIB
"""The handles of cuBLAS and cuBLASLt (on AMD's GPUs hipBLAS') and the kernels that come with them: an assumption. They
take tens of MiB, and no figure is known. Inside the budget they remain in the base of older releases, so what moved out
of it is counted on both sides."""


class Outside(NamedTuple):
    """The memory outside the budget, for any load.

    ``fixed_bytes`` are CUDA's context and NCCL. ``unprofiled`` is the sampler where the profiling run does not sample.
    ``sequence_bytes`` is taken for each sequence.
    """

    fixed_bytes: int
    unprofiled: Sampling | None
    sequence_bytes: int

    def total_bytes(self, graphs: GraphMemory | GraphParts, sequences: int) -> int:
        """Return all of it: also uncharged graphs, and what the profiling run does not include."""
        uncharged = max(0, graphs.actual_bytes - graphs.estimated_bytes)
        unprofiled = 0 if self.unprofiled is None else self.unprofiled.peak_bytes(sequences)
        return self.fixed_bytes + uncharged + unprofiled + sequences * self.sequence_bytes


@lru_cache(maxsize=4096)
def outside_budget(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> Outside:
    """Return the memory that an engine takes outside its budget, for any load."""
    products = workspace_bytes(gpu) + HANDLES_BYTES if law.cublas_comes_first else 0
    return Outside(
        fixed_bytes=outside_bytes(gpu, split) + products,
        unprofiled=None if law.profiles_sampler else _sampling(model, gpu, law),
        sequence_bytes=MXFP4_SEQUENCE_BYTES if model.checkpoint.precision is Precision.MXFP4 else 0,
    )


def _sampling(model: ModelFacts, gpu: GpuType, law: EngineLaw) -> Sampling:
    return sampling(law.sampler_of(model, gpu), vocabulary=model.vocabulary)
