"""A start-up log as a question for the memory law: request, GPU, split and settings of the engine that logged it.

The GPU type of a start-up log: the user's, the one that the log names, or the only one with that much memory.

The lines of a start-up log, from a file or from standard input, with a limit for what is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.bounds import usual_release
from plimsoll.api.gpu_names import alike
from plimsoll.cli.questions.engine_names import OPTION, check_same, named_engine
from plimsoll.cli.questions.types import with_share
from plimsoll.cli.reading.files import STDIN, title, why
from plimsoll.cli.starts.started import (
    default_notes,
    found_draft,
    found_model,
    known_release,
    served_split,
    started_request,
)
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.base import Engine, StartLogReader
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartLog

_SAME_SHARE = 0.0025
"""Two figures of a GPU's memory are those of one type if they differ by less: drivers reserve a little more or less.
Types that are nearer to each other are named to the user, who chooses."""

_WRONG_SHARE = 0.03
"""A GPU type whose memory differs from the logged one by more is another one."""

_MOST_NAMES = 6


def logged_gpu(log: StartLog, named: str | None) -> tuple[GpuType, tuple[str, ...]]:
    """Return the GPU type of a start, and notes on how it was found.

    Raises:
        InvalidInput: ``named`` is not catalogued, or its memory is not that of the log.
        PlimsollError: the user names none, and the log does not say which one it was.
    """
    types = load_gpu_types()
    if named is not None:
        return _named(log, named, types), ()
    by_name = _by_name(log, types)
    if by_name is not None:
        return by_name, (f"GPU type {by_name.name}: the log names {log.gpu_name}.",)
    alike_in_size = _by_memory(log, types)
    if len(alike_in_size) == 1:
        return alike_in_size[0], (f"GPU type {alike_in_size[0].name}: no other has {_total(log)}.",)
    raise PlimsollError(f"The log does not say on which GPU type the engine ran.{_some(log, alike_in_size)}")


def _named(log: StartLog, named: str, types: Sequence[GpuType]) -> GpuType:
    known = {gpu.name: gpu for gpu in types}
    if named not in known:
        near = ", ".join(alike(named, known)[:_MOST_NAMES])
        fix = f"Name a type as `plimsoll gpus` lists it{f', e.g. {near}' if near else ''}."
        raise InvalidInput("--gpu", named, fix)
    gpu, total = known[named], log.figures.total_bytes
    if total is not None and abs(gpu.usable_bytes - total) > _WRONG_SHARE * gpu.usable_bytes:
        fix = f"The engine saw {_total(log)}, and this type has {gpu.usable_bytes / GIB:.2f} GiB."
        raise InvalidInput("--gpu", named, fix)
    free = log.figures.free_bytes
    if free is not None and free > gpu.usable_bytes * (1 + _WRONG_SHARE):
        fix = f"{free / GIB:.2f} GiB were free before the weights, and this type has {gpu.usable_bytes / GIB:.2f} GiB."
        raise InvalidInput("--gpu", named, fix)
    return gpu


def _by_name(log: StartLog, types: Sequence[GpuType]) -> GpuType | None:
    """Return the type whose label is the device name of the log. Logs write ``_`` for blanks, labels write ``-``."""
    name = _plain(log.gpu_name or "")
    return next((gpu for gpu in types if name and name in map(_plain, gpu.product_labels)), None)


def _plain(name: str) -> str:
    return name.replace("_", "-").replace(" ", "-").lower()


def _by_memory(log: StartLog, types: Sequence[GpuType]) -> Sequence[GpuType]:
    total = log.figures.total_bytes
    if total is None:
        return ()
    return [gpu for gpu in types if not gpu.is_slice and abs(gpu.usable_bytes - total) < _SAME_SHARE * total]


def _total(log: StartLog) -> str:
    return f"{(log.figures.total_bytes or 0) / GIB:.2f} GiB"


def _some(log: StartLog, types: Sequence[GpuType]) -> str:
    if not types:
        return " Name it with --gpu (see `plimsoll gpus`)."
    names = ", ".join(gpu.name for gpu in types[:_MOST_NAMES])
    return f" {names} have {_total(log)}: name one with --gpu."


@dataclass(frozen=True, slots=True)
class NamedStart:
    """The user's words about the start, because the log may not; None if the log counts."""

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


