"""The parts of a memory law that may differ between releases of vLLM.

Laws by release: a list of changes, and the law after each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws.runners import NOBODY, RunnerV2

_FIRST = EngineVersion(0, 8)


@dataclass(frozen=True, slots=True)
class Law:
    """A set of rules that is valid from the release ``since`` on."""

    since: EngineVersion = _FIRST


class Change(NamedTuple):
    """The fields of a law that a release changed, and where the change was read."""

    since: EngineVersion
    source: str
    fields: Mapping[str, Any]


_AnyLaw = TypeVar("_AnyLaw", bound=Law)


def laws_after(changes: Iterable[Change], oldest: _AnyLaw) -> tuple[_AnyLaw, ...]:
    """Return ``oldest``, and the law after each change."""
    return tuple(accumulate(changes, _changed, initial=oldest))


def _changed(law: _AnyLaw, change: Change) -> _AnyLaw:
    return replace(law, since=change.since, **change.fields)


@dataclass(frozen=True, slots=True)
class SamplerLaw:
    """The memory of sampling one step: ``copies`` of the logits in fp32, and ``hidden_copies`` of their hidden states.

    Below ``few_rows`` rows there are ``few_copies`` instead. ``keeps_buffer`` means that the kernel keeps one row of
    logits in 32 bits for each of its programs, of which there is at most one for each multiprocessor.
    ``gathered_copies`` are added with tensor parallelism, where gathering the ranks' parts is the peak.
    ``rejecting_copies`` are the copies while the engine profiles a draft's rejection, 0 where that is not the peak.
    """

    copies: float
    few_rows: int = 0
    few_copies: float = 0.0
    hidden_copies: int = 1
    keeps_buffer: bool = False
    gathered_copies: float = 0.0
    rejecting_copies: float = 0.0


_RANDOM_HIDDEN = 2
"""The first model runner selects the hidden states to sample and makes random ones of the same shape (``rand_like`` in
``_dummy_sampler_run``, 0.10 to 0.29)."""

SORTED_COPIES, SORTED_COPIES_OF_FEW = 9.5, 12.5
"""Logits in 16 and 32 bits (1.5), the sorted values with 8-byte indices (3), and what PyTorch's sort takes: 5 from
:data:`FEW_SORTED_ROWS` rows on (8-byte indices, keys and values again), and 8 below, where it sorts all rows at once
(twice 8 bytes for index and row, the keys, keys and values again). Source: ``aten/src/ATen/native/cuda/SortStable.cu``,
``segmented_sort_pairs`` and ``segmented_sort_pairs_by_full_sort``."""

FEW_SORTED_ROWS = 128

NATIVE_SAMPLER = SamplerLaw(SORTED_COPIES, FEW_SORTED_ROWS, SORTED_COPIES_OF_FEW, _RANDOM_HIDDEN)
"""PyTorch top-k and top-p: the peak is the sort.

Five starts of vLLM 0.11 on H100 with 1,024 sequences logged 4.76 to 7.38 GiB of activations; each is computed within
0.01. Of 20 starts of 0.12 with 32 and 64 sequences on five GPUs, the copies below 128 rows bring the rest of each GPU
from within 0.06 GiB to within 0.03.
"""

FUSED_SAMPLER = SamplerLaw(3.5, 8, SORTED_COPIES_OF_FEW, _RANDOM_HIDDEN, keeps_buffer=True, rejecting_copies=5.5)
"""Fused kernels, FlashInfer's or Triton's: logits in 16 and 32 bits, probabilities, and random numbers.

Triton's are used since 0.17 on every vendor's GPUs, from 8 rows on (``v1/sample/ops/topk_topp_triton.py``, with
its buffer; ``topk_topp_sampler.py``, ``random_sample``).

