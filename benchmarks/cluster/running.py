"""One scenario on a control plane of its own."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cluster.bare import workloads
from benchmarks.cluster.putting import put_all
from benchmarks.cluster.scenarios import Figures, Scenario
from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from testbed.waiting import NotInTime, wait_until
from tests.support.faulty import IMPATIENT, fault_proxy, operator_through, sampled_health
from tests.support.installed import GROUP, View, condition, inference_deployment, install, operator_writes
from tests.support.neighbours import changing, make_busy

NAMESPACE = "many"
PRODUCTS = ("H100-80GB-HBM3", "L40S")
PROCESSES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "meta-llama/Llama-3.3-70B-Instruct",
    "google/gemma-3-27b-it",
)
SETTLED_SECONDS = 300.0
"""How long the settled operator is measured: the time from one list of all kinds to the next, so one list is in it."""

QUIET_SECONDS = 15.0
"""All counts as settled when the operator has written nothing for this long."""

POLL_SECONDS = 2.0
"""How often the state is asked for. A list of 1,000 rows takes a tenth of a second of the API server's CPU."""

NODE_BATCH = 250
BUSY_OBJECTS = 30
BUSY_PATCHES_PER_SECOND = 25.0
LARGE_FLEET = 100
"""More nodes than this need long leases: kwok renews about 30 a second."""

Say = Callable[[str], object]


def run(scenario: Scenario, say: Say) -> Figures:
    """Start everything, create the objects, and measure until all is still."""
    figures = Figures(scenario.objects, scenario.nodes)
    with ControlPlane(lease_seconds=200 if scenario.nodes > LARGE_FLEET else 40, endpoints=True) as plane:
        say(f"{scenario.objects} objects on {scenario.nodes} nodes: making the nodes")
        make_nodes(plane, scenario.nodes)
        install(plane)
        view = View(plane, plane.create_namespace(NAMESPACE))
        if scenario.bare:
            measure_bare(scenario, view, figures, say)
            return figures
        with operator_in(scenario, plane) as (operator, heal), neighbour_in(scenario, plane):
            with sampled_health(operator, every_seconds=1.0) as health:
                measure(scenario, view, operator, heal, figures, say)
            figures.health = dict(Counter(status for _, status in health.samples))
    return figures


@contextmanager
def operator_in(scenario: Scenario, plane: ControlPlane) -> Iterator[tuple[OperatorProcess, Callable[[], None]]]:
    """A running operator, and a function that ends its fault. Without a fault no proxy slows it down."""
    if scenario.fault is None:
        with OperatorProcess(plane, environment=IMPATIENT) as operator:
            yield operator, lambda: None
        return
    with fault_proxy(plane) as proxy, operator_through(plane, proxy) as operator:
        rule = proxy.add(scenario.fault, verbs=scenario.verbs, share=scenario.share)
        yield operator, lambda: proxy.remove(rule)


@contextmanager
def neighbour_in(scenario: Scenario, plane: ControlPlane) -> Iterator[None]:
    """Another tenant who changes costly objects all the time, if the scenario has one."""
    if not scenario.busy:
        yield
        return
    view = View(plane, plane.create_namespace("busy"))
    make_busy(view, BUSY_OBJECTS)
    with changing(view, BUSY_PATCHES_PER_SECOND, BUSY_OBJECTS):
        yield


def measure_bare(scenario: Scenario, view: View, figures: Figures, say: Say) -> None:
    """Fill in the figures of Kubernetes alone."""
    requests = list(workloads(view.namespace, scenario.objects, MODELS, PRODUCTS))
    used = cpu_by_process(view.control_plane)
    began = time.monotonic()
    put_all(view.control_plane, requests)
    figures.creating_seconds = time.monotonic() - began
    say(f"created in {figures.creating_seconds:.0f} s")
    try:
        figures.serving_seconds = reached(lambda: available(view) >= scenario.objects, scenario, began)
    except NotInTime as error:
        say(f"given up: {error}")
        return
    figures.cpu_seconds = spent(used, cpu_by_process(view.control_plane))


def measure(
    scenario: Scenario, view: View, operator: OperatorProcess, heal: Callable[[], None], figures: Figures, say: Say
) -> None:
    """Fill in the figures, in the order in which things happen."""
    used = cpu_by_process(view.control_plane, operator)
    began = time.monotonic()
    put_objects(view, scenario.objects)
    figures.creating_seconds = time.monotonic() - began
    say(f"created in {figures.creating_seconds:.0f} s")
    try:
        figures.first_deployment_seconds = reached(lambda: deployments(view) > 0, scenario, began)
        figures.last_deployment_seconds = reached(lambda: deployments(view) >= scenario.objects, scenario, began)
        say(f"the last Deployment after {figures.last_deployment_seconds:.0f} s")
        figures.serving_seconds = reached(lambda: serving(view) >= scenario.objects, scenario, began)
        say(f"all serving after {figures.serving_seconds:.0f} s")
    except NotInTime as error:
        say(f"given up: {error}")
        return
    figures.cpu_seconds = spent(used, cpu_by_process(view.control_plane, operator))
    figures.writes = dict(Counter(event.resource for event in operator_writes(view.control_plane)))
    heal()
    if scenario.hopeless:
        put_hopeless(view, scenario.hopeless)
        reached(lambda: refused(view) == scenario.hopeless, scenario, began)
        say(f"{scenario.hopeless} objects that cannot be placed say so")
    figures.rss_mib = resident_mib(operator)
    if not scenario.busy:
        await_quiet(view.control_plane)
        since = AuditLog(view.control_plane.audit_log).offset()
        figures.settled_cpu_share = cpu_share(operator, SETTLED_SECONDS)
        figures.writes_when_settled = len(operator_writes(view.control_plane, since))
    began = time.monotonic()
    view.apply("one-more")
    figures.new_object_seconds = reached(lambda: bool(view.all("pods", "one-more")), scenario, began, 0.2)


