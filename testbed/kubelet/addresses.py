"""Addresses of pods: the one that the API shows, and the one where this machine serves it.

The API server refuses loopback addresses in EndpointSlices, and any other range needs rights on the machine's network.
So a pod's address is ``10.a.b.c`` for Kubernetes, and its process listens at ``127.a.b.c``. On Linux the whole of
127.0.0.0/8 is this machine, so every pod keeps the port that its manifest names.

Programs that connect to ``status.podIP`` themselves, as an endpoint picker does, need the same address in both places:
see :class:`Net`.
"""

from __future__ import annotations

import itertools
import random
from enum import Enum

from testbed.commands import CommandFailed, run_command

_KWOKS_NET = "10.244."
"""The pods of kwok's nodes, which nobody serves."""

_LOOPBACK = "127."


class Net(Enum):
    """Where a kubelet's pods have their addresses; the value is the beginning of each."""

    MAPPED = "10."
    """The API shows these, and ``127.a.b.c`` is served. Only who knows of it reaches them."""
    LOOPBACK = _LOOPBACK
    """The API shows what is served. Services have no EndpointSlices then."""
    MACHINE = "198.18."
    """Both: this machine gets the addresses for a while, which takes rights (CAP_NET_ADMIN). They are of the block for
    benchmarks (RFC 2544), which no network routes."""


class NoAddresses(RuntimeError):
    """This process may not give the machine addresses; the message says what helps."""


def is_served(pod_ip: str) -> bool:
    """Whether this is an address that a process kubelet may have given to a pod, and kwok has not."""
    is_ours = pod_ip.startswith(tuple(net.value for net in Net))
    return is_ours and not pod_ip.startswith(_KWOKS_NET)


def served_at(pod_ip: str) -> str:
    """Return the address that a pod's process listens at. Raises ValueError for an address of somebody else's pod."""
    if not is_served(pod_ip):
        raise ValueError(f"{pod_ip} is no address of a process kubelet's pod")
    mapped = Net.MAPPED.value
    return _LOOPBACK + pod_ip.removeprefix(mapped) if pod_ip.startswith(mapped) else pod_ip


class PodAddresses:
    """The addresses of one kubelet: a random network of 254, so that two kubelets of this machine do not meet."""

    def __init__(self, net: Net = Net.MAPPED) -> None:
        second = "" if net is Net.MACHINE else f"{random.randint(1, 240)}."  # noqa: S311 -- guards nothing
        base = f"{net.value}{second}{random.randint(0, 255)}."  # noqa: S311
        self.node = f"{base}254"
        self._is_machines, self._is_open = net is Net.MACHINE, False
        self._free = (f"{base}{host}" for host in itertools.cycle(range(1, 254)))

    def take(self) -> str:
        """Return the next address; the first comes again after 253 others."""
        return next(self._free)

    def open(self) -> None:
        """Let the machine answer at them. Raises NoAddresses."""
        if not self._is_machines:
            return
        try:
            self._change("add")
        except (CommandFailed, OSError) as error:
            alone = "unshare --net --map-root-user sh -c 'ip link set lo up && make test-gateway'"
            raise NoAddresses(f"{error}; once all programs are built, {alone} has these rights") from error
        self._is_open = True

    def close(self) -> None:
        """Take them from the machine again; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._change("del")

    def _change(self, verb: str) -> None:
        """On the loopback device, the whole network of an address is the machine's."""
        run_command(["ip", "address", verb, f"{self.node}/24", "dev", "lo"])
