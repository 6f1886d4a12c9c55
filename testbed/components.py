"""The command lines of the control plane's components: pure functions of paths and ports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.certificates import KeyPair

SERVICE_RANGE = "10.0.0.0/16"

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  # kwok renews every fake node's lease; nobody asks about those.
  - {level: None, namespaces: [kube-node-lease]}
  - {level: Request, verbs: [create, update, patch, delete, deletecollection]}
  - {level: None}
"""
"""Every write of every identity, in order, with its body: what the tests hold an operator to."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports, one for every listener."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True, slots=True)
class Secrets:
    """Certificates and keys that the components share."""

    authority: Path
    server: KeyPair
    service_account_public: Path
    service_account_private: Path


def etcd(*, data: Path, ports: Ports) -> list[str]:
    """A single member that never waits for the disk: its data is thrown away with it."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        "--name=node0",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=node0={peer}",
        "--unsafe-no-fsync",
        # Nobody hears the beats of a single member, and it elects itself with the first one.
        "--heartbeat-interval=500",
        "--election-timeout=5000",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=5m",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def api_server(*, ports: Ports, secrets: Secrets, audit_policy: Path, audit_log: Path) -> list[str]:
    """The API server, with RBAC as on real clusters and an audit log that is complete when a request returns."""
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.api_server}",
        f"--tls-cert-file={secrets.server.certificate}",
        f"--tls-private-key-file={secrets.server.key}",
        f"--client-ca-file={secrets.authority}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={secrets.service_account_public}",
        f"--service-account-signing-key-file={secrets.service_account_private}",
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",  # MB: a rotated log would lose the start of a long run
    ]


def controller_manager(
    *, kubeconfig: Path, ports: Ports, secrets: Secrets, node_grace_seconds: int, endpoints: bool = False
) -> list[str]:
    """Every controller but those that need a cloud or a pod network.

    ``endpoints``: also that of Endpoints, which every cluster has. Here nobody reads them, so it runs only where the
    cost of a whole cluster is measured.
    """
    controllers = "--controllers=*,-nodeipam,-route,-service-lb-controller"
    return [
        *_client_component(kubeconfig, ports.controller_manager, secrets),
        f"--root-ca-file={secrets.authority}",
        f"--service-account-private-key-file={secrets.service_account_private}",
        "--use-service-account-credentials=true",
        controllers if endpoints else f"{controllers},-endpoints-controller",
        f"--node-monitor-grace-period={node_grace_seconds}s",
        "--horizontal-pod-autoscaler-sync-period=2s",  # 15 s by default; few clusters here have an autoscaler
    ]


def scheduler(*, kubeconfig: Path, ports: Ports, secrets: Secrets) -> list[str]:
    """The scheduler with its default profile."""
    return _client_component(kubeconfig, ports.scheduler, secrets)


def kwok(*, kubeconfig: Path, config: Path, ports: Ports) -> list[str]:
    """The kubelet of every fake node."""
    return [f"--kubeconfig={kubeconfig}", f"--config={config}", f"--server-address=127.0.0.1:{ports.kwok}"]


def _client_component(kubeconfig: Path, port: int, secrets: Secrets) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={secrets.server.certificate}",
        f"--tls-private-key-file={secrets.server.key}",
        "--authorization-always-allow-paths=/healthz,/metrics",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]
