"""Start-up logs composed from the format strings of vLLM's sources. The values are invented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODEL = "Qwen/Qwen3-8B"

_API, _CORE = "(APIServer pid=1) INFO 11-20 09:00:00", "(EngineCore pid=70) INFO 11-20 09:00:30"

_V1 = "Initializing a V1 LLM engine (v{release}) with config: "


def config_line(release: str, model: str = MODEL, **fields: Any) -> str:
    """The engine's configuration (``v1/engine/core.py`` and ``VllmConfig.__str__``)."""
    first = f"model={model!r}, speculative_config={fields.pop('speculative_config', None)!r}, tokenizer={model!r}, "
    values = {
        "skip_tokenizer_init": False,
        "tokenizer_mode": "auto",
        "revision": None,
        "dtype": "torch.bfloat16",
        "max_seq_len": 32768,
        "download_dir": "None",
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "quantization": None,
        "enforce_eager": False,
        "kv_cache_dtype": "auto",
        "device_config": "cuda",
        **fields,
    }
    last = 'pooler_config=None, compilation_config={"level":3,"splitting_ops":["vllm.attention"],"debug":""}'
    return (
        _V1.format(release=release) + first + ", ".join(f"{name}={each}" for name, each in values.items()) + f", {last}"
    )


def log_0_8_5() -> str:
    """0.8.5: all arguments are printed, and the cache is given in tokens alone (``v1/core/kv_cache_utils.py``)."""
    return "\n".join(
        (
            "INFO 04-30 08:00:00 [__init__.py:239] Automatically detected platform cuda.",
            "INFO 04-30 08:00:02 [api_server.py:1043] vLLM API server version 0.8.5",
            (
                "INFO 04-30 08:00:02 [api_server.py:1044] args: Namespace(subparser='serve', "
                "model_tag='Qwen/Qwen3-8B', lora_modules=None, model='Qwen/Qwen3-8B', max_model_len=8192, "
                "gpu_memory_utilization=0.85, kv_cache_dtype='auto', max_num_batched_tokens=None, "
                "max_num_seqs=128, enable_lora=False, "
                "compilation_config=None, dispatch_function=<function ServeSubcommand.cmd at 0x7f00>)"
            ),
            "INFO 04-30 08:00:09 [config.py:2003] Chunked prefill is enabled with max_num_batched_tokens=4096.",
            f"INFO 04-30 08:00:12 [core.py:58] {config_line('0.8.5', max_seq_len=8192)}",
            "INFO 04-30 08:00:40 [gpu_model_runner.py:1347] Model loading took 15.2683 GiB and 4.200000 seconds",
            "INFO 04-30 08:01:10 [kv_cache_utils.py:634] GPU KV cache size: 370,000 tokens",
            "INFO 04-30 08:01:10 [kv_cache_utils.py:637] Maximum concurrency for 8,192 tokens per request: 45.17x",
            "INFO 04-30 08:01:40 [gpu_model_runner.py:1686] Graph capturing finished in 22 secs, took 0.52 GiB",
            "INFO 04-30 08:01:40 [core.py:159] init engine (profile, create kv cache, warmup model) took 60.00 seconds",
            "INFO:     Application startup complete.",
        )
    )


def log_0_11_0(*figures: str, arguments: Mapping[str, Any] | None = None, **fields: Any) -> str:
    """0.11.0: prefixes of processes; ``figures`` are lines of the one engine process."""
    given = {"model_tag": MODEL, "model": MODEL, "max_model_len": 32768, "max_num_seqs": 64, **(arguments or {})}
    return "\n".join(
        (
            "(APIServer pid=1) INFO 11-03 10:00:05 [api_server.py:1839] vLLM API server version 0.11.0",
            f"(APIServer pid=1) INFO 11-03 10:00:05 [utils.py:233] non-default args: {given}",
            (
                "(APIServer pid=1) INFO 11-03 10:00:20 [scheduler.py:205] Chunked prefill is enabled with "
                "max_num_batched_tokens=8192."
            ),
            f"(EngineCore_DP0 pid=99) INFO 11-03 10:00:30 [core.py:77] {config_line('0.11.0', **fields)}",
            *(f"(EngineCore_DP0 pid=99) INFO 11-03 10:01:00 {each}" for each in figures),
        )
    )


