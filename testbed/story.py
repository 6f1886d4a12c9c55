"""A story that prints itself while it happens: the steps, the commands that a user would type, and what they print."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from testbed.control_plane import ControlPlane
from testbed.existing_cluster import ExistingCluster
from testbed.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
STEP_SECONDS = 120.0

Cluster = ControlPlane | ExistingCluster


class Story:
    """Tells what happens, with the seconds since the beginning."""

    def __init__(self, cluster: Cluster, console: Console, namespace: str) -> None:
        self._cluster = cluster
        self._console = console
        self._namespace = namespace
        self._begun = time.monotonic()

    def tell(self, text: str) -> None:
        """One step of the story."""
        self._console.print(
            f"\n[bold cyan]{time.monotonic() - self._begun:5.1f} s[/]  [bold]{text}[/]", highlight=False
        )

    def say(self, text: str) -> None:
        """The result."""
        self._console.print(f"         {text}", highlight=False, markup=False, soft_wrap=True)

    def show(self, *arguments: str) -> None:
        """Run a kubectl command and show what it prints."""
        self._console.print(f"         $ kubectl {' '.join(arguments[:3])} ...", style="dim", highlight=False)
        for line in self.kubectl(*arguments).splitlines():
            self.say(line)

    def types(self, command: str, *, who: str = "") -> None:
        """Show a whole command as somebody types it."""
        self._console.print(f"         {who}$ {command}", style="dim", highlight=False, markup=False, soft_wrap=True)

    def does(self, *arguments: str) -> None:
        """Run a kubectl command, and show all of it and what it prints."""
        self.types(shlex.join(("kubectl", *arguments)))
        for line in self.kubectl(*arguments).splitlines():
            self.say(line)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the story's namespace."""
        return self._cluster.kubectl("--namespace", self._namespace, *arguments)

    def apply(self, example: str) -> str:
        """Apply one example; returns the deployment's name."""
        path = EXAMPLES / example / "deployment.yaml"
        self.say(f"$ kubectl apply -f examples/{example}/deployment.yaml")
        self.kubectl("apply", "-f", str(path))
        return str(yaml.safe_load(path.read_text())["metadata"]["name"])

    def status(self, name: str) -> dict[str, Any]:
        """The status of one deployment."""
        return dict(json.loads(self.kubectl("get", "infd", name, "-o", "json")).get("status") or {})

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition; empty while there is none."""
        listed = self.status(name).get("conditions") or ()
        return dict(next((condition for condition in listed if condition["type"] == kind), {}))

    def wait(self, question: Callable[[], object], what: str) -> None:
        """Wait for a fact. Raises NotInTime."""
        wait_until(lambda: bool(question()), STEP_SECONDS, what)

    def wait_serving(self, name: str) -> None:
        """Until every replica serves; then say where, at which price, and what a GPU needs there."""
        self.wait(lambda: self.condition(name, "Ready").get("status") == "True", f"{name} serving")
        status = self.status(name)
        placement, estimate = status["placement"], status["estimate"]
        place = f"{placement['gpuType']}, tensor parallel {placement['tensorParallel']}, ${placement['hourlyPrice']}/h"
        may = f"{estimate['budgetBytes'] / 2**30:.1f}"
        self.say(f"-> {place}: {estimate['gibPerGpu']} GiB of the {may} that the engine may use of each GPU")
