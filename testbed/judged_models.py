"""What the judge knows of models and GPUs: plain figures, written down independently of the operator's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BF16, FP8 = "bf16", "fp8"


@dataclass(frozen=True, slots=True)
class JudgedModel:
    """One model, whole, before any parallelism.

    Attributes:
        weights_gib: GiB of all weights by precision.
        checkpoint: the precision that is published under this name.
        kv_bytes_per_token: KV cache of one token in 16 bits, all layers.
        kv_heads: heads that tensor parallelism divides.
        vocabulary: rows of the output layer.
        hidden: width between layers.
        intermediate: width inside the MLP; for a mixture of experts, of the experts one token visits.
        max_context: tokens, where ``--max-model-len`` is not given.
    """

    weights_gib: Mapping[str, float]
    checkpoint: str
    kv_bytes_per_token: int
    kv_heads: int
    vocabulary: int
    hidden: int
    intermediate: int
    max_context: int


# Weights: parameters x 2 B for bf16; for fp8, embedding and output layer stay in 16 bits. Two are read from vLLM's
# startup logs on H100 instead: 14.99 GiB (Llama-3.1-8B, bf16) and 67.72 GiB (Llama-3.3-70B, FP8 checkpoint).
# KV: 2 x layers x KV heads x head size x 2 B, from each model's config.json.
_LLAMA_8B = JudgedModel({BF16: 14.99, FP8: 8.46}, BF16, 131_072, 8, 128_256, 4096, 14_336, 131_072)
_LLAMA_70B = JudgedModel({BF16: 131.42, FP8: 67.72}, BF16, 327_680, 8, 128_256, 8192, 28_672, 131_072)
_LLAMA_70B_FP8 = JudgedModel({FP8: 67.72}, FP8, 327_680, 8, 128_256, 8192, 28_672, 131_072)

MODELS: dict[str, JudgedModel] = {
    "meta-llama/Llama-3.1-8B-Instruct": _LLAMA_8B,
    "meta-llama/Llama-3.3-70B-Instruct": _LLAMA_70B,
    "nvidia/Llama-3.3-70B-Instruct-FP8": _LLAMA_70B_FP8,
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": _LLAMA_70B_FP8,
    "Qwen/Qwen3-32B": JudgedModel({BF16: 61.02, FP8: 31.96}, BF16, 262_144, 8, 151_936, 5120, 25_600, 40_960),
    "Qwen/Qwen2.5-7B-Instruct": JudgedModel({BF16: 14.19, FP8: 8.11}, BF16, 57_344, 4, 152_064, 3584, 18_944, 32_768),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": JudgedModel(
        {BF16: 86.99, FP8: 43.74}, BF16, 131_072, 8, 32_000, 4096, 2 * 14_336, 32_768
    ),
}

VISIBLE_GIB: dict[str, float] = {
    "NVIDIA-H100-80GB-HBM3": 79.19,
    "NVIDIA-A100-SXM4-80GB": 79.25,
    "NVIDIA-L40S": 44.42,
    "NVIDIA-L4": 22.03,
    "AMD_Instinct_MI300X_OAM": 191.69,
}
"""Total memory in GiB that PyTorch reports: what ``--gpu-memory-utilization`` multiplies.

Read from vLLM's startup logs, except for the L4: its label's 23034 MiB less 2 %, because no log was found.
"""

PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
"""Node labels that name the GPU, in the order they are looked up."""
