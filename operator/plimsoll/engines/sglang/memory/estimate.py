"""The estimate of one candidate: what the share holds, and what must fit outside it.

An engine starts if the weights leave any memory of the share, even where one request does not fit then. So the share
must hold the weights and the cache that the load needs, and the rest of the card all that comes later.
"""

from __future__ import annotations

from itertools import pairwise

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.decisions.terms import KV_CACHE, Derivation, Line, Term
from plimsoll.domain.engines.engine_choice import EngineVersion, StaticShare
from plimsoll.domain.models.model import Evidence
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.sglang.memory.doubts import doubts_of
from plimsoll.engines.sglang.memory.free import effective_share, free_bytes, media_bytes, taken_bytes
from plimsoll.engines.sglang.memory.outside import outside
from plimsoll.engines.sglang.memory.pool import FEWEST_STATES, STATES_OF_REQUEST, Pools, cells_of
from plimsoll.engines.sglang.memory.weights import weights_error, weights_term
from plimsoll.facts.models.generic import WEIGHTS_ERROR
from plimsoll.memory.calibration import Band, believed, corrected_terms, taught_band
from plimsoll.memory.load import engine_shape, needed_tokens, replica_tokens
from plimsoll.memory.weights import weights_bytes

OLDEST_LAW = EngineVersion(0, 4)
"""The law of the share holds for logs since 0.4.2; older ones were not compared."""

_HUNDRED_THOUSAND = 100_000


def attention_of(request: Request) -> str | None:
    """Return the attention back end that the user names, in lower case; None without."""
    words = " ".join(request.engine.unfollowed).replace("=", " ").split()
    named = dict(pairwise(words)).get("--attention-backend")
    return None if named is None else named.lower()


def estimate(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    """Return the VRAM of one rank of ``request`` on ``gpu`` with ``split`` and ``settings``.

    budget = free before the weights x share - what is kept for media; pool = budget - weights
    (``_profile_available_bytes``).

    Raises:
        ValueError: the release is older than any known law, or the settings have no static share.
        UnsupportedModel: no law covers the caches.
    """
    static = _static(request, settings)
    share = effective_share(gpu, static.thousandths, settings.max_model_len, attention_of(request))
    free, taken = free_bytes(gpu, split), taken_bytes(gpu, split)
    budget = free * share.expected // _HUNDRED_THOUSAND - media_bytes(request, gpu, settings.max_num_seqs)
    pools = Pools(cells_of(request, split), static)
    tokens = needed_tokens(engine_shape(request.shape, split)) if request.model.keeps_cache else 0
    by_law = (
        weights_term(request, split),
        Term(KV_CACHE, pools.bytes_for(tokens), _cache_derivation, (pools, tokens)),
    )
    doubtful = _doubtful(request, by_law[0].size_bytes)
    less, more = weights_error(request, by_law[0].size_bytes)
    lower, higher = (part * share.expected // _HUNDRED_THOUSAND for part in (taken.less, taken.more))
    raised = free * (share.most - share.expected) // _HUNDRED_THOUSAND
    prior = Band(-(less + lower + raised + doubtful), more + higher + doubtful)
    learned = request.correction_for(gpu.name, split)
    correction = None if learned is None else believed(learned, prior, 0)
    terms, edges = corrected_terms(by_law, correction), taught_band(prior, settings, correction)
    left = budget - terms[0].size_bytes - terms[-1].size_bytes
    reserved = outside(request, gpu, split, settings)
    expected, low, high = (pools.tokens(size) for size in (left, left - edges.high_bytes, left - edges.low_bytes))
    engines = split.data_parallel
    return MemoryEstimate(
        terms=terms,
        margin_bytes=edges.high_bytes,
        slack_bytes=max(0, -edges.low_bytes),
        outside_bytes=gpu.usable_bytes - free + reserved.total_bytes,
        usable_bytes=gpu.usable_bytes,
        budget_bytes=budget,
        kv_bytes_per_token=pools.bytes_per_token,
        kv_needed_tokens=replica_tokens(request.shape, split) if request.model.keeps_cache else 0,
        kv_capacity_tokens=engines * expected,
        kv_capacity_low_tokens=engines * low,
        kv_capacity_high_tokens=engines * high,
        kv_reported_tokens=engines * expected,
        kv_block_tokens=pools.cells.page,
        sequences=settings.max_num_seqs,
        step_tokens=settings.max_num_batched_tokens,
        least_step_tokens=pools.cells.page,
        max_sequences=_most(pools, left - edges.high_bytes, STATES_OF_REQUEST),
        max_sequences_high=_most(pools, left - edges.low_bytes, FEWEST_STATES),
        forced_bytes=request.overrides.memory_per_gpu_bytes,
        doubts=doubts_of(request, gpu, split),
        taught_by=None if correction is None else correction.taught_by,
    )


def least_bytes(request: Request, split: Split, static: StaticShare) -> int:
    """Return the tensors and the cache: :func:`estimate` never needs less.

    It is 0 where engines of the kind have taught a correction, because that may be negative.
    """
    if request.corrections or request.overrides.memory_per_gpu_bytes is not None:
        return 0
    weights = weights_bytes(request.model, request.precision, split)
    tokens = needed_tokens(engine_shape(request.shape, split)) if request.model.keeps_cache else 0
    return weights - _doubtful(request, weights) + Pools(cells_of(request, split), static).bytes_for(tokens)


def full_length_tokens(
    _: Request, __: GpuType, ___: Split, ____: EngineSettings, _____: MemoryEstimate, reported: int
) -> int:
    """Return the tokens that the engine reports: it counts those of requests of any length alike."""
    return reported


def cache_bytes(
    request: Request, _: GpuType, split: Split, settings: EngineSettings, figures: MemoryEstimate, reported: int
) -> tuple[int, int]:
    """Return the predicted and the real cache bytes of one GPU, from the tokens that its engine reports."""
    pools = Pools(cells_of(request, split), _static(request, settings))
    return figures.available_kv_bytes, pools.bytes_for(reported // split.data_parallel)


def _static(request: Request, settings: EngineSettings) -> StaticShare:
    if request.engine.version < OLDEST_LAW:
        raise ValueError(f"SGLang {request.engine.version}: no memory law is known before {OLDEST_LAW}")
    if settings.static is None:
        raise ValueError("the settings have no static share")
    return settings.static


def _most(pools: Pools, pool_bytes: int, states: int) -> int | None:
    """Return the most sequences that have so many states each; None for models without states."""
    slots = pools.slots(max(0, pool_bytes))
    return None if slots is None else slots // states


def _doubtful(request: Request, weights: int) -> int:
    """Return by how many bytes the weights may be more or less: none where a class or its tensors are known."""
    return int(WEIGHTS_ERROR * weights) if request.model.evidence is Evidence.GENERIC else 0


def _cache_derivation(about: tuple[Pools, int]) -> Derivation:
    pools, tokens = about
    cells = pools.cells
    lines = [Line("all layers", f"{tokens:,} tokens x {cells.full:,} B")]
    if cells.window:
        lines.append(Line("windows", f"a pool of their own: {cells.window:,} B a token"))
    if cells.slot:
        lines.append(Line("states", f"{cells.slot:,} B each"))
    return Derivation("needed by the declared load", tuple(lines))
