"""The order in which one pass writes its objects: those with the largest new pods first.

The scheduler binds pods in the order in which they are created. A pod that needs a whole node finds one more easily
before smaller pods are created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from plimsoll.app.plan.rendered import Desired
from plimsoll.app.watch.store import Body


def largest_pods_first(desired: Sequence[Desired]) -> list[Desired]:
    """Return the objects by the GPUs of their largest new pod, the largest first; objects without new pods are last.

    Among objects of equal size the namespaces alternate, so that a namespace with many objects delays no other.
    """
    seen: Counter[tuple[str, int]] = Counter()
    ranked: list[tuple[int, int, int, Desired]] = []
    for position, each in enumerate(desired):
        gpus = _gpus_of_largest_new_pod(each)
        ranked.append((-gpus, seen[each.key.namespace, gpus], position, each))
        seen[each.key.namespace, gpus] += 1
    return [each for *_, each in sorted(ranked, key=lambda entry: entry[:3])]


def _gpus_of_largest_new_pod(each: Desired) -> int:
    """The GPUs of the largest pod that this object's decision adds; 0 if it adds none."""
    if each.outcome.decision is None or not each.manifests:
        return 0
    pools = each.outcome.decision.pools
    added = (pool for pool in pools if pool.replicas > _replicas(each.workloads.get(pool.name)))
    return max((pool.split.shape.gpus_per_pod for pool in added), default=0)


def _replicas(workload: Body | None) -> int:
    return 0 if workload is None else int((workload.get("spec") or {}).get("replicas") or 0)
