"""Engine flags that users may pass and that can change the engine's memory, but that no memory law includes.

The operator passes them to the engine and names them in a warning. It keeps what it learns from engines with these
flags separate from what it learns from others. Names from vLLM's ``engine/arg_utils.py``, 0.32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

_FLAGS = (
    "--additional-config",
    "--attention-backend",
    "--attention-config",
    "--compilation-config",
    "--convert",
    "--cudagraph-capture-sizes",
    "--disable-chunked-mm-input",
    "--disable-hybrid-kv-cache-manager",
    "--disable-sliding-window",
    "--ec-transfer-config",
    "--enable-cumem-allocator",
    "--enable-dbo",
    "--enable-eplb",
    "--enable-hc-sp",
    "--enable-mamba-shared-prefix-checkpoint",
    "--enable-mixed-moe-lora-format",
    "--enable-moe-shared-loras",
    "--enable-prompt-embeds",
    "--enable-return-routed-experts",
    "--enable-sleep-mode",
    "--enable-tower-connector-lora",
    "--engram-config",
    "--eplb-config",
    "--fully-sharded-loras",
    "--hf-config-path",
    "--hf-overrides",
    "--kernel-config",
    "--kv-cache-dtype-skip-layers",
    "--kv-offloading-backend",
    "--kv-offloading-size",
    "--kv-sharing-fast-prefill",
    "--kv-transfer-config",
    "--linear-backend",
    "--load-format",
    "--logits-processors",
    "--lora-dtype",
    "--lora-target-modules",
    "--mamba-block-size",
    "--mamba-cache-dtype",
    "--mamba-cache-mode",
    "--mamba-ssm-cache-dtype",
    "--max-cudagraph-capture-size",
    "--mm-encoder-attn-dtype",
    "--mm-encoder-only",
    "--mm-ipc-gpu-memory-gb",
    "--mm-processor-device",
    "--mm-processor-kwargs",
    "--model-class-overrides",
    "--model-impl",
    "--moe-backend",
    "--optimization-level",
    "--performance-mode",
    "--pooler-config",
    "--replayssm-buffer-len",
    "--scheduler-cls",
    "--ubatch-size",
    "--use-replayssm",
    "--video-pruning-rate",
    "--worker-cls",
    "--worker-extension-cls",
)

_OWNED = (
    "--config",
    "--enable-elastic-ep",
    "--prefill-context-parallel-size",
    "--skip-mm-profiling",
)
"""Flags of the same kind that the operator refuses to users of its own (``owned_flags.py``): others may pass them."""

_OF_DEPLOYMENTS = ("--block-size",)
"""Flags of the same kind that are followed in a command of somebody's own (``start_options.py``), and not here."""

_OLDER = (
    "--cuda-graph-sizes",
    "--device",
    "--enable-lora-bias",
    "--enable-multimodal-encoder-data-parallel",
    "--enable-prompt-adapter",
    "--lora-extra-vocab-size",
    "--max-prompt-adapters",
    "--num-redundant-experts",
    "--override-attention-dtype",
    "--override-pooler-config",
    "--qlora-adapter-name-or-path",
    "--rope-scaling",
    "--speculative-draft-tensor-parallel-size",
    "--speculative-model-quantization",
)
"""Flags of the same kind that releases before 0.32 have (``releases/older_options.py``)."""

_HARMLESS_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "--attention-backend": ("auto", "AUTO"),
        "--device": ("auto", "cuda"),
        "--convert": ("auto", "none"),
        "--linear-backend": ("auto",),
        "--load-format": ("auto", "hf", "safetensors", "mistral", "pt"),
        "--lora-dtype": ("auto",),
        "--mamba-cache-dtype": ("auto",),
        "--mamba-ssm-cache-dtype": ("auto",),
        "--model-impl": ("auto",),
        "--moe-backend": ("auto",),
        "--performance-mode": ("balanced",),
        "--prefill-context-parallel-size": ("1",),
    }
)
"""Values that leave the engine's own choice, or that only say in which files the same weights are."""

_HARMLESS_WHERE_OFF = "False"

_SHORT = re.compile(r"-(O|ac|cc)(\W|\d|$)")
"""Short forms of the compilation, attention and optimization options, with or without a value directly after them."""


def is_unfollowed_flag(flag: str, value: str) -> bool:
    """Whether a flag with its full name can change the memory with this value, and no memory law includes it."""
    if flag not in (*_FLAGS, *_OWNED, *_OLDER):
        return False
    return value != _HARMLESS_WHERE_OFF and value not in _HARMLESS_VALUES.get(flag, ())


def unfollowed_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments that no memory law includes, with their values, unchanged.

    vLLM's parser accepts ``_`` for ``-``, ``--flag=value``, ``--flag.key=value`` and abbreviations.
    """
    return tuple(_with_values(arguments))


def _with_values(arguments: Iterable[str]) -> Iterator[str]:
    belongs = False
    for argument in arguments:
        if argument.startswith("-"):
            belongs = _is_unfollowed(argument)
        if belongs:
            yield argument


def _is_unfollowed(argument: str) -> bool:
    if not argument.startswith("--"):
        return _SHORT.match(argument) is not None
    name = re.split(r"[=.]", argument, maxsplit=1)[0].replace("_", "-").lower()
    return len(name) > len("--") and any(flag.startswith(name) for flag in (*_FLAGS, *_OF_DEPLOYMENTS))
