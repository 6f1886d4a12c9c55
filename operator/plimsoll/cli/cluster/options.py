"""How a command reaches a cluster, and the options that name one, a snapshot of it or a file of nodes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from plimsoll.cli.options import grouped, option
from plimsoll.domain.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the cluster; None means kubectl's default."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def file(self) -> str | None:
        """The kubeconfig; None for kubectl's default file."""
        return self.kubeconfig or os.environ.get("KUBECONFIG") or None


with_cluster = grouped(option("--kubeconfig"), option("--context"))
"""Adds the options of a command that reads from the cluster."""


def refuse_two_sources(fleet: str | None, snapshot: str | None, access: ClusterAccess) -> None:
    """Raise :class:`InvalidInput` if the options name two sources. It names both, and None means not given."""
    if snapshot is not None and fleet is not None:
        raise InvalidInput(
            "--snapshot", snapshot, "It replaces the cluster, and so does --fleet: leave one of them out."
        )
    file = "--snapshot" if snapshot is not None else "--fleet" if fleet is not None else None
    for name, value in (("--context", access.context), ("--kubeconfig", access.kubeconfig)):
        if file is not None and value is not None:
            fix = f"It names a cluster, and {file} replaces the cluster: leave one of them out."
            raise InvalidInput(name, value, fix)
