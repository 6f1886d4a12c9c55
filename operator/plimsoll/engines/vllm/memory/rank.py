"""One rank of one pipeline stage, and a running engine's memory there except weights and cache, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.serving import Request
from plimsoll.engines.vllm.memory.activations import Activations, activation_parts
from plimsoll.engines.vllm.memory.cuda_graphs import GraphParts, graph_parts
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.non_torch import non_torch_parts
from plimsoll.memory.draft import draft_tokens

_FP32_BYTES = 4
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of one stage, and all that its terms depend on."""

    request: Request
    gpu: GpuType
    split: Split
    settings: EngineSettings
    law: EngineLaw
    stage: int

    @property
    def is_last(self) -> bool:
        """Whether its stage samples."""
        return self.stage == self.split.pipeline_parallel - 1


def value_bytes(request: Request) -> int:
    """Width of one value of the activations."""
    return _FP32_BYTES if request.precision is Precision.FP32 else _HALF_BYTES


def rank_activations(rank: Rank) -> Activations:
    """Return the peak of activations and its parts, in bytes."""
    return activation_parts(
        rank.request.model,
        rank.split,
        rank.law,
        rank.gpu,
        batched_tokens=rank.settings.max_num_batched_tokens,
        sequences=rank.settings.max_num_seqs,
        context_tokens=rank.settings.max_model_len,
        speculative_tokens=draft_tokens(rank.request),
        last_stage=rank.is_last,
        compiles=not rank.settings.enforce_eager,
        precision=rank.request.precision,
        dtype_bytes=value_bytes(rank.request),
    )


def rank_graphs(rank: Rank) -> GraphParts:
    """Return the CUDA graphs and their inputs, in bytes; empty where the engine runs without graphs."""
    if rank.settings.enforce_eager:
        return GraphParts()
    return graph_parts(
        rank.request.model,
        rank.split,
        rank.law,
        rank.gpu,
        sequences=rank.settings.max_num_seqs,
        batched_tokens=rank.settings.max_num_batched_tokens,
        speculative_tokens=draft_tokens(rank.request),
        adapters=rank.request.engine.lora is not None,
    )


def rank_overhead(rank: Rank) -> tuple[tuple[str, int], ...]:
    """Return the memory outside PyTorch and inside the budget: a name for each part, and its bytes."""
    captures = not (rank.settings.enforce_eager or rank.law.runs_v2(rank.request.model, rank.gpu))
    return non_torch_parts(rank.gpu, rank.split, rank.law, last_stage=rank.is_last, captures=captures)
