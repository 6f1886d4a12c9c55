"""Files of a fleet: what ``--fleet`` names instead of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.documents import FleetObjects, load_fleet_objects
from plimsoll.domain.fleet import Fleet
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.priority_reading import PriorityClasses, read_priority_classes
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas, read_quotas
from plimsoll.facts.prices.repricing import OwnPrices


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The facts of a fleet file.

    Attributes:
        fleet: its nodes, less what its pods hold.
        priorities: its PriorityClasses.
        quotas: what its ResourceQuotas leave, and a message for each that could not be evaluated.
    """

    fleet: Fleet
    priorities: PriorityClasses
    quotas: NamespaceQuotas


def fleet_file(path: str, prices: OwnPrices) -> FleetFile:
    """Return the facts of a file or of standard input, with these prices over the catalogue's.

    Raises:
        InvalidInput: the file cannot be read, or holds no Node.
        UnusableDocument: a document of it cannot be used.
    """
    return _read(load_fleet_objects(path), prices)


def _read(objects: FleetObjects, prices: OwnPrices) -> FleetFile:
    return FleetFile(
        read_fleet(objects.nodes, objects.pods, load_gpu_types(), prices),
        read_priority_classes(objects.priority_classes),
        read_quotas(objects.quotas),
    )
