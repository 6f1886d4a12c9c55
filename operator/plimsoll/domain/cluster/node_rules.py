"""Rules for the nodes of pods: expressions about their labels, as in Kubernetes' node selectors, each with its cause.

A node selector is a list of terms, of which one must match. A term is a list of requirements, which must all match.
Source: ``k8s.io/component-helpers/scheduling/corev1/nodeaffinity`` and ``k8s.io/apimachinery/pkg/labels``.

PersistentVolumeClaims that pods mount: the nodes that can mount them, and how many pods may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.units import GIB, format_gib

ARCHITECTURE_LABEL = "kubernetes.io/arch"
OS_LABEL = "kubernetes.io/os"
NAME_FIELD = "metadata.name"
"""The only field of nodes that a node selector may name. It counts as a label here."""

DISK_FIELD = "status.allocatable.ephemeral-storage"
"""The bytes of a node's disk for its pods. They count as a label here; a node that does not list them has none."""

USUAL_DISK_BYTES = 20 * GIB
"""The disk that every new node has: the smallest default of the clouds, that of EKS' managed node groups. Source:
https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (``diskSize``)"""

DRIVER_LABEL = "nvidia.com/cuda.driver.major"
"""The branch of a node's NVIDIA driver, a whole number. All releases of NVIDIA's GPU feature discovery set it
(``internal/lm/nvml.go`` of https://github.com/NVIDIA/k8s-device-plugin); other labellers do not."""

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")
"""The architectures of nodes for which Kubernetes releases a kubelet. Source:
https://kubernetes.io/releases/download/"""

_DRIVERS = (
    *(450, 455, 460, 465, 470, 495, 510, 515, 520),
    *(525, 530, 535, 545, 550, 555, 560, 565, 570, 575),
)
"""The branches of NVIDIA's driver for Linux that came with CUDA 11 and 12. Source: https://www.nvidia.com/en-us/drivers/unix/"""

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
        """The demands on a new node, in words; empty if usual nodes follow the rule."""
        figures = dict(self.numbers)
        if self.reason in (Reason.VOLUME_ELSEWHERE, Reason.NODES_NOT_SELECTED):
            return str(figures["where"])
        if self.reason is Reason.VOLUME_IN_USE:
            return ""  # no new node can mount it
        if self.reason is Reason.NODE_DISK_TOO_SMALL:
            size = int(figures["least_bytes"])
            return f"{format_gib(size)} of ephemeral-storage" if size > USUAL_DISK_BYTES else ""
        if self.reason is Reason.DRIVER_TOO_OLD:
            return ""  # new nodes have new drivers
        if self.accepts({ARCHITECTURE_LABEL: USUAL_ARCHITECTURES[0]}):
            return ""
        return f"platform {str(figures['platforms']).replace(', ', ' or ')}"


def chosen_rule(terms: tuple[Term, ...]) -> NodeRule:
    """Return the rule that keeps pods on the nodes that a user's node affinity requires."""
    words = " or ".join(map(_words, terms))
    shown = words if len(words) <= _LONGEST_PLACE else f"{words[:_LONGEST_PLACE]}..."
    return NodeRule(Reason.NODES_NOT_SELECTED, (("where", shown),), terms)


_LONGEST_PLACE = 300
"""The most characters of a user's node affinity that a sentence quotes."""


def left_rule(left: Mapping[str, str]) -> NodeRule:
    """Return the rule that keeps pods off nodes that others have left; ``left`` are the causes by node."""
    words = ", ".join(f"{node} ({cause})" if cause else node for node, cause in sorted(left.items()))
    return NodeRule(Reason.NODE_LEFT, (("left", words),), ((Requirement(NAME_FIELD, "NotIn", tuple(sorted(left))),),))


def disk_rule(least_bytes: int) -> NodeRule:
    """Return the rule that keeps pods off nodes whose disk is known to be smaller than that."""
    enough = Requirement(DISK_FIELD, "Gt", (str(least_bytes - 1),))
    terms = ((enough,), (Requirement(DISK_FIELD, "DoesNotExist"),))
    return NodeRule(Reason.NODE_DISK_TOO_SMALL, (("least_bytes", least_bytes),), terms)


def older_drivers(least: int) -> Requirement:
    """Return the requirement that keeps pods off nodes whose NVIDIA driver is known to be of an earlier branch."""
    return Requirement(DRIVER_LABEL, "NotIn", tuple(str(branch) for branch in _DRIVERS if branch < least))


def driver_rule(least: int) -> NodeRule:
    """Return the rule for the nodes of pods that need that branch of NVIDIA's driver."""
    return NodeRule(Reason.DRIVER_TOO_OLD, (("least", least),), ((older_drivers(least),),))


def other_architectures(offered: tuple[str, ...]) -> Requirement:
    """Return the requirement that keeps pods off the nodes of all other architectures."""
    return Requirement(ARCHITECTURE_LABEL, "NotIn", tuple(each for each in ARCHITECTURES if each not in offered))


ONE_POD = "ReadWriteOncePod"
ONE_NODE = frozenset({"ReadWriteOnce", ONE_POD})
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


class ClaimHolder(NamedTuple):
    """A pod that mounts a claim on a node, and the InferenceDeployment of its namespace that it belongs to, if any.

    ``runs`` is false while it waits on its node: for its images, or for volumes that another node still has.
    """

    pod: str
    node: str
    deployment: str = ""
    runs: bool = True


