"""The resources of an engine's pod with all of its containers, as Kubernetes adds it up.

Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
All amounts are in thousandths: of a core, a byte, or a device.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.units import ceil_div

MILLI = 1000
"""The parts of one unit in which amounts are compared."""


class Stated(NamedTuple):
    """The request and the limit of a container for one resource; None if it states none."""

    request: int | None
    limit: int | None


NOTHING_STATED = Stated(None, None)


class Companion(NamedTuple):
    """A container of an engine's pod other than the engine's, with what it states, by resource.

    One that ``starts_first`` is an init container. It ends before the next one starts, or it ``stays``.
    """

    stated: tuple[tuple[str, Stated], ...] = ()
    starts_first: bool = False
    stays: bool = False

    def of(self, resource: str) -> Stated:
        """Return what it states for one resource."""
        return dict(self.stated).get(resource, NOTHING_STATED)


Companions = tuple[Companion, ...]


def together(engine: Stated, companions: Companions, resource: str) -> Stated:
    """Return what a pod states for one resource: all that run together, or the most while it starts.

    None if none of its containers states anything.
    """
    if not companions:
        return engine
    others = [each.of(resource) for each in companions]
    requests, limits = ([getattr(each, part) for each in (engine, *others)] for part in Stated._fields)
    return Stated(_sum(requests, companions), _sum(limits, companions))


def _sum(amounts: list[int | None], companions: Companions) -> int | None:
    if all(each is None for each in amounts):
        return None
    running, staying, largest = amounts[0] or 0, 0, 0
    for each, stated in zip(companions, amounts[1:], strict=True):
        amount = stated or 0
        if not each.starts_first:
            running += amount
            continue
        largest = max(largest, staying + amount)
        staying += amount if each.stays else 0
    return max(running + staying, largest)


def pod_need(engine: HostNeed, companions: Companions) -> HostNeed:
    """Return what a pod requests with these containers, if the engine's requests this."""
    if not companions:
        return engine
    own = {name: amount * MILLI for name, amount in engine.others} | {"cpu": engine.cpu_millis}
    own["memory"] = engine.memory_bytes * MILLI
    names = sorted({*own, *(name for each in companions for name, _ in each.stated)})
    found = {name: together(Stated(own.get(name), None), companions, name).request or 0 for name in names}
    cpu, memory = found.pop("cpu"), found.pop("memory")
    others = tuple((name, ceil_div(amount, MILLI)) for name, amount in found.items() if amount > 0)
    return HostNeed(cpu, ceil_div(memory, MILLI), others)
