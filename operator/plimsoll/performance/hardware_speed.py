"""The speed that a card reaches: bandwidth and products by number format, and messages among the GPUs of a node."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import lru_cache
from math import exp, log
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import (
    Band,
    Curve,
    Efficiency,
    EngineSpeed,
    GpuSpeed,
    GpuType,
    Links,
    Peaks,
    Trust,
    WeightKind,
)
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.models.precision import Precision

_BYTES_PER_GB = 10**9
_FLOPS_PER_TERAFLOP = 10**12
_FP32_SHARE = 0.5
"""32-bit products run as TF32, at half the rate of 16 bits (NVIDIA's data sheets since Ampere)."""

_TERAFLOPS_PER_GB = 0.15
"""The peak of a card of which nothing is known, from its bandwidth: A100 0.15, H100 0.30, L4 0.40, RTX 3090 0.08."""

_CAUTIOUS = Efficiency(
    read_16bit=0.7,
    read_8bit=0.6,
    read_4bit=0.5,
    read_nvfp4=0.5,
    kv_read=0.7,
    kv_read_8bit=0.6,
    product_16bit=0.5,
    product_8bit=0.4,
    product_4bit=0.3,
    attention=0.4,
    communication=1.0,
    expert_read=0.5,
    expert_product=0.5,
    expanded_product=0.1,
    expert_spread=0.7,
    layer_seconds=30e-6,
    expert_layer_seconds=30e-6,
    quantized_layer_seconds=12e-6,
    nvfp4_layer_seconds=12e-6,
    selecting_layer_seconds=80e-6,
    eager_layer_seconds=300e-6,
    step_seconds=1e-3,
    sequence_seconds=50e-6,
    early_step_seconds=1e-3,
    early_sequence_seconds=50e-6,
    request_seconds=20e-3,
    prompt_token_seconds=3e-6,
    expanded_weights=2e12,
)
"""The constants of a card that the catalogue does not know: the slow side of the families that it knows."""

_WIDE = Band(tpot=(0.5, 3.0), ttft=(0.4, 11.0), is_validated=False)
"""About the widest band of the catalogue's cards without rows."""

_UNKNOWN = Trust("unknown", ((_WIDE, _WIDE),) * len(WeightKind))

_FOUR_BITS = (Precision.AWQ, Precision.GPTQ, Precision.MXFP4, Precision.BITSANDBYTES)
_EIGHT_BITS = (Precision.FP8, Precision.INT8)


def speed_of(gpu: GpuType) -> GpuSpeed:
    """Return the card's speed, or a cautious one from its bandwidth alone."""
    if gpu.speed is not None:
        return gpu.speed
    peak = _TERAFLOPS_PER_GB * gpu.memory_bandwidth_gb_per_second
    return GpuSpeed("unknown", Peaks(bf16=peak), _CAUTIOUS, _UNKNOWN)


def as_run_by(gpu: GpuType, engine: str) -> GpuType:
    """Return a GPU type with the constants of an engine.

    One without rows of its own has those of the usual engine, and none of its figures is validated.
    """
    return gpu if engine == DEFAULT_ENGINE or gpu.speed is None else _as_run_by(gpu, gpu.speed, engine)


@lru_cache(maxsize=1024)
def _as_run_by(gpu: GpuType, speed: GpuSpeed, engine: str) -> GpuType:
    own = next((each for each in speed.others if each.engine == engine), None)
    if own is None:
        own = EngineSpeed(engine, speed.efficiency, speed.trust.unvalidated)
    return replace(gpu, speed=replace(speed, efficiency=own.efficiency, trust=own.trust))


def bandwidth(gpu: GpuType) -> float:
    """Return the peak bandwidth of the memory in bytes per second."""
    return float(gpu.memory_bandwidth_gb_per_second * _BYTES_PER_GB)


def read_share(efficiency: Efficiency, precision: Precision) -> float:
    """Return the share of the bandwidth that reads of weights of that format reach."""
    if precision is Precision.NVFP4:
        return efficiency.read_nvfp4
    if precision in _FOUR_BITS:
        return efficiency.read_4bit
    return efficiency.read_8bit if precision in _EIGHT_BITS else efficiency.read_16bit


def product_rate(speed: GpuSpeed, precision: Precision, share: float | None = None) -> float:
    """Return multiplications and additions per second of a format, at ``share`` of the peak or the fitted one.

    A format that the card does not multiply is expanded to 16 bits first (vLLM's Marlin kernels).
    """
    peak, fitted = peak_and_share(speed.peaks, speed.efficiency, precision)
    return peak * _FLOPS_PER_TERAFLOP * (fitted if share is None else share)


def peak_and_share(peaks: Peaks, efficiency: Efficiency, precision: Precision) -> tuple[float, float]:
    """Return teraflops and the share that kernels reach."""
    wide = (peaks.bf16, efficiency.product_16bit)
    match precision:
        case Precision.FP8:
            return wide if peaks.fp8 is None else (peaks.fp8, efficiency.product_8bit)
        case Precision.INT8:
            narrow = peaks.int8 or peaks.fp8
            return wide if narrow is None else (narrow, efficiency.product_8bit)
        case Precision.NVFP4:
            return wide if peaks.fp4 is None else (peaks.fp4, efficiency.product_4bit)
        case Precision.MXFP4:
            return wide if peaks.fp4 is None or peaks.fp8 is None else (peaks.fp8, efficiency.product_8bit)
        case Precision.FP32:
            return peaks.bf16 * _FP32_SHARE, efficiency.product_16bit
        case _:
            return wide


def weights_to_expand(speed: GpuSpeed, precision: Precision) -> int:
    """Return how many weights a byte of that format holds if the card expands them before it multiplies; else 0."""
    peaks = speed.peaks
    match precision:
        case Precision.AWQ | Precision.GPTQ | Precision.BITSANDBYTES:
            return _FOUR_BIT_WEIGHTS
        case Precision.NVFP4:
            return _FOUR_BIT_WEIGHTS if peaks.fp4 is None else 0
        case Precision.MXFP4:
            return _FOUR_BIT_WEIGHTS if speed.family in _OF_WARPS else 0
        case Precision.FP8:
            return 1 if peaks.fp8 is None else 0
        case Precision.INT8:
            return 1 if peaks.int8 is None and peaks.fp8 is None else 0
        case _:
            return 0


_OF_WARPS = frozenset({"turing", "ampere", "ada", "consumer-blackwell"})
"""Generations that multiply matrices by the warp alone. Experts in MXFP4 run there on the kernels that expand weights,
on Hopper on Triton's and on other Blackwell cards on FlashInfer's (aiconfigurator-core 0.12.0, moe_perf of vLLM 0.24).
"""

_FOUR_BIT_WEIGHTS = 2
"""In a byte."""


def quantizes_activations(speed: GpuSpeed, precision: Precision) -> bool:
    """Whether products of that format also round their inputs, which takes a kernel of its own."""
    peaks = speed.peaks
    match precision:
        case Precision.FP8:
            return peaks.fp8 is not None
        case Precision.INT8:
            return peaks.int8 is not None or peaks.fp8 is not None
        case Precision.NVFP4 | Precision.MXFP4:
            return peaks.fp4 is not None
        case _:
            return False


_PAIR = 2


class Channel(NamedTuple):
    """One kind of message among so many GPUs: its curve, and the rates of the measured link and of the card's own.

    The curve is empty if there is nobody to send to, or no link is known.
    """

    curve: Curve = ()
    measured_gb_per_second: float = 1.0
    own_gb_per_second: float = 1.0

    def seconds(self, size_bytes: float) -> float:
        """Return the seconds of a buffer; the part above the least time follows the link's rate."""
        if size_bytes <= 0 or not self.curve:
            return 0.0
        least, measured = self.curve[0][1], interpolated(self.curve, size_bytes)
        if measured <= least:
            return measured
        return least + (measured - least) * self.measured_gb_per_second / self.own_gb_per_second


def all_reduce(links: Links | None, gpus: int) -> Channel:
    """Return what an all-reduce takes."""
    return _channel(links, gpus, links.all_reduce) if links is not None else Channel()


def all_to_all(links: Links | None, gpus: int) -> Channel:
    """Return what an all-to-all takes."""
    return _channel(links, gpus, links.all_to_all) if links is not None else Channel()


def _channel(links: Links, gpus: int, curves: tuple[tuple[int, Curve], ...]) -> Channel:
    if gpus < _PAIR:
        return Channel()
    own = links.pair_gb_per_second if gpus == _PAIR else links.gb_per_second
    return Channel(_curve(curves, gpus), links.measured_gb_per_second, own)


def _curve(curves: tuple[tuple[int, Curve], ...], gpus: int) -> Curve:
    """Return the curve of the next measured number of GPUs, or of the largest."""
    return next((curve for degree, curve in curves if degree >= gpus), curves[-1][1])


def interpolated(curve: Curve, size_bytes: float) -> float:
    """Return seconds for a size: straight lines between logarithms, level below, proportional above the last point."""
    (smallest, least), (largest, most) = curve[0], curve[-1]
    if size_bytes <= smallest:
        return least
    if size_bytes >= largest:
        return most * size_bytes / largest
    right = bisect_left(curve, (size_bytes,))
    (low, fast), (high, slow) = curve[right - 1], curve[right]
    share = log(size_bytes / low) / log(high / low)
    return fast * exp(share * log(slow / fast))
