"""The request of an engine that somebody starts without an operator: by a log, or by a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.api.bounds import ENGINE_VERSION
from plimsoll.api.conversion.precision import AUTO, cache_precision, weight_precision
from plimsoll.cli.later import model_facts, speculation_of
from plimsoll.cli.questions.names import named
from plimsoll.cli.questions.types import whole_percent
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import (
    DraftMethod,
    EngineChoice,
    EngineVersion,
    MediaUse,
    Speculation,
    SpeculationMethod,
)
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.base import Engine
from plimsoll.engines.given import cache_blocks
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import NamedDrafting, StartOptions
from plimsoll.facts.models.pooling import as_pooling

_METHODS = {
    DraftMethod.NGRAM: SpeculationMethod.NGRAM,
    DraftMethod.MTP: SpeculationMethod.MTP,
    DraftMethod.EAGLE: SpeculationMethod.EAGLE,
    DraftMethod.EAGLE3: SpeculationMethod.EAGLE,
    DraftMethod.DRAFT_MODEL: SpeculationMethod.DRAFT,
}


def started_request(
    options: StartOptions,
    release: EngineVersion,
    model: ModelFacts,
    draft: ModelFacts | None,
    *,
    engine: str,
    share: float,
    requests: int = 1,
) -> Request:
    """Return the request for an engine with these options, with its own default for each that is not named.

    Args:
        options: what is named.
        release: the release of the engine.
        model: the facts of the checkpoint.
        draft: the facts of the draft model that the options name.
        engine: the engine's name.
        share: the share of the GPU, above 0 and at most 1.
        requests: the requests of full length for which the cache is counted. An engine starts if one fits.

    Raises:
        InvalidInput: the draft does not fit the model.
        UnsupportedModel: the model cannot pool, or a part of it has no memory law.
    """
    served = as_pooling(model) if options.pools else model
    blocks = cache_blocks(engine_of(engine), options, served)
    speculation, unread = _speculation(options.drafting, served, draft)
    precision = _precision(options, served)
    choice = EngineChoice(
        version=release,
        gpu_memory_utilization_percent=whole_percent(share),
        max_batched_tokens=options.max_num_batched_tokens,
        max_sequences=options.max_num_seqs,
        enforce_eager=options.enforce_eager,
        residency=options.residency,
        lora=options.lora,
        speculation=speculation,
        media=_media(options.media, served, engine, release),
        unfollowed=(*options.unfollowed, *_quantization(options, served), *unread, *blocks.unfollowed),
        name=engine,
        own_defaults=True,
        model_runner=options.model_runner,
        cache_bytes=options.cache_bytes,
        block_tokens=blocks.block_tokens,
        cache_blocks=blocks.cache_blocks,
        trusts_code=options.trusts_code,
        casts_type=options.precision is None,
        prefix_caching=options.prefix_caching,
        plans_ahead=options.plans_ahead,
    )
    return Request(
        key=ObjectKey("default", "estimate"),
        model=engine_of(engine).loaded(served, choice),
        precision=precision,
        kv_precision=options.kv_precision or cache_precision(AUTO, served, precision),
        shape=ServingShape(options.max_model_len or served.max_context_tokens, requests),
        engine=choice,
    )


def found_model(source: str, field: str, revision: str | None = None) -> ModelFacts:
    """Return the facts of a model by its name, a folder or a configuration. Blocks if the Hub must be asked.

    Raises:
        PlimsollError: ``field``, as the user named the source, cannot be used, or no source knows the model.
    """
    meant = named(source, field).source
    known = None if revision is not None or Path(meant).exists() else load_model_facts(meant)
    return model_facts(meant, revision, field) if known is None else known


def found_draft(options: StartOptions, field: str = "--speculative-config") -> ModelFacts | None:
    """Return the facts of the draft model that the options name; None if they name none."""
    drafting = options.drafting
    return None if drafting is None or drafting.draft is None else found_model(drafting.draft, field)


def known_release(engine: Engine, text: str, field: str) -> EngineVersion:
    """Return a release with a memory law. Raises :class:`InvalidInput` if ``field`` names none."""
    if re.fullmatch(ENGINE_VERSION, text) is None:
        raise InvalidInput(field, text, "Write a release, e.g. 0.32.0.")
    release = EngineVersion.of(text)
    if release < engine.oldest:
        raise InvalidInput(field, text, f"Use {engine.oldest} or newer: older engines are unknown here.")
    return release


def default_notes(request: Request, settings: EngineSettings) -> tuple[str, ...]:
    """Name the settings that nobody has named, with the engine's defaults that stand in for them."""
    engine = request.engine
    given = (
        ("requests at the same time", engine.limits.sequences, settings.limits.sequences),
        ("tokens of a step", engine.limits.step_tokens, settings.limits.step_tokens),
    )
    assumed = [f"{value:,} {name}" for name, named_value, value in given if not named_value]
    return (f"By the engine's defaults: {', '.join(assumed)}.",) if assumed else ()


def served_split(split: Split, model: ModelFacts) -> Split:
    """Return the split whose ranks share anything: engines of a model without experts do not, each is on its own."""
    return split if model.experts is not None else split._replace(data_parallel=1, expert_parallel=False)


def _media(media: MediaUse, model: ModelFacts, engine: str, release: EngineVersion) -> MediaUse:
    """Return the use of media, as far as the model has any. A class that cannot copy its tower shares it."""
    if model.encoder is None:
        return MediaUse(text_only=media.text_only)
    since = engine_of(engine).copies_encoder_since.get(model.architecture)
    copies = media.copies_encoder and since is not None and release >= since
    is_without = media.images == 0 and model.encoder.video is None
    return MediaUse(text_only=True) if is_without else replace(media, copies_encoder=copies)


def _precision(options: StartOptions, model: ModelFacts) -> Precision:
    """Return the precision that the engine serves: a quantized checkpoint's own, or the one that is named."""
    if model.checkpoint.precision.is_quantized:
        return model.checkpoint.precision
    return options.quantizes_to or options.precision or weight_precision(AUTO, model)


def _quantization(options: StartOptions, model: ModelFacts) -> Sequence[str]:
    """Return the method that the engine would make of a 16-bit checkpoint if no law covers it."""
    if options.quantization is None or options.quantizes_to is not None or model.checkpoint.precision.is_quantized:
        return ()
    return (f"--quantization={options.quantization}",)


def _speculation(
    drafting: NamedDrafting | None, model: ModelFacts, draft: ModelFacts | None
) -> tuple[Speculation | None, Sequence[str]]:
    """Return the speculative decoding, and what no law covers of it."""
    if drafting is None:
        return None, ()
    if drafting.method is DraftMethod.MTP and not model.predictor:
        return None, (f"speculative decoding by {drafting.method.value}, for which {model.name} has no layers",)
    return speculation_of(_METHODS[drafting.method], drafting.tokens, model, draft), ()
