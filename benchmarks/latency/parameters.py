"""The form of the constants: shares of peaks that hold for all GPUs, factors of each generation, and what is expected.

A generation has nine numbers of its own. The others are common to all, so that a GPU type without any row still has
constants that were tested. Every number is fitted as the logarithm of its ratio to the expected value; the spread says
how far from it a few rows may pull it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import Final

from plimsoll.domain.cluster.gpus import Efficiency


@dataclass(frozen=True, slots=True)
class Expected:
    """The value of a constant before any row of this benchmark was seen, and the spread of its logarithm."""

    value: float
    spread: float


COMMON: Final[Mapping[str, Expected]] = {
    "read_8bit": Expected(0.72, 0.15),
    "read_4bit": Expected(0.72, 0.2),
    "read_nvfp4": Expected(0.57, 0.2),
    "kv_read_8bit": Expected(0.68, 0.15),
    "product_4bit": Expected(0.4, 0.25),
    "attention": Expected(0.55, 0.3),
    "communication": Expected(0.9, 0.25),
    "expert_read": Expected(0.7, 0.2),
    "expert_product": Expected(0.5, 0.4),
    "expert_spread": Expected(0.9, 0.2),
    "expert_layer_seconds": Expected(25e-6, 0.5),
    "quantized_layer_seconds": Expected(10e-6, 0.5),
    "nvfp4_layer_seconds": Expected(10e-6, 0.5),
    "eager_layer_seconds": Expected(400e-6, 0.7),
    "step_seconds": Expected(0.5e-3, 0.5),
    "early_step_seconds": Expected(1e-3, 0.7),
    "early_sequence_seconds": Expected(40e-6, 0.5),
    "prompt_token_seconds": Expected(2e-6, 0.5),
}
"""Shares: medians of the kernel tables of aiconfigurator @095f58a51 (A100, H100, H200, B200, L40S, RTX PRO 6000).
NVFP4: 0.51 to 0.64 on B200 and B300, 0.52 to 0.57 on RTX PRO 6000. Experts: 0.6 to 0.8 for 8 to 128 tokens, in all
formats. Spread: models are trained to use their experts evenly (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
Communication: vLLM fuses or overlaps part of it; inference-sim @f90a1e3a fitted 0.75. Times: inference-sim fitted 32
us a layer and 126 us a step on H100; the split between kinds of layers is this benchmark's. A token of a prompt: 2.0
and 2.5 us more to the first token on Blackwell and Hopper, between prompts of 1,000 and 8,200 tokens (InferenceMAX).
Engines that plan a step after the one before it are of earlier releases, whose host takes about twice the time."""

FAMILY: Final[Mapping[str, Expected]] = {
    "read_16bit": Expected(0.8, 0.1),
    "kv_read": Expected(0.8, 0.15),
    "product_16bit": Expected(0.7, 0.2),
    "product_8bit": Expected(0.55, 0.25),
    "layer_seconds": Expected(22e-6, 0.35),
    "sequence_seconds": Expected(40e-6, 0.35),
    "request_seconds": Expected(5e-3, 0.6),
    "expanded_weights": Expected(7.5e12, 0.4),
    "selecting_layer_seconds": Expected(90e-6, 0.4),
    "expanded_product": Expected(0.45, 0.2),
}
"""The same tables. FP8 products do not follow those of 16 bits: for 1,024 to 8,192 tokens the medians are 0.53 of the
peak for 0.80 on H200, 0.48 for 0.81 on H100 and 0.47 for 0.70 on B200 (aiconfigurator-core 0.12.0, gemm_perf of vLLM
0.24, matrices of 4,096 x 4,096 and more). Sequence: 46 us an output token in inference-sim's H100 fit. Request: a third
of the 15.6 ms of the same fit, which has no term for the wait for a step and for the prompt's text.

Expanded weights: the Marlin kernels of experts read 2.6 TB/s of four-bit integers on H100, 3.0 on H200, 3.6 on B200
(aiconfigurator-core 0.12.0, moe_perf of vLLM 0.24), less than the bandwidth; joined with a read at 0.75 of it, 7.5e12
weights a second give 2.4, 2.9 and 3.5. Their products run at 0.48 of the peak on RTX PRO 6000, 0.43 on L40S, 0.23 on
H100 and H200, 0.11 on B200 (the same table, 200 to 384 rows of an expert): they use the instruction of a warp, which
reaches half of the peak on Hopper and a quarter on B200. Layers that choose tokens: a layer of DeepSeek-V3.2 takes 70
to 110 us longer than one of DeepSeek-V3 on H200 (the same package, dsa and mla modules of one token).
"""

FOLLOWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "read_16bit": ("read_8bit", "read_4bit", "read_nvfp4", "expert_read"),
    "kv_read": ("kv_read_8bit",),
    "product_16bit": ("product_4bit",),
    "layer_seconds": ("expert_layer_seconds", "quantized_layer_seconds", "nvfp4_layer_seconds", "eager_layer_seconds"),
}
"""Common constants that a generation's own factor scales, too."""

Logs = Mapping[str, float]

_ROCM: Final = {
    "layer_seconds": log(1.8),
    "selecting_layer_seconds": log(3),
    "expanded_weights": log(0.15),
    "expanded_product": log(0.5),
}

ELSEWHERE: Final[Mapping[str, Logs]] = {
    "turing": {"layer_seconds": log(1.5)},
    "hopper": {"expanded_product": log(1 / 2)},
    "blackwell": {"expanded_product": log(1 / 4)},
    "cdna4": _ROCM,
    "cdna3": _ROCM,
    "cdna": _ROCM | {"product_16bit": log(0.6)},
    "rdna": _ROCM | {"product_16bit": log(0.6)},
}
"""Generations whose own numbers are expected elsewhere, as logarithms of ratios to the others.

The instruction of a warp has half of the peak on Hopper and a quarter on Blackwell's data-center cards.
On AMD's cards, kernels of a layer and gaps take about twice the time, and kernels for integers and for sparse attention
are Triton's: one set of rows shows that (InferenceX on MI325X and MI355X), and the fit moves it from there. MI300X
reaches 51 to 60 % of its peak in matrix products (stas00/ml-engineering @744d01e, compute/accelerator); older cards and
RDNA have no rows, and are expected to reach less. Turing's gaps are an assumption.
"""

KIN: Final[Mapping[str, str]] = {"cdna": "cdna3", "cdna3": "cdna4", "cdna4": "cdna3"}
"""Generations whose kernels of sparse attention are the same Triton code on ROCm: one without rows takes from the other
how much longer its layers that choose tokens take."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Logarithms of the ratios to the expected values: common ones, and those of each generation."""

    common: Logs = field(default_factory=lambda: dict.fromkeys(COMMON, 0.0))
    families: Mapping[str, Logs] = field(default_factory=dict)

    def efficiency(self, family: str) -> Efficiency:
        """Return the constants of a generation; one without rows has the expected values of its own numbers."""
        own = dict.fromkeys(FAMILY, 0.0) | dict(self.families.get(family) or self._of_kin(family))
        own |= {name: own[name] + value for name, value in ELSEWHERE.get(family, {}).items()}
        values = {name: each.value * exp(self.common[name]) for name, each in COMMON.items()}
        values |= {name: each.value * exp(own[name]) for name, each in FAMILY.items()}
        for leader, followers in FOLLOWERS.items():
            for name in followers:
                values[name] *= exp(own[leader])
        return Efficiency(**values)

    def _of_kin(self, family: str) -> Logs:
        """Return what a generation without rows shares with one that has some."""
        name = "selecting_layer_seconds"
        return {name: self.families.get(KIN.get(family, ""), {}).get(name, 0.0)}
