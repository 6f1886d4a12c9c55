"""Rules for the nodes of pods: expressions about their labels, as in Kubernetes' node selectors, each with its cause.

A node selector is a list of terms, of which one must match. A term is a list of requirements, which must all match.
Source: ``k8s.io/component-helpers/scheduling/corev1/nodeaffinity`` and ``k8s.io/apimachinery/pkg/labels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from plimsoll.domain.reasons import Numbers, Reason

ARCHITECTURE_LABEL = "kubernetes.io/arch"
OS_LABEL = "kubernetes.io/os"
NAME_FIELD = "metadata.name"
"""The only field of nodes that a node selector may name. It counts as a label here."""

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")
"""The architectures of nodes for which Kubernetes releases a kubelet. Source: https://kubernetes.io/releases/download/"""


USUAL_ARCHITECTURES = ("amd64",)
"""The architectures of an image whose owner names none."""


class Requirement(NamedTuple):
    """One expression about one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets it. An operator that Kubernetes does not have matches no node."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                return self._compares(found)
            case _:
                return False

    def _compares(self, found: str | None) -> bool:
        numbers = (found or "", *self.values)
        if len(numbers) != 2 or not all(each.removeprefix("-").isdecimal() for each in numbers):  # noqa: PLR2004 - a pair
            return False
        label, bound = map(int, numbers)
        return label > bound if self.operator == "Gt" else label < bound


Term = tuple[Requirement, ...]


NOT_WINDOWS = Requirement(OS_LABEL, "NotIn", ("windows",))
"""Engines' images are for Linux. Kubernetes runs on no third system."""


class NodeRule(NamedTuple):
    """A rule that nodes must follow: one of ``terms`` matches. ``reason`` and ``numbers`` say why a node is ruled out.

    A term without requirements matches no node, as in Kubernetes.
    """

    reason: Reason
    numbers: Numbers
    terms: tuple[Term, ...]

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels follows the rule."""
        return any(term and all(each.matches(labels) for each in term) for term in self.terms)

    @property
    def new_node_needs(self) -> str:
        """The demands on a new node, in words; empty where usual nodes follow the rule."""
        figures = dict(self.numbers)
        if self.reason is Reason.VOLUME_ELSEWHERE:
            return str(figures["where"])
        if self.accepts({ARCHITECTURE_LABEL: USUAL_ARCHITECTURES[0]}):
            return ""
        return f"platform {str(figures['platforms']).replace(', ', ' or ')}"


def left_rule(left: Mapping[str, str]) -> NodeRule:
    """Return the rule that keeps pods off nodes where they could not run; ``left`` are the causes by node."""
    words = ", ".join(f"{node} ({cause})" if cause else node for node, cause in sorted(left.items()))
    return NodeRule(Reason.NODE_LEFT, (("left", words),), ((Requirement(NAME_FIELD, "NotIn", tuple(sorted(left))),),))


def other_architectures(offered: tuple[str, ...]) -> Requirement:
    """Return the requirement that keeps pods off the nodes of all other architectures."""
    return Requirement(ARCHITECTURE_LABEL, "NotIn", tuple(each for each in ARCHITECTURES if each not in offered))
