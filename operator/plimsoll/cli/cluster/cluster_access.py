"""How a command reaches the cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the cluster; None means kubectl's default."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def file(self) -> str | None:
        """The kubeconfig; None for kubectl's default file."""
        return self.kubeconfig or os.environ.get("KUBECONFIG") or None
