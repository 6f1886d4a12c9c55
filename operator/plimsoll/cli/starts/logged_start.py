"""A start-up log as a question for the memory law: request, GPU, split and settings of the engine that logged it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.cli.questions.shares import with_share
from plimsoll.cli.starts.logged_gpu import logged_gpu
from plimsoll.cli.starts.started import (
    default_notes,
    found_draft,
    found_model,
    known_release,
    served_split,
    started_request,
)
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.base import Engine
from plimsoll.engines.registry import engine_of
from plimsoll.engines.start_logs import StartLog


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


def logged_start(log: StartLog, named: Named) -> Start:
    """Return the question of a log.

    Raises:
        PlimsollError: the log and the user do not say which model or which GPU it was, or one of them is not known.
    """
    model, draft = found_model(_model(log, named), "--model"), found_draft(log.options)
    log = replace(log, version=_release(log, named))
    gpu, about_gpu = logged_gpu(log, named.gpu)
    engine, share = engine_of(log.engine), _share(log, named)
    request = started_request(log.options, log.version, model, draft, engine=engine.name, share=share)
    split, gpu = served_split(log.split, model), with_share(gpu, share)
    settings = engine.settings(request, gpu, split)
    figures = engine.estimate(request, gpu, split, settings)
    notes = (*_release_note(log, named), *about_gpu, *default_notes(request, settings), *_unfollowed_notes(request))
    return Start(log, request, gpu, split, settings, figures, notes)


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


def _release(log: StartLog, named: Named) -> EngineVersion:
    """Return the release whose law counts. Raises :class:`InvalidInput` where there is none."""
    return known_release(str(log.version) if named.release is None else named.release, "--engine")


def _share(log: StartLog, named: Named) -> float:
    """Return the share of the GPU that the engine might use, between 1 and 100 percent."""
    logged = log.options.utilization or engine_of(log.engine).default_utilization(log.version)
    share = logged if named.utilization_percent is None else named.utilization_percent / 100
    return min(1.0, max(0.01, share))


def _unfollowed_notes(request: Request) -> tuple[str, ...]:
    return tuple(f"The law does not include {each}." for each in request.engine.unfollowed)


def gib(size_bytes: int | None) -> str:
    """Return bytes as GiB with two digits; a dash for none."""
    return "-" if size_bytes is None else f"{size_bytes / GIB:.2f}"
