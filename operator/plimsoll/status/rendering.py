"""The fields of the status that one report decides, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll import __version__
from plimsoll.domain.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.observations import Seen
from plimsoll.domain.outcomes import MemoryEstimate, Option, Remedy, Suggestion
from plimsoll.domain.platforms import ImagePlatforms
from plimsoll.domain.precision import KvPrecision
from plimsoll.domain.proposals import Proposal
from plimsoll.domain.terms import ACTIVATIONS, ADAPTERS, CUDA_GRAPHS, KV_CACHE, LEARNED, OVERHEAD, WEIGHTS
from plimsoll.domain.times import to_rfc3339
from plimsoll.domain.units import GIB, format_price
from plimsoll.performance.cost import cost
from plimsoll.placement.explain import remedy_sentence, suggestion_sentence
from plimsoll.placement.failed_moves import FailedMove
from plimsoll.placement.move_clock import MoveClock
from plimsoll.placement.pools import Decision, PlannedPool, PoolState
from plimsoll.placement.rehoming import Rehoming
from plimsoll.placement.retune_clock import EarlierSettings, RetuneClock
from plimsoll.placement.speed import load_of
from plimsoll.rebalance.inbox import Refusal
from plimsoll.rebalance.state.history import Mark
from plimsoll.rebalance.state.memory import Learned
from plimsoll.render.learned_words import teacher_words
from plimsoll.render.names import node_terms, pod_selector, service_url, stages
from plimsoll.render.proposal_words import proposal_sentence
from plimsoll.status.conditions import Since, conditions
from plimsoll.status.decisions import DecisionNote
from plimsoll.status.rejected import rejected
from plimsoll.status.report import RebalancingReport, Report

MAX_REJECTIONS = 40
"""The most rejections in a status: four splits on ten GPU types. The rest is only counted."""

MAX_REMEDIES = 10

MAX_PROPOSALS = 3
"""The most proposals in a status: there is one of each kind."""

MAX_CHANGES = 250
"""The most change times in a status. No hour may have more changes, so they suffice for the hourly budget."""

_TERM_FIELDS = {
    WEIGHTS: "weightsBytes",
    KV_CACHE: "kvCacheBytes",
    ACTIVATIONS: "activationsBytes",
    CUDA_GRAPHS: "cudaGraphsBytes",
    OVERHEAD: "overheadBytes",
    ADAPTERS: "adaptersBytes",
    LEARNED: "learnedBytes",
}
"""The terms that have a field in ``status.estimate``."""

HIDDEN_CACHE = "The engines report no size of their KV cache, so the predicted size is used."


def status(report: Report, earlier: Mapping[str, Since], now: str) -> dict[str, Any]:
    """The fields of the status that the report decides.

    None means that the field goes. A field that is missing here stays as it was: while there is a problem, the last
    decision still describes what runs.

    Args:
        report: what to say.
        earlier: the conditions of the earlier status, by type.
        now: RFC 3339.
    """
    decision = report.decision
    document: dict[str, Any] = {
        "observedGeneration": report.generation,
        "conditions": conditions(report, earlier, now),
        "replicas": sum(view.pods for view in report.pools),
        "readyReplicas": sum(view.ready for view in report.pools),
        "replicasSummary": f"{sum(view.ready for view in report.pools)}/{report.replicas}",
        "selector": pod_selector(report.name),
        "observations": [observation_entry(seen) for seen in report.observations],
    }
    if decision is not None:
        document |= _decided(report, decision)
    if report.model is not None and decision is not None:
        document["model"] = _model(report.model, decision)
    if report.name_conflict:
        document["url"] = None  # the Service of that name may belong to someone else
    if report.rebalancing is not None:
        document["rebalancing"] = _rebalancing(report.rebalancing)
    elif report.rebalancing_off:
        document["rebalancing"] = None  # otherwise it stays: a pass without a turn keeps what is known
    return document


def _decided(report: Report, decision: Decision) -> dict[str, Any]:
    choice = decision.choice
    document: dict[str, Any] = {
        "url": service_url(report.name, report.namespace) if decision.pools else None,
        "pools": [_pool(report, pool) for pool in decision.pools],
        "tooSmall": _too_small(report),
        "rehomings": [_rehoming(each) for each in report.rehomings],
        "move": None if report.move is None else _move(report.move),
        "retune": None if report.retune is None else _retune(report.retune, report.retune_due),
        "failedMoves": [_failed_move(each) for each in report.failed_moves],
        "proposals": [_proposal(each, report.namespace) for each in report.proposals[:MAX_PROPOSALS]],
        "decisions": [_decision(each) for each in report.decisions],
        "imagePlatforms": _platforms(decision.request.platforms),
    }
    if decision.sizes:
        document["size"] = _size(report, decision)
    elif report.size_digest is None:
        document["size"] = None
    if choice is not None:
        document["estimate"] = _estimate(choice)
        document["placement"] = _placement(report, decision, choice)
    elif not decision.pools:
        document |= {"estimate": None, "placement": None}
    if decision.placed_now:
        document["rejections"] = list(rejected(decision.rejections[:MAX_REJECTIONS]))
        document["rejectionsOmitted"] = max(0, len(decision.rejections) - MAX_REJECTIONS) or None
        document["remedies"] = [_remedy(remedy) for remedy in decision.remedies[:MAX_REMEDIES]]
        document["suggestions"] = [_suggestion(each) for each in decision.suggestions]
    return document


def _platforms(platforms: ImagePlatforms) -> dict[str, Any] | None:
    if not platforms.is_noted:
        return None
    return {
        "reference": platforms.image,
        "platforms": list(platforms.names),
        "source": platforms.source.value,
        "unread": platforms.why or None,
    }


def _model(model: ModelFacts, decision: Decision) -> dict[str, Any]:
    narrow = decision.choice is not None and decision.choice.has_narrow_cache
    kv_precision = KvPrecision.FP8 if narrow else decision.request.kv_precision
    return {
        "architecture": model.architecture,
        "source": model.source.value,
        "parameters": model.parameters,
        "precision": decision.request.precision.value,
        "kvPrecision": kv_precision.value,
    }


def _estimate(choice: Option) -> dict[str, Any]:
    figures = choice.estimate
    return {
        "gpuType": choice.gpu.name,
        "tensorParallel": choice.split.tensor_parallel,
        **stages(choice.split),
        "fit": figures.fit.value,
        "doubts": [doubt.kind.value for doubt in figures.doubts] or None,
        **_terms(figures),
        "learnedFrom": None if figures.taught_by is None else teacher_words(figures.taught_by),
        "hostBytes": figures.host_bytes or None,
        "marginBytes": figures.margin_bytes,
        "slackBytes": figures.slack_bytes,
        "expectedBytes": figures.expected_bytes,
        "computedBytes": figures.computed_bytes,
        "overrideBytes": figures.forced_bytes,
        "budgetBytes": figures.budget_bytes,
        "usableBytes": figures.usable_bytes,
        "outsideBytes": figures.outside_bytes,
        "kvBytesPerToken": figures.kv_bytes_per_token,
        "kvNeededTokens": figures.kv_needed_tokens,
        "kvCapacityTokens": figures.kv_capacity_tokens,
        "kvCapacityLowTokens": figures.kv_capacity_low_tokens,
        "kvCapacityHighTokens": figures.kv_capacity_high_tokens,
        "gibPerGpu": f"{figures.needed_bytes / GIB:.1f}",
    }


def _terms(figures: MemoryEstimate) -> dict[str, int | None]:
    """The terms by field. The bytes of a term without a field count as overhead, so that the fields keep their sum."""
    sizes = dict.fromkeys(_TERM_FIELDS, 0)
    for term in figures.terms:
        sizes[term.name if term.name in sizes else OVERHEAD] += term.size_bytes
    return {_TERM_FIELDS[name]: size or None if name.optional else size for name, size in sizes.items()}


def _placement(report: Report, decision: Decision, choice: Option) -> dict[str, Any]:
    settings = choice.settings
    return {
        "gpuType": choice.gpu.name,
        "nodeSelector": {choice.target.selector[0]: choice.target.selector[1]},
        **node_terms(choice.target),
        "tensorParallel": choice.split.tensor_parallel,
        "pipelineParallel": choice.split.pipeline_parallel,
        "expertParallel": choice.split.expert_parallel or None,
        "dataParallel": choice.split.data_parallel if choice.split.data_parallel > 1 else None,
        "gpusPerReplica": choice.split.gpus,
        "hourlyPricePerReplica": None if choice.hourly_price is None else format_price(choice.hourly_price),
        "hourlyPrice": _total_price(decision),
        "priceSource": choice.gpu.price_source,
        "maxNumSeqs": choice.split.data_parallel * settings.max_num_seqs,
        "performance": _performance(decision, choice),
        "host": _host(decision, choice),
        "warnings": list(decision.warnings),
        "engine": {
            "maxModelLen": settings.max_model_len,
            "maxNumSeqs": settings.max_num_seqs,
            "maxNumBatchedTokens": settings.max_num_batched_tokens,
            "gpuMemoryUtilizationPercent": settings.gpu_memory_utilization_percent,
            "dtype": settings.dtype,
            "quantization": settings.quantization,
            "kvCacheDtype": settings.kv_cache_dtype,
            "enforceEager": settings.enforce_eager,
            "version": report.engine_version,
        },
    }


def _size(report: Report, decision: Decision) -> dict[str, Any]:
    request = decision.request
    return {
        "replicas": request.replicas,
        "concurrency": request.shape.concurrency,
        "spec": report.size_digest or "",
        "options": [
            {
                "replicas": size.replicas,
                "concurrency": size.concurrency,
                "places": list(size.places) or None,
                "hourlyPrice": size.hourly_price,
                "missing": size.missing or None,
            }
            for size in decision.sizes
        ],
    }


def _host(decision: Decision, choice: Option) -> dict[str, Any]:
    host, requested = choice.host, decision.request.host_need(choice.host)
    return {
        "cpuMillis": host.cpu_millis,
        "memoryBytes": host.memory_bytes,
        "sharedMemoryBytes": host.shm_bytes,
        "requestedCpuMillis": requested.cpu_millis,
        "requestedMemoryBytes": requested.memory_bytes,
        "terms": [{"name": term.name, "sizeBytes": term.size_bytes, "detail": term.formula} for term in host.terms],
    }


def _performance(decision: Decision, choice: Option) -> dict[str, Any] | None:
    found = choice.performance
    if found is None:
        return None
    price = choice.gpu.price_in_force
    load = load_of(decision.request)
    tokens = None if price is None else cost(price, choice.split, load, found).usd_per_million_tokens
    return {
        "tpotMilliseconds": _milliseconds(found.tpot_seconds),
        "tpotLowMilliseconds": _milliseconds(found.tpot_band[0]),
        "tpotHighMilliseconds": _milliseconds(found.tpot_band[1]),
        "ttftMilliseconds": _milliseconds(found.typical_ttft_seconds),
        "outputTokensPerSecond": round(found.output_tokens_per_second),
        "usdPerMillionTokens": None if tokens is None else f"{tokens:.2f}",
        "bound": found.bound.value,
        "validated": found.validated,
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _total_price(decision: Decision) -> str | None:
    """Dollars per hour of all active pools; None if one of them has no price."""
    active = [pool for pool in decision.pools if pool.state is PoolState.ACTIVE]
    prices = [pool.choice.hourly_price if pool.choice else None for pool in active]
    known = [price * pool.replicas for price, pool in zip(prices, active, strict=True) if price is not None]
    return format_price(sum(known, start=known[0] * 0)) if known and len(known) == len(active) else None


def _pool(report: Report, pool: PlannedPool) -> dict[str, Any]:
    view = report.view(pool.name)
    return {
        "name": pool.name,
        "gpuType": pool.gpu_type,
        "tensorParallel": pool.split.tensor_parallel,
        **stages(pool.split),
        "nodeSelector": {pool.target.selector[0]: pool.target.selector[1]},
        **node_terms(pool.target),
        "resource": pool.target.resource,
        "state": pool.state.value,
        "generation": pool.generation,
        "replicas": pool.replicas,
        "batchedTokens": pool.step_tokens,
        "maxSequences": pool.sequences,
        "spec": pool.spec or None,
        "drainSeconds": pool.drain_seconds,
        "kvPrecision": KvPrecision.FP8.value if pool.has_narrow_cache else None,
        "readyReplicas": view.ready,
        "served": report.has_served(pool) or None,
        "kvTokensPredicted": report.predicted_tokens(pool),
        "kvTokensReported": view.kv_tokens_reported,
        "kvTokensNote": HIDDEN_CACHE if view.hides_cache else None,
    }


def _too_small(report: Report) -> list[dict[str, Any]]:
    """The placements where an engine got less KV cache than needed; kept as long as the spec stays the same."""
    return [
        {
            "gpuType": seen.gpu_type,
            "tensorParallel": seen.split.tensor_parallel,
            **stages(seen.split),
            "kvTokens": seen.kv_tokens,
            "spec": report.spec_digest,
        }
        for seen in report.too_small
    ]


def _rehoming(rehoming: Rehoming) -> dict[str, Any]:
    return {
        "gpuType": rehoming.gpu_type,
        "tensorParallel": rehoming.split.tensor_parallel,
        **stages(rehoming.split),
        "at": to_rfc3339(rehoming.at),
        "reason": rehoming.reason,
        **({"node": rehoming.node} if rehoming.node else {}),
    }


def _move(clock: MoveClock) -> dict[str, Any]:
    return {
        "pools": list(clock.pools),
        "beganAt": to_rfc3339(clock.began),
        "dueAt": to_rfc3339(clock.due),
        "spec": clock.spec,
    }


def _retune(clock: RetuneClock, due: float | None) -> dict[str, Any]:
    return {
        "pools": [_earlier(each) for each in clock.before],
        "beganAt": to_rfc3339(clock.began),
        "dueAt": to_rfc3339(clock.due((), 0) if due is None else due),
        "replicaSeconds": round(clock.each),
        "spec": clock.spec,
    }


def _earlier(settings: EarlierSettings) -> dict[str, Any]:
    return {
        "name": settings.pool,
        "maxSequences": settings.sequences,
        "batchedTokens": settings.batched_tokens,
        "drainSeconds": settings.drain_seconds,
        "inputs": settings.inputs or None,
    }


def _failed_move(failed: FailedMove) -> dict[str, Any]:
    return {
        "gpuType": failed.gpu_type,
        "tensorParallel": failed.split.tensor_parallel,
        **stages(failed.split),
        "maxSequences": failed.sequences,
        "batchedTokens": failed.batched_tokens,
        "at": to_rfc3339(failed.at),
        "until": to_rfc3339(failed.until),
        "times": failed.times,
        "reason": failed.delay.reason,
        "message": failed.delay.message,
        "spec": failed.spec,
    }


def _proposal(proposal: Proposal, namespace: str) -> dict[str, Any]:
    return {"reason": str(proposal.reason), "message": proposal_sentence(proposal, namespace)}


def _decision(note: DecisionNote) -> dict[str, Any]:
    return {
        "id": note.id,
        "at": note.at,
        "placed": note.placed,
        "replaced": note.replaced or None,
        "solver": note.solver or None,
        "gapPermille": note.gap_permille,
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {"kind": remedy.kind.value, "message": remedy_sentence(remedy)}


def _suggestion(suggestion: Suggestion) -> dict[str, Any]:
    saving, tpot = suggestion.hourly_saving, suggestion.tpot_seconds
    return {
        "kind": suggestion.kind.value,
        "message": suggestion_sentence(suggestion),
        "hourlySaving": None if saving is None else format_price(saving),
        "tpotMilliseconds": None if tpot is None else _milliseconds(tpot),
    }


def _rebalancing(report: RebalancingReport) -> dict[str, Any]:
    return {
        "decision": report.decision,
        "reason": report.reason,
        "message": report.message,
        "proposal": report.proposal,
        "proposalId": report.proposal_id,
        "baseReplicas": report.base_replicas,
        "targetReplicas": report.target_replicas,
        "diagnosis": report.diagnosis,
        "changes": [_change(mark) for mark in report.changes[-MAX_CHANGES:]],
        "lastChange": report.last_change,
        "learned": None if report.learned is None else _learned(report.learned),
        "approved": report.approved or None,
        "rejected": [_refusal(each) for each in report.answered.refusals],
        "carriedOut": list(report.answered.carried_out),
        "hints": list(report.hints),
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "proposal": refusal.proposal,
        "by": refusal.by,
        "reason": refusal.reason or None,
        "until": to_rfc3339(refusal.until),
        "generation": refusal.generation,
    }


def _change(mark: Mark) -> dict[str, Any]:
    return {
        "at": to_rfc3339(mark.at),
        "kind": mark.kind.value,
        "reason": mark.reason or None,
        "replicas": mark.replicas,
    }


def _learned(learned: Learned) -> dict[str, Any]:
    startup = learned.startup_seconds
    return {
        "pool": learned.pool,
        "tokenTimePercent": round(100 * learned.slowness),
        "startupSeconds": None if startup is None else round(startup),
        "mostWork": None if learned.most_work is None else round(learned.most_work),
        "outputTokens": None if learned.output_tokens is None else round(learned.output_tokens),
        "elsewhere": [{"pool": pool, "tokenTimePercent": round(100 * slowness)} for pool, slowness in learned.others]
        or None,
    }


def observation_entry(seen: Seen) -> dict[str, Any]:
    """Return an observation as an entry of ``status.observations``."""
    observation, kind = seen.observation, seen.observation.kind
    return {
        "model": kind.model,
        "precision": kind.precision.value,
        "kvPrecision": kind.kv_precision.value,
        "gpuType": kind.gpu_type,
        "engine": None if kind.engine == DEFAULT_ENGINE else kind.engine,
        "engineVersion": str(kind.version),
        "tensorParallel": kind.split.tensor_parallel,
        **stages(kind.split),
        "options": kind.options,
        "ownImage": kind.image or None,
        "batchedTokens": observation.batched_tokens,
        "maxSequences": observation.sequences,
        "witness": observation.witness.value,
        "predictedKvBytes": observation.predicted_kv_bytes,
        "availableKvBytes": observation.available_kv_bytes,
        "spec": seen.spec,
        "release": __version__,
    }
