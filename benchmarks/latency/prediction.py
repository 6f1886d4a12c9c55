"""Predicted times of a case: by the model with given constants, by the floor of the bandwidth, by a plain roofline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf
from typing import Final

from benchmarks.latency.cases import Case
from plimsoll.domain.cluster.gpus import Efficiency
from plimsoll.domain.models.precision import Precision
from plimsoll.performance.hardware_speed import speed_of
from plimsoll.performance.model import (
    Load,
    context_tokens,
    decode_step,
    first_round_seconds,
    first_token_seconds,
    prompt_chunks,
    prompts_per_token,
    token_seconds,
)
from plimsoll.performance.step_costs import StepCosts, costs_of

_HALF: Final = 0.5

ROOFLINE: Final = Efficiency(
    read_16bit=1,
    read_8bit=1,
    read_4bit=1,
    read_nvfp4=1,
    kv_read=1,
    kv_read_8bit=1,
    product_16bit=1,
    product_8bit=1,
    product_4bit=1,
    attention=1,
    communication=0,
    expert_read=1,
    expert_product=1,
    expanded_product=1,
    expert_spread=1,
    layer_seconds=0,
    expert_layer_seconds=0,
    quantized_layer_seconds=0,
    nvfp4_layer_seconds=0,
    selecting_layer_seconds=0,
    eager_layer_seconds=0,
    step_seconds=0,
    sequence_seconds=0,
    early_step_seconds=0,
    early_sequence_seconds=0,
    request_seconds=0,
    prompt_token_seconds=0,
    expanded_weights=inf,
)
"""Every peak is reached, messages and the host take no time, and experts are chosen at random."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds per token, and to the first token where that is scored."""

    tpot: float
    ttft: float | None


def predict(case: Case, efficiency: Efficiency | None = None) -> Prediction:
    """Return the model's figures, with the catalogue's constants or with those given.

    Where a source published the median step instead of the mean of requests, prompts count only if most steps carry
    one: the number of prompts in a step is taken as random (Poisson).
    """
    speed, row, load = speed_of(case.gpu), case.row, case.load
    if efficiency is not None:
        speed = replace(speed, efficiency=efficiency)
    costs = costs_of(case.work, case.gpu, speed, case.split, case.floor, synchronous=row.synchronous, eager=row.eager)
    decode = decode_step(costs, load)
    token = token_seconds(costs, load, row.batched_tokens, decode)
    tpot = token.total
    if row.is_step and exp(-prompts_per_step(costs, load, row.batched_tokens)) > _HALF:
        tpot = costs.step(load.running, context_tokens(load)).total
    ttft = None
    if row.scored_ttft is not None:
        ttft = first_token_seconds(costs, load, row.batched_tokens, token, decode)
        ttft += first_round_seconds(costs, load, row.batched_tokens)
    return Prediction(max(tpot, costs.floor.seconds), ttft)


def prompts_per_step(costs: StepCosts, load: Load, batched_tokens: int) -> float:
    """Return how many chunks of prompts there are for each step of decoding."""
    return prompts_per_token(costs, load) * prompt_chunks(costs, load, batched_tokens)


def roofline(case: Case) -> Prediction:
    """Return the figures of a plain roofline with the peaks of the data sheets."""
    return predict(case, ROOFLINE)


def bandwidth_floor(case: Case) -> Prediction:
    """Return the time of one read of the active weights, and of the products of the prompt."""
    work, peaks = case.work, speed_of(case.gpu).peaks
    flops = sum(each.flops for part in (work.dense, work.experts) for each in part)
    peak = (peaks.fp8 if case.precision is Precision.FP8 else None) or peaks.bf16
    ttft = None if case.row.scored_ttft is None else case.load.prompt_tokens * flops / (peak * 1e12)
    return Prediction(case.floor.seconds, ttft)
