"""A Kubernetes control plane of its own for every caller: started in seconds, gone without a trace."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from testbed.api_client import AT_ONCE, ApiClient, ApiError, absence_is_fine
from testbed.applying import Applier
from testbed.assembly import Assembly, Options, assemble, write_kwok_configuration
from testbed.binaries import Binaries, ensure_binaries
from testbed.commands import run_command
from testbed.instance_directory import InstanceDirectory
from testbed.kubeconfig import write_kubeconfig
from testbed.kwok_config import NOT_READY_LABEL
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.waiting import wait_until

T = TypeVar("T")

_START_ATTEMPTS = 3
_HEALTH_SECONDS = 180.0
_NODES_SECONDS = 60.0
_DAY = 86_400
"""Seconds for which a token is good."""


class StartFailed(RuntimeError):
    """A component ended instead of becoming healthy; the message carries the end of its log."""


class ControlPlane:
    """etcd, API server, controller manager, scheduler and kwok, on loopback ports of their own.

    Args:
        judged: engine pods (label ``plimsoll.dev/deployment``) become ready only with a verdict; needs a ``Judge``.
        lease_seconds: node lease, which kwok renews four times in its length: most writes where nothing happens are
            renewals. It renews about 30 leases a second, so 1,000 nodes need 200.
        endpoints: keep Endpoints, as every cluster does, where the cost of a whole cluster is measured.
        keep: leave the instance directory behind at the end, to read its logs.
    """

    def __init__(
        self, *, judged: bool = False, lease_seconds: int = 120, endpoints: bool = False, keep: bool = False
    ) -> None:
        self._options = Options(judged=judged, lease_seconds=lease_seconds, endpoints=endpoints)
        self._keep = keep
        self._reservation = PortReservation()
        self._directory: InstanceDirectory | None = None
        self._binaries: Binaries | None = None
        self._assembly: Assembly | None = None
        self._client: ApiClient | None = None
        self._applier: Applier | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything and wait until pods can be made; builds the programs first if they are missing.

        Raises:
            StartFailed: a component did not come up, also not on other ports.
        """
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self._start_once()
            except StartFailed as error:
                self.stop()
                if "address already in use" not in str(error) or attempt == _START_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                break
        return self

    def stop(self) -> None:
        """Kill every process and remove the instance directory; may be called twice."""
        if self._assembly is not None:
            for child in reversed(self._assembly.children.values()):
                child.kill()
        self._reservation.release()
        if self._directory is not None:
            self._directory.close()
        self._assembly = self._client = self._applier = self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_once(self) -> None:
        self._binaries = ensure_binaries()
        self._directory = InstanceDirectory(keep=self._keep)
        self._assembly = assemble(self._directory.path, self._binaries, self._reservation, self._options)
        self._client = ApiClient(self._assembly.server, self._assembly.authority.certificate, self._assembly.admin)
        self._applier = Applier(self._client)
        self._start_components()
        self._wait_for_service_account("default")

    def _start_components(self) -> None:
        names = list(self._running.children)
        for name in names[:2]:
            self.process(name).start()
        self._wait_healthy("kube-apiserver", names[:2])
        self._forget_node_leases()
        for name in names[2:]:
            self.process(name).start()
        for name in names[2:]:
            self._wait_healthy(name, names)

    def _wait_healthy(self, name: str, begun: Sequence[str]) -> None:
        """Wait for one component's health endpoint, but not while one of those that were started has ended already."""
        url = self._running.health[name]
        children = [self.process(other) for other in begun]

        def healthy_or_ended() -> str:
            ended = [child for child in children if not child.is_running]
            return "ended" if ended else "healthy" if self.client.health(url) else ""

        if wait_until(healthy_or_ended, _HEALTH_SECONDS, f"{name} healthy") == "ended":
            ended = next(child for child in children if not child.is_running)
            raise StartFailed(f"{ended.name} ended while it was started:\n{ended.tail()}")

    @property
    def _running(self) -> Assembly:
        return _started(self._assembly)

    # -- where things are ---------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """Logs, certificates, kubeconfigs and data of this instance. Raises RuntimeError when it is not started."""
        return _started(self._directory).path

    @property
    def server(self) -> str:
        """The API server's base URL."""
        return self._running.server

    @property
    def client(self) -> ApiClient:
        """Requests as cluster administrator, from any thread. Raises RuntimeError when it is not started."""
        return _started(self._client)

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig in the group ``system:masters``."""
        return self.directory / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON event a line, for every write; see ``testbed.audit``."""
        return self.directory / "audit.log"

    @property
    def binaries(self) -> Binaries:
        """The programs this control plane runs."""
        if self._binaries is None:
            self._binaries = ensure_binaries()
        return self._binaries

    def process(self, name: str) -> Child:
        """One component, by its program's name, for faults. Raises KeyError for other names."""
        return self._running.children[name]

    # -- doing things -------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and return its stdout (with ``check=False`` and after a failure: also stderr).

        Raises:
            CommandFailed: it failed, and ``check`` is true.
        """
        options = [f"--kubeconfig={self.admin_kubeconfig}", f"--cache-dir={self.directory / 'kubectl-cache'}"]
        return run_command([str(self.binaries["kubectl"]), *options, *arguments], stdin=stdin, check=check)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """Run Helm as administrator, with caches of its own, and return its stdout. Raises CommandFailed."""
        return run_command([str(self.binaries["helm"]), *arguments], stdin=stdin, environment=self._helm_environment())

    def etcdctl(self, *arguments: str) -> str:
        """Run etcdctl against the API server's store, whose cache hides e.g. a compaction till it restarts."""
        return run_command([str(self.binaries["etcdctl"]), f"--endpoints={self._running.etcd}", *arguments])

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Apply manifests, in order. Raises ApiError with the API server's words."""
        for manifest in manifests:
            _started(self._applier).apply(manifest)

    def create_namespace(self, name: str) -> str:
        """Make a namespace in which pods can be made at once; returns its name.

        An earlier one of that name that is on its way out is waited for.
        """
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        wait_until(lambda: self._is_made(manifest), _HEALTH_SECONDS, f"an earlier namespace {name} gone")
        self._wait_for_service_account(name)
        return name

    def service_account_kubeconfig(self, namespace: str, name: str, *, server: str | None = None) -> Path:
        """A kubeconfig with a fresh token (TokenRequest) of a service account, good for a day.

        Args:
            namespace: of the service account, and the kubeconfig's default.
            name: of the service account, which must exist.
            server: another URL to write down, e.g. of a proxy in between.

        Raises:
            ApiError: there is no such service account.
        """
        return write_kubeconfig(
            self.directory / f"{namespace}.{name}.kubeconfig",
            server=server or self.server,
            authority=self._running.authority.certificate,
            token=self.service_account_token(namespace, name),
            namespace=namespace,
        )

    def service_account_token(self, namespace: str, name: str) -> str:
        """A fresh token of a service account, as ``kubectl create token`` gets it. Raises ApiError."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _DAY}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.client.send("POST", path, asked)["status"]["token"])

    def user_kubeconfig(self, user: str) -> Path:
        """A kubeconfig of a person, who has only the rights that somebody grants to this user name."""
        return write_kubeconfig(
            self.directory / f"{user}.kubeconfig",
            server=self.server,
            authority=self._running.authority.certificate,
            client=self._running.authority.client(user),
        )

    def set_judged(self, *, judged: bool) -> None:
        """Let engine pods become ready only with a judge's verdict from now on, or without one; kwok starts anew."""
        if judged == self._options.judged:
            return
        self._options = replace(self._options, judged=judged)
        self.process("kwok").kill()
        self._forget_node_leases()
        write_kwok_configuration(self.directory, self.binaries, self._options)
        self.process("kwok").start()
        self._wait_healthy("kwok", ["kwok"])

    def _forget_node_leases(self) -> None:
        """Another kwok would leave every node alone until the leases of the one before have run out."""
        self.client.send("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")

    def stop_apiserver(self) -> None:
        """Kill the API server; everything else keeps running and finds nobody."""
        self.process("kube-apiserver").kill()

    def start_apiserver(self) -> None:
        """Start the API server again, on the same port and data, and wait until it is ready."""
        self.process("kube-apiserver").start()
        self._wait_healthy("kube-apiserver", ["etcd", "kube-apiserver"])

    def set_storage_alarm(self, *, on: bool) -> None:
        """Let the store behave as if its quota were used up, so that every write fails, or end that."""
        action = "ACTIVATE" if on else "DEACTIVATE"
        body = json.dumps({"action": action, "alarm": "NOSPACE", "memberID": self._store_member()}).encode()
        request = urllib.request.Request(f"{self._running.etcd}/v3/maintenance/alarm", data=body, method="POST")  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - loopback
            pass

    def _store_member(self) -> str:
        """The id of etcd's only member, as its gateway writes it."""
        listed = json.loads(self.etcdctl("member", "list", "--write-out=json"))
        return str(listed["members"][0]["ID"])

    def back_up(self) -> Path:
        """Copy the store's data; etcd is away for a moment. Returns what :meth:`restore` takes."""
        backup = self.directory / f"backup-{uuid.uuid4().hex[:6]}"
        self.process("etcd").kill()
        shutil.copytree(self.directory / "etcd", backup)
        self.process("etcd").start()
        return backup

    def restore(self, backup: Path) -> None:
        """Go back to a backup, as an admin does: everything stops, the data is exchanged, everything starts again."""
        children = self._running.children
        for child in reversed(children.values()):
            child.kill()
        shutil.rmtree(self.directory / "etcd")
        shutil.copytree(backup, self.directory / "etcd")
        self._start_components()

    def add_nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Apply nodes. They are ready when this returns, all of them.

        They do not get ready in the order in which they are made, and a deployment goes where there is a node.
        """
        wanted = list(nodes)
        self.apply(wanted)
        names = {str(node["metadata"]["name"]) for node in wanted}
        if names:
            self.wait_until(lambda: not names - self._ready_nodes(), _NODES_SECONDS, f"nodes {sorted(names)} ready")

    def ready_gpus(self) -> int:
        """The GPUs of all nodes that pods may be bound to."""
        nodes = self.client.get("/api/v1/nodes")["items"]
        open_to_pods = (node for node in nodes if _is_ready(node) and not node["spec"].get("unschedulable"))
        offers = [node["status"]["allocatable"] for node in open_to_pods]
        return sum(int(offer[name]) for offer in offers for name in offer if name.endswith("/gpu"))

    def _ready_nodes(self) -> set[str]:
        nodes = self.client.get("/api/v1/nodes")["items"]
        return {str(node["metadata"]["name"]) for node in nodes if _is_ready(node)}

    def lose_node(self, name: str) -> None:
        """Delete a node and its pods as if the machine had burnt: the pod garbage collector alone takes about 54 s."""
        self.client.send("DELETE", f"/api/v1/nodes/{name}")
        for pod in self.client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
            head = pod["metadata"]
            with absence_is_fine():
                self.client.send("DELETE", f"/api/v1/namespaces/{head['namespace']}/pods/{head['name']}", AT_ONCE)

    def set_node_ready(self, name: str, *, ready: bool) -> None:
        """Make a fake node NotReady or Ready again, within a second or two; its pods stay."""
        labels = {NOT_READY_LABEL: None if ready else "true"}
        self.client.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def wait_until(self, predicate: Callable[[], T], timeout: float, what: str) -> T:
        """See :func:`testbed.waiting.wait_until`."""
        return wait_until(predicate, timeout, what)

    def _is_made(self, namespace: Mapping[str, Any]) -> bool:
        """Create a namespace. False where one of that name is being deleted.

        The API server does not say so of one that goes while it looks.
        """
        try:
            self.client.send("POST", "/api/v1/namespaces", namespace)
        except ApiError as error:
            path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
            is_going = "being deleted" in str(error) or not self.client.exists(path)
            if error.status != HTTPStatus.CONFLICT or not is_going:
                raise
            return False
        return True

    def _wait_for_service_account(self, namespace: str) -> None:
        """Until then the API server turns down every pod of the namespace."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_until(lambda: self.client.exists(path), _HEALTH_SECONDS, f"service account of namespace {namespace}")

    def _helm_environment(self) -> dict[str, str]:
        own = {f"HELM_{kind}_HOME": str(self.directory / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return os.environ | own | {"KUBECONFIG": str(self.admin_kubeconfig)}


def _started(part: T | None) -> T:
    """A part that exists only between start and stop."""
    if part is None:
        raise RuntimeError("the control plane is not started; use it in a `with` statement")
    return part


def _is_ready(node: Mapping[str, Any]) -> bool:
    """Whether pods may be bound to a node, as far as its state says. A node that is cordoned is ready."""
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
