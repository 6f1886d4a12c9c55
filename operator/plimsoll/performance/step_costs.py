"""The time of one engine step on a GPU type: the work of the step over what the card's kernels reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuSpeed, GpuType
from plimsoll.domain.decisions.latency import Bound
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import Residency
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.performance.decode_time import DecodeFloor, decode_floor
from plimsoll.performance.hardware_speed import (
    Channel,
    all_reduce,
    all_to_all,
    bandwidth,
    product_rate,
    quantizes_activations,
    read_share,
    speed_of,
    weights_to_expand,
)
from plimsoll.performance.step_work import MatrixWork, StepWork, step_work

SMOOTHNESS = 3
"""The exponent that joins the time of reads and of products: the larger counts, and near the ridge both do.

In the GEMM tables of H100 (aiconfigurator @095f58a51), 256 tokens take 1.29 of one read at peak in 16 bits, while this
gives 1.39 and a plain maximum 1.14; in FP8 1.56, 1.35 and 1.25. At 128 and 512 tokens this is within 11 %.
"""


def _joined(first: float, second: float) -> float:
    """Return the time of two things that happen at the same time: a little more than the longer one."""
    joined: float = (first**SMOOTHNESS + second**SMOOTHNESS) ** (1 / SMOOTHNESS)
    return joined


LARGEST_GRAPH = 512
"""The most tokens of a step that is captured as a CUDA graph by default (vLLM, ``max_cudagraph_capture_size``)."""


class Seconds(NamedTuple):
    """A time in its parts, by what it is spent on: reads, products, messages, and the host or gaps between kernels."""

    memory: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    host: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.memory + self.compute + self.communication + self.host

    @property
    def parts(self) -> tuple[tuple[float, Bound], ...]:
        """Each part with what bounds it."""
        return (
            (self.memory, Bound.MEMORY),
            (self.compute, Bound.COMPUTE),
            (self.communication, Bound.COMMUNICATION),
            (self.host, Bound.HOST),
        )

    def plus(self, other: Seconds, times: float = 1.0) -> Seconds:
        """Return the sum of this and ``times`` the other."""
        return Seconds(
            self.memory + times * other.memory,
            self.compute + times * other.compute,
            self.communication + times * other.communication,
            self.host + times * other.host,
        )


LEAST_TILE, LARGEST_TILE, FULL_TILE = 8, 64, 0.9
"""The rows of a tile of the kernels for experts that expand weights, and how full the tile is that they choose: the
smallest of 8, 16, 32, 48 and 64 that is filled less than this (vLLM's ``fused_marlin_moe``)."""


def idle_rows(rows: float) -> float:
    """Return the rows that are computed for nothing if an expert has so many: half of a tile, on average."""
    return min(max(rows / FULL_TILE, LEAST_TILE), LARGEST_TILE) / 2


@dataclass(frozen=True, slots=True)
class MatrixCosts:
    """Matrices of one number format: seconds of reading all of them, and of computing one token.

    ``row_tokens`` is the number of tokens that bring one row to every expert, if rows are computed in whole tiles for
    each expert (:func:`idle_rows`); else 0.
    """

    read_seconds: float
    token_seconds: float
    row_tokens: float = 0.0

    def parts(self, tokens: float, touched: float = 1.0) -> tuple[float, float]:
        """Return seconds bound by memory and by compute for a step of ``tokens``, in the proportion of the two."""
        computed = tokens
        if self.row_tokens:
            computed += touched * self.row_tokens * idle_rows(tokens / self.row_tokens)
        read, product = self.read_seconds * touched, self.token_seconds * computed
        joined = _joined(read, product)
        share = read / (read + product) if read + product else 0.0
        return joined * share, joined * (1 - share)


@dataclass(frozen=True, slots=True)
class CacheCosts:
    """One kind of cache: seconds for each attended token of one sequence, and for each pair of tokens of a prompt."""

    token_seconds: float
    token_product_seconds: float
    pair_seconds: float
    fixed_seconds: float


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The cost of a step on one GPU type, so that its time is arithmetic on batch and lengths.

    ``sums`` carries the sums over ranks, ``logits`` the logits of sampled tokens, and ``tokens`` those that go to the
    ranks of their experts.
    """

    work: StepWork
    split: Split
    floor: DecodeFloor
    dense: tuple[MatrixCosts, ...]
    head: tuple[MatrixCosts, ...]
    experts: tuple[MatrixCosts, ...]
    caches: tuple[CacheCosts, ...]
    attention_start_tokens: float
    layer_seconds: float
    eager_seconds: float
    step_seconds: float
    sequence_seconds: float
    request_seconds: float
    prompt_token_seconds: float
    expert_spread: float
    communication: float
    sums: Channel
    logits: Channel
    tokens: Channel
    is_synchronous: bool
    is_eager: bool
    _prompt_steps: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def prompt_step_seconds(self, tokens: int) -> float:
        """Return the time of a step of prompts alone. It is the same for every load, so it is computed once."""
        if tokens not in self._prompt_steps:
            self._prompt_steps[tokens] = self.step(0, 0, tokens).total
        return self._prompt_steps[tokens]

    def request(self, prompt_tokens: float) -> float:
        """Return the seconds of a request outside its steps: its prompt becomes tokens, its answer text."""
        return self.request_seconds + self.prompt_token_seconds * prompt_tokens

    def step(self, sequences: float, context: float, prompt_tokens: float = 0.0) -> Seconds:
        """Return the time of a step in which ``sequences`` decode behind ``context`` tokens each.

        ``prompt_tokens`` tokens of prompts ride along; their attention is :meth:`prompt_attention`.
        """
        stages = self.split.pipeline_parallel
        own = sequences / self.split.data_parallel / stages
        tokens = own + prompt_tokens
        memory, compute = self._matrices(tokens, own + (1.0 if prompt_tokens else 0.0))
        cache_memory, cache_compute = self._caches(own, context)
        memory, compute = self._with_host_reads(memory + cache_memory), compute + cache_compute
        communication = self.communication_seconds(tokens, own)
        work, gaps = memory + compute + communication, self.layer_seconds
        if self.is_eager or tokens > LARGEST_GRAPH:
            gaps = _joined(work + gaps, self.eager_seconds) - work
        serving = stages * (self.step_seconds + self.sequence_seconds * own)
        waits = serving if self.is_synchronous else _joined(work + gaps, serving) - (work + gaps)
        return Seconds(memory, compute, communication, gaps + waits)

    def prompt_attention(self, prompt_tokens: float) -> float:
        """Return the seconds of the attention of one prompt. Short prompts fill the card badly."""
        filled = 1 + self.attention_start_tokens / prompt_tokens if prompt_tokens else 0.0
        total = 0.0
        for cost, work in zip(self.caches, self.work.caches, strict=True):
            total += cost.pair_seconds * work.pairs(prompt_tokens)
        return total * filled

    def _with_host_reads(self, memory: float) -> float:
        """Return the time of reads with those of weights in host memory, which streaming overlaps with the others."""
        host = self.floor.host_seconds
        return _joined(memory, host) if self.floor.overlaps else memory + host

    def _matrices(self, tokens: float, sampled: float) -> tuple[float, float]:
        memory = compute = 0.0
        for each in self.dense:
            read, product = each.parts(tokens)
            memory, compute = memory + read, compute + product
        for each in self.head:
            read, product = each.parts(sampled)
            memory, compute = memory + read, compute + product
        if self.experts:
            touched = self._touched(tokens * self.split.data_parallel)
            for each in self.experts:
                read, product = each.parts(tokens, touched)
                memory, compute = memory + read, compute + product
        return memory, compute

    def _touched(self, tokens: float) -> float:
        """Return the share of experts that the tokens of a step visit: real tokens prefer the same ones."""
        visited = self.work.experts_per_token / self.work.expert_count
        missed: float = (1.0 - visited) ** (1.0 + self.expert_spread * max(tokens - 1.0, 0.0))
        return 1.0 - missed

    def _caches(self, sequences: float, context: float) -> tuple[float, float]:
        memory = compute = 0.0
        for cost, work in zip(self.caches, self.work.caches, strict=True):
            attended = sequences * work.attended(context)
            read, product = attended * cost.token_seconds, attended * cost.token_product_seconds
            memory += sequences * cost.fixed_seconds
            if read >= product:
                memory += read
            else:
                compute += product
        return memory, compute

    def communication_seconds(self, tokens: float, sampled: float) -> float:
        """Return the seconds of the messages of a step: of all its tokens, and of the logits of the sampled ones."""
        work, total = self.work, 0.0
        if work.all_reduces:
            total += work.all_reduces * self.sums.seconds(tokens * work.token_bytes)
            total += self.logits.seconds(sampled * work.logits_bytes)
        if work.exchanges:
            spread = tokens * work.token_bytes * min(work.experts_per_token, self.split.expert_ranks)
            total += work.exchanges * self.tokens.seconds(spread)
        return total * self.communication


@lru_cache(maxsize=16384)
def step_costs(
    model: ModelFacts,
    precision: Precision,
    kv_precision: KvPrecision,
    gpu: GpuType,
    split: Split,
    residency: Residency | None = None,
    *,
    synchronous: bool = False,
    eager: bool = False,
) -> StepCosts:
    """Return what a step costs there.

    Raises:
        ValueError: there are more stages than layers.
        UnsupportedModel: a cache has no layout in ``kv_precision``, or the model does not generate.
    """
    if model.task is not Task.GENERATE:
        raise UnsupportedModel(model.name, "the speed of a model that does not generate")
    work = step_work(model, precision, kv_precision, split)
    floor = decode_floor(model, precision, gpu, split, residency)
    return costs_of(work, gpu, speed_of(gpu), split, floor, synchronous=synchronous, eager=eager)


def costs_of(
    work: StepWork,
    gpu: GpuType,
    speed: GpuSpeed,
    split: Split,
    floor: DecodeFloor,
    *,
    synchronous: bool = False,
    eager: bool = False,
) -> StepCosts:
    """Return the costs of counted work at a given speed."""
    each = speed.efficiency
    memory = bandwidth(gpu)
    attention = product_rate(speed, Precision.BF16, each.attention)
    cached = memory * (each.kv_read_8bit if work.has_small_cache else each.kv_read)
    return StepCosts(
        work=work,
        split=split,
        floor=floor,
        dense=tuple(
            _matrices(matrices, memory * read_share(each, matrices.precision), speed) for matrices in work.dense
        ),
        head=tuple(_matrices(matrices, memory * read_share(each, matrices.precision), speed) for matrices in work.head),
        experts=tuple(_experts(matrices, memory * each.expert_read, speed, work, split) for matrices in work.experts),
        caches=tuple(
            CacheCosts(
                token_seconds=cache.token_bytes / cached,
                token_product_seconds=cache.token_flops / attention,
                pair_seconds=cache.prompt_flops / attention,
                fixed_seconds=cache.fixed_bytes / cached,
            )
            for cache in work.caches
        ),
        attention_start_tokens=_ATTENTION_START_TOKENS_PER_TFLOP * speed.peaks.bf16,
        layer_seconds=_gaps(work, speed),
        eager_seconds=work.layers * each.eager_layer_seconds,
        step_seconds=each.early_step_seconds if synchronous else each.step_seconds,
        sequence_seconds=each.early_sequence_seconds if synchronous else each.sequence_seconds,
        request_seconds=each.request_seconds,
        prompt_token_seconds=each.prompt_token_seconds,
        expert_spread=each.expert_spread,
        communication=each.communication,
        sums=all_reduce(speed.links, split.tensor_parallel),
        logits=all_to_all(speed.links, split.tensor_parallel),
        tokens=all_to_all(speed.links, split.expert_ranks),
        is_synchronous=synchronous,
        is_eager=eager,
    )


_ATTENTION_START_TOKENS_PER_TFLOP = 1.3
"""The prompt length at which attention reaches half of its best share of the peak, for each teraflop of the peak.

Fitted by eye to the prefill tables of aiconfigurator @095f58a51: 1,300 tokens on H100, 400 on A100 and L40S, and less
than proportional on B200.
"""


def _gaps(work: StepWork, speed: GpuSpeed) -> float:
    """Return the seconds between the kernels of all layers."""
    each = speed.efficiency
    seconds = work.layers * each.layer_seconds + work.expert_layers * each.expert_layer_seconds
    seconds += work.selecting_layers * each.selecting_layer_seconds
    match rounded_inputs(work, speed):
        case None:
            return seconds
        case Precision.NVFP4:
            return seconds + work.layers * each.nvfp4_layer_seconds
        case _:
            return seconds + work.layers * each.quantized_layer_seconds


def rounded_inputs(work: StepWork, speed: GpuSpeed) -> Precision | None:
    """Return a format to which layers round inputs of products, NVFP4 before others; None if they do not.

    Experts in MXFP4 (gpt-oss) take inputs of 16 bits on all cards.
    """
    formats = {each.precision for each in work.dense} | {each.precision for each in work.experts} - {Precision.MXFP4}
    rounded = {each for each in formats if quantizes_activations(speed, each)}
    return Precision.NVFP4 if Precision.NVFP4 in rounded else min(rounded, default=None)


def _matrices(work: MatrixWork, bytes_per_second: float, speed: GpuSpeed) -> MatrixCosts:
    return MatrixCosts(_read_seconds(work, bytes_per_second, speed), work.flops / product_rate(speed, work.precision))


def _read_seconds(work: MatrixWork, bytes_per_second: float, speed: GpuSpeed) -> float:
    read, weights = work.bytes / bytes_per_second, weights_to_expand(speed, work.precision)
    return _joined(read, work.bytes * weights / speed.efficiency.expanded_weights) if weights else read


def _experts(work: MatrixWork, bytes_per_second: float, speed: GpuSpeed, step: StepWork, split: Split) -> MatrixCosts:
    """Return the costs of experts, which have shares of their own; kernels that expand weights compute whole tiles."""
    each, read = speed.efficiency, _read_seconds(work, bytes_per_second, speed)
    if weights_to_expand(speed, work.precision):
        rate = product_rate(speed, Precision.BF16, each.expanded_product)
        return MatrixCosts(read, work.flops / rate, step.expert_count / (step.experts_per_token * split.data_parallel))
    return MatrixCosts(read, work.flops / (product_rate(speed, work.precision) * each.expert_product))
