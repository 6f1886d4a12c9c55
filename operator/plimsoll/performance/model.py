"""Time to the first token, time per token and throughput of one replica under a load, with the bound and a band.

The cost of serving: dollars per hour of a replica, and dollars per million tokens at a load.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.cluster.gpus import GpuType, Price
from plimsoll.domain.decisions.latency import Bound, Performance
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import Residency
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.performance.hardware_speed import speed_of
from plimsoll.performance.step_costs import Seconds, StepCosts, step_costs

USUAL_ROUNDS = 10.0
"""Requests of each user in the benchmarks behind most of the measured rows (InferenceMAX: prompts = 10 x users)."""


WAITS, WAITS_AHEAD = 0.5, 1.5
"""Steps that a request waits for one of its own, on average. An engine that plans ahead has planned the step after the
running one before the request came (vLLM's ``EngineCore.step_with_batch_queue``, two batches)."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one replica: ``running`` requests at the same time, each with these mean lengths in tokens.

    A user whose request ends sends the next one at once, so that ``running`` requests are always there. Each user sends
    ``rounds`` requests; the first ones of all users come at the same moment, as in the public benchmarks. ``math.inf``
    rounds mean a load without a beginning. ``cached_tokens`` of a prompt are in the prefix cache: they are attended to,
    and not computed.
    """

    prompt_tokens: float
    output_tokens: float
    running: float
    rounds: float = USUAL_ROUNDS
    cached_tokens: float = 0.0

    @property
    def computed_tokens(self) -> float:
        """Tokens of a prompt that are computed: one at least."""
        return max(1.0, self.prompt_tokens - self.cached_tokens) if self.cached_tokens else self.prompt_tokens


def performance(
    model: ModelFacts,
    precision: Precision,
    kv_precision: KvPrecision,
    gpu: GpuType,
    split: Split,
    load: Load,
    step_tokens: int,
    residency: Residency | None = None,
    *,
    synchronous: bool = False,
    eager: bool = False,
) -> Performance:
    """Return the speed of one replica.

    ``synchronous`` means an engine that plans a step only after the step before it, as vLLM did by default before 0.14.
    ``eager`` means one without CUDA graphs (``--enforce-eager``).

    Raises:
        ValueError: a figure of the load is below 1, or there are more stages than layers.
        UnsupportedModel: a cache has no layout in ``kv_precision``.
    """
    _check(load, step_tokens)
    costs = step_costs(model, precision, kv_precision, gpu, split, residency, synchronous=synchronous, eager=eager)
    decode = decode_step(costs, load)
    token = token_seconds(costs, load, step_tokens, decode)
    tpot = max(token.total, costs.floor.seconds)
    typical = first_token_seconds(costs, load, step_tokens, token, decode)
    ttft = typical + first_round_seconds(costs, load, step_tokens)
    trust = speed_of(gpu).trust
    band = trust.band(costs.work.kind, load.running / split.data_parallel)
    bound, margin = _bound(token)
    return Performance(
        ttft_seconds=ttft,
        typical_ttft_seconds=typical,
        tpot_seconds=tpot,
        output_tokens_per_second=load.running * load.output_tokens / (typical + (load.output_tokens - 1) * tpot),
        bound=bound,
        margin=margin,
        ttft_band=(ttft * band.ttft[0], ttft * band.ttft[1]),
        tpot_band=(max(tpot * band.tpot[0], costs.floor.seconds), tpot * band.tpot[1]),
        validated=band.is_validated and split.pipeline_parallel == 1,
        trust=trust.name,
    )


def decode_step(costs: StepCosts, load: Load) -> Seconds:
    """Return the time of a step in which all running requests decode and no prompt rides along."""
    return costs.step(load.running, context_tokens(load))


def token_seconds(costs: StepCosts, load: Load, step_tokens: int, decode: Seconds) -> Seconds:
    """Return the mean time of a token: a step of decoding, and its part of the prompts that ride along.

    While a request generates its tokens, each of the others begins once on average. Prompts come one by one, in chunks
    of what decoding leaves of the largest step; if there are more of them than steps, they share steps.

    ``decode`` is the answer of :func:`decode_step`.
    """
    prompts, computed = prompts_per_token(costs, load), load.computed_tokens
    if prompts <= 0:
        return decode
    room, waiting = free_tokens(costs, load, step_tokens), prompts * computed
    carried = max(min(computed, room), min(waiting, room))
    loaded = costs.step(load.running, context_tokens(load), carried)
    steps = steps_with_prompts(costs, waiting / carried)
    attention = Seconds(compute=prompts * prompt_attention(costs, load))
    if steps >= 1:
        return attention.plus(loaded, steps)
    return attention.plus(loaded, steps).plus(decode, 1 - steps)


def steps_with_prompts(costs: StepCosts, own: float) -> float:
    """Return how many of the steps behind one token carry prompts, given those of one's own engine.

    Engines that share experts step together: a prompt of any of them lengthens the step of all.
    """
    return max(own, min(1.0, own * costs.split.data_parallel)) if costs.work.exchanges else own


def first_token_seconds(costs: StepCosts, load: Load, step_tokens: int, token: Seconds, decode: Seconds) -> float:
    """Return the time from a request's arrival at a free slot, at any moment, to its first token.

    It waits for half of a step, for the next one too if the engine plans ahead, and for prompts that came before it as
    in a queue with random arrivals and equal work (M/D/1): u / (2 (1 - u)) prompts at a share u of the time that
    prompts take, at most half of the others.
    """
    chunks, stages = prompt_chunks(costs, load, step_tokens), costs.split.pipeline_parallel
    passes = (chunks + stages - 1) / stages
    own = passes * costs.step(load.running - 1, context_tokens(load), load.computed_tokens / chunks).total
    own += prompt_attention(costs, load)
    outside = costs.request(load.prompt_tokens)
    others = load.running / costs.split.data_parallel - 1
    if others <= 0:
        return own + outside
    step = decode.total
    queued = min(others / 2, (token.total - step) / (2 * step))
    waits = WAITS if costs.is_synchronous else WAITS_AHEAD
    return own * (1 + queued) + waits * step + outside


def first_round_seconds(costs: StepCosts, load: Load, step_tokens: int) -> float:
    """Return what the first round adds to the mean: half of the other prompts come before one's own."""
    others = load.running / costs.split.data_parallel - 1
    if others <= 0:
        return 0.0
    full = costs.prompt_step_seconds(step_tokens) * load.computed_tokens / step_tokens
    one = full + prompt_attention(costs, load) + costs.request(load.prompt_tokens)
    return one * others / 2 / load.rounds


def context_tokens(load: Load) -> float:
    """Return the mean length behind a token that is being decoded."""
    return load.prompt_tokens + load.output_tokens / 2


def prompt_chunks(costs: StepCosts, load: Load, step_tokens: int) -> float:
    """Return the steps over which a prompt is spread: one, or as many as it fills."""
    return max(1.0, load.computed_tokens / free_tokens(costs, load, step_tokens))


def prompt_attention(costs: StepCosts, load: Load) -> float:
    """Return the seconds of the attention of a prompt's computed tokens, behind those in the prefix cache."""
    whole = costs.prompt_attention(load.prompt_tokens)
    return whole - costs.prompt_attention(load.cached_tokens) if load.cached_tokens else whole


def free_tokens(costs: StepCosts, load: Load, step_tokens: int) -> float:
    """Return the tokens of the largest step that decoding leaves to prompts."""
    return max(1.0, step_tokens - load.running / costs.split.data_parallel + 1)


def prompts_per_token(costs: StepCosts, load: Load) -> float:
    """Return how many prompts of others a stage serves while a request generates one token."""
    others = load.running / costs.split.data_parallel - 1
    return max(0.0, others / costs.split.pipeline_parallel / load.output_tokens)


def _bound(token: Seconds) -> tuple[Bound, float]:
    """Return what takes the most time, and by which share it leads."""
    (first, bound), (second, _), *_ = sorted(token.parts, reverse=True)
    return bound, (first - second) / token.total


def _check(load: Load, step_tokens: int) -> None:
    for name, value in (
        ("prompt_tokens", load.prompt_tokens),
        ("output_tokens", load.output_tokens),
        ("running", load.running),
        ("rounds", load.rounds),
        ("max_num_batched_tokens", step_tokens),
    ):
        if value < 1:
            raise ValueError(f"{name}: {value} is below 1; write 1 or more")


_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars for one replica that always has its load.

    ``usd_per_million_tokens`` counts prompt and output tokens together.
    """

    usd_per_hour: Decimal
    usd_per_million_tokens: float


def hourly_usd(price: Price, split: Split) -> Decimal:
    """Return US dollars an hour for all GPUs of one replica."""
    return price.usd_per_hour * split.gpus


def cost(price: Price, split: Split, load: Load, found: Performance) -> Cost:
    """Return what serving the load costs, for the throughput that was found."""
    hourly = hourly_usd(price, split)
    output_per_hour = found.output_tokens_per_second * _SECONDS_PER_HOUR
    all_per_hour = output_per_hour * (load.prompt_tokens + load.output_tokens) / load.output_tokens
    return Cost(
        usd_per_hour=hourly,
        usd_per_million_tokens=float(hourly) * _MILLION / all_per_hour,
    )
