"""The KV cache that played engines pretend to have: a little less than was predicted, as real ones have."""

from __future__ import annotations

from typing import Any

from testbed.api_client import ApiClient

PLAYED_PERMILLE = 985
"""KV tokens that the played engines report, of those predicted: nothing was measured here, it is an exporter."""


def played_capacity(client: ApiClient, pod: dict[str, Any]) -> int | None:
    """Return the KV tokens of a pod's engine; None while the status does not predict any."""
    head = pod["metadata"]
    name, pool = head["labels"]["plimsoll.dev/deployment"], head["labels"]["plimsoll.dev/pool"]
    path = f"/apis/plimsoll.dev/v1alpha1/namespaces/{head['namespace']}/inferencedeployments/{name}"
    pools = (client.get(path).get("status") or {}).get("pools") or ()
    predicted = next((entry.get("kvTokensPredicted") for entry in pools if entry["name"] == pool), None)
    return None if predicted is None else int(predicted) * PLAYED_PERMILLE // 1000
