"""Memory that a running engine takes outside its budget. It must fit into the share that utilization leaves free."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import KIB, MIB
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphMemory, GraphParts
from plimsoll.engines.vllm.memory.outside.non_torch import outside_bytes
from plimsoll.engines.vllm.memory.step.libraries import workspace_bytes
from plimsoll.engines.vllm.memory.step.sampler import Sampling, sampling
from plimsoll.memory.kinds import is_recurrent

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


PREFILL_TOKEN_BYTES = 430 * KIB
"""The bytes that a prefill of recurrent layers takes for each token of a step beyond what the engine measures.

vllm#52872 (Qwen3.6-27B, RTX 5090, 2.20 GiB outside the budget): with steps of 8,192 the engine died at 6,000 tokens,
with 4,096 at 12,000, and with 3,072 and 2,048 it served 262,144. So it is between 270 and 550 KiB a token. Only seen on
GPUs of capability 12 since 0.26, where the layers run as Triton's kernels."""

_PREFILL_CAPABILITY, _PREFILL_SINCE = 12, EngineVersion(0, 26)


class Outside(NamedTuple):
    """The memory outside the budget, for any load.

    ``fixed_bytes`` are CUDA's context and NCCL. ``unprofiled`` is the sampler where the profiling run does not sample.
    ``sequence_bytes`` is taken for each sequence, ``token_bytes`` for each token of a step.
    """

    fixed_bytes: int
    unprofiled: Sampling | None
    sequence_bytes: int
    token_bytes: int = 0

    def total_bytes(self, graphs: GraphMemory | GraphParts, sequences: int, step_tokens: int) -> int:
        """Return all of it: also uncharged graphs, and what the profiling run does not include."""
        uncharged = max(0, graphs.actual_bytes - graphs.estimated_bytes)
        unprofiled = 0 if self.unprofiled is None else self.unprofiled.peak_bytes(sequences)
        served = sequences * self.sequence_bytes + step_tokens * self.token_bytes
        return self.fixed_bytes + uncharged + unprofiled + served


def outside_budget(model: ModelFacts, gpu: GpuType, split: Split, law: EngineLaw) -> Outside:
    """Return the memory that an engine takes outside its budget, for any load."""
    products = workspace_bytes(gpu) + HANDLES_BYTES if law.cublas_comes_first else 0
    return Outside(
        fixed_bytes=outside_bytes(gpu, split) + products,
        unprofiled=None if law.profiles_sampler else _sampling(model, gpu, law),
        sequence_bytes=MXFP4_SEQUENCE_BYTES if model.checkpoint.precision is Precision.MXFP4 else 0,
        token_bytes=PREFILL_TOKEN_BYTES if _prefills_beyond(model, gpu, law) else 0,
    )


def _prefills_beyond(model: ModelFacts, gpu: GpuType, law: EngineLaw) -> bool:
    capability = gpu.compute_capability
    of_such_a_card = capability is not None and capability[0] == _PREFILL_CAPABILITY
    return of_such_a_card and law.release >= _PREFILL_SINCE and is_recurrent(model)


def _sampling(model: ModelFacts, gpu: GpuType, law: EngineLaw) -> Sampling:
    return sampling(law.sampler_of(model, gpu), vocabulary=model.vocabulary)