Holders = Mapping[ObjectKey, tuple[ClaimHolder, ...]]
"""The pods that mount each claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a namespace, as far as it is known.

    ``access_modes`` are those of the claim; empty if they are not known. ``terms`` are the nodes of its volume, or
    of the volume that will be made for it, as the terms of a node selector; None if every node can mount it.
    ``fault`` says why no new pod can mount it at present, with what would help; empty if a pod can. ``remark`` is a
    warning for those who mount it; empty if there is none. ``held_by`` are the pods of others that mount it.
    ``capacity_bytes`` is the size of its volume; None if it has none yet.
    """

    name: str
    access_modes: tuple[str, ...] = ()
    terms: tuple[Term, ...] | None = None
    fault: str = ""
    remark: str = ""
    held_by: tuple[ClaimHolder, ...] = ()
    capacity_bytes: int | None = None

    @property
    def why_unusable(self) -> str:
        """Why no new pod can mount it, wherever it runs, with what would help; empty if a pod can."""
        if self.fault or (self.terms is not None and not any(self.terms)):
            return self.fault or _NO_NODE
        if self.held_by and self.access_modes == (ONE_POD,):
            return (
                f"The claim is {ONE_POD}, and pod {self.held_by[0].pod} on node {self.held_by[0].node} mounts it. Name "
                "another claim, or end that pod."
            )
        return ""

    @property
    def is_for_one_node(self) -> bool:
        """Whether pods of different nodes cannot mount it at the same time."""
        return bool(self.access_modes) and ONE_NODE.issuperset(self.access_modes)

    @property
    def shared_by(self) -> str:
        """Say in words which of several pods that mount a claim for one node can run."""
        return f"only {'one of them runs' if self.access_modes == (ONE_POD,) else 'pods of one node run'} at a time"

    @property
    def rule(self) -> NodeRule | None:
        """The rule for the nodes of pods that mount it; None if every node can."""
        if self.terms is None:
            return None
        return NodeRule(Reason.VOLUME_ELSEWHERE, (("claim", self.name), ("where", _place(self.terms))), self.terms)

    @property
    def rule_of_holder(self) -> NodeRule | None:
        """The rule that keeps pods on the node of the pod that mounts it, if only pods of one node can; else None.

        If pods mount it on several nodes already, its driver allows what its access modes do not say.
        """
        if not self.is_for_one_node or len({each.node for each in self.held_by}) != 1:
            return None
        first = self.held_by[0]
        numbers = (("claim", self.name), ("pod", first.pod), ("node", first.node))
        return NodeRule(Reason.VOLUME_IN_USE, numbers, ((Requirement(NAME_FIELD, "In", (first.node,)),),))

    def held(self, owner: ObjectKey, holders: Holders) -> Claim:
        """Return the claim with the pods that keep it from those of an InferenceDeployment.

        Its own pods do not: their successors mount the same. Once they are on a node, a pod of others that still waits
        does not hold the claim, and one that runs on another node shows that the driver allows what the access modes do
        not say.
        """
        found = holders.get(ObjectKey(owner.namespace, self.name), ())
        own = [each for each in found if each.deployment == owner.name]
        there = {each.node for each in own if each.runs}
        others = (each for each in found if each.deployment != owner.name and (each.runs or not own))
        held_by = tuple(each for each in others if not there or each.node in there)
        return replace(self, held_by=held_by) if held_by != self.held_by else self


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """The claims of a file, the pods that mount each, and for which nodes each storage class makes volumes."""

    claims: Mapping[ObjectKey, Claim] = field(default_factory=dict)
    classes: Mapping[str, tuple[Term, ...] | None] = field(default_factory=dict)
    holders: Holders = field(default_factory=dict)

    def look_up(self, owner: ObjectKey, mounted: Sequence[Mounted]) -> tuple[Claim, ...]:
        """Return what is known of these volumes of an InferenceDeployment, in their order.

        Those of which nothing is known are left out.
        """
        found = (self._of(owner, each) for each in mounted)
        return tuple(each for each in found if each is not None)

    def _of(self, owner: ObjectKey, mounted: Mounted) -> Claim | None:
        if not mounted.made_by:
            known = self.claims.get(ObjectKey(owner.namespace, mounted.name))
            return None if known is None else known.held(owner, self.holders)
        return Claim(str(mounted), terms=self.classes.get(mounted.made_by))


def rules_of(claims: Iterable[Claim]) -> tuple[NodeRule, ...]:
    """Return the rules of all claims, in their order."""
    found = (rule for claim in claims for rule in (claim.rule, claim.rule_of_holder))
    return tuple(rule for rule in found if rule is not None)


def remarks_of(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return the warnings about all claims, in their order."""
    return tuple(claim.remark for claim in claims if claim.remark)


def _place(terms: tuple[Term, ...]) -> str:
    """Return the first term that can match a node, in words: ``topology.kubernetes.io/zone in zone-a``."""
    return _words(next((term for term in terms if term), ()))


def _words(term: Term) -> str:
    words = (f"{each.key} {_OPERATORS.get(each.operator, each.operator)} {', '.join(each.values)}" for each in term)
    return " and ".join(word.strip() for word in words) or "no node"


_NO_NODE = (
    "No node may mount the claim's volume: the node affinity of the volume, or the topologies of its storage class, "
    "match none. Mend them, or name another claim."
)

_OPERATORS = {
    "In": "in",
    "NotIn": "not in",
    "Exists": "exists",
    "DoesNotExist": "does not exist",
    "Gt": "above",
    "Lt": "below",
}
