"""A start-up log as a question for the memory law: request, GPU, split and settings of the engine that logged it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from plimsoll.api.precision import AUTO, cache_precision
from plimsoll.cli.asked import Asked
from plimsoll.cli.direct import direct_question
from plimsoll.cli.later import manifest_question
from plimsoll.cli.logged_gpu import logged_gpu
from plimsoll.domain.engine_options import DraftMethod, SpeculationMethod
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.base import Engine, StartLogReader
from plimsoll.engines.registry import engine_of
from plimsoll.engines.start_logs import LoggedDrafting, StartLog

_METHODS = {
    DraftMethod.NGRAM: SpeculationMethod.NGRAM,
    DraftMethod.MTP: SpeculationMethod.MTP,
    DraftMethod.EAGLE: SpeculationMethod.EAGLE,
    DraftMethod.EAGLE3: SpeculationMethod.EAGLE,
    DraftMethod.DRAFT_MODEL: SpeculationMethod.DRAFT,
}


@dataclass(frozen=True, slots=True)
class Named:
    """The user's words about the start, because the log may not; None where the log counts."""

    model: str | None = None
    gpu: str | None = None
    release: str | None = None
    utilization_percent: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A logged start, and the estimate of the memory law for the same engine, without any correction."""

    log: StartLog
    request: Request
    gpu: GpuType
    split: Split
    settings: EngineSettings
    figures: MemoryEstimate
    notes: tuple[str, ...] = ()

    @property
    def engine(self) -> Engine:
        """The engine that logged it."""
        return engine_of(self.request.engine.name)


def logged_start(log: StartLog, reader: StartLogReader, named: Named) -> Start:
    """Return the question of a log.

    Raises:
        PlimsollError: the log and the user do not say which model or which GPU it was, or one of them is not known.
    """
    source, notes = _model(log, named), _release_note(log, named)
    asked = _asked(log, named)
    question = direct_question(source, asked) or manifest_question(source, asked)
    log = replace(log, version=question.request.engine.version)
    gpu, about_gpu = logged_gpu(log, named.gpu)
    share = _share(log, reader, named)
    percent = math.ceil(100 * share - 1e-9)
    request = _as_logged(question.request, log, percent)
    gpu = replace(gpu, usable_bytes=int(gpu.usable_bytes * share * 100 / percent))
    settings = reader.settings(log, request, gpu, log.split)
    figures = engine_of(request.engine.name).estimate(request, gpu, log.split, settings)
    return Start(log, request, gpu, log.split, settings, figures, (*notes, *about_gpu, *_default_notes(log, settings)))


def _model(log: StartLog, named: Named) -> str:
    if named.model is not None:
        return named.model
    if log.model is None:
        raise PlimsollError("The log does not say which model the engine served. Name it with --model.")
    if log.model.startswith(("/", ".", "s3://", "gs://")):
        raise PlimsollError(
            f"The log names the model by a place of its container ({log.model}). Name the model, its config.json or "
            "the folder of its checkpoint with --model."
        )
    return log.model


def _release_note(log: StartLog, named: Named) -> tuple[str, ...]:
    if named.release is not None or log.build == str(log.version):
        return ()
    return (f"Build {log.build} counts as release {log.version}; name another one with --engine.",)


def _asked(log: StartLog, named: Named) -> Asked:
    """Return the options that make the kind of the engine, in the words of ``plimsoll estimate``."""
    options, drafting = log.options, log.options.drafting
    return Asked(
        engine=named.release or str(log.version),
        eager=options.enforce_eager,
        text_only=options.text_only,
        cpu_offload=str(options.cpu_offload_bytes) if options.cpu_offload_bytes else None,
        lora=None if options.lora is None else (options.lora.adapters, options.lora.max_rank),
        speculate=None if drafting is None else _speculate(drafting),
        draft=None if drafting is None else drafting.draft,
    )


def _speculate(drafting: LoggedDrafting) -> tuple[str, int]:
    return _METHODS[drafting.method].value, drafting.tokens


def _share(log: StartLog, reader: StartLogReader, named: Named) -> float:
    """Return the share of the GPU that the engine might use, between 1 and 100 percent."""
    share = reader.utilization(log) if named.utilization_percent is None else named.utilization_percent / 100
    return min(1.0, max(0.01, share))


def _as_logged(request: Request, log: StartLog, percent: int) -> Request:
    """Return the request with the precision, the length and the options of the log, for one request at a time."""
    options, model = log.options, request.model
    precision = _precision(request, log)
    engine = replace(
        request.engine,
        gpu_memory_utilization_percent=percent,
        max_batched_tokens=options.max_num_batched_tokens,
        unfollowed=options.unfollowed,
    )
    return replace(
        request,
        precision=precision,
        kv_precision=options.kv_precision or cache_precision(AUTO, model, precision),
        shape=ServingShape(options.max_model_len or model.max_context_tokens, 1),
        engine=engine,
    )


def _precision(request: Request, log: StartLog) -> Precision:
    """Return the precision that the engine serves: a quantized checkpoint's own, or the one that the log names."""
    if request.model.checkpoint.precision.is_quantized:
        return request.model.checkpoint.precision
    return log.options.quantizes_to or log.options.precision or request.precision


def _default_notes(log: StartLog, settings: EngineSettings) -> tuple[str, ...]:
    """Name the settings that the log does not say, with the engine's defaults that stand in for them."""
    options = log.options
    given = (
        ("requests at the same time", options.max_num_seqs, settings.max_num_seqs),
        ("tokens of a step", options.max_num_batched_tokens, settings.max_num_batched_tokens),
    )
    assumed = [f"{value:,} {name}" for name, logged, value in given if logged is None]
    unfollowed = [f"The law does not include {each}." for each in options.unfollowed]
    return (*((f"By the engine's defaults: {', '.join(assumed)}.",) if assumed else ()), *unfollowed)


def gib(size_bytes: int | None) -> str:
    """Return bytes as GiB with two digits; a dash for none."""
    return "-" if size_bytes is None else f"{size_bytes / GIB:.2f}"
