"""Unknown names of GPU types, and suggestions for the names that the user may mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
        InvalidInput: the unknown names, with suggestions.
    """
    wrong = list(unknown_gpu_names(spec.model_dump(by_alias=True, include={"gpu", "overrides"}), known))
    if wrong:
        first, *others = wrong
        raise InvalidInput(first.field, first.value, first.fix, others)


def unknown_gpu_names(spec: object, known: Collection[str]) -> Iterator[InvalidInput]:
    """Yield an error for each GPU type that a spec names and that does not exist. The spec may have any shape."""
    for around, field in (("gpu", "allow"), ("gpu", "deny"), ("overrides", "gpuType")):
        given = _member(_member(spec, around), field)
        named = enumerate(given) if isinstance(given, list) else [(None, given)]
        for index, name in named:
            if isinstance(name, str) and name not in known:
                path = f"spec.{around}.{field}" + ("" if index is None else f"[{index}]")
                yield InvalidInput(path, name, f"There is no such GPU type{did_you_mean(name, known)}.")


def _member(node: object, name: str) -> object:
    return node.get(name) if isinstance(node, Mapping) else None


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
