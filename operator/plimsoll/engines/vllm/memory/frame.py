"""The part of a rank's memory that every load shares: weights, adapters, overhead, and the layout of the KV cache.

It also has what the other terms need besides the load: the profiled step, the graphs, and the width of the band.

A pass judges many deployments that differ only in context and requests. So this part is computed once for all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.decisions.terms import Term
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, LoraSlots, Residency, Speculation
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.vllm.memory.band import BandWidth, band_width
from plimsoll.engines.vllm.memory.kv_cache import KvLayout
from plimsoll.engines.vllm.memory.kv_cache.kv_law import kv_law_for
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.laws.rocm_attention import chosen_attention
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphKind, GraphParts, rank_graph_kind
from plimsoll.engines.vllm.memory.outside.non_torch import overhead_term
from plimsoll.engines.vllm.memory.outside.outside_budget import Outside, outside_budget
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.step.activations import Step, rank_step
from plimsoll.engines.vllm.memory.weights.adapters import adapters_term
from plimsoll.engines.vllm.memory.weights.weights import host_bytes, weights_term
from plimsoll.memory.draft import draft_tokens

_NO_DEPLOYMENT = ObjectKey("", "")
_SMALLEST_LOAD = ServingShape(context_tokens=1, concurrency=1)


class CacheOptions(NamedTuple):
    """The options of an engine that decide the layout of its cache, besides the formats."""

    block_tokens: int | None
    prefix_caching: bool | None
    plans_ahead: bool


class Frame(NamedTuple):
    """The terms that no load changes, the layout of the cache, and the bytes of weights in host memory.

    The other terms follow from the load with the ``step``, the ``graphs`` of steps of ``tokens`` tokens (each sequence
    brings ``tokens_each`` of them), the ``width`` of the band, and what is ``outside`` the budget. ``counts_groups``
    means that the engine reports the tokens of one group of layers.
    """

    law: EngineLaw
    weights: Term
    adapters: Term
    overhead: Term
    layout: KvLayout
    host_bytes: int
    step: Step
    graphs: GraphKind
    tokens: int
    tokens_each: int
    width: BandWidth
    outside: Outside
    counts_groups: bool

    def graph_parts(self, sequences: int) -> GraphParts:
        """Return the graphs for so many sequences."""
        return self.graphs.parts(sequences * self.tokens_each, self.tokens)


def frame_of(
    request: Request, gpu: GpuType, split: Split, stage: int, *, batched_tokens: int, enforce_eager: bool
) -> Frame:
    """Return the frame of one rank of one stage.

    Raises:
        ValueError: the engine release is older than any known law.
        UnsupportedModel: the caches have no layout.
    """
    engine = request.engine
    return _frame(
        request.model,
        request.precision,
        request.kv_precision,
        engine.version,
        engine.residency,
        engine.lora,
        engine.speculation,
        engine.unfollowed,
        engine.model_runner,
        CacheOptions(engine.block_tokens, engine.prefix_caching, engine.plans_ahead),
        gpu,
        split,
        stage,
        batched_tokens,
        enforce_eager,
    )


@lru_cache(maxsize=4096)
def _frame(
    model: ModelFacts,
    precision: Precision,
    kv_precision: KvPrecision,
    version: EngineVersion,
    residency: Residency | None,
    lora: LoraSlots | None,
    speculation: Speculation | None,
    unfollowed: tuple[str, ...],
    model_runner: int | None,
    cache: CacheOptions,
    gpu: GpuType,
    split: Split,
    stage: int,
    batched_tokens: int,
    enforce_eager: bool,  # noqa: FBT001 - a part of the cache's key
) -> Frame:
    """Compute the frame from a rank that has nothing but these arguments, so that nothing else can change it."""
    engine = EngineChoice(
        version,
        residency=residency,
        lora=lora,
        speculation=speculation,
        enforce_eager=enforce_eager,
        unfollowed=unfollowed,
        model_runner=model_runner,
        block_tokens=cache.block_tokens,
        prefix_caching=cache.prefix_caching,
        plans_ahead=cache.plans_ahead,
    )
    request = Request(_NO_DEPLOYMENT, model, precision, kv_precision, _SMALLEST_LOAD, engine)
    settings = _settings(batched_tokens, enforce_eager=enforce_eager)
    law = law_for(version, model_runner)
    rank = Rank(request, gpu, split, settings, law, stage)
    weights = weights_term(rank)
    return Frame(
        law=law,
        weights=weights,
        adapters=adapters_term(rank),
        overhead=overhead_term(rank),
        layout=rank_layout(request, gpu, split, settings, stage),
        host_bytes=host_bytes(rank),
        step=rank_step(rank),
        graphs=rank_graph_kind(rank),
        tokens=batched_tokens,
        tokens_each=1 + draft_tokens(request),
        width=band_width(model, gpu, split, law, chosen_attention(unfollowed), weights_bytes=weights.size_bytes),
        outside=outside_budget(model, gpu, split, law),
        counts_groups=kv_law_for(version).reports_tokens_by_group,
    )


def _settings(batched_tokens: int, *, enforce_eager: bool) -> EngineSettings:
    """Return settings in which only the step and the graphs are meant: no term of a frame reads the others."""
    return EngineSettings(
        max_model_len=_SMALLEST_LOAD.context_tokens,
        max_num_seqs=_SMALLEST_LOAD.concurrency,
        max_num_batched_tokens=batched_tokens,
        gpu_memory_utilization_percent=100,
        dtype="",
        quantization=None,
        kv_cache_dtype="",
        enforce_eager=enforce_eager,
    )
