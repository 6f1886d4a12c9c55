"""Files of a fleet: what ``--fleet`` names instead of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.review.hypothetical import after_changes
from plimsoll.app.review.values import WhatIf
from plimsoll.cli.reading.documents import FleetObjects, load_fleet_objects
from plimsoll.domain.claims import KnownClaims
from plimsoll.domain.fleet import Fleet
from plimsoll.facts.cluster.claim_reading import read_claims
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.priority_reading import PriorityClasses, read_priority_classes
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas, read_quotas
from plimsoll.facts.prices.repricing import OwnPrices


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The facts of a fleet file.

    Attributes:
        objects: its objects.
        prices: prices over the catalogue's.
        fleet: its nodes, less what its pods hold.
        priorities: its PriorityClasses.
        quotas: what its ResourceQuotas leave, and a message for each that could not be evaluated.
        claims: its PersistentVolumeClaims and storage classes.
    """

    objects: FleetObjects
    prices: OwnPrices
    fleet: Fleet
    priorities: PriorityClasses
    quotas: NamespaceQuotas
    claims: KnownClaims

    def after(self, changes: Iterable[WhatIf]) -> FleetFile:
        """Return the facts of the file after these changes of its nodes."""
        nodes, pods = after_changes(self.objects.nodes, self.objects.pods, changes, self.fleet, load_gpu_types())
        return _read(replace(self.objects, nodes=nodes, pods=pods), self.prices)


def fleet_file(path: str, prices: OwnPrices) -> FleetFile:
    """Return the facts of a file or of standard input, with these prices over the catalogue's.

    Raises:
        InvalidInput: the file cannot be read, or holds no Node.
        UnusableDocument: a document of it cannot be used.
    """
    return _read(load_fleet_objects(path), prices)


def _read(objects: FleetObjects, prices: OwnPrices) -> FleetFile:
    return FleetFile(
        objects,
        prices,
        read_fleet(objects.nodes, objects.pods, load_gpu_types(), prices, slices=objects.slices),
        read_priority_classes(objects.priority_classes),
        read_quotas(objects.quotas),
        read_claims(objects.claims, objects.volumes, objects.storage_classes),
    )