def logged_start(log: StartLog, named: NamedStart) -> Start:
    """Return the question of a log.

    Raises:
        PlimsollError: the log and the user do not say which model or which GPU it was, or one of them is not known.
    """
    model, draft = found_model(_model(log, named), "--model"), found_draft(log.options)
    engine, release = engine_of(log.engine), _release(log, named)
    about_release = _release_note(log, release, named)
    gpu, about_gpu = logged_gpu(log, named.gpu)
    log = _placed(log, named, gpu, release)
    is_of_card = _own_settings(log) is None
    share = _share(log, named) if is_of_card else 1.0
    request = started_request(log.options, release, model, draft, engine=engine.name, share=share)
    split, gpu = served_split(log.split, model), with_share(gpu, share)
    settings = _settings(log, engine.settings(request, gpu, split))
    figures = engine.estimate(request, gpu, split, settings)
    unfollowed = (f"The law does not include {each}." for each in request.engine.unfollowed)
    notes = (*about_release, *about_gpu, *default_notes(request, settings), *unfollowed)
    return Start(log, request, gpu, split, settings, figures, notes)


def _reader(log: StartLog) -> StartLogReader:
    """Return the reader of a log. Raises ValueError for an engine without one, which cannot have read it."""
    reader = engine_of(log.engine).start_logs
    if reader is None:
        raise ValueError(f"{log.engine}: its logs are not read")
    return reader


def _own_settings(log: StartLog) -> Callable[[StartLog, EngineSettings], EngineSettings] | None:
    return _reader(log).settings


def _settings(log: StartLog, usual: EngineSettings) -> EngineSettings:
    own = _own_settings(log)
    return usual if own is None else own(log, usual)


def _placed(log: StartLog, named: NamedStart, gpu: GpuType, release: EngineVersion) -> StartLog:
    """Return the log with its release, on its GPU. A share of free memory that nobody names is asked for."""
    placed = _reader(log).placed(replace(log, version=release), gpu, release)
    if _own_settings(log) is None:
        return placed
    share = placed.options.utilization if named.utilization_percent is None else named.utilization_percent / 100
    if share is None:
        raise PlimsollError("The log does not say which share of the memory the engine might use: name --utilization.")
    return replace(placed, options=replace(placed.options, utilization=share))


def _model(log: StartLog, named: NamedStart) -> str:
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


def _release_note(log: StartLog, release: EngineVersion, named: NamedStart) -> tuple[str, ...]:
    if named.release is not None or log.build == str(release):
        return ()
    return (f"Build {log.build} counts as release {release}; name another one with --engine.",)


def _release(log: StartLog, named: NamedStart) -> EngineVersion:
    """Return the release whose law counts. Raises :class:`InvalidInput` if there is none."""
    engine, given = engine_of(log.engine), named_engine(named.release)
    check_same(engine, given, named.release)
    if given.release is None and log.version is None:
        raise PlimsollError(
            f"{engine.title} does not log its release: name it, e.g. {OPTION} {engine.name}:{usual_release(engine)}."
        )
    return known_release(engine, given.release or str(log.version), OPTION)


def _share(log: StartLog, named: NamedStart) -> float:
    """Return the share of the GPU that the engine might use, between 1 and 100 percent."""
    release = log.version or engine_of(log.engine).oldest
    logged = log.options.utilization or engine_of(log.engine).default_utilization(release)
    share = logged if named.utilization_percent is None else named.utilization_percent / 100
    return min(1.0, max(0.01, share))


MOST_BYTES = 64 * MIB
MOST_LINES = 1_000_000
"""The part of a log that is read, from its beginning. A start takes less than one MiB."""

_CHUNK_BYTES = 1 * MIB


class LogFile:
    """A log. ``is_cut`` says after reading whether it holds more than was read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_cut = False

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends. Bytes that are no UTF-8 become replacement characters.

        A line that is longer than a chunk is divided.

        Raises:
            InvalidInput: the file cannot be read.
        """
        try:
            if self._name == STDIN:
                yield from self._lines(sys.stdin.buffer)
            else:
                with Path(self._name).open("rb") as file:
                    yield from self._lines(file)
        except (OSError, ValueError) as error:
            raise InvalidInput("LOG", title(self._name), f"It cannot be read: {why(error)}.") from error

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        read, count = 0, 0
        while line := file.readline(_CHUNK_BYTES):
            read, count = read + len(line), count + 1
            if read > MOST_BYTES or count > MOST_LINES:
                self.is_cut = True
                return
            yield line.decode("utf-8", errors="replace").rstrip("\r\n")
