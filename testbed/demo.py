"""The live demonstration: a control plane, a mixed GPU fleet, the operator, and what it makes of the examples.

``python -m testbed.demo`` builds or finds the programs, plays the story in a minute and a half, and stays up until
Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from testbed.approvals import install_kinds
from testbed.binaries import ensure_binaries, ensure_routing_kinds
from testbed.console_process import ConsoleProcess
from testbed.control_plane import ControlPlane
from testbed.demo_approval import ask_before_a_change, leave_a_proposal
from testbed.demo_routing import place_behind_a_router, router_of, wake_command, wake_from_zero
from testbed.ending import end_on_signals, stay_up
from testbed.engines import Engines
from testbed.established import wait_until_established
from testbed.existing_cluster import ExistingCluster
from testbed.fleet import mixed_fleet
from testbed.operator_process import NAMESPACE, OperatorProcess, install_rbac
from testbed.played_capacity import played_capacity
from testbed.prometheus import Prometheus
from testbed.routing_kinds import install_pools
from testbed.story import EXAMPLES, Cluster, Story
from testbed.waiting import NotInTime

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = (
    "NAME:.metadata.name,READY:.status.conditions[?(@.type=='Ready')].status,"
    "REASON:.status.conditions[?(@.type=='Ready')].reason,GPU:.status.placement.gpuType,"
    "TP:.status.placement.tensorParallel,REPLICAS:.status.replicasSummary,GIB/GPU:.status.estimate.gibPerGpu,"
    "KV-TOKENS:.status.estimate.kvCapacityTokens,$/H:.status.placement.hourlyPrice"
)
OPERATOR = {"PLIMSOLL_SIGNALS_SECONDS": "1", "PLIMSOLL_APPROVALS": "true"}
"""The operator looks at the load every second, so that the story is short, and hears approvals as under its chart."""
_EXPECTED = (NotInTime, RuntimeError, OSError, subprocess.SubprocessError)
"""What programs, requests and waits of the testbed raise, with a message that says what was tried."""
PLIMSOLL = Path(sys.executable).with_name("plimsoll")


def main() -> int:
    """Tell the story. Exit status 0 when every step came true, 1 when one did not."""
    arguments = _arguments()
    end_on_signals()
    console = Console(width=None if sys.stdout.isatty() else 160)
    chosen = arguments.kubeconfig or arguments.context or os.environ.get("KUBECONFIG")
    try:
        if chosen:
            _on_existing_cluster(arguments, console)
        else:
            _on_own_control_plane(arguments, console)
    except _EXPECTED as error:
        console.print(f"\nA step did not come true: {error}", style="bold red", highlight=False, markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("\nEverything is stopped and removed.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testbed.demo", description=__doc__)
    parser.add_argument("--exit", action="store_true", help="end after the story instead of staying up")
    parser.add_argument("--kubeconfig", help="use this cluster instead of an own control plane")
    parser.add_argument("--context", help="a context of the kubeconfig")
    return parser.parse_args()


def _on_own_control_plane(arguments: argparse.Namespace, console: Console) -> None:
    ensure_binaries()
    ensure_routing_kinds()
    with contextlib.ExitStack() as stack:
        console.print("Starting etcd, kube-apiserver, controller manager, scheduler and KWOK ...")
        control_plane = stack.enter_context(ControlPlane())
        story = Story(control_plane, console, "default")
        story.tell("A mixed fleet: 8 x H100, 8 x A100-80GB, 4 x L40S, 1 x L4, 8 x MI300X")
        control_plane.apply(mixed_fleet())
        story.show("get", "nodes", "-o", _NODE_COLUMNS)
        _install(control_plane, story)
        install_kinds(control_plane)
        install_pools(control_plane)
        engines = stack.enter_context(
            Engines(control_plane.client, capacity_of=lambda pod: played_capacity(control_plane.client, pod))
        )
        prometheus = stack.enter_context(
            Prometheus(control_plane.binaries, control_plane.directory / "prometheus", [engines.target])
        )
        stack.enter_context(OperatorProcess(control_plane, prometheus_url=prometheus.url, environment=OPERATOR))
        router = stack.enter_context(router_of(control_plane, engines))
        _place_examples(story)
        place_behind_a_router(story)
        _lose_a_node(control_plane, story)
        _add_pressure(engines, story)
        ask_before_a_change(control_plane, engines, story)
        wake_from_zero(router, story)
        leave_a_proposal(engines, story)
        _look_around(
            control_plane,
            story,
            console,
            (
                "kubectl get infd,placementproposals,placementapprovals",
                f"{PLIMSOLL} explain too-big",
                f"{PLIMSOLL} plan -f examples/13-total-load/deployment.yaml",
                wake_command(router),
            ),
        )
        _open_console(stack, console, control_plane.admin_kubeconfig, prometheus.url, "--allow-approvals")
        _stay(arguments, console)


_NODE_COLUMNS = (
    "custom-columns=NAME:.metadata.name,NVIDIA:.metadata.labels.nvidia\\.com/gpu\\.product,"
    "GPUS:.status.allocatable.nvidia\\.com/gpu,AMD:.metadata.labels.amd\\.com/gpu\\.product-name,"
    "AMD-GPUS:.status.allocatable.amd\\.com/gpu"
)


def _install(cluster: Cluster, story: Story) -> None:
    story.tell("The CRDs, this cluster's GPU prices, and the operator under exactly the rights of its Helm chart")
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
    wait_until_established(cluster.kubectl, "inferencedeployments.plimsoll.dev")
    install_rbac(cluster, ROOT / "charts" / "plimsoll")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "prices.yaml"))


def _place_examples(story: Story) -> None:
    story.tell("An 8B model: the cheapest card that holds weights and cache")
    story.wait_serving(story.apply("01-minimal"))
    story.tell("A 70B in FP8: too large for one 80 GB card, so large cards compete with pairs of smaller ones")
    story.wait_serving(story.apply("02-70b-fp8"))
    story.tell("Eight requests of 128 Ki tokens on an 8B: the KV cache decides the tensor-parallel degree")
    story.wait_serving(story.apply("03-long-context"))
    story.tell("An admin's figure in the place of the computed one: it is placed, and said to be over its line")
    forced = story.apply("06-overrides")
    story.wait(lambda: story.status(forced).get("placement"), f"{forced} placed")
    for warning in story.status(forced)["placement"]["warnings"]:
        story.say(f"-> {warning}")
    story.tell("A load that fits nowhere: refused with the nearest candidate and what would help")
    refused = story.apply("04-does-not-fit")
    story.wait(lambda: story.condition(refused, "Stalled"), f"{refused} refused")
    story.say(f"-> {story.condition(refused, 'Stalled')['message']}")
    story.show("get", "infd", "-o", f"custom-columns={COLUMNS}")


def _lose_a_node(control_plane: ControlPlane, story: Story) -> None:
    story.tell("The L4 node burns down; the 8B that ran there is planned anew")
    control_plane.lose_node("l4-0")
    name = "llama-8b"
    story.wait(lambda: story.status(name)["placement"]["gpuType"] != "l4-24gb", f"{name} on another GPU type")
    story.wait_serving(name)


def _add_pressure(engines: Engines, story: Story) -> None:
    story.tell("Live load: Prometheus sees the KV cache of a 7B fill up, and rebalancing may act")
    name = story.apply("05-rebalancing")
    story.wait_serving(name)
    engines.load(f"default/{name}", kv_usage=1.0, running=16, waiting=6)
    story.say("the engine now reports 100 % of its KV cache in use and 6 waiting requests")
    story.wait(lambda: story.status(name).get("readyReplicas", 0) > 1, f"a second replica of {name}")
    live = story.status(name)["rebalancing"]
    story.say(f"-> {live['lastChange']}")


def _look_around(cluster: Cluster, story: Story, console: Console, commands: tuple[str, ...]) -> None:
    story.tell("Look around")
    console.print(f"         export KUBECONFIG={cluster.admin_kubeconfig}", soft_wrap=True, highlight=False)
    for command in commands:
        console.print(f"         {command}", soft_wrap=True, highlight=False)
    if isinstance(cluster, ControlPlane) and shutil.which("kubectl") is None:
        told = f"         (kubectl, if you have none: {cluster.binaries['kubectl']})"
        console.print(told, soft_wrap=True, highlight=False, style="dim")


def _open_console(
    stack: contextlib.ExitStack,
    console: Console,
    kubeconfig: Path,
    prometheus_url: str | None = None,
    *arguments: str,
) -> None:
    """Serve the console as long as the demonstration stays up, and print its address. ``arguments`` are options."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-console-")))
    served = stack.enter_context(
        ConsoleProcess(kubeconfig, directory, prometheus_url=prometheus_url, arguments=arguments)
    )
    console.print(f"         the same in a browser: {served.entry}", soft_wrap=True, highlight=False)


