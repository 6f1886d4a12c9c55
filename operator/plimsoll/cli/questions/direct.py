"""A request from a catalogued model and plain options, without a manifest.

Checking a manifest needs pydantic, which takes as long to import as everything else that an estimate needs. A plain
question does not need it. A question that a check might refuse still becomes a manifest, because its checks have the
right error messages.
"""

from __future__ import annotations

import re
from pathlib import Path

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.api.bounds import (
    DEFAULT_UTILIZATION_PERCENT,
    ENGINE_VERSION,
    MOST_CONCURRENCY,
    MOST_TOKENS,
    STEP_TOKENS,
    UTILIZATION_PERCENT,
)
from plimsoll.api.conversion.precision import AUTO, cache_precision, weight_precision
from plimsoll.cli.questions.asked import DEFAULT_CONCURRENCY, DEFAULT_CONTEXT, EstimateQuestion, TypedOptions
from plimsoll.cli.questions.engine_names import named_engine, release_of
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, EngineChoice, EngineVersion, MediaUse
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import WIDE, KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.registry import engine_of

_PLAIN_SINCE = EngineVersion(0, 17)
"""The oldest release that knows every option of a plain question."""

_PRECISIONS = tuple(each for each in Precision if each is not Precision.FP32)
"""Precisions that a user may request. 32-bit weights can be read but not requested."""


_KV_PRECISIONS = (*WIDE, KvPrecision.FP8)
"""Formats of the KV cache that every such release has."""


def direct_question(source: str, asked: TypedOptions) -> EstimateQuestion | None:
    """Return the question about a catalogued model; None if only a manifest's checks can decide whether it is valid."""
    if source not in catalogued_models() or Path(source).exists():
        return None
    model = load_model_facts(source)
    return None if model is None else plain_question(model, asked)


def plain_question(model: ModelFacts, asked: TypedOptions) -> EstimateQuestion | None:
    """Return the question about a model; None if only a manifest's checks can decide whether it is valid."""
    return _question(model, asked) if _is_plain(asked) and not _is_refused(model, asked) else None


def _is_refused(model: ModelFacts, asked: TypedOptions) -> bool:
    """Whether the release lacks the model, or refuses its context. A manifest's check says it in words."""
    if model.names_context and (asked.context_length or 0) > model.max_context_tokens:
        return True
    if model.source is FactsSource.CATALOG:
        return False  # checked for each model of the catalogue, by tests
    precision = weight_precision(asked.precision or AUTO, model)
    return engine_of().release_refusal(model, precision, _version(asked)) is not None


def _is_plain(asked: TypedOptions) -> bool:
    """Whether a manifest would accept every option, and no option refers to anything else."""
    memory, load = (asked.cpu_offload, asked.host_memory, asked.lora), (asked.prompt, asked.output)
    refers = (*memory, asked.speculate, asked.draft, *load)
    prefix = (asked.shared_prefix, asked.shared_percent)
    return (
        all(each is None for each in (*refers, *prefix))
        and _is_within(asked.context_length, 1, MOST_TOKENS)
        and _is_within(asked.concurrency, 1, MOST_CONCURRENCY)
        and _is_within(asked.max_sequences, asked.concurrency or DEFAULT_CONCURRENCY, MOST_CONCURRENCY)
        and _is_within(asked.batched_tokens, *STEP_TOKENS)
        and _is_within(asked.utilization, *UTILIZATION_PERCENT)
        and asked.precision in (None, AUTO, *_PRECISIONS)
        and asked.kv_precision in (None, AUTO, *_KV_PRECISIONS)
        and named_engine(asked.engine).name in (None, DEFAULT_ENGINE)
        and re.fullmatch(ENGINE_VERSION, _release(asked)) is not None
        and _version(asked) >= _PLAIN_SINCE
    )


def _is_within(value: int | None, least: int, most: int) -> bool:
    return value is None or least <= value <= most


def _release(asked: TypedOptions) -> str:
    return release_of(engine_of(), named_engine(asked.engine))


def _version(asked: TypedOptions) -> EngineVersion:
    return EngineVersion.of(_release(asked))


def _question(model: ModelFacts, asked: TypedOptions) -> EstimateQuestion:
    engine = EngineChoice(
        version=_version(asked),
        gpu_memory_utilization_percent=asked.utilization or DEFAULT_UTILIZATION_PERCENT,
        max_batched_tokens=asked.batched_tokens,
        max_sequences=asked.max_sequences,
        enforce_eager=asked.eager,
        media=MediaUse(text_only=asked.text_only),
    )
    precision = weight_precision(asked.precision or AUTO, model)
    return EstimateQuestion(
        Request(
            key=ObjectKey("default", "estimate"),
            model=engine_of(engine.name).loaded(model, engine),
            precision=precision,
            kv_precision=cache_precision(asked.kv_precision or AUTO, model, precision),
            shape=ServingShape(
                context_tokens=asked.context_length or min(DEFAULT_CONTEXT, model.max_context_tokens),
                concurrency=asked.concurrency or DEFAULT_CONCURRENCY,
            ),
            engine=engine,
        )
    )