def await_quiet(plane: ControlPlane) -> None:
    """Wait until the operator has written nothing for a while."""
    log = AuditLog(plane.audit_log)
    seen, quiet_since = log.offset(), time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, quiet_since
        until, writes = log.offset(), operator_writes(plane, seen)
        if writes:
            seen, quiet_since = until, time.monotonic()
        return time.monotonic() - quiet_since > QUIET_SECONDS

    wait_until(is_quiet, 120.0, "a quiet operator", poll_seconds=POLL_SECONDS)


def reached(
    question: Callable[[], bool], scenario: Scenario, began: float, poll_seconds: float = POLL_SECONDS
) -> float:
    """Seconds since ``began`` when the answer is true for the first time."""
    left = max(1.0, began + scenario.limit_seconds - time.monotonic())
    wait_until(question, left, "the next step", poll_seconds=poll_seconds)
    return time.monotonic() - began


def make_nodes(plane: ControlPlane, count: int) -> None:
    """Half of them with H100s, half with L40S."""
    nodes = [gpu_node(f"node-{index:04}", PRODUCTS[index % 2], 8) for index in range(count)]
    for first in range(0, count, NODE_BATCH):
        plane.apply(nodes[first : first + NODE_BATCH])


def put_objects(view: View, count: int) -> None:
    """Create them in parallel, as a pipeline does that applies a whole repository."""
    path = f"{GROUP}/namespaces/{view.namespace}/inferencedeployments"
    put_all(
        view.control_plane,
        [
            (
                path,
                inference_deployment(f"many-{number:04}", view.namespace, model={"name": MODELS[number % len(MODELS)]}),
            )
            for number in range(count)
        ],
    )


def put_hopeless(view: View, count: int) -> None:
    """Objects that are searched for and found no place for."""
    too_large = {"model": {"name": "meta-llama/Llama-3.3-70B-Instruct"}, "contextLength": 131072, "concurrency": 512}
    not_there = {"gpu": {"allow": ["mi300x-192gb"]}}
    specs = [(too_large, not_there)[number % 2] for number in range(count)]
    manifests = [inference_deployment(f"no-{number}", view.namespace, **spec) for number, spec in enumerate(specs)]
    view.control_plane.apply(manifests)


def refused(view: View) -> int:
    """How many InferenceDeployments say that they have no place."""
    return sum(condition(body, "Planned").get("status") == "False" for body in view.all("inferencedeployments"))


def deployments(view: View) -> int:
    """How many Deployments exist."""
    return view.control_plane.client.count(f"/apis/apps/v1/namespaces/{view.namespace}/deployments")


def rows(view: View, plural: str) -> list[dict[str, Any]]:
    """The rows that ``kubectl get`` shows. Whole objects would keep the API server from what is measured."""
    group = GROUP if plural == "inferencedeployments" else "/apis/apps/v1"
    return view.control_plane.client.rows(f"{group}/namespaces/{view.namespace}/{plural}")


def serving(view: View) -> int:
    """How many InferenceDeployments serve."""
    return sum(row["Ready"] == "True" for row in rows(view, "inferencedeployments"))


def available(view: View) -> int:
    """How many Deployments have their pods."""
    return sum(row["Available"] > 0 for row in rows(view, "deployments"))


def cpu_by_process(plane: ControlPlane, operator: OperatorProcess | None = None) -> dict[str, float]:
    """CPU seconds so far of each part of the control plane, of the operator and of the measurement itself."""
    ids = {name: plane.process(name).pid for name in PROCESSES} | {"measurement": os.getpid()}
    if operator is not None:
        ids["operator"] = operator.pid
    return {name: cpu_seconds(process) for name, process in ids.items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, int]:
    """The whole seconds between two readings."""
    return {name: round(seconds - before[name]) for name, seconds in after.items()}


def resident_mib(operator: OperatorProcess) -> int:
    """Resident memory, from the kernel."""
    found = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{operator.pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def cpu_share(operator: OperatorProcess, seconds: float) -> float:
    """Share of one core that the process takes over so many seconds."""
    end, used = time.monotonic() + seconds, cpu_seconds(operator.pid)
    wait_until(lambda: time.monotonic() >= end, seconds + 30, "the end of the measurement")
    return (cpu_seconds(operator.pid) - used) / seconds


def cpu_seconds(process: int) -> float:
    """CPU time of the process so far, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
