"""Every example's rendered ``vllm serve`` arguments, for tests that hand them to the real engine."""

from __future__ import annotations


def rendered_examples() -> dict[str, list[str]]:
    """Arguments by example name: what a pod's container gets as ``args``."""
    return {
        "literal-sample": [
            "meta-llama/Llama-3.1-8B-Instruct",
            "--served-model-name",
            "llama-3-1-8b",
            "--max-model-len",
            "4096",
            "--max-num-seqs",
            "16",
            "--max-num-batched-tokens",
            "2048",
            "--gpu-memory-utilization",
            "0.92",
            "--tensor-parallel-size",
            "2",
            "--dtype",
            "bfloat16",
            "--kv-cache-dtype",
            "auto",
            "--host",
            "0.0.0.0",  # noqa: S104 - what a pod listens on
            "--port",
            "8000",
            "--shutdown-timeout",
            "60",
        ],
    }
