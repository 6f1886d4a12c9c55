"""GPUStack's VRAM claim for vLLM, from its published description.

Source: gpustack/gpustack, ``estimate_model_vram`` in ``gpustack/policies/utils.py`` (Apache-2.0), which describes
itself: VRAM of a language model = 1.2 x weight files + 2 GiB, all GPUs together, after EleutherAI's inference
arithmetic; its examples are 3.1 GiB for 0.5B, 19.0 for 7B and 164.5 for 72B in bfloat16. A candidate fits where the
claim is within total memory x utilization of its GPUs. It says nothing of the size of the KV cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.units import GIB

WEIGHT_FACTOR: Final = 1.2
FRAMEWORK_GIB: Final = 2.0


class GpuStack:
    """GPUStack's resource fit for vLLM."""

    name = "GPUStack"
    source = "gpustack/gpustack, formula as of 2026-10"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """Weights and verdict of each setup."""
        return [_predict(setup) for setup in setups]

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """Weights of one GPU, taken evenly."""
        return [_weights_alone(setup) for setup in setups]


def claim_gib(weights_gib: float) -> float:
    """The claim on all GPUs together for weight files of this size."""
    return weights_gib * WEIGHT_FACTOR + FRAMEWORK_GIB


def _predict(setup: Setup) -> Prediction:
    alone = _weights_alone(setup)
    if setup.gpu is None or alone.weights_gib is None:
        return alone
    memory = setup.gpu.total_bytes / GIB * setup.utilization * setup.gpus
    fits = claim_gib(alone.weights_gib * setup.gpus) <= memory
    return Prediction(
        weights_gib=alone.weights_gib,
        verdict=Verdict.SURE if fits else Verdict.NO,
        note="estimates no KV cache",
    )


def _weights_alone(setup: Setup) -> Prediction:
    if setup.checkpoint is None:
        return Prediction(note="no size of the checkpoint")
    return Prediction(weights_gib=setup.checkpoint.bytes / setup.gpus / GIB)
