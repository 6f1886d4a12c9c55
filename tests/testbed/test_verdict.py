"""The judge's own calculation, against starts that are on record."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import testbed.verdict
from testbed.engine_pods import shared_cache_release, shm_bytes
from testbed.verdict import FITS, judge, judge_shared_memory, read_arguments
from tests.support.tables import every_case

H100, L4, L40S, MI300X = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", "NVIDIA-L40S", "AMD_Instinct_MI300X_OAM"
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"


@pytest.mark.parametrize(
    "words",
    [
        ["org/m", "--tensor-parallel-size", "2", "--max-model-len", "8192", "--enforce-eager"],
        ["vllm", "serve", "org/m", "--tensor-parallel-size=2", "--enforce-eager", "--max-model-len=8192"],
        ["--model", "org/m", "--enforce-eager", "--max-model-len", "8192", "--tensor_parallel_size=2"],
    ],
    ids=["positional model", "entry point and equals signs", "model flag and underscores"],
)
def test_reads_every_spelling_of_the_same_arguments(words: list[str]) -> None:
    arguments = read_arguments(words)

    assert (arguments.model, arguments.tensor_parallel, arguments.max_model_len) == ("org/m", 2, 8192)
    assert arguments.enforce_eager


def test_takes_the_engines_defaults_for_flags_that_are_missing() -> None:
    arguments = read_arguments(["org/m"])

    assert (arguments.utilization, arguments.tensor_parallel, arguments.kv_cache_dtype) == (0.92, 1, "auto")
    assert arguments.max_num_seqs is None


@every_case(
    ("words", "product"),
    [
        ([LLAMA_8B, "--max-model-len=8192"], H100),
        ([LLAMA_8B, "--max-model-len=8192", "--max-num-seqs=16"], L4),
        ([LLAMA_70B, "--max-model-len=8192", "--tensor-parallel-size=4"], H100),
        ([LLAMA_70B, "--max-model-len=8192"], MI300X),
        ([LLAMA_70B, "--quantization=fp8", "--max-model-len=8192", "--tensor-parallel-size=2"], H100),
        (["mistralai/Mixtral-8x7B-Instruct-v0.1", "--tensor-parallel-size=2"], H100),
        (["somebody/unheard-of"], H100),
        ([LLAMA_70B], "NVIDIA-Unheard-Of"),
        ([LLAMA_70B], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_fits(words: list[str], product: str | None) -> None:
    assert judge(read_arguments(words), product) == FITS


@pytest.mark.parametrize(
    ("words", "product", "error"),
    [
        ([LLAMA_70B], H100, "Failed to load model - not enough GPU memory"),
        # On record: 67.72 GiB of FP8 weights leave an H100 no cache at utilization 0.9.
        (
            ["nvidia/Llama-3.3-70B-Instruct-FP8", "--gpu-memory-utilization=0.9"],
            H100,
            "No available memory for the cache",
        ),
        ([LLAMA_8B, "--max-model-len=131072"], L4, "max seq len (131072), (16.00 GiB KV cache is needed"),
        ([LLAMA_8B, "--gpu-memory-utilization=0.999"], L40S, "Free memory on device cuda:0"),
    ],
    ids=["weights too large", "no cache left", "one request too long", "card not free"],
)
def test_fails_in_the_engines_own_words(words: list[str], product: str, error: str) -> None:
    assert error in judge(read_arguments(words), product)


def test_the_length_that_the_refusal_suggests_does_fit() -> None:
    refusal = judge(read_arguments([LLAMA_8B, "--max-model-len=131072"]), L4)
    longest = refusal.split("estimated maximum model length is ")[1].split(".")[0]

    assert judge(read_arguments([LLAMA_8B, f"--max-model-len={longest}"]), L4) == FITS
    assert judge(read_arguments([LLAMA_8B, f"--max-model-len={int(longest) + 16}"]), L4) != FITS


def test_an_fp8_cache_halves_the_need() -> None:
    words = ["Qwen/Qwen3-32B", "--max-model-len=40960"]

    assert judge(read_arguments(words), H100) != FITS
    assert judge(read_arguments([*words, "--kv-cache-dtype=fp8"]), H100) == FITS


SHM = "/dev/shm"  # noqa: S108 - what is judged


def _pod(image: str, limit: str | None, path: str = SHM) -> dict[str, Any]:
    volume = {"name": "v", "emptyDir": {"medium": "Memory"} | ({} if limit is None else {"sizeLimit": limit})}
    mounts = [{"name": "v", "mountPath": path}]
    return {"spec": {"containers": [{"image": image, "volumeMounts": mounts}], "volumes": [volume]}}


@every_case(
    ("image", "limit", "path", "fits"),
    [
        ("vllm/vllm-openai:v0.28.0", "200Gi", SHM, True),
        ("vllm/vllm-openai:v0.28.0", "204799Mi", SHM, False),
        ("vllm/vllm-openai:v0.28.0", None, SHM, True),
        ("vllm/vllm-openai:v0.28.0", "900Gi", "/other", False),
        ("vllm/vllm-openai:v0.27.1", "2Gi", SHM, True),
        ("vllm/vllm-openai-rocm:v0.32.0", "2Gi", SHM, True),
        ("registry.example/own@sha256:1", "2Gi", SHM, True),
    ],
)
def test_a_cache_in_host_memory_needs_room_in_shared_memory(
    image: str, limit: str | None, path: str, *, fits: bool
) -> None:
    """From the release that looks before it makes its file; AMD's buffers are private."""
    pod, asked = _pod(image, limit, path), read_arguments(["org/m", "--kv-offloading-size=200"])

    found = judge_shared_memory(asked, shared_cache_release(pod), shm_bytes(pod))

    assert (found == FITS) is fits
    assert fits or "204800 MiB required" in found
    assert judge_shared_memory(read_arguments(["org/m"]), (0, 32), 0) == FITS, "an engine without one needs no room"


def test_nothing_of_the_testbed_imports_the_operator() -> None:
    folder = Path(testbed.verdict.__file__).parent
    sources = sorted(folder.rglob("*.py"))
    imported = {
        name
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        for name in _imports(node)
        if name.split(".")[0] == "plimsoll"
    }

    assert len(sources) > 20
    assert imported == set()


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []
