"""The vLLM command line of one replica.

The image's entry point is ``vllm serve``, so these are its arguments, model first. Every flag whose default moved
between releases, or depends on the GPU, is given explicitly.
"""

from __future__ import annotations

from plimsoll.domain.outcomes import Choice
from plimsoll.domain.workload import WorkloadOptions
from plimsoll.render.names import ENGINE_PORT

PRE_STOP_SECONDS = 15
"""Time for endpoints to forget the pod before the engine refuses new requests."""

DRAIN_SECONDS = 90
"""How long running requests may finish after SIGTERM (``--shutdown-timeout``, vLLM 0.18 and later)."""

SINCE_SHUTDOWN_TIMEOUT = (0, 18)


def engine_arguments(options: WorkloadOptions, choice: Choice) -> list[str]:
    """Arguments of ``vllm serve`` for one replica of ``choice``."""
    settings = choice.settings
    arguments = [options.model_source, "--served-model-name", options.key.name]
    if options.revision is not None:
        arguments += ["--revision", options.revision]
    arguments += [
        *("--max-model-len", str(settings.max_model_len)),
        *("--max-num-seqs", str(settings.max_num_seqs)),
        *("--max-num-batched-tokens", str(settings.max_num_batched_tokens)),
        *("--gpu-memory-utilization", f"{settings.gpu_memory_utilization_percent / 100:.2f}"),
        *("--tensor-parallel-size", str(choice.split.tensor_parallel)),
        *("--dtype", settings.dtype),
        *("--kv-cache-dtype", settings.kv_cache_dtype),
    ]
    if choice.split.pipeline_parallel > 1:
        arguments += ["--pipeline-parallel-size", str(choice.split.pipeline_parallel)]
    if settings.quantization is not None:
        arguments += ["--quantization", settings.quantization]
    if settings.enforce_eager:
        arguments += ["--enforce-eager"]
    arguments += ["--port", str(ENGINE_PORT)]
    if _version(options) >= SINCE_SHUTDOWN_TIMEOUT:
        arguments += ["--shutdown-timeout", str(DRAIN_SECONDS)]
    return [*arguments, *options.extra_args]


def _version(options: WorkloadOptions) -> tuple[int, ...]:
    return tuple(int(part) for part in options.engine_version.split("."))
