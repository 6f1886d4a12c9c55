"""The options that name a cluster, a snapshot or a file of nodes: only one of these can count."""

from __future__ import annotations

from plimsoll.cli.cluster.cluster_access import ClusterAccess
from plimsoll.domain.errors import InvalidInput


def refuse_two_sources(fleet: str | None, snapshot: str | None, access: ClusterAccess) -> None:
    """Raise :class:`InvalidInput` if the options name two sources. It names both, and None means not given."""
    if snapshot is not None and fleet is not None:
        raise InvalidInput(
            "--snapshot", snapshot, "It replaces the cluster, and so does --fleet: leave one of them out."
        )
    file = "--snapshot" if snapshot is not None else "--fleet" if fleet is not None else None
    for option, value in (("--context", access.context), ("--kubeconfig", access.kubeconfig)):
        if file is not None and value is not None:
            fix = f"It names a cluster, and {file} replaces the cluster: leave one of them out."
            raise InvalidInput(option, value, fix)
