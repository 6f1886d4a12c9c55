"""PersistentVolumeClaims that pods mount: the nodes that can mount them, and how many pods may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.node_rules import NodeRule, Term
from plimsoll.domain.reasons import Reason

ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes with which only pods of one node, or only one pod, can mount a volume.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
"""


class Mounted(NamedTuple):
    """A volume of pods: a claim of their namespace, or with ``made_by`` one that a StorageClass makes for each."""

    name: str
    made_by: str = ""

    def __str__(self) -> str:
        """Return the words that name it in a sentence."""
        return f"{self.name} of each pod" if self.made_by else self.name


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a namespace, as far as it is known.

    ``access_modes`` are those of the claim; empty where they are not known. ``terms`` are the nodes of its volume, or
    of the volume that will be made for it, as the terms of a node selector; None where every node can mount it.
    """

    name: str
    access_modes: tuple[str, ...] = ()
    terms: tuple[Term, ...] | None = None

    @property
    def is_for_one_node(self) -> bool:
        """Whether pods of different nodes cannot mount it at the same time."""
        return bool(self.access_modes) and ONE_NODE.issuperset(self.access_modes)

    @property
    def rule(self) -> NodeRule | None:
        """The rule for the nodes of pods that mount it; None where every node can."""
        if self.terms is None:
            return None
        return NodeRule(Reason.VOLUME_ELSEWHERE, (("claim", self.name), ("where", _place(self.terms))), self.terms)


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """The claims of a file by their key, and the nodes for which its storage classes make volumes by their name."""

    claims: Mapping[ObjectKey, Claim] = field(default_factory=dict)
    classes: Mapping[str, tuple[Term, ...] | None] = field(default_factory=dict)

    def look_up(self, namespace: str, mounted: Sequence[Mounted]) -> tuple[Claim, ...]:
        """Return what is known of these volumes, in their order; those of which nothing is known are left out."""
        found = (self._of(namespace, each) for each in mounted)
        return tuple(each for each in found if each is not None)

    def _of(self, namespace: str, mounted: Mounted) -> Claim | None:
        if not mounted.made_by:
            return self.claims.get(ObjectKey(namespace, mounted.name))
        return Claim(str(mounted), terms=self.classes.get(mounted.made_by))


def rules_of(claims: Iterable[Claim]) -> tuple[NodeRule, ...]:
    """Return the rules of all claims, in their order."""
    return tuple(rule for claim in claims if (rule := claim.rule) is not None)


def _place(terms: tuple[Term, ...]) -> str:
    """Return the first term in words: ``topology.kubernetes.io/zone in zone-a``."""
    words = (f"{each.key} {_OPERATORS.get(each.operator, each.operator)} {', '.join(each.values)}" for each in terms[0])
    return " and ".join(word.strip() for word in words) if terms else "no node"


_OPERATORS = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "does not exist"}
