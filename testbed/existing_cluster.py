"""A cluster that the user already has, behind the same few methods as a control plane of our own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.binaries import ensure_binaries
from testbed.commands import run_command


class ExistingCluster:
    """The cluster of a kubeconfig and context, as kubectl would take them. Nothing of it is started or stopped.

    Args:
        kubeconfig: a file; None takes kubectl's default.
        context: a context's name; None takes the current one.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self._options = [
            *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
            *([f"--context={context}"] if context else []),
        ]
        self._kubectl = shutil.which("kubectl") or ""
        self.directory = Path(tempfile.mkdtemp(prefix="plimsoll-demo-"))

    def __enter__(self) -> Self:
        self._kubectl = self._kubectl or str(ensure_binaries()["kubectl"])
        self.admin_kubeconfig = self.directory / "admin.kubeconfig"
        self.admin_kubeconfig.touch(mode=0o600)
        view = ["config", "view", "--minify", "--flatten", "--raw", "-o", "json"]
        self.admin_kubeconfig.write_text(run_command([self._kubectl, *self._options, *view]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the user and return its stdout. Raises CommandFailed."""
        command = [self._kubectl, f"--kubeconfig={self.admin_kubeconfig}", *arguments]
        return run_command(command, stdin=stdin, check=check)

    def helm(self, *arguments: str) -> str:
        """Run Helm; it is only asked to render, so it needs no cluster. Raises CommandFailed."""
        return run_command([shutil.which("helm") or str(ensure_binaries()["helm"]), *arguments])

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Apply manifests, in order. Raises CommandFailed with kubectl's words."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(items))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """The user's kubeconfig with the service account's token in place of the user's own rights."""
        config = json.loads(self.admin_kubeconfig.read_text())
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration=8h").strip()
        for user in config["users"]:
            user["user"] = {"token": token}
        path = self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path
