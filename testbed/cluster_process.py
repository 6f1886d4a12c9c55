"""A program of others that runs next to a control plane: its process, its ports, and what is installed for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from testbed.api_client import ApiError, http_text
from testbed.control_plane import ControlPlane
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.waiting import NotInTime

READY_SECONDS = 180.0


class ClusterProcess(ABC):
    """One process, from :meth:`start` (or ``with``, which installs before) to :meth:`stop`.

    Args:
        control_plane: which cluster. It keeps what is installed: give it back to nobody.
        name: of the process, and of its folder in the control plane's.
    """

    def __init__(self, control_plane: ControlPlane, name: str) -> None:
        self._control_plane = control_plane
        self._reservation = PortReservation()
        self._name = name
        self._directory = control_plane.directory / name
        self._directory.mkdir()
        self._child: Child | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._child is not None and self._child.is_running

    @abstractmethod
    def install(self) -> None:
        """Bring onto the control plane what the program needs there."""

    def start(self) -> Self:
        """Start it, and wait until it is ready. Raises NotInTime with the end of its log."""
        if self._child is None:
            command, environment = self._command()
            log = self._directory / f"{self._name}.log"
            self._child = Child(self._name, command, log=log, environment=environment, directory=self._directory)
        self._child.start()
        try:
            self._wait_until_ready()
        except NotInTime as error:
            raise NotInTime(f"{error}; its log ends with:\n{self._child.tail()}") from error
        return self

    def kill(self) -> None:
        """End it at once, as a fault, until :meth:`start`."""
        if self._child is not None:
            self._child.kill()

    def stop(self) -> None:
        """End it and give its ports back."""
        if self._child is not None:
            self._child.stop()
        self._reservation.release()

    def __enter__(self) -> Self:
        try:
            self.install()
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """The command line and the whole environment; called once."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it does its work."""

    def _wait_until_ready(self) -> None:
        self._control_plane.wait_until(self._is_alive_and_ready, READY_SECONDS, f"{self._name} ready")

    def _is_alive_and_ready(self) -> bool:
        if self._child is not None and not self._child.is_running:
            raise NotInTime(f"{self._name} ended with status {self._child.exit_status}")
        return self._is_ready()

    def _install_user(self, user: str, namespace: str) -> None:
        """Make the namespace, and let the user do there and elsewhere what it may do in a cluster, or more."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        self._control_plane.create_namespace(namespace)
        self._control_plane.apply([binding])


def is_well(url: str) -> bool:
    """Whether a page of a program's health is there."""
    try:
        http_text(url, timeout=2)
    except (ApiError, OSError):
        return False
    return True
