"""The GPUs that are there and take no part: what to read before GPUs are bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from plimsoll.domain.fleet import IgnoredNode
from plimsoll.domain.reasons import NodeReason
from plimsoll.facts.cluster.dra_devices import dra_advice

_ADVICE: Mapping[NodeReason, str] = {
    NodeReason.NO_PRODUCT_LABEL: "run GPU Feature Discovery there, or label them plimsoll.dev/gpu-type",
    NodeReason.UNKNOWN_GPU: "the catalogue does not have them",
    NodeReason.SHARED_GPUS: "engines take whole GPUs",
    NodeReason.MIXED_GPUS: "keep to one kind of GPU in a node",
    NodeReason.MIG_SLICES: "use one strategy, and profiles that plimsoll gpus lists",
    NodeReason.CORDONED: "uncordon them",
    NodeReason.NOT_READY: "repair them",
    NodeReason.NO_DEVICES: "look at the device plugin",
    NodeReason.NOT_SUPPORTED: "engines are planned for NVIDIA and AMD GPUs on Linux",
    NodeReason.UNREADABLE: "plimsoll plan shows why",
}


NODE_STARTS_SECONDS = 900.0
"""How long a new node may take until it has its labels and devices: our choice."""

_COMING = (NodeReason.NOT_READY, NodeReason.NO_DEVICES, NodeReason.NO_PRODUCT_LABEL)


def is_coming(ignored: Sequence[IgnoredNode], now: float) -> bool:
    """Whether a node that is left out is new, so that it may still get what it lacks. ``now`` is in POSIX seconds."""
    young = (each for each in ignored if each.since is not None and now - each.since < NODE_STARTS_SECONDS)
    return any(each.reason in _COMING or each.driver for each in young)


def left_out_sentence(ignored: Sequence[IgnoredNode]) -> str:
    """Return how many GPUs are left out, why, and what helps; empty where none is."""
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
    return f"{_counted(gpus, 'GPU')} of {_counted(len(nodes), 'node')} are left out: {causes}."


def _by_driver(driver: str, ignored: Sequence[IgnoredNode]) -> str:
    """Return how many devices of a DRA driver are left out, and what helps."""
    devices = f"{_counted(sum(each.gpus for each in ignored), 'device')} of {driver}"
    return (
        f"{devices} on {_counted(len({each.name for each in ignored}), 'node')} are left out: "
        f"{NodeReason.NOT_SUPPORTED.value} (published through DRA's ResourceSlices, on which Plimsoll does not place; "
        f"{dra_advice(driver)})."
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
