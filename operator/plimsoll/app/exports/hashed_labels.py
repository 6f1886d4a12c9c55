"""Labels and taints with digests in place of the admin's words. Those of GPU vendors and clouds stay: they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.app.exports.pseudonyms import Pseudonyms
from plimsoll.domain.cluster.spot import SPOT_LABELS
from plimsoll.facts.cluster.cloud_labels import AWS_LABELS, GKE_ACCELERATOR, GPU_TYPE_LABEL
from plimsoll.facts.cluster.gpu_count import COUNTS, INSTANCE_TYPE, SHARING
from plimsoll.facts.cluster.node_pools import POOL_LABEL as NODE_POOL
from plimsoll.facts.cluster.taints import DISRUPTION_TAINTS, STARTUP_PREFIX, is_startup_taint

Body = Mapping[str, Any]

HOSTNAME = "kubernetes.io/hostname"

_READ = frozenset({
    GPU_TYPE_LABEL, GKE_ACCELERATOR, *(label for pair in AWS_LABELS for label in pair), *SHARING, *COUNTS,
    INSTANCE_TYPE, *SPOT_LABELS, *DISRUPTION_TAINTS,
})  # fmt: skip

_OF_VENDORS = re.compile(r"(nvidia|amd)\.com/.*|node\.kubernetes\.io/.*|kubernetes\.io/(arch|os)")
"""Labels and taints that GPU vendors and Kubernetes write."""


@dataclass(frozen=True, slots=True)
class HashedLabels:
    """Replaces keys and values. A value is replaced in the same way in a node and in a selector."""

    names: Pseudonyms

    def labels(self, labels: Body) -> dict[str, Any]:
        """Return labels of a node, or a selector. Values may be missing."""
        return {self._key(key): self._value(key, value) for key, value in labels.items()}

    def taint(self, taint: Body) -> dict[str, Any]:
        """Return a taint or a toleration. A startup taint stays one."""
        key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
        if not key or _is_known(key):
            return dict(taint)
        prefix = STARTUP_PREFIX if is_startup_taint(key) else ""
        return {**taint, "key": f"{prefix}{self.names.word(key)}"} | (
            {"value": self.names.word(value)} if value else {}
        )

    def requirement(self, requirement: Body) -> dict[str, Any]:
        """Return a requirement of a node pool."""
        key = str(requirement.get("key") or "")
        values = [self._value(key, each) for each in requirement.get("values") or ()]
        return {**requirement, "key": self._key(key)} | ({"values": values} if values else {})

    def _key(self, key: str) -> str:
        return key if _is_known(key) or key in (HOSTNAME, NODE_POOL) else self.names.word(key)

    def _value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or _is_known(key):
            return value
        if key == HOSTNAME:
            return self.names.node(value)
        return self.names.name(value) if key == NODE_POOL else self.names.word(value)


def _is_known(key: str) -> bool:
    return key in _READ or _OF_VENDORS.fullmatch(key) is not None
