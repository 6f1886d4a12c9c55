"""What may differ between releases of vLLM: the parts of a memory law."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.memory.runners import NOBODY, RunnerV2


@dataclass(frozen=True, slots=True)
class SamplerLaw:
    """What sampling one step takes: ``copies`` of the logits in fp32, and ``base_bytes`` whatever the batch.

    ``gathered_copies`` come on top with tensor parallelism, where collecting the ranks' parts is the peak;
    ``rejecting_copies`` are those of profiling the rejection of a draft, 0 where that is not the peak.
    """

    copies: float
    base_bytes: int = 0
    gathered_copies: float = 0.0
    rejecting_copies: float = 0.0


NATIVE_SAMPLER = SamplerLaw(9.57)
"""PyTorch top-k and top-p: the sort with its 8-byte indices, softmax and cumulative sum side by side.

Nine starts of vLLM 0.10 to 0.13 on seven models: 9.55 to 9.64 after the hidden states of the step are taken off.
"""

FUSED_SAMPLER = SamplerLaw(3.566, int(0.083 * GIB), rejecting_copies=5.5)
"""Fused kernels, FlashInfer's or Triton's: logits in 16 and 32 bits, probabilities, and the result.

Triton's are used since 0.17 on every vendor's GPUs, from 8 rows on (``v1/sample/ops/topk_topp_triton.py``).

Fitted to Llama, Qwen, Gemma 2, Phi and gpt-oss vocabularies (vLLM 0.19.0, H100); within 0.03 GiB on each. Rejecting is
profiled with one drafted token a request, however many are drafted: two rows in 16 bits, one of them again, and four in
32 (read in ``_dummy_sampler_run`` and ``v1/sample/rejection_sampler.py`` of 0.19 to 0.26; not fitted).
"""

COPYING_SAMPLER = SamplerLaw(1.5)
"""Model runner V2 up to 0.26: the 16-bit logits and a copy in 32 bits, whatever the requests ask for
(``v1/worker/gpu/sample/sampler.py``, read in 0.22 to 0.26)."""

GUMBEL_SAMPLER = SamplerLaw(0.5, gathered_copies=0.5)
"""The same since 0.27: the 16-bit logits are sampled where they lie; tensor parallelism gathers and reorders them.

Source: the same file returns early unless a request needs its logits processed (read in 0.27.1, 0.28 and 0.32), and the
profiling run has no such request. vllm#48641 (Qwen3-8B, 7 drafted tokens, H100): 3.04 GiB with and without the fp32
copy of the path that is skipped, of which 8,192 rows of 16-bit logits are 2.32.
"""


class OutputPadding(StrEnum):
    """How far outputs of a tower are padded while the engine measures: one item's, or the budget of all items."""

    NONE = "none"
    ITEM = "item"
    BUDGET = "budget"


_OLDEST = EngineVersion(0, 8)


@dataclass(frozen=True, slots=True)
class EngineLaw:
    """The parts of the budget that moved between releases, as they were from ``since`` on, for ``release``.

    ``sampler`` is that of the first model runner, ``v2_sampler`` of the second, which serves ``runner_v2``.
    ``charges_cuda_graphs`` tells whether that runner takes its estimate of the graphs out of the budget (else they come
    out of what ``--gpu-memory-utilization`` leaves); ``v2_charges_cuda_graphs`` the same of the second,
    ``charges_amd_graphs`` that they do so on AMD's GPUs as well, and ``charges_prefill_transient`` whether that
    estimate counts a prefill of recurrent layers as graphs. ``may_fuse_sampler`` marks releases that sampled with
    FlashInfer where the build happened to have it. ``keeps_workspaces`` says that experts and sparse attention
    share one buffer, ``profiles_sampler`` that the profiling run samples at all.
    ``default_small_sequences`` is ``--max-num-seqs`` of GPUs below 70 GiB, ``spares_a100`` says that A100 counts as
    one. ``base_bytes`` is what CUDA takes outside PyTorch on one GPU, ``switch_bytes`` what NCCL takes more where an
    NVSwitch multiplies in the network (NVLS), and ``captured_switch_bytes`` what is left there beside it by a capture
    of graphs that the first runner tries while it measures. ``largest_batched_tokens`` is the default batch on GPUs of
    160 GiB and more. ``trims_sparse_workspace`` says that sparse attention's workspace is cut beyond 256 Ki of context,
    ``splits_large_blocks`` that PyTorch may split the ends of large blocks off while the model is loaded,
    ``shortens_tables`` that rotary tables end with the context where no position runs ahead of it,
    ``sorts_experts_with_triton`` that Hopper keeps MXFP4 experts in Triton's order, ``drops_unsorted_scales`` that it
    does not keep their scales as they came, too, ``keeps_rocm_library`` that a library's share counts as weights on
    AMD's GPUs, ``pads_ungated_experts`` that FP8 experts without a gate are padded, ``compiles_on_copies`` that a first
    ``torch.compile`` times kernels on copies of
    what they read. Of towers: ``v2_profiles_towers`` says that the second runner measures them at all,
    ``profiles_long_videos`` says that the video profiled is as long as the context allows and not the step,
    ``overstates_videos`` that some are taken for more tokens than they have, and ``output_padding`` how far every
    item's outputs are padded. ``source`` says where the change was read.
    """

    since: EngineVersion
    source: str
    release: EngineVersion = _OLDEST
    sampler: SamplerLaw = NATIVE_SAMPLER
    runner_v2: RunnerV2 = NOBODY
    v2_sampler: SamplerLaw = COPYING_SAMPLER
    v2_profiles_towers: bool = False
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
    drops_unsorted_scales: bool = False
    keeps_rocm_library: bool = True
    pads_ungated_experts: bool = False
    compiles_on_copies: bool = False
    default_utilization_percent: int = 90
    largest_batched_tokens: int = 8192
    base_bytes: int = int(0.14 * GIB)
    switch_bytes: int = int(0.41 * GIB)
    captured_switch_bytes: int = 0

    def runs_v2(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the second model runner serves ``model``; an unknown GPU counts as NVIDIA's."""
        return self.runner_v2.serves(model, gpu)

    def sampler_of(self, model: ModelFacts, gpu: GpuType | None) -> SamplerLaw:
        """The sampler in use."""
        return self.v2_sampler if self.runs_v2(model, gpu) else self.sampler

    def profiles_tower_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine sends something through a tower when it measures."""
        return self.v2_profiles_towers or not self.runs_v2(model, gpu)

    def charges_graphs_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine takes an estimate of the CUDA graphs out of its budget."""
        if gpu is not None and gpu.vendor is Vendor.AMD and not self.charges_amd_graphs:
            return False
        return self.v2_charges_cuda_graphs if self.runs_v2(model, gpu) else self.charges_cuda_graphs
