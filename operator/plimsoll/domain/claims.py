"""PersistentVolumeClaims that pods mount: the nodes that can mount them, and how many pods may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.node_rules import NodeRule, Term
from plimsoll.domain.reasons import Reason

ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes with which only pods of one node, or only one pod, can mount a volume.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
"""


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


def rules_of(claims: Iterable[Claim]) -> tuple[NodeRule, ...]:
    """Return the rules of all claims, in their order."""
    return tuple(rule for claim in claims if (rule := claim.rule) is not None)


def _place(terms: tuple[Term, ...]) -> str:
    """Return the first term in words: ``topology.kubernetes.io/zone in zone-a``."""
    words = (f"{each.key} {_OPERATORS.get(each.operator, each.operator)} {', '.join(each.values)}" for each in terms[0])
    return " and ".join(word.strip() for word in words) if terms else "no node"


_OPERATORS = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "does not exist"}
