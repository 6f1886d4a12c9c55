"""Lists of tensors for tests: published families', and the same packed as quantized checkpoints store them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.tensors import Tensor

_DATA = Path(__file__).parent / "data"
ROWS: list[dict[str, Any]] = json.loads((_DATA / "checkpoint_tensors.json").read_text())["rows"]
CLASSES: list[dict[str, Any]] = json.loads((_DATA / "class_tensors.json").read_text())["rows"]

GROUP = 128
_LINEAR = re.compile(r"(_proj|_with_mqa|\bw[123])\.weight$")


def tensors_of(row: dict[str, Any]) -> list[Tensor]:
    """Every tensor of one row."""
    return [
        Tensor(_named(pattern, numbers), dtype, tuple(shape))
        for pattern, dtype, shape, ranges in row["tensors"]
        for numbers in itertools.product(*(list(_listed(runs)) for runs in ranges))
    ]


def row_of(model: str) -> dict[str, Any]:
    return next(row for row in ROWS if row["model"] == model)


def _listed(runs: Sequence[Sequence[int]]) -> Iterator[int]:
    for first, last in runs:
        yield from range(first, last + 1)


def _named(pattern: str, numbers: Sequence[int]) -> str:
    for number in numbers:
        pattern = pattern.replace("*", str(number), 1)
    return pattern


def packed(tensors: Sequence[Tensor], method: str) -> list[Tensor]:
    """The linear layers of the decoder as the method's checkpoints name and shape their parts."""
    found: list[Tensor] = []
    for tensor in tensors:
        if _LINEAR.search(tensor.name) and len(tensor.shape) == 2:
            outputs, inputs = tensor.shape
            found += _parts(tensor.name.removesuffix(".weight"), outputs, inputs, method)
        else:
            found.append(tensor)
    return found


def _parts(module: str, outputs: int, inputs: int, method: str) -> list[Tensor]:
    groups = inputs // GROUP
    methods: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
        "fp8": {
            "weight": ("F8_E4M3", (outputs, inputs)),
            "weight_scale_inv": ("F32", (ceil_div(outputs, GROUP), ceil_div(inputs, GROUP))),
        },
        "awq": {
            "qweight": ("I32", (inputs, outputs // 8)),
            "qzeros": ("I32", (groups, outputs // 8)),
            "scales": ("F16", (groups, outputs)),
        },
        "gptq": {
            "qweight": ("I32", (inputs // 8, outputs)),
            "qzeros": ("I32", (groups, outputs // 8)),
            "scales": ("F16", (groups, outputs)),
            "g_idx": ("I32", (inputs,)),
        },
        "compressed-tensors": {
            "weight_packed": ("I32", (outputs, inputs // 8)),
            "weight_scale": ("BF16", (outputs, groups)),
            "weight_shape": ("I64", (2,)),
        },
        "modelopt": {
            "weight": ("U8", (outputs, inputs // 2)),
            "weight_scale": ("F8_E4M3", (outputs, inputs // 16)),
            "weight_scale_2": ("F32", ()),
            "input_scale": ("F32", ()),
        },
        "bitsandbytes": {
            "weight": ("U8", (outputs * inputs // 2, 1)),
            "weight.absmax": ("U8", (outputs * inputs // 64,)),
            "weight.nested_absmax": ("F32", (outputs * inputs // 64 // 256,)),
            "weight.quant_state.bitsandbytes__nf4": ("U8", (80,)),
        },
    }
    return [Tensor(f"{module}.{suffix}", dtype, shape) for suffix, (dtype, shape) in methods[method].items()]
