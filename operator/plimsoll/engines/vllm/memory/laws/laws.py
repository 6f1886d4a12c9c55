"""The memory law of each vLLM release, as a list of changes. A new release is added here."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws import runners
from plimsoll.engines.vllm.memory.laws.engine_law import (
    FUSED_SAMPLER,
    GUMBEL_SAMPLER,
    Change,
    EngineLaw,
    OutputPadding,
    laws_after,
)

_V = EngineVersion

CHANGES = (
    Change(
        _V(0, 8),
        "vllm#14452, #15105: warming up the sampler with 1,024 requests is what runs out of memory",
        {
            "may_fuse_sampler": True,
            "switch_bytes": int(1.25 * GIB),
            "profiles_sampler": False,
            "profiles_long_videos": False,
            "overstates_videos": True,
        },
    ),
    Change(
        _V(0, 8, 3),
        "logs of 0.8.4 to 0.10: 9.6 copies whatever the model, 3.6 with FlashInfer; non-torch 1.38 at TP2",
        {"profiles_sampler": True},
    ),
    Change(_V(0, 9), "#17885: smaller default batches on A100; the operator sets all batches, so no field changes", {}),
    Change(
        _V(0, 11),
        "#25359: the first snapshot is taken after NCCL is up; logs: non-torch 0.13, 0.55 at TP2 (H100)",
        {
            # 0.11.0 still samples with FlashInfer where it is installed, 0.11.1 only on demand. Eight of twelve starts
            # of 0.11.0 did not use it; the others needed less than predicted.
            "may_fuse_sampler": False,
            "profiles_long_videos": True,
            "output_padding": OutputPadding.BUDGET,
            "switch_bytes": int(0.41 * GIB),
        },
    ),
    Change(
        _V(0, 12),
        "v1/worker/gpu_model_runner.py, profile_run: outputs are padded to one item; third_party/triton_kernels",
        {"sorts_experts_with_triton": True, "output_padding": OutputPadding.ITEM},
    ),
    Change(
        _V(0, 13),
        "qwen3_vl.py, get_max_video_tokens: without the factor 12.5 for timestamps; profile_run pads nothing",
        {"overstates_videos": False, "output_padding": OutputPadding.NONE},
    ),
    Change(
        _V(0, 14),
        "v1/worker/workspace.py; logs: scratch not held in 0.12.0 and 0.13, held in 0.15.0",
        {"keeps_workspaces": True},
    ),
    Change(
        _V(0, 17),
        "36 starts of 0.19.0 on H100; planners saw the sampler fall to 40 % between 0.15 and 0.17",
        {"sampler": FUSED_SAMPLER, "pads_ungated_experts": True, "base_bytes": int(0.25 * GIB)},
    ),
    Change(
        _V(0, 18),
        "v1/worker/gpu_worker.py: a capture is tried within what is measured; 36 starts of 0.19.0",
        {"captured_switch_bytes": int(1.43 * GIB)},
    ),
    Change(_V(0, 19), "fused_moe/oracle/mxfp4.py; two starts on H100", {"sorts_experts_with_triton": False}),
    Change(
        _V(0, 20),
        "envs.py, config/cache.py of 0.20.0: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS on (the engine itself says since "
        "0.21)",
        {"charges_cuda_graphs": True, "keeps_rocm_library": False},
    ),
    Change(
        _V(0, 21),
        "#41268: v1/worker/gpu_worker.py loads with max_split_size_mb 20",
        {"splits_large_blocks": False},
    ),
    Change(
        _V(0, 22),
        "config/vllm.py: model runner V2; its estimate of the graphs is hard-coded 0 (vllm#49224)",
        {"runner_v2": runners.QWEN3},
    ),
    Change(_V(0, 23), "config/vllm.py", {"runner_v2": runners.THREE_CLASSES}),
    Change(_V(0, 24), "config/vllm.py", {"runner_v2": runners.SIX_CLASSES}),
    Change(
        _V(0, 25),
        "#44443: all dense models; fused_moe/oracle/mxfp4.py deletes w13_weight_scale, w2_weight_scale",
        {"runner_v2": runners.DENSE, "sorts_experts_with_triton": True, "drops_unsorted_scales": True},
    ),
    Change(
        _V(0, 26),
        "graphs on ROCm too (#44825); a prefill counts as graphs (vllm#50780)",
        {
            "runner_v2": runners.DENSE_0_26,
            "charges_amd_graphs": True,
            "compiles_on_copies": True,
            "charges_prefill_transient": True,
        },
    ),
    Change(
        _V(0, 27),
        "#49208: charged is the fall of free memory, a capture is tried later; v1/worker/gpu: sampler.py, profile_run",
        {
            "captured_switch_bytes": 0,
            "runner_v2": runners.DENSE_0_27,
            "v2_sampler": GUMBEL_SAMPLER,
            "v2_profiles_towers": True,
        },
    ),
    Change(
        _V(0, 28),
        "config/vllm.py; v1/worker/gpu/model_runner.py makes an offloader (create_offloader, not in 0.22 to 0.27)",
        {"runner_v2": runners.DENSE_0_28, "v2_offloads_weights": True},
    ),
    Change(
        _V(0, 29),
        "config/vllm.py; #53306, #53682: V2 measures graphs (v1/worker/gpu/model_runner.py, not in 0.28)",
        {"runner_v2": runners.EVERYBODY, "v2_charges_cuda_graphs": True},
    ),
    Change(_V(0, 30), "config/vllm.py", {"runner_v2": runners.EVERYBODY_0_30}),
    Change(
        _V(0, 32),
        "sparse_mla_prefill_workspace_factor; rotary_embedding/mrope.py",
        {"trims_sparse_workspace": True, "shortens_tables": True},
    ),
    Change(
        _V(0, 33),
        "v1/worker/gpu/model_runner.py, _dummy_sampler_run; v1/worker/gpu_worker.py, init_device. No start is known",
        {"v2_samples_all_options": True, "cublas_comes_first": True},
    ),
)
"""Every change of behaviour, newest last."""

OLDEST_VERSION = CHANGES[0].since
"""Older engines account memory differently (V0 engine) and are refused."""

NEWEST_VERSION = CHANGES[-1].since
"""The newest release whose sources were read. Newer releases are given its law."""

NEWEST_MEASURED = EngineVersion(0, 32)
"""The newest release with a law that is not read in sources alone. What is planned for a later one is never sure."""


_, *_LAWS = laws_after(CHANGES, EngineLaw())
"""The law after each change."""


@lru_cache(maxsize=64)
def law_for(version: EngineVersion, model_runner: int | None = None) -> EngineLaw:
    """Return the law of the newest change that is not newer than ``version``.

    Args:
        version: the release.
        model_runner: 1 or 2 where the engine is made to use this runner; None where it chooses by the model.

    Raises:
        ValueError: the release is older than any law we know.
    """
    known = [law for law in _LAWS if law.since <= version]
    if not known:
        raise ValueError(f"vLLM {version} is older than {OLDEST_VERSION}, the oldest release with a known memory law")
    law = replace(known[-1], release=version)
    return law if model_runner is None else replace(law, runner_v2=runners.forced(model_runner))
