"""Kueue's labels: the queue that admits an object's pods, and their priority in it."""

from __future__ import annotations

from collections.abc import Mapping

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""The LocalQueue (``pkg/controller/constants/constants.go`` in kubernetes-sigs/kueue at ff69552e79)."""

QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""The WorkloadPriorityClass (same source)."""

QUEUE_LABELS = (QUEUE_LABEL, QUEUE_PRIORITY_LABEL)


def queue_labels(labels: object) -> dict[str, str]:
    """Return Kueue's labels among the labels of an object, which may be anything that somebody wrote."""
    if not isinstance(labels, Mapping):
        return {}
    return {name: labels[name] for name in QUEUE_LABELS if isinstance(labels.get(name), str) and labels[name]}
