"""Makes the status of an object from a report: the fields that the report decides, in the form of the API.

All fields pass through the API's model, so no other field can be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from plimsoll import __version__
from plimsoll.api.v1alpha1.status import EngineSettingsStatus, InferenceDeploymentStatus, StatusModel
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Option, Suggestion
from plimsoll.domain.decisions.terms import ACTIVATIONS, ADAPTERS, CUDA_GRAPHS, KV_CACHE, LEARNED, OVERHEAD, WEIGHTS
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, format_price, to_milliseconds, to_nanoseconds, to_percent, to_rfc3339
from plimsoll.performance.model import cost
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, active
from plimsoll.placement.explain import remedy_sentence, suggestion_sentence
from plimsoll.placement.options.kept_cache import kept_cache
from plimsoll.placement.options.speed import load_of
from plimsoll.placement.options.streamed_layers import host_layers
from plimsoll.render.names import pod_selector
from plimsoll.render.proposal_words import proposal_sentence
from plimsoll.status.conditions import Since, conditions
from plimsoll.status.record.decisions import DECISION, SIZE, ChosenSize
from plimsoll.status.record.forms import Fields, Form
from plimsoll.status.record.loop import REBALANCING
from plimsoll.status.record.observations import PLATFORMS, SEEN
from plimsoll.status.record.places import (
    FAILED_MOVE,
    MOVE,
    POOL,
    REHOMING,
    RETUNE,
    TOO_SMALL,
    place_fields,
    split_fields,
)
from plimsoll.status.record.reading import Record, shown_parts
from plimsoll.status.record.rejected import rejected
from plimsoll.status.record.report import Report
from plimsoll.status.words.engines import chosen_fields
from plimsoll.status.words.learned import teacher_words
from plimsoll.status.words.routing import routing_fields, url_for_clients
from plimsoll.status.words.weights import weights_fields

MAX_REJECTIONS = 40
"""The most rejections in a status: four splits on ten GPU types. The rest is only counted."""

MAX_REMEDIES = 10

MAX_PROPOSALS = 3
"""The most proposals in a status: there is one of each kind."""

_TERM_FIELDS = {
    WEIGHTS: "weights_bytes",
    KV_CACHE: "kv_cache_bytes",
    ACTIVATIONS: "activations_bytes",
    CUDA_GRAPHS: "cuda_graphs_bytes",
    OVERHEAD: "overhead_bytes",
    ADAPTERS: "adapters_bytes",
    LEARNED: "learned_bytes",
}
"""The terms that have a field in ``status.estimate``."""

HIDDEN_CACHE = "The engines report no size of their KV cache, so the predicted size is used."

SETTINGS = Form(
    EngineSettings,
    EngineSettingsStatus,
    beside=("version",),
    unkept=(
        "residency",
        "lora",
        "media",
        "drafting",
        "runner",
        "deprecated_quantization",
        "model_runner",
        "static",
        "host_cache_bytes",
    ),
)


def decided_fields(report: Report, earlier: Mapping[str, Since], now: str) -> Fields:
    """The fields of the status that the report decides, by their names in Python.

    None means that the field goes. A field that is missing here stays as it was: while there is a problem, the last
    decision still describes what runs.

    Args:
        report: what to say.
        earlier: the conditions of the earlier status, by type.
        now: RFC 3339.
    """
    decision = report.decision
    ready = sum(view.ready for view in report.pools)
    found: Fields = {
        "observed_generation": report.generation,
        "conditions": conditions(report, earlier, now),
        "replicas": sum(view.pods for view in report.pools),
        "ready_replicas": ready,
        "replicas_summary": f"{ready}/{report.replicas}",
        "selector": pod_selector(report.name),
        "observations": [SEEN.fields(each, release=__version__) for each in report.observations],
    }
    if report.problem is None:
        found["weights"] = None if report.weights is None else weights_fields(report.weights)
    if decision is not None:
        found |= _decided(report, decision)
    if report.model is not None and decision is not None:
        found["model"] = _model(report.model, decision)
    if report.name_conflict:
        found["url"] = None  # the Service of that name may belong to someone else
    if report.rebalancing is not None:
        found["rebalancing"] = REBALANCING.fields(report.rebalancing)
    elif report.rebalancing_off:
        found["rebalancing"] = None  # otherwise it stays: a pass without a turn keeps what is known
    return found


def _decided(report: Report, decision: Decision) -> Fields:
    choice, request, move, retune = decision.choice, decision.request, report.move, report.retune
    found: Fields = {
        "routing": None if report.routing is None else routing_fields(report, report.routing),
        "url": url_for_clients(report) if decision.pools else None,
        "pools": [_pool(report, pool) for pool in decision.pools],
        "too_small": [TOO_SMALL.fields(each, spec=report.spec_digest) for each in report.too_small],
        "rehomings": [REHOMING.fields(each) for each in report.rehomings],
        "move": None if move is None else MOVE.fields(move),
        "retune": None,
        "failed_moves": [FAILED_MOVE.fields(each) for each in report.failed_moves],
        "proposals": [
            {"reason": str(each.reason), "message": proposal_sentence(each, report.namespace)}
            for each in report.proposals[:MAX_PROPOSALS]
        ],
        "decisions": [DECISION.fields(each) for each in report.decisions],
        "image_platforms": PLATFORMS.fields(request.platforms) if request.platforms.is_noted else None,
    }
    if retune is not None:
        due = retune.began + retune.each if report.retune_due is None else report.retune_due
        found["retune"] = RETUNE.fields(retune, due_at=to_rfc3339(due))
    if decision.sizes:
        size = ChosenSize(request.replicas, request.shape.concurrency, report.size_digest or "", decision.sizes)
        found["size"] = SIZE.fields(size)
    elif report.size_digest is None:
        found["size"] = None
    if report.engines is None:
        found["engine"] = None
    elif report.engines:
        found["engine"] = chosen_fields(report.engines, request)
    if choice is not None:
        found["estimate"] = _estimate(choice)
        found["placement"] = _placement(report, decision, choice)
    elif not decision.pools:
        found |= {"estimate": None, "placement": None}
    if decision.placed_now:
        found["rejections"] = list(rejected(decision.rejections[:MAX_REJECTIONS]))
        found["rejections_omitted"] = max(0, len(decision.rejections) - MAX_REJECTIONS) or None
        found["remedies"] = [
            {"kind": each.kind.value, "message": remedy_sentence(each)} for each in decision.remedies[:MAX_REMEDIES]
        ]
        found["suggestions"] = [_suggestion(each) for each in decision.suggestions]
    return found


def _pool(report: Report, planned: PlannedPool) -> Fields:
    view = report.view(planned.name)
    pool = Pool(
        planned.name,
        planned.target,
        planned.state,
        planned.generation,
        planned.replicas,
        served=report.has_served(planned),
        limits=planned.limits,
        spec=planned.spec,
        has_narrow_cache=planned.has_narrow_cache,
        host_cache_bytes=planned.host_cache_bytes,
        drain_seconds=planned.drain_seconds,
        engine=planned.engine,
    )
    return POOL.fields(
        pool,
        ready_replicas=view.ready,
        kv_tokens_predicted=report.predicted_tokens(planned),
        kv_tokens_reported=report.reported_tokens(planned),
        host_tokens_reported=report.reported_in_host(planned),
        kv_tokens_note=HIDDEN_CACHE if view.hides_cache and view.engine == planned.engine else None,
    )


def _model(model: ModelFacts, decision: Decision) -> Fields:
    narrow = decision.choice is not None and decision.choice.has_narrow_cache
    kv_precision = KvPrecision.FP8 if narrow else decision.request.kv_precision
    return {
        "architecture": model.architecture,
        "source": model.source.value,
        "parameters": model.parameters,
        "precision": decision.request.precision.value,
        "kv_precision": kv_precision.value,
    }


def _estimate(choice: Option) -> Fields:
    figures = choice.estimate
    return {
        "gpu_type": choice.gpu.name,
        **split_fields(choice.split),
        "fit": figures.fit.value,
        "doubts": [doubt.kind.value for doubt in figures.doubts] or None,
        **_terms(figures),
        "learned_from": None if figures.taught_by is None else teacher_words(figures.taught_by),
        "host_bytes": figures.host_bytes or None,
        "margin_bytes": figures.margin_bytes,
        "slack_bytes": figures.slack_bytes,
        "expected_bytes": figures.expected_bytes,
        "computed_bytes": figures.computed_bytes,
        "override_bytes": figures.forced_bytes,
        "budget_bytes": figures.budget_bytes,
        "usable_bytes": figures.usable_bytes,
        "outside_bytes": figures.outside_bytes,
        "kv_bytes_per_token": figures.kv_bytes_per_token,
        "kv_needed_tokens": figures.kv_needed_tokens,
        "kv_capacity_tokens": figures.kv_capacity_tokens,
        "kv_capacity_low_tokens": figures.kv_capacity_low_tokens,
        "kv_capacity_high_tokens": figures.kv_capacity_high_tokens,
        "gib_per_gpu": f"{figures.needed_bytes / GIB:.1f}",
    }


def _terms(figures: MemoryEstimate) -> Fields:
    """The terms by field. The bytes of a term without a field count as overhead, so that the fields keep their sum."""
    sizes = dict.fromkeys(_TERM_FIELDS, 0)
    for term in figures.terms:
        sizes[term.name if term.name in sizes else OVERHEAD] += term.size_bytes
    return {_TERM_FIELDS[name]: size or None if name.optional else size for name, size in sizes.items()}


def _placement(report: Report, decision: Decision, choice: Option) -> Fields:
    split, price = choice.split, choice.hourly_price
    place = {**place_fields(choice.target), "pipeline_parallel": split.pipeline_parallel}
    return {
        **place,
        "gpus_per_replica": split.gpus,
        "hourly_price_per_replica": None if price is None else format_price(price),
        "hourly_price": _total_price(decision),
        "price_source": choice.gpu.price_source,
        "billing": None if price is None else choice.gpu.billing.value,
        "max_num_seqs": choice.replica_limits.sequences,
        "performance": _performance(decision, choice),
        "host": _host(decision, choice),
        "warnings": list(decision.warnings),
        "engine": SETTINGS.fields(choice.settings, version=report.engine_version),
    }


def _host(decision: Decision, choice: Option) -> Fields:
    host, requested = choice.host, decision.request.host_need(choice.host)
    return {
        "cpu_millis": host.cpu_millis,
        "memory_bytes": host.memory_bytes,
        "shared_memory_bytes": host.shm_bytes,
        "requested_cpu_millis": requested.cpu_millis,
        "requested_memory_bytes": requested.memory_bytes,
        "terms": [{"name": term.name, "size_bytes": term.size_bytes, "detail": term.formula} for term in host.terms],
        "cache": _host_cache(decision.request, choice),
        "layers": _host_layers(decision.request, choice),
    }


def _host_cache(request: Request, choice: Option) -> Fields | None:
    runs = request.with_cache_as(narrow=choice.has_narrow_cache, host_bytes=choice.settings.host_cache_bytes)
    kept = kept_cache(runs, choice.gpu, choice.split, choice.settings, choice.estimate)
    if kept is None:
        return None
    loaded, computed = (None, None) if kept.times is None else map(to_nanoseconds, kept.times)
    return {
        "size_bytes": kept.size_bytes,
        "tokens": kept.tokens,
        "is_least": kept.is_least or None,
        "loaded_nanoseconds": loaded,
        "computed_nanoseconds": computed,
    }


def _host_layers(request: Request, choice: Option) -> Fields | None:
    runs = request.with_cache_as(narrow=choice.has_narrow_cache, host_bytes=choice.settings.host_cache_bytes)
    found = host_layers(runs, choice.gpu, choice.split, choice.settings)
    if found is None:
        return None
    layer = found.layer
    return {
        "size_bytes": layer.size_bytes,
        "link_gigabytes_per_second": found.link_gb_per_second,
        "copy_nanoseconds": to_nanoseconds(layer.copied),
        "decode_nanoseconds": to_nanoseconds(layer.decoding),
        "requests": found.requests,
        "prompt_nanoseconds": to_nanoseconds(layer.reading),
        "prompt_tokens": found.prompt_tokens,
        "hidden_from_tokens": layer.hidden_from,
        "streamed": found.streamed or None,
        "group": found.group or None,
    }


def _performance(decision: Decision, choice: Option) -> Fields | None:
    found = choice.performance
    if found is None:
        return None
    price = choice.gpu.price_in_force
    load = load_of(decision.request)
    tokens = None if price is None else cost(price, choice.split, load, found).usd_per_million_tokens
    return {
        "tpot_milliseconds": _milliseconds(found.tpot_seconds),
        "tpot_low_milliseconds": _milliseconds(found.tpot_band[0]),
        "tpot_high_milliseconds": _milliseconds(found.tpot_band[1]),
        "ttft_milliseconds": _milliseconds(found.typical_ttft_seconds),
        "ttft_low_milliseconds": _milliseconds(found.typical_ttft_band[0]),
        "ttft_high_milliseconds": _milliseconds(found.typical_ttft_band[1]),
        "output_tokens_per_second": round(found.output_tokens_per_second),
        "usd_per_million_tokens": None if tokens is None else f"{tokens:.2f}",
        "bound": found.bound.value,
        "validated": found.validated,
        "counted_percent": None if found.measured == 1 else to_percent(found.measured),
    }


def _milliseconds(seconds: float) -> int:
    return to_milliseconds(seconds)


def _total_price(decision: Decision) -> str | None:
    pools = active(decision.pools)
    prices = [pool.choice.hourly_price if pool.choice else None for pool in pools]
    known = [price * pool.replicas for price, pool in zip(prices, pools, strict=True) if price is not None]
    return format_price(sum(known, start=known[0] * 0)) if known and len(known) == len(pools) else None


def _suggestion(suggestion: Suggestion) -> Fields:
    saving, tpot = suggestion.hourly_saving, suggestion.tpot_seconds
    return {
        "kind": suggestion.kind.value,
        "message": suggestion_sentence(suggestion),
        "hourly_saving": None if saving is None else format_price(saving),
        "tpot_milliseconds": None if tpot is None else _milliseconds(tpot),
    }


def new_status(report: Report, record: Record, now: str) -> InferenceDeploymentStatus:
    """The status after this report. A field that the report does not render stays as it was. ``now`` is RFC 3339.

    Raises:
        ValidationError: the report renders a field or a value that the API does not have.
    """
    since = {each.type: Since(each.status, each.last_transition_time) for each in record.status.conditions or ()}
    fields = decided_fields(report, since, now)
    rendered = InferenceDeploymentStatus.model_validate(fields, by_name=True, by_alias=False)
    changed = {name: getattr(rendered, name) for name in rendered.model_fields_set}
    kept = shown_parts(record, InferenceDeploymentStatus.model_fields.keys() - changed.keys())
    return InferenceDeploymentStatus.model_construct(**kept, **changed)


def document_of(status: StatusModel) -> dict[str, Any]:
    """A status, or a part of one, as it is sent, without None and without empty lists: an absent field means the same.

    A list that its model requires is sent, although it is empty: without it the whole entry could not be read again.
    """
    return _without_empty(status, status.model_dump(by_alias=True, exclude_none=True))


def _without_empty(model: BaseModel, document: dict[str, Any]) -> dict[str, Any]:
    fields = {field.alias or name: (name, field.is_required()) for name, field in type(model).model_fields.items()}
    written = {}
    for key, value in document.items():
        name, is_required = fields[key]
        part = getattr(model, name)
        if value != [] or is_required:
            written[key] = _without_empty(part, value) if isinstance(part, BaseModel) else value
    return written
