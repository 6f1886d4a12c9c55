"""Which memory law held for which vLLM release. The one place to add a release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from plimsoll.domain.caches import StateCache
from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion


@dataclass(frozen=True, slots=True)
class SamplerLaw:
    """What sampling one step takes: ``copies`` of the logits in fp32, and ``base_bytes`` whatever the batch.

    ``gathered_copies`` come on top with tensor parallelism, where collecting the ranks' parts is the peak.
    """

    copies: float
    base_bytes: int = 0
    gathered_copies: float = 0.0


NATIVE_SAMPLER = SamplerLaw(9.57)
"""PyTorch top-k and top-p: the sort with its 8-byte indices, softmax and cumulative sum side by side.

Nine starts of vLLM 0.10 to 0.13 on seven models: 9.55 to 9.64 after the hidden states of the step are taken off.
"""

FUSED_SAMPLER = SamplerLaw(3.566, int(0.083 * GIB))
"""Fused kernels, FlashInfer's or Triton's: logits in 16 and 32 bits, probabilities, and the result.

Triton's are used since 0.17 on every vendor's GPUs, from 8 rows on (``v1/sample/ops/topk_topp_triton.py``).

Fitted to Llama, Qwen, Gemma 2, Phi and gpt-oss vocabularies (vLLM 0.19.0, H100); within 0.03 GiB on each.
"""

GUMBEL_SAMPLER = SamplerLaw(0.5, gathered_copies=0.5)
"""Model runner V2: the 16-bit logits are sampled where they lie; tensor parallelism gathers and reorders them.

Source: ``v1/worker/gpu/sample/sampler.py`` of 0.32 returns early unless a request needs its logits processed, and the
profiling run has no such request. vllm#48641 (Qwen3-8B, 7 drafted tokens, H100): 3.04 GiB with and without the fp32
copy of the path that is skipped, of which 8,192 rows of 16-bit logits are 2.32.
"""


class RunnerV2(StrEnum):
    """Which models the second model runner serves by default.

    Recurrent layers keep a model out of ``DENSE``: a log of Qwen3.6-27B on 0.27.1 closes with its graphs charged.
    """

    NOBODY = "nobody"
    DENSE = "dense"
    ALL_ON_NVIDIA = "allOnNvidia"
    EVERYBODY = "everybody"


class OutputPadding(StrEnum):
    """How far outputs of a tower are padded while the engine measures: one item's, or the budget of all items."""

    NONE = "none"
    ITEM = "item"
    BUDGET = "budget"


@lru_cache(maxsize=256)
def is_recurrent(model: ModelFacts) -> bool:
    """Whether any layer keeps a state of constant size (Mamba, gated delta net)."""
    return any(isinstance(cache, StateCache) for cache in model.caches())


