"""Is what a CPU cannot do the only thing that changes in a rendered command, and is every change told?

These tests need no engine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.engine.cpu_command import for_cpu

OWN = ["--host", "127.0.0.1", "--port", "9000", "--load-format", "dummy"]


def adapt(*argv: str, kv_blocks: int | None = None) -> tuple[list[str], list[str]]:
    return for_cpu(argv, model_dir=Path("/tiny"), port=9000, kv_blocks=kv_blocks)


def test_what_a_cpu_can_do_stays_as_rendered_and_in_order() -> None:
    kept = ["--served-model-name", "x", "--max-num-seqs", "16", "--gpu-memory-utilization", "0.92", "--enforce-eager"]
    arguments, told = adapt("some/model", *kept, "--tensor-parallel-size", "1", "--kv-cache-dtype", "auto")
    assert arguments == ["/tiny", *kept, "--tensor-parallel-size", "1", "--kv-cache-dtype", "auto", *OWN]
    assert [line.partition(":")[0] for line in told] == [
        "some/model -> /tiny",
        "added --host 127.0.0.1 --port 9000",
        "added --load-format dummy",
    ]


@pytest.mark.parametrize(
    ("rendered", "adapted"),
    [
        (["--tensor-parallel-size", "4"], ["--tensor-parallel-size", "1"]),
        (["-tp=4"], ["-tp", "1"]),
        (["--kv-cache-dtype=fp8"], ["--kv-cache-dtype", "auto"]),
        (["--quantization", "awq"], []),
        (["--enable-expert-parallel"], []),
        (["--host", "::"], []),
        (["--max-model-len", "262144"], ["--max-model-len", "131072"]),
    ],
    ids=" ".join,
)
def test_what_a_cpu_cannot_do_is_replaced_and_told(rendered: list[str], adapted: list[str]) -> None:
    arguments, told = adapt("some/model", *rendered, "--enforce-eager", "--seed", "7")
    assert arguments == ["/tiny", *adapted, "--enforce-eager", "--seed", "7", *OWN]
    was, became = " ".join(rendered).replace("=", " "), " ".join(adapted) or "left out"
    assert [line for line in told if line.startswith(f"{was} -> {became}: ")]


def test_few_blocks_shorten_the_context_to_what_they_hold() -> None:
    arguments, told = adapt("some/model", "--max-model-len", "32768", kv_blocks=65)
    assert arguments[1:3] == ["--max-model-len", "8192"]
    assert arguments[-2:] == ["--num-gpu-blocks-override", "65"]
    assert [line for line in told if line.startswith("--max-model-len 32768 -> --max-model-len 8192: ")]


def test_a_rendered_path_of_the_tiny_model_is_no_replacement() -> None:
    arguments, told = adapt("/tiny", "--enforce-eager")
    assert arguments == ["/tiny", "--enforce-eager", *OWN]
    assert [line for line in told if line.startswith("/tiny")] == []


@pytest.mark.parametrize("argv", [[], ["--model", "some/model"]], ids=["nothing", "the model as an option"])
def test_arguments_must_begin_with_the_model(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="must begin with the model"):
        adapt(*argv)
