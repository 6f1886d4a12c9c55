"""A small cluster with something for every page of the console: two teams, what is placed and what is not, and load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.approvals import install_kinds
from testbed.console_process import ConsoleProcess
from testbed.control_plane import ControlPlane
from testbed.demo_approval import LONG_PROMPTS
from testbed.engines import Engines
from testbed.established import wait_until_established
from testbed.fleet import gpu_node, mixed_fleet
from testbed.operator_process import OperatorProcess, install_rbac
from testbed.played_capacity import played_capacity
from testbed.prometheus import Prometheus
from testbed.story import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent
TEAM_A, TEAM_B = "team-a", "team-b"
PLACED_A = {
    "01-minimal": "llama-8b",
    "02-70b-fp8": "llama-70b",
    "05-rebalancing": "qwen-7b",
    "06-overrides": "forced",  # by an admin's figure: it is over its line
}
UNPLACED_A = {"04-does-not-fit": "too-big"}
PLACED_B = {"03-long-context": "long-context"}
"""Folders of ``examples/`` and the names of their deployments, by team."""

CORDONED = "l40s-cordoned"
OTHERS_POD = "notebook"
"""A pod of team B that holds a GPU and serves no InferenceDeployment."""

_OPERATOR = {"PLIMSOLL_SIGNALS_SECONDS": "1", "PLIMSOLL_APPROVALS": "true"}
_SECONDS = 60.0
_PROPOSAL_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that runs."""

    control_plane: ControlPlane
    engines: Engines
    prometheus: Prometheus
    operator: OperatorProcess

    def console(self, kubeconfig: Path, *arguments: str, live: bool = True) -> ConsoleProcess:
        """A console, not started yet, of the person with this kubeconfig.

        Args:
            kubeconfig: see :mod:`testbed.people`.
            arguments: more words of the command line.
            live: whether it knows the address of Prometheus.
        """
        url = self.prometheus.url if live else None
        return ConsoleProcess(kubeconfig, self.control_plane.directory, prometheus_url=url, arguments=arguments)

    def condition(self, namespace: str, name: str, kind: str) -> dict[str, Any]:
        """One condition of an InferenceDeployment; empty while there is none."""
        path = f"/apis/plimsoll.dev/v1alpha1/namespaces/{namespace}/inferencedeployments/{name}"
        listed = (self.control_plane.client.get(path).get("status") or {}).get("conditions") or ()
        return dict(next((each for each in listed if each["type"] == kind), {}))

    def wait_condition(self, namespace: str, name: str, kind: str) -> None:
        """Wait until a condition is true. Raises NotInTime."""
        self.control_plane.wait_until(
            lambda: self.condition(namespace, name, kind).get("status") == "True", _SECONDS, f"{name} {kind}"
        )


def add_load(running: Scene) -> None:
    """Let one deployment be near its line, and wait until another one gets a proposal. Raises NotInTime."""
    running.engines.load(f"{TEAM_A}/qwen-7b", kv_usage=0.9, running=12, waiting=2)
    running.engines.stream(f"{TEAM_A}/llama-70b", LONG_PROMPTS)
    path = f"/apis/plimsoll.dev/v1alpha1/namespaces/{TEAM_A}/placementproposals"
    client = running.control_plane.client
    running.control_plane.wait_until(lambda: client.get(path)["items"], _PROPOSAL_SECONDS, "a proposal")


@contextmanager
def scene(plane: Callable[[], AbstractContextManager[ControlPlane]] = ControlPlane) -> Iterator[Scene]:
    """Start everything on a control plane without nodes, and wait until each deployment is placed or refused."""
    with ExitStack() as stack:
        control_plane = stack.enter_context(plane())
        _install(control_plane)
        client = control_plane.client
        engines = stack.enter_context(Engines(client, capacity_of=lambda pod: played_capacity(client, pod)))
        directory = control_plane.directory / "prometheus"
        prometheus = stack.enter_context(Prometheus(control_plane.binaries, directory, [engines.target]))
        operator = stack.enter_context(
            OperatorProcess(control_plane, prometheus_url=prometheus.url, environment=_OPERATOR)
        )
        made = Scene(control_plane, engines, prometheus, operator)
        _populate(made)
        yield made


def _install(control_plane: ControlPlane) -> None:
    control_plane.apply([*mixed_fleet(), gpu_node(CORDONED, "L40S", 4, unschedulable=True)])
    control_plane.apply([yaml.safe_load((ROOT / "crds" / "plimsoll.dev_inferencedeployments.yaml").read_text())])
    wait_until_established(control_plane.kubectl, "inferencedeployments.plimsoll.dev")
    install_rbac(control_plane, ROOT / "charts" / "plimsoll")
    install_kinds(control_plane)
    control_plane.kubectl("apply", "-f", str(EXAMPLES / "prices.yaml"))
    for team in (TEAM_A, TEAM_B):
        control_plane.create_namespace(team)


def _populate(made: Scene) -> None:
    made.control_plane.apply([_notebook()])
    apply_examples(made.control_plane, TEAM_A, [*PLACED_A, *UNPLACED_A])
    apply_examples(made.control_plane, TEAM_B, [*PLACED_B])
    for team, names in ((TEAM_A, PLACED_A), (TEAM_B, PLACED_B)):
        for name in names.values():
            made.wait_condition(team, name, "Ready")
    for name in UNPLACED_A.values():
        made.wait_condition(TEAM_A, name, "Stalled")
    made.engines.load(f"{TEAM_A}/llama-8b", kv_usage=0.6, running=4, waiting=0)


def apply_examples(control_plane: ControlPlane, namespace: str, examples: Sequence[str]) -> None:
    """Apply the deployments of examples in a namespace."""
    for example in examples:
        manifest = yaml.safe_load((EXAMPLES / example / "deployment.yaml").read_text())
        manifest["metadata"]["namespace"] = namespace
        control_plane.apply([manifest])


def _notebook() -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": OTHERS_POD, "namespace": TEAM_B},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "a100-0"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "notebook", "image": "registry.example/notebook", "resources": limits}],
        },
    }