@dataclass(frozen=True, slots=True)
class EngineLaw:
    """The parts of the budget that moved between releases, as they were from ``since`` on.

    ``sampler`` is that of the first model runner. ``charges_cuda_graphs`` tells whether that runner takes its estimate
    of the graphs out of the budget (else they come out of what ``--gpu-memory-utilization`` leaves);
    ``v2_charges_cuda_graphs`` the same of the second, ``charges_amd_graphs`` that they do so on AMD's GPUs as well, and
    ``charges_prefill_transient`` whether that estimate counts a prefill of recurrent layers as graphs.
    ``may_fuse_sampler`` marks releases that sampled with FlashInfer where the build happened to have it.
    ``keeps_workspaces`` says that scratch of the experts stays allocated while the sampler runs, ``profiles_sampler``
    that the profiling run samples at all. ``default_small_sequences`` is ``--max-num-seqs`` of GPUs below 70 GiB,
    ``spares_a100`` says that A100 counts as one. ``base_bytes`` is what CUDA takes outside PyTorch on one GPU,
    ``switch_bytes`` what NCCL takes more where an NVSwitch multiplies in the network (NVLS). ``largest_batched_tokens``
    is the default batch on GPUs of 160 GiB and more. ``trims_sparse_workspace`` says that sparse attention's workspace
    is cut beyond 256 Ki of context, ``splits_large_blocks`` that PyTorch may split the ends of large blocks off while
    the model is loaded, ``shortens_tables`` that rotary tables end with the context where no position runs ahead of it,
    ``sorts_experts_with_triton`` that Hopper keeps MXFP4 experts in Triton's order. Of towers: ``profiles_long_videos``
    says that the video profiled is as long as the context allows and not the step, ``overstates_videos`` that some are
    taken for more tokens than they have, and ``output_padding`` how far every item's outputs are padded. ``source``
    says where the change was read.
    """

    since: EngineVersion
    source: str
    sampler: SamplerLaw = NATIVE_SAMPLER
    runner_v2: RunnerV2 = RunnerV2.NOBODY
    charges_cuda_graphs: bool = False
    v2_charges_cuda_graphs: bool = False
    charges_amd_graphs: bool = False
    charges_prefill_transient: bool = False
    may_fuse_sampler: bool = False
    keeps_workspaces: bool = False
    profiles_sampler: bool = True
    default_small_sequences: int = 256
    spares_a100: bool = True
    profiles_long_videos: bool = True
    overstates_videos: bool = False
    output_padding: OutputPadding = OutputPadding.NONE
    trims_sparse_workspace: bool = False
    splits_large_blocks: bool = True
    shortens_tables: bool = False
    sorts_experts_with_triton: bool = False
    default_utilization_percent: int = 90
    largest_batched_tokens: int = 8192
    base_bytes: int = int(0.14 * GIB)
    switch_bytes: int = int(0.41 * GIB)

    def runs_v2(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the second model runner serves ``model``; an unknown GPU counts as NVIDIA's."""
        match self.runner_v2:
            case RunnerV2.NOBODY:
                return False
            case RunnerV2.DENSE:
                return model.experts is None and not is_recurrent(model)
            case RunnerV2.ALL_ON_NVIDIA:
                return gpu is None or gpu.vendor is Vendor.NVIDIA
            case RunnerV2.EVERYBODY:
                return True

    def sampler_of(self, model: ModelFacts, gpu: GpuType | None) -> SamplerLaw:
        """The sampler in use."""
        return GUMBEL_SAMPLER if self.runs_v2(model, gpu) else self.sampler

    def charges_graphs_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine takes an estimate of the CUDA graphs out of its budget."""
        if gpu is not None and gpu.vendor is Vendor.AMD and not self.charges_amd_graphs:
            return False
        return self.v2_charges_cuda_graphs if self.runs_v2(model, gpu) else self.charges_cuda_graphs


def _history() -> tuple[EngineLaw, ...]:
    first = EngineLaw(
        EngineVersion(0, 8),
        "vllm#14452, #15105: warming up the sampler with 1,024 requests is what runs out of memory",
        may_fuse_sampler=True,
        switch_bytes=int(1.25 * GIB),
        profiles_sampler=False,
        default_small_sequences=1024,
        spares_a100=False,
        profiles_long_videos=False,
        overstates_videos=True,
    )
    oldest = replace(
        first,
        since=EngineVersion(0, 8, 3),
        source="logs of 0.8.4 to 0.10: 9.6 copies whatever the model, 3.6 with FlashInfer; non-torch 1.38 at TP2",
        profiles_sampler=True,
        default_small_sequences=256,
    )
    sparing = replace(
        oldest,
        since=EngineVersion(0, 9),
        source="#17885: small batches on A100",
        spares_a100=True,
    )
    after_nccl = replace(
        sparing,
        since=EngineVersion(0, 11),
        source="#25359: the first snapshot is taken after NCCL is up; logs: non-torch 0.13, 0.55 at TP2 (H100)",
        may_fuse_sampler=False,
        profiles_long_videos=True,
        output_padding=OutputPadding.BUDGET,
        switch_bytes=int(0.41 * GIB),
    )
    less_padded = replace(
        after_nccl,
        since=EngineVersion(0, 12),
        source="v1/worker/gpu_model_runner.py, profile_run: outputs are padded to one item; third_party/triton_kernels",
        sorts_experts_with_triton=True,
        output_padding=OutputPadding.ITEM,
    )
    measured_videos = replace(
        less_padded,
        since=EngineVersion(0, 13),
        source="qwen3_vl.py, get_max_video_tokens: without the factor 12.5 for timestamps; profile_run pads nothing",
        overstates_videos=False,
        output_padding=OutputPadding.NONE,
    )
    keeps = replace(
        measured_videos,
        since=EngineVersion(0, 14),
        source="v1/worker/workspace.py; logs: scratch not held in 0.12.0 and 0.13, held in 0.15.0",
        keeps_workspaces=True,
    )
    fused = replace(
        keeps,
        since=EngineVersion(0, 17),
        source="36 starts of 0.19.0 on H100; planners saw the fall to 40 % between 0.15 and 0.17",
        sampler=FUSED_SAMPLER,
        base_bytes=int(0.25 * GIB),
        switch_bytes=int(1.84 * GIB),
    )
    other_experts = replace(
        fused,
        since=EngineVersion(0, 19),
        source="fused_moe/oracle/mxfp4.py; two starts on H100",
        sorts_experts_with_triton=False,
    )
    charged = replace(
        other_experts,
        since=EngineVersion(0, 20),
        source="envs.py, config/cache.py of 0.20.0: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS on, utilization 0.92 (the "
        "engine itself says since 0.21)",
        charges_cuda_graphs=True,
        default_utilization_percent=92,
    )
    unsplit = replace(
        charged,
        since=EngineVersion(0, 21),
        source="#41268: v1/worker/gpu_worker.py loads with max_split_size_mb 20",
        splits_large_blocks=False,
    )
    dense_v2 = replace(
        unsplit,
        since=EngineVersion(0, 25),
        source="#44443: model runner V2 for dense models, its estimate of the graphs hard-coded 0 (vllm#49224)",
        runner_v2=RunnerV2.DENSE,
    )
    consumed = replace(
        dense_v2,
        since=EngineVersion(0, 26),
        source="#49208: charged is the fall of free memory, on ROCm too (#44825); vllm#50780; logs: 1.7 GiB at TP4",
        charges_amd_graphs=True,
        charges_prefill_transient=True,
        switch_bytes=int(1.5 * GIB),
    )
    estimated = replace(
        consumed,
        since=EngineVersion(0, 28),
        source="#53306, #53682: V2 measures its graphs; #51726: 16,384 tokens on GPUs of 160 GiB",
        v2_charges_cuda_graphs=True,
        largest_batched_tokens=16384,
    )
    all_v2 = replace(
        estimated,
        since=EngineVersion(0, 29),
        source="release notes: V2 everywhere on CUDA",
        runner_v2=RunnerV2.ALL_ON_NVIDIA,
    )
    everybody = replace(
        all_v2,
        since=EngineVersion(0, 32),
        source="config/vllm.py of 0.32: use_v2_model_runner asks for no vendor; sparse_mla_prefill_workspace_factor",
        runner_v2=RunnerV2.EVERYBODY,
        trims_sparse_workspace=True,
        shortens_tables=True,
    )
    older = (first, oldest, sparing, after_nccl, less_padded, measured_videos, keeps, fused)
    return (*older, other_experts, charged, unsplit, dense_v2, consumed, estimated, all_v2, everybody)


_LAWS = _history()
"""Newest last; a row for every change of behaviour."""

OLDEST_VERSION = _LAWS[0].since
"""Older engines account memory differently (V0 engine) and are refused."""


@lru_cache(maxsize=64)
def law_for(version: EngineVersion) -> EngineLaw:
    """The law of the newest change that is not newer than ``version``.

    Raises:
        ValueError: the release is older than any law we know.
    """
    known = [law for law in _LAWS if law.since <= version]
    if not known:
        raise ValueError(f"vLLM {version} is older than {OLDEST_VERSION}, the oldest release with a known memory law")
    return known[-1]
