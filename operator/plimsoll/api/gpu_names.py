"""Unknown names of GPU types, and suggestions for the names that the user may mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from plimsoll.domain.errors import InvalidInput

if TYPE_CHECKING:  # `plimsoll estimate` needs similar names but not the API's models: pydantic imports slowly
    from plimsoll.api.v1alpha1 import InferenceDeploymentSpec

_MOST_OFFERED = 3


def check_gpu_names(spec: InferenceDeploymentSpec, known: Collection[str]) -> None:
    """Refuse a GPU type that does not exist: to allow it would exclude all others, and to deny it would exclude none.

    Args:
        spec: the spec that the user wrote.
        known: all valid names: those of the catalogue, of its slices and of the fleet.

    Raises:
        InvalidInput: the first unknown name, with suggestions.
    """
    for field, name in _named(spec):
        if name not in known:
            raise InvalidInput(field, name, f"There is no such GPU type{did_you_mean(name, known)}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the text ``; did you mean A, B or C?`` and where all names are listed. It continues a sentence."""
    return offering(alike(name, known))


def offering(names: Sequence[str]) -> str:
    """Return the same text for names that may be meant, the likeliest first."""
    *others, last = names[:_MOST_OFFERED] or [""]
    offered = f"{', '.join(others)} or {last}" if others else last
    return f"{f'; did you mean {offered}?' if offered else ';'} `plimsoll gpus` lists them all"


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return types that begin with the name, else types with a similar spelling; slices only if no whole GPU fits."""
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
