"""Start-up logs of SGLang. Arguments have the form of the releases; figures and lines are those of public starts."""

from __future__ import annotations

from typing import Any

AT = "[2026-10-02 03:00:19]"

_USUAL: dict[str, Any] = {
    "trust_remote_code": False,
    "context_length": None,
    "quantization": None,
    "dtype": "auto",
    "kv_cache_dtype": "auto",
    "device": "cuda",
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "attn_dp_size": 1,
    "ep_size": 1,
    "mem_fraction_static": 0.9,
    "max_running_requests": None,
    "max_total_tokens": None,
    "chunked_prefill_size": 8192,
    "page_size": 1,
    "swa_full_tokens_ratio": 0.8,
    "enable_lora": None,
    "lora_paths": None,
    "speculative_algorithm": None,
    "cpu_offload_gb": 0,
    "offload_group_size": -1,
    "disaggregation_mode": "null",
    "limit_mm_data_per_request": None,
    "torchao_config": "",
    "attention_backend": "fa3",
    "disable_cuda_graph": False,
    "nnodes": 1,
}


def arguments(model: str, *, before_0_5_19: bool = False, **fields: Any) -> str:
    """The arguments as they are printed: a dictionary, and before 0.5.19 an object."""
    values = {"model_path": model, **_USUAL, **fields}
    if before_0_5_19:
        return f"{AT} server_args=ServerArgs({', '.join(f'{name}={each!r}' for name, each in values.items())})"
    return f"{AT} server_args={values!r}"


READY = f"{AT} The server is fired up and ready to roll!"

QWEN3_32B = (
    f"{AT} Load weight begin. avail mem=78.47 GB",
    f"{AT} Load weight end. elapsed=30.11 s, type=Qwen3ForCausalLM, avail mem=17.40 GB, mem usage=61.07 GB.",
    f"{AT} KV Cache is allocated. dtype: torch.bfloat16, #tokens: 39078, K size: 4.77 GB, V size: 4.77 GB",
    f"{AT} Memory pool end. avail mem=7.66 GB",
    f"{AT} Capture target decode CUDA graph end. elapsed=5.10 s, mem usage=0.13 GB, avail mem=7.40 GB.",
    f"{AT} Capture target prefill CUDA graph end. elapsed=30.10 s, mem usage=2.84 GB, avail mem=4.50 GB.",
    (
        f"{AT} max_total_num_tokens=39078, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=40960, available_gpu_mem=4.50 GB"
    ),
    READY,
)
"""Qwen3-32B on one H100, 0.5.19: weights, tokens and graphs are those of a public start; times are invented."""

QWEN3_06B_MI355X = (
    f"{AT} Load weight begin. avail mem=287.26 GB",
    f"{AT} Load weight end. elapsed=1.2 s, type=Qwen3ForCausalLM, avail mem=286.05 GB, mem usage=1.21 GB.",
    f"{AT} KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1360288, K size: 72.65 GB, V size: 72.65 GB",
    f"{AT} Memory pool end. avail mem=140.05 GB",
)
"""Qwen3-0.6B on one MI355X, 0.5.20, a share of 0.6 with AITER's attention."""

QWEN38_27B_H100 = (
    f"{AT} Load weight begin. avail mem=78.48 GB",
    (
        f"{AT} Load weight end. elapsed=9.9 s, type=Qwen3_5ForConditionalGeneration, quant=fp8, avail mem=50.01 GB, "
        "mem usage=28.47 GB."
    ),
    f"{AT} Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB ",
    f"{AT} KV Cache is allocated. #tokens: 330323, K size: 10.08 GB, V size: 10.08 GB",
    f"{AT} Capture target decode CUDA graph end. mem usage=0.10 GB, avail mem=8.90 GB",
)
"""Qwen3.8-27B in FP8 on one H100, 0.5.20, a share of 0.85."""

GEMMA_3090 = (
    "[2026-06-10 03:00:19 TP0] Load weight begin. avail mem=22.91 GB",
    (
        "[2026-06-10 03:00:21 TP0] Load weight end. elapsed=1.30 s, type=Gemma4UnifiedForConditionalGeneration, "
        "quant=awq, bits=4, avail mem=17.50 GB, mem usage=5.42 GB."
    ),
    "[2026-06-10 03:00:21 TP0] Use sliding window memory pool. full_layer_tokens=565446, swa_layer_tokens=35340",
    "[2026-06-10 03:00:21 TP0] KV Cache is allocated. #tokens: 35340, K size: 2.70 GB, V size: 2.70 GB",
    "[2026-06-10 03:00:21 TP0] KV Cache is allocated. #tokens: 565446, K size: 4.31 GB, V size: 4.31 GB",
    "[2026-06-10 03:00:21 TP0] SWAKVPool mem usage: 14.02 GB, swa size: 35340, full size: 565446",
    "[2026-06-10 03:00:21 TP0] Memory pool end. avail mem=3.41 GB",
    (
        "[2026-06-10 03:00:22 TP0] max_total_num_tokens=565446, chunked_prefill_size=4096, max_prefill_tokens=16384, "
        "max_running_requests=1, context_len=262144, available_gpu_mem=3.40 GB"
    ),
)
"""Source: mattbucci/2x-3090-GA102-300-A1-sglang-inference @84aca7276bf4, probe-ratio-0.0625.json: as printed."""


def log(*lines: str) -> str:
    """Lines as a text."""
    return "\n".join(lines) + "\n"