Read in the sources and not fitted. Of 33 starts of vLLM 0.19.0 on H100, the 27 whose peak is the sampler logged 0.75 to
3.94 GiB of activations; each is computed within 0.01. The engine
profiles rejection with one drafted token per request, for any number of drafted tokens: two rows in 16 bits, one of
them again, and four in 32 (read in ``_dummy_sampler_run`` and ``v1/sample/rejection_sampler.py`` of 0.19 to 0.26; not
fitted).
"""

COPYING_SAMPLER = SamplerLaw(1.5)
"""Model runner V2 up to 0.26: the 16-bit logits and a copy in 32 bits, for any sampling options of the requests
(``v1/worker/gpu/sample/sampler.py``, read in 0.22 to 0.26)."""

GUMBEL_SAMPLER = SamplerLaw(0.5, gathered_copies=0.5)
"""Model runner V2 since 0.27: the 16-bit logits are sampled in place; tensor parallelism gathers and reorders them.

Source: the same file returns early unless a request needs its logits processed (read in 0.27.1, 0.28 and 0.32), and the
profiling run has no request that needs it. vllm#48641 (Qwen3-8B, 7 drafted tokens, H100): 3.04 GiB with and without the
fp32 copy of the skipped path; 2.32 of them are 8,192 rows of 16-bit logits.
"""

ALL_OPTIONS_SAMPLER = SamplerLaw(3.5)
"""Model runner V2 since 0.33, while it profiles with every option on, where FlashInfer samples: the 16-bit logits,
their copy in 32 bits, and what FlashInfer makes of it: the logits of the top k, and their probabilities.

Read in ``v1/worker/gpu/model_runner.py`` (``_dummy_sampler_run``) and ``v1/worker/gpu/sample/sampler.py`` of 0.33, and
in ``flashinfer/sampling.py`` of FlashInfer 0.7.2 (``top_k_top_p_sampling_from_logits``, whose short path wants k as a
number while vLLM gives a tensor). No start was measured. Gathering the ranks' parts takes less. FlashInfer samples on
every NVIDIA GPU with more than 16 multiprocessors, unless ``VLLM_USE_FLASHINFER_SAMPLER`` is 0: then it is less.
"""

ALL_OPTIONS_SAMPLER_ON_AMD = SamplerLaw(1.5, keeps_buffer=True)
"""The same where Triton's kernel masks the copy in place, with a row for each of its programs
(``v1/sample/ops/topk_topp_triton.py``, read in 0.33; not measured)."""


class OutputPadding(StrEnum):
    """The padding of a tower's outputs while the engine measures: to one item, or to the budget of all items."""

    NONE = "none"
    ITEM = "item"
    BUDGET = "budget"


_OLDEST = EngineVersion(0, 8)


