"""The memory law of each vLLM release. A new release is added here."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.memory import runners
from plimsoll.engines.vllm.memory.engine_law import FUSED_SAMPLER, GUMBEL_SAMPLER, EngineLaw, OutputPadding


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
        # 0.11.0 still samples with FlashInfer where it is installed, 0.11.1 only on demand. Eight of twelve starts of
        # 0.11.0 did not use it; the others needed less than predicted.
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
        source="36 starts of 0.19.0 on H100; planners saw the sampler fall to 40 % between 0.15 and 0.17",
        sampler=FUSED_SAMPLER,
        pads_ungated_experts=True,
        base_bytes=int(0.25 * GIB),
    )
    tries_graphs = replace(
        fused,
        since=EngineVersion(0, 18),
        source="v1/worker/gpu_worker.py: a capture is tried within what is measured; 36 starts of 0.19.0",
        captured_switch_bytes=int(1.43 * GIB),
    )
    other_experts = replace(
        tries_graphs,
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
        keeps_rocm_library=False,
        default_utilization_percent=92,
    )
    unsplit = replace(
        charged,
        since=EngineVersion(0, 21),
        source="#41268: v1/worker/gpu_worker.py loads with max_split_size_mb 20",
        splits_large_blocks=False,
    )
    qwen3_v2 = replace(
        unsplit,
        since=EngineVersion(0, 22),
        source="config/vllm.py: model runner V2; its estimate of the graphs is hard-coded 0 (vllm#49224)",
        runner_v2=runners.QWEN3,
    )
    three_v2 = replace(qwen3_v2, since=EngineVersion(0, 23), runner_v2=runners.THREE_CLASSES)
    six_v2 = replace(three_v2, since=EngineVersion(0, 24), runner_v2=runners.SIX_CLASSES)
    dense_v2 = replace(
        six_v2,
        since=EngineVersion(0, 25),
        source="#44443: all dense models; fused_moe/oracle/mxfp4.py deletes w13_weight_scale, w2_weight_scale",
        runner_v2=runners.DENSE,
        sorts_experts_with_triton=True,
        drops_unsorted_scales=True,
    )
    transient = replace(
        dense_v2,
        since=EngineVersion(0, 26),
        source="graphs on ROCm too (#44825); a prefill counts as graphs (vllm#50780)",
        runner_v2=runners.DENSE_0_26,
        charges_amd_graphs=True,
        compiles_on_copies=True,
        charges_prefill_transient=True,
    )
    uncopied = replace(
        transient,
        since=EngineVersion(0, 27),
        source="#49208: charged is the fall of free memory, a capture is tried later; v1/worker/gpu: sampler.py, "
        "profile_run",
        captured_switch_bytes=0,
        runner_v2=runners.DENSE_0_27,
        v2_sampler=GUMBEL_SAMPLER,
        v2_profiles_towers=True,
    )
    larger = replace(
        uncopied,
        since=EngineVersion(0, 28),
        source="#51726: 16,384 tokens on GPUs of 160 GiB",
        runner_v2=runners.DENSE_0_28,
        largest_batched_tokens=16384,
    )
    everybody = replace(
        larger,
        since=EngineVersion(0, 29),
        source="config/vllm.py; #53306, #53682: V2 measures graphs (v1/worker/gpu/model_runner.py, not in 0.28)",
        runner_v2=runners.EVERYBODY,
        v2_charges_cuda_graphs=True,
    )
    but_three = replace(everybody, since=EngineVersion(0, 30), runner_v2=runners.EVERYBODY_0_30)
    newest = replace(
        but_three,
        since=EngineVersion(0, 32),
        source="sparse_mla_prefill_workspace_factor; rotary_embedding/mrope.py",
        trims_sparse_workspace=True,
        shortens_tables=True,
    )
    older = (first, oldest, sparing, after_nccl, less_padded, measured_videos, keeps, fused)
    middle = (tries_graphs, other_experts, charged, unsplit, qwen3_v2, three_v2, six_v2, dense_v2, transient)
    return (*older, *middle, uncopied, larger, everybody, but_three, newest)


_LAWS = _history()
"""The laws, newest last, with one entry for every change of behaviour."""

OLDEST_VERSION = _LAWS[0].since
"""Older engines account memory differently (V0 engine) and are refused."""


@lru_cache(maxsize=64)
def law_for(version: EngineVersion) -> EngineLaw:
    """Return the law of the newest change that is not newer than ``version``.

    Raises:
        ValueError: the release is older than any law we know.
    """
    known = [law for law in _LAWS if law.since <= version]
    if not known:
        raise ValueError(f"vLLM {version} is older than {OLDEST_VERSION}, the oldest release with a known memory law")
    return replace(known[-1], release=version)
