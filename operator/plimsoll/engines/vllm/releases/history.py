"""The releases that have something: a model class or a quantization method, which may come, go and come back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from plimsoll.domain.versions import EngineVersion

Changes = tuple[EngineVersion, ...]
"""The releases in which something came (first, third, ...) and went (second, fourth, ...), oldest first."""


class Gap(NamedTuple):
    """The releases around one that lacks something.

    ``since`` is the next release that has it, ``gone`` the release that removed it; None where there is no such one.
    """

    since: EngineVersion | None
    gone: EngineVersion | None

    @property
    def advice(self) -> str:
        """The releases to use instead, as the end of a sentence."""
        later = None if self.since is None else f"{self.since} or newer"
        earlier = None if self.gone is None else f"a release before {self.gone}"
        return " or ".join(part for part in (later, earlier) if part is not None)


def changes_of(added: str, removed: str) -> Mapping[str, Changes]:
    """Return the changes of each name, from two texts with lines of a release and the names that it adds or removes."""
    found: dict[str, list[EngineVersion]] = {}
    for release, name in (*_rows(added), *_rows(removed)):
        found.setdefault(name, []).append(release)
    return {name: tuple(sorted(releases)) for name, releases in found.items()}


def gap(changes: Changes, release: EngineVersion) -> Gap | None:
    """Return the releases around ``release`` that have what it lacks; None where it has it."""
    passed = bisect_right(changes, release)
    if passed % 2:
        return None
    return Gap(changes[passed] if passed < len(changes) else None, changes[passed - 1] if passed else None)


def _rows(text: str) -> Iterator[tuple[EngineVersion, str]]:
    """Yield each name with the release of its line. A word that ends with a colon is a release."""
    release = EngineVersion(0, 0)
    for word in text.split():
        if word.endswith(":"):
            release = EngineVersion.of(word.removesuffix(":"))
        else:
            yield release, word