@dataclass(frozen=True, slots=True)
class EngineLaw(Law):
    """The parts of the budget that changed between releases, as they are from ``since`` on, for ``release``.

    Samplers and runners: ``sampler`` belongs to the first model runner, ``v2_sampler`` to the second, which serves
    ``runner_v2``. ``may_fuse_sampler`` marks releases that sampled with FlashInfer where the build had it.
    ``v2_offloads_weights`` means that the second runner can keep weights in host memory, as the first always can.
    ``profiles_sampler`` means that the profiling run samples, ``v2_samples_all_options`` that the second runner samples
    once more, with every option on and one row for each request.
    Graphs: ``charges_cuda_graphs`` means that the first runner takes its estimate of the graphs out of the budget
    (otherwise they use the memory that ``--gpu-memory-utilization`` leaves). ``v2_charges_cuda_graphs`` means the same
    for the second runner. ``charges_amd_graphs`` means that they do so on AMD's GPUs as well.
    ``charges_prefill_transient`` means that the estimate counts a prefill of recurrent layers as graphs.
    Outside PyTorch: ``base_bytes`` is what CUDA takes on one GPU. ``switch_bytes`` is what NCCL takes in addition where
    an NVSwitch reduces in the network (NVLS). ``captured_switch_bytes`` is what a capture of graphs leaves there in
    addition; the first runner tries this capture while it measures. ``cublas_comes_first`` means that handles and
    workspace of matrix products are there before the engine's first snapshot, so outside its budget.
    Workspaces: ``keeps_workspaces`` means that experts and sparse attention share one buffer.
    ``trims_sparse_workspace`` means that sparse attention's workspace is smaller beyond 256 Ki of context.
    Weights: ``splits_large_blocks`` means that PyTorch may split off the ends of large blocks while the model is
    loaded. ``shortens_tables`` means that rotary tables end with the context where no position exceeds it.
    ``sorts_experts_with_triton`` means that Hopper keeps MXFP4 experts in Triton's order, ``drops_unsorted_scales``
    that it does not also keep their original scales. ``keeps_rocm_library`` means that the share of a library counts as
    weights on AMD's GPUs. ``pads_ungated_experts`` means that FP8 experts without a gate are padded.
    ``compiles_on_copies`` means that a first ``torch.compile`` times kernels on copies of their inputs.
    Towers: ``v2_profiles_towers`` means that the second runner measures them. ``profiles_long_videos`` means that the
    length of the profiled video is limited by the context and not by the step. ``overstates_videos`` means that the
    engine counts some videos with too many tokens. ``output_padding`` is the padding of every item's outputs.
    """

    release: EngineVersion = _OLDEST
    sampler: SamplerLaw = NATIVE_SAMPLER
    runner_v2: RunnerV2 = NOBODY
    v2_sampler: SamplerLaw = COPYING_SAMPLER
    v2_profiles_towers: bool = False
    v2_offloads_weights: bool = False
    v2_samples_all_options: bool = False
    charges_cuda_graphs: bool = False
    v2_charges_cuda_graphs: bool = False
    charges_amd_graphs: bool = False
    charges_prefill_transient: bool = False
    may_fuse_sampler: bool = False
    keeps_workspaces: bool = False
    profiles_sampler: bool = True
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
    base_bytes: int = int(0.14 * GIB)
    switch_bytes: int = int(0.41 * GIB)
    captured_switch_bytes: int = 0
    cublas_comes_first: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once, from few fields: laws are keys of caches."""
        object.__setattr__(self, "_hash", hash((self.since, self.release)))

    def __hash__(self) -> int:
        """Return the stored hash. Equality still compares all fields."""
        return self._hash

    def runs_v2(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the second model runner serves ``model``; an unknown GPU counts as NVIDIA's."""
        return self.runner_v2.serves(model, gpu)

    def offloads_weights_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine obeys flags that keep weights in host memory. Otherwise it loads all of them, silently."""
        return self.v2_offloads_weights or not self.runs_v2(model, gpu)

    def offloads_weights_of_runner(self, runner: int) -> bool:
        """The same for a runner, 1 or 2."""
        return self.v2_offloads_weights or runner == 1

    def sampler_of(self, model: ModelFacts, gpu: GpuType | None) -> SamplerLaw:
        """Return the sampler in use."""
        return self.v2_sampler if self.runs_v2(model, gpu) else self.sampler

    def options_sampler_of(self, model: ModelFacts, gpu: GpuType | None) -> SamplerLaw | None:
        """Return the sampler of the pass with every option on; None where the engine makes no such pass."""
        if not (self.v2_samples_all_options and self.runs_v2(model, gpu)):
            return None
        is_amd = gpu is not None and gpu.vendor is Vendor.AMD
        return ALL_OPTIONS_SAMPLER_ON_AMD if is_amd else ALL_OPTIONS_SAMPLER

    def profiles_tower_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine runs a tower when it measures."""
        return self.v2_profiles_towers or not self.runs_v2(model, gpu)

    def charges_graphs_of(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether the engine takes an estimate of the CUDA graphs out of its budget."""
        if gpu is not None and gpu.vendor is Vendor.AMD and not self.charges_amd_graphs:
            return False
        return self.v2_charges_cuda_graphs if self.runs_v2(model, gpu) else self.charges_cuda_graphs
