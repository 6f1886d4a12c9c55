"""The GPUs that are there and take no part: what to read before GPUs are bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, IgnoredNode, follows, untolerated
from plimsoll.domain.public_words import NodeReason, Reason
from plimsoll.domain.units import agreed, counted
from plimsoll.facts.cluster.other_devices import dra_advice
from plimsoll.facts.cluster.taints import is_startup_taint
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.options.nodes import tolerations_of

_ADVICE: Mapping[NodeReason, str] = {
    NodeReason.NO_PRODUCT_LABEL: "run the labeller of the GPUs' vendor there, or label them plimsoll.dev/gpu-type",
    NodeReason.UNKNOWN_GPU: "the catalogue does not have them",
    NodeReason.SHARED_GPUS: "engines take whole GPUs",
    NodeReason.MIXED_GPUS: "keep to one kind of GPU in a node",
    NodeReason.MIG_SLICES: "use one strategy, and profiles that plimsoll gpus lists",
    NodeReason.CORDONED: "uncordon them",
    NodeReason.LEAVING: "they are taken away",
    NodeReason.NOT_READY: "repair them",
    NodeReason.NO_DEVICES: "look at the device plugin",
    NodeReason.NOT_SUPPORTED: "engines are planned for NVIDIA and AMD GPUs on Linux",
    NodeReason.UNREADABLE: "plimsoll plan shows why",
}


NODE_STARTS_SECONDS = 900.0
"""How long a new node may take until it has its labels and devices: our choice."""

_OF_NODES = (Reason.NODES_NOT_SELECTED, Reason.NODE_TOO_SMALL)
"""Why a GPU type is refused although another node of it would help."""

_COMING = (NodeReason.NOT_READY, NodeReason.NO_DEVICES, NodeReason.NO_PRODUCT_LABEL)


_MOST_TAINTS = 3
"""The most taints that a message names."""


@dataclass(frozen=True, slots=True)
class Coming:
    """New nodes that a deployment may still get: a sentence about them, and until when it holds (POSIX seconds)."""

    sentence: str = ""
    until: float | None = None


NOTHING_COMES = Coming()


@dataclass(frozen=True, slots=True)
class NewNodes:
    """The new nodes of a fleet: those that are left out and may still get what they lack, and those that start.

    The latter have their GPUs, and a taint that goes when a part of the node is ready.
    """

    lacking: tuple[IgnoredNode, ...] = ()
    starting: tuple[GpuNode, ...] = ()

    @staticmethod
    def of(fleet: Fleet, now: float) -> NewNodes:
        """Find them. ``now`` is in POSIX seconds."""
        lacking = (each for each in fleet.ignored if each.reason in _COMING or each.driver)
        starting = (each for each in fleet.nodes if any(is_startup_taint(taint.key) for taint in each.taints))
        return NewNodes(
            tuple(each for each in lacking if _is_new(each.since, now)),
            tuple(each for each in starting if _is_new(each.since, now)),
        )

    def coming_to(self, decision: Decision) -> Coming:
        """Return what may still come to a deployment without a place.

        A node that starts counts if its taints are all that keeps the deployment off it: a toleration makes it
        usable at once.
        """
        request, refused = decision.request, {each.gpu_type for each in decision.rejections if each.reason in _OF_NODES}
        allowed, wanted = tolerations_of(request), set(request.node_selector)
        kept_off = {
            each.name: {taint.key for taint in untolerated(each.taints, allowed)}
            for each in self.starting
            if each.gpu.name in refused and wanted <= set(each.labels) and follows(each, request.node_rules)
        }
        awaited = {name: keys for name, keys in kept_off.items() if keys and all(map(is_startup_taint, keys))}
        words = [_starting_words(awaited)] if awaited else []
        words += ["One of these nodes is new, and may still get what it lacks."] if self.lacking else []
        made = [each.since for each in self.lacking]
        made += [each.since for each in self.starting if each.name in awaited]
        ends = [since + NODE_STARTS_SECONDS for since in made if since is not None]
        return Coming(" ".join(words), min(ends, default=None))


def _is_new(since: float | None, now: float) -> bool:
    return since is not None and now - since < NODE_STARTS_SECONDS


def _starting_words(awaited: Mapping[str, set[str]]) -> str:
    keys = sorted(set().union(*awaited.values()))
    more = f" and {len(keys) - _MOST_TAINTS} more" if len(keys) > _MOST_TAINTS else ""
    several = f"{len(awaited)} new nodes with GPUs start: they wait"
    who = "1 new node with GPUs starts: it waits" if len(awaited) == 1 else several
    taint = "taint" if len(keys) == 1 else "taints"
    return f"{who} for the removal of the {taint} {', '.join(keys[:_MOST_TAINTS])}{more}."


def left_out_sentence(ignored: Sequence[IgnoredNode]) -> str:
    """Return how many GPUs are left out, why, and what helps; empty if none is."""
    drivers = sorted({each.driver for each in ignored if each.driver})
    counted = _by_reason([each for each in ignored if not each.driver])
    drawn = (_by_driver(driver, [each for each in ignored if each.driver == driver]) for driver in drivers)
    return " ".join([*([counted] if counted else []), *drawn])


def _by_reason(ignored: Sequence[IgnoredNode]) -> str:
    if not ignored:
        return ""
    gpus, nodes = sum(each.gpus for each in ignored), {each.name for each in ignored}
    reasons = Counter(reason for _, reason in {(each.name, each.reason) for each in ignored})
    causes = ", ".join(
        f"{reason.value} {reasons[reason]} ({_ADVICE[reason]})" for reason in NodeReason if reasons[reason]
    )
    are = agreed(gpus, "is", "are")
    return f"{counted(gpus, 'GPU')} of {counted(len(nodes), 'node')} {are} left out: {causes}."


def _by_driver(driver: str, ignored: Sequence[IgnoredNode]) -> str:
    """Return how many devices of a DRA driver are left out, and what helps."""
    devices, nodes = sum(each.gpus for each in ignored), len({each.name for each in ignored})
    drawn = f"{counted(devices, 'device')} of {driver} on {counted(nodes, 'node')}"
    return (
        f"{drawn} {agreed(devices, 'is', 'are')} left out: {NodeReason.NOT_SUPPORTED.value} (published through DRA's "
        f"ResourceSlices, on which Plimsoll does not place; {dra_advice(driver)})."
    )