def _on_existing_cluster(arguments: argparse.Namespace, console: Console) -> None:
    """The user's own GPUs: install the CRD and the rights, run the operator here, show the first example.

    At the end both namespaces are deleted; the CRD and the cluster roles stay.
    """
    namespace = "plimsoll-demo"
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ExistingCluster(arguments.kubeconfig, arguments.context))
        story = Story(cluster, console, namespace)
        if cluster.kubectl("get", "deployment", "plimsoll", "-n", NAMESPACE, "--ignore-not-found", "-o", "name"):
            raise NotInTime(f"this cluster runs Plimsoll already, in {NAMESPACE}: two operators would work at once")
        story.tell("The GPUs of your cluster")
        story.show("get", "nodes", "-o", _NODE_COLUMNS)
        _install(cluster, story)
        cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        stack.callback(cluster.kubectl, "delete", "namespace", namespace, NAMESPACE, "--wait=false")
        stack.enter_context(OperatorProcess(cluster))
        name = story.apply("01-minimal")
        story.wait(lambda: story.condition(name, "Planned").get("reason") not in (None, "ResolvingModel"), "a decision")
        story.say(f"-> {story.condition(name, 'Planned')['message']}")
        story.show("get", "infd", "-o", f"custom-columns={COLUMNS}")
        _look_around(
            cluster,
            story,
            console,
            (f"kubectl get infd -n {namespace} -o wide", f"{PLIMSOLL} explain {name} -n {namespace}"),
        )
        _open_console(stack, console, cluster.admin_kubeconfig)
        _stay(arguments, console)


def _stay(arguments: argparse.Namespace, console: Console) -> None:
    if arguments.exit:
        return
    console.print("\nStaying up. Ctrl-C stops everything and removes it.", style="bold")
    stay_up()


if __name__ == "__main__":
    sys.exit(main())
