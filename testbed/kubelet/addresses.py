"""Addresses of pods: the one that the API shows, and the one where this machine serves it.

The API server refuses loopback addresses in EndpointSlices, and any other range needs rights on the machine's network.
So a pod's address is ``10.a.b.c`` for Kubernetes, and its process listens at ``127.a.b.c``. On Linux the whole of
127.0.0.0/8 is this machine, so every pod keeps the port that its manifest names.

Programs that connect to ``status.podIP`` themselves, as an endpoint picker does, need the same address in both places.
A kubelet ``on_loopback`` gives its pods such addresses; their Services have no EndpointSlices then.
"""

from __future__ import annotations

import itertools
import random

_POD_NET, _SERVED_NET = "10.", "127."
_KWOKS_NET = "10.244."
"""The pods of kwok's nodes, which nobody serves."""


def is_served(pod_ip: str) -> bool:
    """Whether this is an address that a process kubelet may have given to a pod, and kwok has not."""
    is_ours = pod_ip.startswith((_POD_NET, _SERVED_NET))
    return is_ours and not pod_ip.startswith(_KWOKS_NET)


def served_at(pod_ip: str) -> str:
    """Return the loopback address of a pod's process. Raises ValueError for an address of somebody else's pod."""
    if not is_served(pod_ip):
        raise ValueError(f"{pod_ip} is no address of a process kubelet's pod")
    return pod_ip if pod_ip.startswith(_SERVED_NET) else _SERVED_NET + pod_ip.removeprefix(_POD_NET)


class PodAddresses:
    """The addresses of one kubelet: a random network of 254, so that two kubelets of this machine do not meet.

    Args:
        on_loopback: whether the API shows the addresses that the pods listen at.
    """

    def __init__(self, *, on_loopback: bool = False) -> None:
        net = f"{_SERVED_NET if on_loopback else _POD_NET}{random.randint(1, 240)}.{random.randint(0, 255)}."  # noqa: S311 -- guards nothing
        self.node = f"{net}254"
        self._free = (f"{net}{host}" for host in itertools.cycle(range(1, 254)))

    def take(self) -> str:
        """Return the next address; the first comes again after 253 others."""
        return next(self._free)
