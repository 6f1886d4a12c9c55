"""Whose engines taught an estimate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Teacher:
    """Whose engines taught something: the deployment's own, or those of ``names`` or of so many other ``namespaces``.

    ``names`` are other deployments of the same namespace. Those of other namespaces are counted and not named.
    """

    names: tuple[str, ...] = ()
    namespaces: int = 0

    @property
    def is_own(self) -> bool:
        """Whether the deployment's own engines taught it."""
        return not self.names and not self.namespaces


OWN = Teacher()