def figures_0_11_0(kv_gib: float) -> tuple[str, ...]:
    """The figures of one rank of 0.11.0 (``gpu_model_runner.py``, ``gpu_worker.py``, ``kv_cache_utils.py``)."""
    return (
        "[gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 5.100000 seconds",
        f"[gpu_worker.py:298] Available KV cache memory: {kv_gib:.2f} GiB",
        "[kv_cache_utils.py:1087] GPU KV cache size: 385,904 tokens",
        "[kv_cache_utils.py:1091] Maximum concurrency for 32,768 tokens per request: 11.78x",
        "[gpu_model_runner.py:3480] Graph capturing finished in 9 secs, took 0.61 GiB",
        "[core.py:210] init engine (profile, create kv cache, warmup model) took 40.00 seconds",
    )


def log_0_32_0(release: str = "0.32.0", *, consumed: float = 15.6, peak: float = 2.0, kv_gib: float = 52.0) -> str:
    """0.32.0 as ``kubectl logs --timestamps`` shows it: the capacity in one line, and the memory of the whole start."""
    lines = (
        *(f"{_API} [api_utils.py:347] {each}" for each in logo(release)),
        (
            f"{_API} [api_utils.py:286] non-default args: {{'model': 'Qwen/Qwen3-8B', "
            "'max_model_len': 32768, 'max_num_seqs': 256, 'attention_backend': 'FLASHINFER'}"
        ),
        (f"{_API} [scheduler.py:308] Chunked prefill is enabled with max_num_batched_tokens=8192."),
        f"{_CORE} [core.py:134] {config_line(release)}",
        (f"{_CORE} [model_runner.py:425] Model loading took 15.27 GiB memory and 4.100000 seconds"),
        f"{_CORE} [gpu_model_runner.py:6475] Estimated CUDA graph memory: 0.55 GiB total",
        f"{_CORE} [gpu_worker.py:760] Available KV cache memory: {kv_gib} GiB",
        (
            f"{_CORE} [gpu_worker.py:775] CUDA graph memory profiling is enabled "
            "(default since v0.21.0). The current --gpu-memory-utilization=0.9200 is equivalent to "
            "--gpu-memory-utilization=0.9130 without CUDA graph memory profiling."
        ),
        (
            f"{_CORE} [kv_cache_utils.py:2328] GPU KV cache size: 378,656 tokens, Maximum "
            "concurrency for 32,768 tokens per request: 11.56x"
        ),
        f"{_CORE} [model_runner.py:1128] Graph capturing finished in 8 secs, took 0.50 GiB",
        (
            f"{_CORE} [gpu_worker.py:1010] Free memory on device (78.60/79.19 GiB) on "
            f"startup. Desired GPU memory utilization is (0.92, 72.85 GiB). Actual usage is {consumed} GiB for "
            f"consumed memory (weights + non-torch), {peak} GiB for peak activation, and 0.5 GiB for CUDAGraph memory. "
            "Replace gpu_memory_utilization config with `--kv-cache-memory=1` (1.0 GiB) to fit into requested memory. "
            f"Current kv cache memory in use is {kv_gib} GiB."
        ),
        "(APIServer pid=1) INFO:     Application startup complete.",
    )
    return "\n".join(f"2026-11-20T09:00:00.000000000Z {line}" for line in lines)


def logo(release: str) -> tuple[str, ...]:
    """The first lines of a server since 0.16, with colours (``log_version_and_model``)."""
    white, plain = "\x1b[1m", "\x1b[0m"
    return (
        f"       {white}█     █     █▄   ▄█{plain}",
        f" ▄▄ ▄█ {white}█     █     █ ▀▄▀ █{plain}  version {white}{release}{plain}",
        f"  █▄█▀ {white}█     █     █     █{plain}  model   {white}{MODEL}{plain}",
    )


TOO_SMALL_0_10 = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.25 GiB). Based on the available memory, the estimated "
    "maximum model length is 9104. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
"""0.10 and 0.11 (``v1/core/kv_cache_utils.py``)."""

NOTHING_LEFT = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine."
)

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB "
    "of which 1.12 GiB is free."
)
