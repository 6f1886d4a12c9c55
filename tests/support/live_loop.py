"""A control plane with played engines, a real Prometheus and the operator: what the live loop's tests are about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from testbed.audit import AuditEvent, AuditLog
from testbed.engine_pods import CAPACITY_ANNOTATION
from testbed.engine_queue import Stream
from testbed.engines import Engines
from testbed.fleet import gpu_node
from testbed.operator_process import USER, OperatorProcess
from testbed.played_past import PlayedPast
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until
from tests.support.faulty import PATIENT
from tests.support.installed import PATIENCE_SECONDS, View, add_known_nodes, install
from tests.support.planes import OUR_KINDS, borrowed_plane

CAPACITY = 80_000
"""KV tokens of a played engine; the declared load needs 48,000."""

PRESSURE = 79_200
"""Tokens that fill 99 % of one engine and half of two: more than one may hold, and too much to take the other away."""

TIMING = {"windowSeconds": 8, "cooldownSeconds": 5, "changesPerHour": 100}
L4_POOL, L40S_POOL = "l4-24gb-tp1", "l40s-48gb-tp1"


def engine_spec(
    bench: str, rebalancing: Mapping[str, Any], capacities: Mapping[str, int] | None = None, **spec: Any
) -> dict[str, Any]:
    """The spec of a deployment on the nodes with this label ``bench``.

    ``capacities`` gives KV tokens by pool where they are not the usual ones. Each replica gets one GPU, so that its
    pool is known before.
    """
    more = {f"{CAPACITY_ANNOTATION}.{pool}": str(tokens) for pool, tokens in (capacities or {}).items()}
    return {
        "model": {"name": "Qwen/Qwen2.5-7B-Instruct"},
        "contextLength": 16_384,
        "concurrency": 16,
        "expectedTokens": {"prompt": 1500, "output": 500},
        "gpu": {"maxPerReplica": 1},
        "podTemplate": {
            "nodeSelector": {"bench": bench},
            "annotations": {CAPACITY_ANNOTATION: str(CAPACITY)} | more,
        },
        "rebalancing": dict(rebalancing),
        **spec,
    }


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that runs, and short questions to it."""

    view: View
    engines: Engines
    prometheus: Prometheus
    operator: OperatorProcess

    def add_nodes(self, bench: str, **gpus: int) -> None:
        """Nodes of the test's own: ``gpus`` counts by product. The operator knows of them when this returns."""
        self.add_nodes_of({bench: gpus})

    def add_nodes_of(self, benches: Mapping[str, Mapping[str, int]]) -> None:
        """The same for several."""
        nodes = [
            gpu_node(f"{bench}-{product.lower()}", product, count, labels={"bench": bench})
            for bench, gpus in benches.items()
            for product, count in gpus.items()
        ]
        add_known_nodes(self.operator, self.view.control_plane, nodes)

    def deploy(
        self, name: str, rebalancing: Mapping[str, Any], capacities: Mapping[str, int] | None = None, **spec: Any
    ) -> None:
        """A deployment on its own nodes; see :func:`engine_spec`."""
        self.view.apply(name, **engine_spec(name, rebalancing, capacities, **spec))

    def load(self, name: str, **demand: Any) -> None:
        """See :meth:`testbed.engines.Engines.load`."""
        self.engines.load(f"{self.view.namespace}/{name}", **demand)

    def stream(self, name: str, stream: Stream) -> None:
        """See :meth:`testbed.engines.Engines.stream`."""
        self.engines.stream(f"{self.view.namespace}/{name}", stream)

    def play_startup(self, name: str, seconds: float) -> None:
        """Let the pods say that they were bound so many seconds before they were ready."""
        for pod in self.view.pods(name):
            ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
            bound = datetime.fromisoformat(ready["lastTransitionTime"]) - timedelta(seconds=seconds)
            said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{bound:%Y-%m-%dT%H:%M:%SZ}"}
            path = f"/api/v1/namespaces/{self.view.namespace}/pods/{pod['metadata']['name']}/status"
            patch = {"status": {"conditions": [said]}}
            merge = "application/strategic-merge-patch+json"
            self.view.control_plane.client.send("PATCH", path, patch, content_type=merge)

    def rebalancing(self, name: str) -> dict[str, Any]:
        """The live loop's part of the status."""
        return _rebalancing(self.view.get(name))

    def replicas(self, name: str) -> dict[str, int]:
        """Ready replicas by pool, of pools that want any."""
        return _ready(self.view.pools(name))

    def settled(self, name: str) -> dict[str, int]:
        """The same once every wanted replica serves and no pod is left over; empty before."""
        pools = self.view.pools(name)
        wanted = {pool["name"]: pool["replicas"] for pool in pools if pool["replicas"]}
        serves = wanted == _ready(pools) and all(pool["state"] == "Active" for pool in pools)
        return wanted if serves and len(self.view.pods(name)) == sum(wanted.values()) else {}

    def wait_reason(self, name: str, reason: str, timeout: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until the live loop gives this reason; returns its part of the status."""
        return self.wait_reasons({name: reason}, timeout)[name]

    def wait_reasons(self, wanted: Mapping[str, str], timeout: float = PATIENCE_SECONDS) -> dict[str, dict[str, Any]]:
        """Wait until each of several gives its reason at the same time."""
        seen: dict[str, dict[str, Any]] = {}

        def all_said() -> bool:
            # One question: the objects of a namespace cost little more than one of them.
            bodies = {body["metadata"]["name"]: body for body in self.view.all("inferencedeployments")}
            seen.update({name: _rebalancing(bodies.get(name, {})) for name in wanted})
            return all(seen[name].get("reason") == reason for name, reason in wanted.items())

        try:
            self.view.wait(all_said, f"reasons {dict(wanted)}", timeout)
        except AssertionError as error:
            said = {name: (part.get("reason"), part.get("message")) for name, part in seen.items()}
            raise AssertionError(f"{error}; they say {said}") from error
        return seen

    def wait_message(self, name: str, ending: str, timeout: float = PATIENCE_SECONDS) -> None:
        """Wait until the message of the live loop ends with this text."""

        def said() -> str:
            return str(self.rebalancing(name).get("message"))

        try:
            self.view.wait(lambda: said().endswith(ending), f"{name} says {ending!r}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {said()!r}") from error

    def wait_settled(self, name: str, pools: Mapping[str, int], timeout: float = PATIENCE_SECONDS) -> None:
        """Wait until these replicas, by pool, are all there is and all serve."""
        try:
            self.view.wait(lambda: self.settled(name) == pools, f"{name} on {dict(pools)}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; pools {self.view.pools(name)}, {self.rebalancing(name)}") from error

    def now(self) -> int:
        """The audit log's end."""
        return AuditLog(self.view.control_plane.audit_log).offset()

    def writes(self, since: int, name: str | None = None) -> list[AuditEvent]:
        """What the operator wrote, all of it or about one deployment."""
        events = AuditLog(self.view.control_plane.audit_log).events(since, user=USER)
        return [event for event in events if name is None or _is_about(event, name)]


def _rebalancing(body: Mapping[str, Any]) -> dict[str, Any]:
    return dict((body.get("status") or {}).get("rebalancing") or {})


def _ready(pools: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {pool["name"]: pool["readyReplicas"] for pool in pools if pool["replicas"]}


def _is_about(event: AuditEvent, name: str) -> bool:
    return event.name == name or event.name.startswith((f"{name}-", f"{name}."))


def changes(events: list[AuditEvent]) -> list[tuple[str, str, str]]:
    """Writes that change what runs: everything but statuses and events."""
    told = ("inferencedeployments/status", "events")
    return [(event.verb, event.resource, event.name) for event in events if event.resource not in told]


def makes_ready(event: AuditEvent, prefix: str) -> bool:
    """Whether a write makes a pod of this prefix ready."""
    if event.resource != "pods/status" or not event.name.startswith(prefix):
        return False
    listed = (event.body.get("status") or {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in listed)


def stays(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask again and again for a while, and fail at the first no."""
    end = time.monotonic() + seconds

    def is_over() -> bool:
        assert holds(), what
        return time.monotonic() >= end

    wait_until(is_over, seconds + 60, what, poll_seconds=0.5)


@contextmanager
def bench_of(
    namespace: str,
    environment: Mapping[str, str] | None = None,
    *,
    targets: Sequence[str] = (),
    past: PlayedPast | None = None,
    module: str = "plimsoll",
    knows: Sequence[str] = OUR_KINDS,
) -> Iterator[Bench]:
    """Start everything on a control plane without nodes.

    ``environment`` holds more settings of the operator, ``targets`` more addresses for Prometheus to scrape. Prometheus
    has the days of ``past`` before the operator starts. ``module`` is the operator that is run. The control plane may
    know the kinds of ``knows`` from the file before.
    """
    settings = {"PLIMSOLL_SIGNALS_SECONDS": "1", **PATIENT, **(environment or {})}
    with borrowed_plane(knows=knows) as control_plane, Engines(control_plane.client) as engines:
        install(control_plane)
        view = View(control_plane, control_plane.create_namespace(namespace))
        directory = control_plane.directory / "prometheus"
        with (
            Prometheus(control_plane.binaries, directory, [engines.target, *targets], **_days_of(past)) as prometheus,
            OperatorProcess(
                control_plane, prometheus_url=prometheus.url, environment=settings, module=module
            ) as operator,
        ):
            yield Bench(view, engines, prometheus, operator)


def _days_of(past: PlayedPast | None) -> dict[str, Any]:
    return {} if past is None else {"jobs": [past.job], "days": past.days}
