"""The estimate of one candidate: the list of terms of one rank, and the budget that is left for the KV cache.

The smallest step with which an engine starts.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Fit, GivenCache, MemoryEstimate, Split
from plimsoll.domain.decisions.terms import KV_CACHE, Line, Term
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.vllm.memory.band import doubtful_weights
from plimsoll.engines.vllm.memory.doubts import doubts_of
from plimsoll.engines.vllm.memory.frame import Frame, frame_of
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.cache_term import cache_bytes, cache_term, reads_at_once, tokens_at_once
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.kv_cache.turboquant import scratch_bytes, scratch_terms
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphParts, graphs_term
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.step.activations import Activations, activations_term
from plimsoll.engines.vllm.memory.step.encoder import tokens_in_one_step
from plimsoll.memory.calibration import Band, believed, corrected_terms, taught_band
from plimsoll.memory.load import engine_shape, replica_tokens
from plimsoll.memory.stages import different_stages


def least_step(request: Request, sequences: int) -> int:
    """Return the engine's minimum in tokens: one for every sequence; with adapters, also its drafted tokens.

    A model that reads its input at once needs a step for the longest input (``config/scheduler.py``: without chunked
    prefill), and one that reads images or videos as a whole needs a step for the largest. Source: vLLM,
    ``engine/arg_utils.py``.
    """
    speculation, context = request.engine.speculation, request.shape.context_tokens
    drafted = 0 if speculation is None or request.engine.lora is None else speculation.tokens
    input_tokens = context if reads_at_once(request.model) else 0
    release, runner = request.engine.version, request.engine.model_runner
    item_tokens = tokens_in_one_step(request.model, release, law_for(release, runner), context)
    return max(sequences * (1 + drafted), input_tokens, item_tokens)


def estimate(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    """Return the VRAM of one rank of ``request`` on ``gpu`` with ``split`` and ``settings``.

    The formula of the budget is vLLM's own: requested = usable x utilization; KV cache = requested - weights -
    activations - memory outside PyTorch - CUDA graphs (``vllm/v1/worker/gpu_worker.py``). With pipeline parallelism,
    the estimate is that of the stage that runs out of memory first, because the engine gives every stage as many blocks
    as the stage with the fewest has.

    Raises:
        ValueError: the engine release is older than any known law.
        UnsupportedModel: the model has a cache that no law covers.
    """
    first, *others = different_stages(request.model, split)
    if not others:
        return estimate_of_stage(request, gpu, split, settings, first)
    stages = [estimate_of_stage(request, gpu, split, settings, stage) for stage in (first, *others)]
    short = max(stages, key=lambda each: each.computed_bytes)
    return replace(
        short,
        kv_capacity_tokens=min(each.kv_capacity_tokens for each in stages),
        kv_capacity_low_tokens=min(each.kv_capacity_low_tokens for each in stages),
        kv_capacity_high_tokens=min(each.kv_capacity_high_tokens for each in stages),
        kv_reported_tokens=min(each.kv_reported_tokens for each in stages),
    )


def least_bytes(request: Request, gpu: GpuType, split: Split, *, batched_tokens: int) -> int:
    """Return the weights and the cache of the first stage: :func:`estimate` never needs less with this step.

    It is 0 where engines of the kind have taught a correction, because that may be negative.

    Raises:
        ValueError, UnsupportedModel: as :func:`estimate`.
    """
    if request.corrections or request.overrides.memory_per_gpu_bytes is not None:
        return 0
    eager = request.engine.enforce_eager
    frame = frame_of(request, gpu, split, 0, batched_tokens=batched_tokens, enforce_eager=eager)
    at_once = tokens_at_once(request, split, batched_tokens)
    return frame.weights.size_bytes + cache_bytes(engine_shape(request.shape, split), frame.layout, at_once)


def estimate_of_stage(
    request: Request, gpu: GpuType, split: Split, settings: EngineSettings, stage: int
) -> MemoryEstimate:
    """Return the VRAM of one rank of one pipeline stage, as in its own log. The other stages are ignored.

    Raises:
        ValueError, UnsupportedModel: as :func:`estimate`.
    """
    frame = _frame(request, gpu, split, settings, stage)
    layout, sequences = frame.layout, settings.max_num_seqs
    activations, graphs = frame.step.activations(sequences, settings.max_model_len), frame.graph_parts(sequences)
    rank = Rank(request, gpu, split, settings, frame.law, stage)
    scratch = scratch_bytes(request, split, settings)
    by_law = (*_terms(rank, frame, activations, graphs), *scratch_terms(scratch))
    prior, taught = _band(frame, activations, settings), request.correction_for(gpu.name, split)
    correction = None if taught is None else believed(taught, prior, _estimated(by_law))
    terms = corrected_terms(by_law, correction)
    weights, estimated = terms[0].size_bytes, _estimated(terms)
    without_cache = weights + terms[1].size_bytes + estimated
    edges = taught_band(prior, settings, correction)
    # The cache is counted and not estimated, and so are the weights of a known class: the need is never below them.
    slack = max(0, min(-edges.low_bytes, estimated + doubtful_weights(request.model, weights)))
    budget = gpu.usable_bytes * settings.gpu_memory_utilization_percent // 100
    left = budget - without_cache
    expected, low, high = layout.capacities((left, left - edges.high_bytes, left + slack), request.shape.context_tokens)
    engines, at_once = split.data_parallel, tokens_at_once(request, split, settings.max_num_batched_tokens)
    found = MemoryEstimate(
        terms=terms,
        margin_bytes=edges.high_bytes,
        slack_bytes=slack,
        # It is not known whether the engine meets the scratch while it profiles, so it is counted on both sides.
        outside_bytes=frame.outside.total_bytes(graphs, sequences, _longest_step(settings)) + scratch,
        usable_bytes=gpu.usable_bytes,
        budget_bytes=budget,
        kv_bytes_per_token=layout.bytes_per_token,
        kv_needed_tokens=replica_tokens(request.shape, split, at_once) if request.model.keeps_cache else 0,
        kv_capacity_tokens=engines * expected,
        kv_capacity_low_tokens=engines * low,
        kv_capacity_high_tokens=engines * high,
        kv_reported_tokens=engines * (layout.tokens_by_group(left) if frame.counts_groups else expected),
        kv_block_tokens=layout.block_tokens,
        sequences=settings.max_num_seqs,
        step_tokens=settings.max_num_batched_tokens,
        least_step_tokens=least_step(request, settings.max_num_seqs),
        max_sequences=_most_states(request, settings, layout, left - edges.high_bytes),
        max_sequences_high=_most_states(request, settings, layout, left + slack),
        host_bytes=frame.host_bytes,
        forced_bytes=request.overrides.memory_per_gpu_bytes,
        stage=stage,
        doubts=doubts_of(request, gpu, split),
        taught_by=None if correction is None else correction.taught_by,
    )
    return _with_pool(found, layout, request, split)


def _most_states(request: Request, settings: EngineSettings, layout: KvLayout, pool_bytes: int) -> int | None:
    """Return the most sequences that start with such a pool; None where nothing but their cache limits them.

    Source: vLLM, ``config/compilation.py`` (``resolve_cudagraph_mode_and_sizes``): the check comes with full CUDA
    graphs alone.
    """
    if settings.enforce_eager or not kv_law_for(request.engine.version).checks_states:
        return None
    return layout.max_sequences(pool_bytes)


def _with_pool(found: MemoryEstimate, layout: KvLayout, request: Request, split: Split) -> MemoryEstimate:
    """Return the estimate of an engine whose cache has a size that the user gave, if it has; else the estimate itself.

    A number of blocks goes before a number of bytes. Sources: vLLM, ``v1/worker/gpu_worker.py``
    (``determine_available_memory``), 0.10.2 to 0.33; ``get_kv_cache_configs`` of ``v1/core/kv_cache_utils.py``, since
    0.33 ``kv_cache_planning.py``, with ``num_gpu_blocks_override``, 0.8 to 0.33.
    """
    engine = request.engine
    blocks, size = engine.cache_blocks, engine.cache_bytes
    if blocks is None or not layout.block_bytes:
        return found if size is None else _given(found, layout, request, split, size)
    given = _given(found, layout, request, split, blocks * layout.block_bytes)
    if size is not None or given.fit_of_bytes is Fit.NO or kv_law_for(engine.version).given_blocks_count:
        return given
    return _measured_first(found, given)


def _measured_first(found: MemoryEstimate, given: MemoryEstimate) -> MemoryEstimate:
    """Return the estimate of a given cache where the share must be enough for the load as well: the larger need."""
    beyond = given.kv_cache_bytes - (given.budget_bytes - found.budget_bytes)
    if beyond >= found.kv_cache_bytes:
        return given
    return replace(given, terms=found.terms, budget_bytes=found.budget_bytes)


def _given(found: MemoryEstimate, layout: KvLayout, request: Request, split: Split, pool_bytes: int) -> MemoryEstimate:
    """Return the estimate of an engine with a cache of so many bytes.

    The engine takes them besides everything else, whatever the share leaves, and starts where both are on the card. Too
    small a pool is known beforehand.
    """
    tokens = split.data_parallel * layout.capacities((pool_bytes,), request.shape.context_tokens)[0]
    fixed = replace(
        found,
        budget_bytes=found.usable_bytes - found.outside_bytes,
        kv_capacity_tokens=tokens,
        kv_capacity_low_tokens=tokens,
        kv_capacity_high_tokens=tokens,
        kv_reported_tokens=tokens,
        max_sequences=None if found.max_sequences is None else layout.max_sequences(pool_bytes),
        max_sequences_high=None if found.max_sequences is None else layout.max_sequences(pool_bytes),
        given_cache=GivenCache(layout.pool_blocks(pool_bytes), layout.pool_blocks(found.kv_cache_bytes)),
    )
    spare = pool_bytes - found.kv_cache_bytes
    if spare < 0:
        return replace(fixed, budget_bytes=found.without_cache_bytes + pool_bytes, margin_bytes=0, slack_bytes=0)
    line = Line("fixed", "what the given size holds beyond the need", spare)
    terms = tuple(term.plus(line) if term.name == KV_CACHE else term for term in found.terms)
    return replace(fixed, terms=terms)


def _longest_step(settings: EngineSettings) -> int:
    """Return the most tokens of a step while the engine serves."""
    return min(settings.max_num_batched_tokens, settings.max_num_seqs * settings.max_model_len)


def _frame(request: Request, gpu: GpuType, split: Split, settings: EngineSettings, stage: int) -> Frame:
    return frame_of(
        request,
        gpu,
        split,
        stage,
        batched_tokens=settings.max_num_batched_tokens,
        enforce_eager=settings.enforce_eager,
    )


def _terms(rank: Rank, frame: Frame, activations: Activations, graphs: GraphParts) -> tuple[Term, ...]:
    """Return the terms by the memory law alone. A new term is added at the end."""
    return (
        frame.weights,
        frame.adapters,
        cache_term(rank, frame.layout),
        activations_term(rank, activations),
        graphs_term(rank, graphs),
        frame.overhead,
    )


def _estimated(terms: tuple[Term, ...]) -> int:
    """Return the bytes of all terms besides weights, adapters and cache, which come first and are counted."""
    return sum(term.size_bytes for term in terms[3:])


def _band(frame: Frame, activations: Activations, settings: EngineSettings) -> Band:
    """Return the error band of the law: lower where a warm start spares a compilation."""
    prior = frame.width.band(settings.max_num_seqs)
    spared = activations.spared_when_warm
    return Band(prior.low_bytes - spared, prior.high_bytes) if spared else prior
