# ruff: noqa: E501 - quotations keep their lines
"""An engine's last words, letter by letter as its releases write them, and the public word for each."""

from __future__ import annotations

import pytest

from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.engines.failures import read_failure
from tests.support.tables import every_case
from tests.support.work import measured_effort

TEXTS: list[tuple[str, StartFailure, str]] = [
    (
        "0.10 free memory",
        StartFailure.MEMORY_HELD_BY_OTHERS,
        (
            "ValueError: Free memory on device (61.2/79.19 GiB) on startup is less than desired GPU memory utilization "
            "(0.9, 71.27 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
        ),
    ),
    (
        "0.32 free memory",
        StartFailure.MEMORY_HELD_BY_OTHERS,
        (
            "ValueError: Free memory on device cuda:0 (61.2/79.19 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 72.85 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
        ),
    ),
    (
        "0.32 free memory beside a weight daemon",
        StartFailure.MEMORY_HELD_BY_OTHERS,
        (
            "ValueError: Free memory on device cuda:0 (20.1/79.19 GiB) on startup is less than the engine's budget after "
            "excluding external process's weights (0.92, 57.1 GiB). Decrease GPU memory utilization or reduce GPU memory "
            "used by other processes."
        ),
    ),
    (
        "0.27 weights",
        StartFailure.WEIGHTS_TOO_LARGE,
        (
            "ERROR Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for "
            "weights, increasing --tensor-parallel-size, or using --quantization. (original error: CUDA out of memory. "
            "Tried to allocate 1.96 GiB.)"
        ),
    ),
    (
        "0.8 no cache",
        StartFailure.NO_KV_CACHE,
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            "initializing the engine."
        ),
    ),
    (
        "0.8 cache below one request",
        StartFailure.KV_CACHE_TOO_SMALL,
        (
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (5.60 GiB)."
        ),
    ),
    (
        "0.32 cache below one request",
        StartFailure.KV_CACHE_TOO_SMALL,
        (
            "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (5.60 GiB). Based on the available memory, the "
            "estimated maximum model length is 45872."
        ),
    ),
    (
        "0.20 hybrid",
        StartFailure.MAMBA_BLOCKS,
        (
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (614). Each decode sequence requires one "
            "Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 614."
        ),
    ),
    (
        "heads",
        StartFailure.HEADS_NOT_DIVISIBLE,
        "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).",
    ),
    (
        "0.32 context above the positions",
        StartFailure.OPTIONS_REFUSED,
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, "
            "User-specified max_model_len (131073) is greater than the derived max_model_len "
            "(max_position_embeddings=131072.0 or model_max_length=None in model's config.json). To allow overriding this "
            "maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. [type=value_error, input_value=ArgsKwargs((), "
            "{'model': '...', 'runner': 'auto'}), input_type=ArgsKwargs]"
        ),
    ),
    (
        "0.32 step below the sequences",
        StartFailure.OPTIONS_REFUSED,
        (
            "ValidationError: 1 validation error for SchedulerConfig\n  Value error, max_num_batched_tokens (255) must be "
            "greater than or equal to max_num_seqs (256). [type=value_error, input_value=ArgsKwargs((), {'runner_t..., "
            "'stream_interval': 1}), input_type=ArgsKwargs]"
        ),
    ),
    (
        "0.32 step below the largest video",
        StartFailure.OPTIONS_REFUSED,
        (
            "Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens (2048). "
            "Please increase max_num_batched_tokens."
        ),
    ),
    (
        "0.32 unknown argument",
        StartFailure.OPTIONS_REFUSED,
        "vllm serve: error: unrecognized arguments: --tomorrow",
    ),
    (
        "0.27 quantization method",
        StartFailure.UNSUPPORTED_GPU,
        (
            "ValueError: The quantization method fbgemm_fp8 is not supported for the current GPU. Minimum capability: 80. "
            "Current capability: 75."
        ),
    ),
    (
        "0.32 quantization scheme",
        StartFailure.UNSUPPORTED_GPU,
        (
            "RuntimeError: Quantization scheme is not supported for the current GPU. Min capability: 89. Current "
            "capability: 75."
        ),
    ),
    (
        "bf16",
        StartFailure.UNSUPPORTED_GPU,
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has "
            "compute capability 7.5."
        ),
    ),
    (
        "sampler warm-up before the second runner",
        StartFailure.OUT_OF_MEMORY,
        (
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try "
            "lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
        ),
    ),
    (
        "0.32 out of memory, all that the second runner says",
        StartFailure.OUT_OF_MEMORY,
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 79.19 "
            "GiB of which 1.10 GiB is free."
        ),
    ),
    ("an image for another architecture", StartFailure.WRONG_PLATFORM, "exec /usr/local/bin/vllm: exec format error"),
    (
        "containerd",
        StartFailure.WRONG_PLATFORM,
        'failed to create containerd task: OCI runtime create failed: exec: "/vllm": exec format error: unknown',
    ),
    (
        "PyTorch, an old driver",
        StartFailure.DRIVER_TOO_OLD,
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver.",
    ),
    (
        "CUDA, an old driver",
        StartFailure.DRIVER_TOO_OLD,
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    ),
    (
        "NVIDIA's container runtime",
        StartFailure.DRIVER_TOO_OLD,
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
    ),
    (
        "CUDA, no code for the card",
        StartFailure.GPU_TOO_OLD,
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ),
    (
        "HIP, no code for the card",
        StartFailure.GPU_TOO_OLD,
        "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
    ),
    ("ECC", StartFailure.GPU_UNUSABLE, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    (
        "fabric manager",
        StartFailure.GPU_UNUSABLE,
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    ),
    ("no device", StartFailure.GPU_UNUSABLE, "RuntimeError: CUDA error: no CUDA-capable device is detected"),
    (
        "busy",
        StartFailure.GPU_UNUSABLE,
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    (
        "NVML",
        StartFailure.GPU_UNUSABLE,
        "NVMLError_LibRmVersionMismatch: Driver/library version mismatch, NVML library version: 575.57",
    ),
    ("PyTorch on AMD", StartFailure.GPU_UNUSABLE, "RuntimeError: No HIP GPUs are available on this system today"),
    (
        "the Hub's client, without a token",
        StartFailure.MODEL,
        (
            "Access to model meta-llama/Llama-3.1-8B-Instruct is restricted. You must have access to it and be "
            "authenticated to access it. Please log in."
        ),
    ),
    (
        "the Hub's client, with a token that may not",
        StartFailure.MODEL,
        (
            "Access to model meta-llama/Meta-Llama-3-8B is restricted and you are not in the authorized list. Visit "
            "https://huggingface.co/meta-llama/Meta-Llama-3-8B to ask for access."
        ),
    ),
    (
        "Transformers, a gated model",
        StartFailure.MODEL,
        "OSError: You are trying to access a gated repo.",
    ),
    (
        "the Hub's client, a model that is not there",
        StartFailure.MODEL,
        "Repository Not Found for url: https://huggingface.co/api/models/org/none/revision/main.",
    ),
    (
        "Transformers, no way to the Hub",
        StartFailure.MODEL,
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cache.",
    ),
    (
        "the Hub, busy",
        StartFailure.MODEL,
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/m",
    ),
    (
        "PyTorch, a runtime that gives the container no GPU",
        StartFailure.GPU_NOT_IN_CONTAINER,
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    ),
    (
        "the linker, the same",
        StartFailure.GPU_NOT_IN_CONTAINER,
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    (
        "vLLM, the same",
        StartFailure.GPU_NOT_IN_CONTAINER,
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
    ),
    (
        "the read-only root of the container",
        StartFailure.NOT_WRITABLE,
        "OSError: [Errno 30] Read-only file system: '/root/.cache/huggingface'",
    ),
    (
        "another user than the image expects",
        StartFailure.NOT_WRITABLE,
        "PermissionError: [Errno 13] Permission denied: '/opt/app/cache'",
    ),
    (
        "the kernel",
        StartFailure.DISK_FULL,
        "OSError: [Errno 28] No space left on device: '/cache/huggingface/hub/blobs/1.incomplete'",
    ),
    (
        "the Hub's client, a full disk",
        StartFailure.DISK_FULL,
        "UserWarning: Not enough free disk space to download the file. The expected file size is: 9989.87 MB.",
    ),
    ("AMD", StartFailure.OUT_OF_MEMORY, "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."),
]


@every_case(("reason", "text"), [each[1:] for each in TEXTS], ids=[each[0] for each in TEXTS])
def test_the_engines_words_are_understood_and_quoted(reason: StartFailure, text: str) -> None:
    log = f"(EngineCore pid=63) INFO loading\n(EngineCore pid=63) {text}\n[rank0]: destroy_process_group()\n"
    seen = read_failure(log)
    assert seen.reason is reason
    assert seen.message in text
    assert len(seen.message) > 40


def test_the_telling_sentence_wins_over_the_general_one_above_and_below_it() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory."
    weights = "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization"
    for log in (f"{oom}\n{weights}", f"{weights}\n{oom}"):
        assert read_failure(log).reason is StartFailure.WEIGHTS_TOO_LARGE


def test_the_summary_of_a_good_start_is_no_failure_text() -> None:
    log = (
        "Free memory on device (78.66/79.19 GiB) on startup. Desired GPU memory utilization is (0.92, 72.85 GiB). "
        "Actual usage is 15.1 GiB for consumed memory (weights + non-torch).\nSegmentation fault"
    )
    assert read_failure(log) == EngineFailure(StartFailure.UNKNOWN, "Segmentation fault")


def test_a_container_that_was_killed_for_its_own_memory() -> None:
    seen = read_failure("Loading safetensors checkpoint shards", "OOMKilled")
    assert seen.reason is StartFailure.HOST_MEMORY
    assert "spec.podTemplate.resources.limits.memory" in seen.message


def test_the_gpus_memory_wins_over_the_containers() -> None:
    assert read_failure("CUDA out of memory. Tried", "OOMKilled").reason is StartFailure.OUT_OF_MEMORY


def test_an_unknown_end_quotes_the_last_line() -> None:
    assert read_failure("one\ntwo  \n\n") == EngineFailure(StartFailure.UNKNOWN, "two")
    assert read_failure("").message == "The engine left no message."


def test_a_quotation_has_an_end() -> None:
    assert len(read_failure("CUDA out of memory" + "x" * 4000).message) == 600


WORDS = (
    "Error", "Exception: ", "a", "exec", "failed to ", "Free memory on device", "The quantization method", "max_num_seqs (",
    "Value error, ", "api_server.py: error: ", "\n", " ",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_no_message_keeps_its_reader_busy(word: str) -> None:
    """Whoever runs a container writes its last words. Backtracking took half a minute for the first of these."""
    with measured_effort() as spent:
        assert read_failure(word * (4096 // len(word))).reason in StartFailure
    assert spent.amount < 20


def test_of_a_message_that_is_longer_than_a_kubelet_keeps_the_end_is_read() -> None:
    assert read_failure("Error" * 10**6 + "\nCUDA out of memory. Tried").reason is StartFailure.OUT_OF_MEMORY


def test_the_first_exception_of_a_line_begins_the_sentence() -> None:
    line = "(Worker) torch.AcceleratorError: CUDA error: RuntimeError: GPU is lost, ErrorErrorError"
    assert read_failure(f"MyError: else\n{line}") == EngineFailure(
        StartFailure.GPU_UNUSABLE, line.removeprefix("(Worker) torch.")
    )
    assert read_failure("errors: GPU is lost").message == "GPU is lost"


def test_a_format_error_needs_somebody_who_starts_a_container() -> None:
    assert read_failure("exec format error").reason is StartFailure.UNKNOWN
    assert read_failure("x: exec /bin/vllm: exec format error").message == "exec /bin/vllm: exec format error"


@pytest.mark.parametrize(
    ("kubelet", "reason"),
    [
        ("ImagePullBackOff", StartFailure.IMAGE),
        ("InvalidImageName", StartFailure.IMAGE),
        ("CreateContainerConfigError", StartFailure.CONFIGURATION),
    ],
)
def test_a_container_that_never_ran(kubelet: str, reason: StartFailure) -> None:
    seen = EngineFailure.of_container(kubelet, 'secret "x" not found')
    assert seen == EngineFailure(reason, f'{kubelet}: secret "x" not found')


def test_every_word_is_met_here() -> None:
    named = {each[1] for each in TEXTS}
    others = {StartFailure.HOST_MEMORY, StartFailure.UNKNOWN, StartFailure.IMAGE, StartFailure.CONFIGURATION}
    assert named | others | {StartFailure.OTHER_CONTAINER} == set(StartFailure)
