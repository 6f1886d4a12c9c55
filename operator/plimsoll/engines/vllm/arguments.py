"""The vLLM command line of one replica.

The image's entry point is ``vllm serve``, so these are its arguments, model first. Every flag whose default changed
between releases, or depends on the GPU, is given explicitly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from plimsoll.domain.engine_options import CpuOffload, Drafting, LoraSlots, MediaUse, Residency, WeightStreaming
from plimsoll.domain.outcomes import EngineSettings, Option, Split
from plimsoll.domain.units import GIB
from plimsoll.domain.workload import ENGINE_PORT, WorkloadOptions

DRAIN_SECONDS = 90
"""How long running requests may finish after SIGTERM, where nothing was decided for the pool: pools of earlier releases
keep it, so that an upgrade of the operator restarts no engine."""

_PERMISSION = "--allow-deprecated-quantization"

SINCE_SHUTDOWN_TIMEOUT = (0, 18)
"""The first release with ``--shutdown-timeout``. Earlier ones end running requests at once."""


def engine_arguments(options: WorkloadOptions, choice: Option) -> list[str]:
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
    arguments += [*_split(choice.split), *_loading(settings, options)]
    arguments += [*_residency(settings.residency), *_adapters(settings.lora), *_media(settings.media)]
    if settings.drafting is not None:
        arguments += ["--speculative-config", _speculation(settings.drafting, options)]
    arguments += ["--port", str(ENGINE_PORT)]
    if _version(options) >= SINCE_SHUTDOWN_TIMEOUT:
        arguments += ["--shutdown-timeout", str(drain_seconds(options))]
    return [*arguments, *options.extra_args]


def _split(split: Split) -> list[str]:
    """Flags of a split besides its tensor-parallel size."""
    flags = {"--pipeline-parallel-size": split.pipeline_parallel, "--data-parallel-size": split.data_parallel}
    given = [word for flag, size in flags.items() if size > 1 for word in (flag, str(size))]
    return [*given, "--enable-expert-parallel"] if split.expert_parallel else given


def _loading(settings: EngineSettings, options: WorkloadOptions) -> list[str]:
    """Flags that decide what is made of the checkpoint."""
    flags = {"--runner": settings.runner, "--quantization": settings.quantization}
    given = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    if settings.deprecated_quantization and not _permits_deprecated(options.extra_args):
        given.append(_PERMISSION)
    return [*given, "--enforce-eager"] if settings.enforce_eager else given


def _permits_deprecated(arguments: Iterable[str]) -> bool:
    """Whether the user's own arguments permit it: the flag must not be given twice, because engines run with it."""
    return any(each.replace("_", "-").lower() == _PERMISSION for each in arguments)


def drain_seconds(options: WorkloadOptions) -> int:
    """How long running requests may finish after SIGTERM (``--shutdown-timeout``)."""
    return DRAIN_SECONDS if options.drain_seconds is None else options.drain_seconds


def _residency(residency: Residency | None) -> list[str]:
    """Flags for weights that stay in host memory. ``--cpu-offload-gb`` counts in GiB."""
    match residency:
        case None:
            return []
        case CpuOffload(bytes_per_gpu):
            return ["--cpu-offload-gb", f"{bytes_per_gpu / GIB:.9f}".rstrip("0").rstrip(".")]
        case WeightStreaming(group, layers, prefetch):
            flags = {
                "--offload-group-size": group,
                "--offload-num-in-group": layers,
                "--offload-prefetch-step": prefetch,
            }
            return [part for flag, value in flags.items() for part in (flag, str(value))]


def _adapters(lora: LoraSlots | None) -> list[str]:
    if lora is None:
        return []
    return ["--enable-lora", "--max-loras", str(lora.adapters), "--max-lora-rank", str(lora.max_rank)]


def _media(media: MediaUse) -> list[str]:
    flags = ["--language-model-only"] if media.text_only else []
    if media.copies_encoder:
        flags += ["--mm-encoder-tp-mode", "data"]
    limits = {"image": media.images, "video": media.videos}
    given = {modality: most for modality, most in limits.items() if most is not None}
    return [*flags, "--limit-mm-per-prompt", json.dumps(given)] if given else flags


def _speculation(drafting: Drafting, options: WorkloadOptions) -> str:
    """One JSON object with the fields of vLLM's ``SpeculativeConfig``.

    The method is always named: without it the engine guesses it from the draft's name. A model with its own predictor
    needs no other draft, so none is named.
    """
    fields = {
        "method": drafting.method.value,
        "num_speculative_tokens": drafting.tokens,
        "model": options.draft_source,
        "revision": options.draft_revision,
    }
    return json.dumps({field: value for field, value in fields.items() if value is not None})


def _version(options: WorkloadOptions) -> tuple[int, ...]:
    return tuple(int(part) for part in options.engine_version.split("."))
