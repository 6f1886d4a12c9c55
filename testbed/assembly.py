"""Everything a control plane needs on disk, and its processes, ready to be started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from testbed import components
from testbed.binaries import Binaries
from testbed.certificates import Authority, KeyPair, service_account_keys
from testbed.components import AUDIT_POLICY, Ports, Secrets
from testbed.kubeconfig import write_kubeconfig
from testbed.kwok_config import kwok_configuration
from testbed.ports import PortReservation
from testbed.processes import Child

_GRACE_BEYOND_LEASE_SECONDS = 10
"""How much longer than a lease the controller manager waits before it calls a node lost."""


_COLLECT_AT_PERCENT = "400"
"""How much a program's memory may grow before Go collects garbage (``GOGC``), in percent; Go's own default is 100.

A collection costs as much as what is alive, and an API server that has just started is alive with 200 MiB of schemas.
With 400 % it takes about 150 MiB more memory, and a tenth less time of the processor until Plimsoll is installed.
"""


@dataclass(frozen=True, slots=True)
class Assembly:
    """One control plane, not running yet; ``children`` are in start order."""

    server: str
    etcd: str
    authority: Authority
    admin: KeyPair
    children: dict[str, Child]
    health: dict[str, str]
    """Health endpoint of every component that has to be waited for."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may differ between control planes; see ``ControlPlane`` for the meaning."""

    judged: bool
    lease_seconds: int
    endpoints: bool = False


def assemble(directory: Path, binaries: Binaries, reservation: PortReservation, options: Options) -> Assembly:
    """Write certificates, kubeconfigs and configuration into ``directory`` and make the processes."""
    ports = Ports(*(reservation.take() for _ in range(6)))
    server = f"https://127.0.0.1:{ports.api_server}"
    authority = Authority(directory)
    public, private = service_account_keys(directory)
    secrets = Secrets(authority.certificate, authority.server(), public, private)

    def kubeconfig(file_name: str, client: KeyPair) -> Path:
        path = directory / f"{file_name}.kubeconfig"
        return write_kubeconfig(path, server=server, authority=authority.certificate, client=client)

    admin = authority.client("admin", "system:masters")
    kubeconfig("admin", admin)
    audit_policy = directory / "audit-policy.yaml"
    audit_policy.write_text(AUDIT_POLICY)
    audit_log = directory / "audit.log"
    audit_log.touch()  # the API server appends to a file that it finds; one that it makes could not be emptied later
    config = write_kwok_configuration(directory, binaries, options)
    commands = {
        "etcd": components.etcd(data=directory / "etcd", ports=ports),
        "kube-apiserver": components.api_server(
            ports=ports, secrets=secrets, audit_policy=audit_policy, audit_log=audit_log
        ),
        "kube-controller-manager": components.controller_manager(
            kubeconfig=kubeconfig("controller-manager", authority.client("system:kube-controller-manager")),
            ports=ports,
            secrets=secrets,
            node_grace_seconds=options.lease_seconds + _GRACE_BEYOND_LEASE_SECONDS,
            endpoints=options.endpoints,
        ),
        "kube-scheduler": components.scheduler(
            kubeconfig=kubeconfig("scheduler", authority.client("system:kube-scheduler")), ports=ports, secrets=secrets
        ),
        "kwok": components.kwok(
            kubeconfig=kubeconfig("kwok", authority.client("kwok", "system:masters")), config=config, ports=ports
        ),
    }
    children = {
        name: Child(
            name,
            [str(binaries[name]), *arguments],
            log=directory / f"{name}.log",
            environment=os.environ | {"GOGC": _COLLECT_AT_PERCENT},
            directory=directory,
            grace_seconds=0,  # nothing in it is worth saving, and the API server takes 12 s and more to end politely
        )
        for name, arguments in commands.items()
    }
    health = {
        "kube-apiserver": f"{server}/readyz",
        "kube-controller-manager": f"https://127.0.0.1:{ports.controller_manager}/healthz",
        "kube-scheduler": f"https://127.0.0.1:{ports.scheduler}/healthz",
        "kwok": f"http://127.0.0.1:{ports.kwok}/healthz",
    }
    return Assembly(server, f"http://127.0.0.1:{ports.etcd}", authority, admin, children, health)


def write_kwok_configuration(directory: Path, binaries: Binaries, options: Options) -> Path:
    """Write what kwok reads when it starts; returns the file."""
    config = directory / "kwok.yaml"
    config.write_text(
        kwok_configuration(kwok_stages=binaries.stages, judged=options.judged, lease_seconds=options.lease_seconds)
    )
    return config
