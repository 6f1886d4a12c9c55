"""The GPU type of a start-up log: the user's, the one that the log names, or the only one with that much memory."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.gpu_names import alike
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.units import GIB
from plimsoll.engines.start_logs import StartLog

_SAME_SHARE = 0.0025
"""Two figures of a GPU's memory are those of one type where they differ by less: drivers reserve a little more or less.
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
