"""Names of GPU types that nobody knows, and which were meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from plimsoll.domain.errors import InvalidInput

if TYPE_CHECKING:  # `plimsoll estimate` asks for names alike without the models of the API: pydantic imports slowly
    from plimsoll.api.v1alpha1 import InferenceDeploymentSpec

_MOST_OFFERED = 3


def check_gpu_names(spec: InferenceDeploymentSpec, known: Collection[str]) -> None:
    """Refuse a GPU type that does not exist: allowing it would exclude all others, denying it exclude none.

    Args:
        spec: what the user wrote.
        known: the names that there are: the catalogue's, its slices', and those of the fleet.

    Raises:
        InvalidInput: the first unknown name, with those that may be meant.
    """
    for field, name in _named(spec):
        if name not in known:
            raise InvalidInput(field, name, f"There is no such GPU type{did_you_mean(name, known)}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean A, B or C?`` and where all names are listed, to stand within a sentence."""
    *others, last = alike(name, known)[:_MOST_OFFERED] or [""]
    offered = f"{', '.join(others)} or {last}" if others else last
    return f"{f'; did you mean {offered}?' if offered else ';'} `plimsoll gpus` lists them all"


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Types that begin as the name does, else those spelled much like it; slices only where no whole GPU is alike."""
    names = sorted(known)
    whole = [each for each in names if "-mig-" not in each]
    for among in (whole, names):
        if name and (begin := [each for each in among if each.startswith(name.lower())]):
            return begin
    for among in (whole, names):
        if close := get_close_matches(name.lower(), among):
            return close
    return []


def _named(spec: InferenceDeploymentSpec) -> Iterator[tuple[str, str]]:
    if spec.gpu is not None:
        for field, names in (("allow", spec.gpu.allow), ("deny", spec.gpu.deny)):
            for index, name in enumerate(names or ()):
                yield f"spec.gpu.{field}[{index}]", name
    if spec.overrides is not None and spec.overrides.gpu_type is not None:
        yield "spec.overrides.gpuType", spec.overrides.gpu_type
