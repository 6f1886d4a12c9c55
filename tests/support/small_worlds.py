"""Small worlds: a namespace with one deployment on nodes of its own, and a story that the live loop tells there.

The worlds share a control plane, a Prometheus and an operator, whose every request passes a proxy. Nothing in one of
them depends on another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from testbed.approvals import install_kinds
from testbed.control_plane import ControlPlane
from testbed.engines import Engines
from testbed.fault_proxy import FaultProxy
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from testbed.prometheus import Prometheus
from testbed.waiting import NotInTime, wait_until
from tests.support.faulty import fault_proxy, operator_through
from tests.support.installed import View, add_known_nodes, condition, inference_deployment, install
from tests.support.live_loop import L4_POOL, L40S_POOL, PRESSURE, TIMING, engine_spec
from tests.support.model_configs import config_of
from tests.support.planes import borrowed_plane

NAME = "model"
"""The deployment of every world has this name, so that worlds can be compared."""

APPROVAL = "yes"
"""The approval of a world in which somebody decides."""

ADMIN = "admin"
"""The user name of the control plane's administrator."""

TOO_FEW_TOKENS = 30_000
"""KV tokens of an engine; the declared load needs 48,000."""

PATIENCE_SECONDS = 90.0
"""Generous for a busy machine of two cores; an idle one needs five to ten."""

_CONFIG = {key: value for key, value in config_of("Qwen__Qwen2.5-7B-Instruct").items() if value is not None}
_AUTO = {"mode": "Auto", "maxReplicas": 3, **TIMING}
_ADVICE = {key: value for key, value in TIMING.items() if key != "changesPerHour"}


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts that all worlds share."""

    control_plane: ControlPlane
    engines: Engines
    proxy: FaultProxy
    operator: OperatorProcess

    def wait(self, question: Callable[[], bool], what: str) -> None:
        """Ask until the answer is yes. An operator that ends by itself, for example without a lease, is started again.

        Raises NotInTime with the end of the operator's log.
        """
        try:
            wait_until(lambda: self.operator.start_if_ended() and question(), PATIENCE_SECONDS, what)
        except NotInTime as error:
            raise NotInTime("\n".join([str(error), *self.operator.log_lines()[-20:]])) from error


@dataclass(frozen=True, slots=True)
class Story:
    """How a world is made and what happens in it.

    Attributes:
        name: of the story.
        gpus: GPUs of the world by product, each product on one node.
        rebalancing: ``spec.rebalancing`` at first.
        cause: what starts the change, for many worlds at once.
        ends_on: ready replicas by pool in the end.
        is_loaded: whether the load is there before the cause.
        ends_with: the reason that the live loop gives in the end; None: it says nothing.
    """

    name: str
    gpus: Mapping[str, int]
    rebalancing: Mapping[str, Any]
    cause: Callable[[Stage, World], Mapping[str, Any] | None]
    ends_on: Mapping[str, int]
    is_loaded: bool = False
    ends_with: str | None = "WithinBand"

    def is_prepared(self, view: View) -> bool:
        """Whether the cause may come."""
        body = view.get(NAME)
        if condition(body, "Ready").get("reason") != "Serving":
            return False
        return not self.is_loaded or bool(view.all("placementproposals", NAME))


@dataclass(frozen=True, slots=True)
class World:
    """One namespace with its deployment."""

    story: Story
    view: View

    @property
    def namespace(self) -> str:
        """The name of its namespace."""
        return self.view.namespace

    def gpus(self) -> dict[str, int]:
        """Its GPUs by node."""
        return {f"{self.namespace}-{product.lower()}": count for product, count in self.story.gpus.items()}

    def nodes(self) -> Iterator[dict[str, Any]]:
        """The manifests of its nodes."""
        for product, count in self.story.gpus.items():
            yield gpu_node(f"{self.namespace}-{product.lower()}", product, count, labels={"bench": self.namespace})

    def deployment(self) -> dict[str, Any]:
        """The manifest of its deployment."""
        spec = engine_spec(self.namespace, self.story.rebalancing, model=self._model)
        return inference_deployment(NAME, self.namespace, **spec)

    @property
    def _model(self) -> dict[str, Any]:
        """A model of the world's own: what engines show about a model counts for all deployments of that model."""
        return {"name": f"house/{self.namespace}", "config": _CONFIG}

    def is_at_rest(self) -> bool:
        """Whether the story is over: its replicas serve, nobody else does, and the live loop wants nothing more."""
        reported = self.view.get(NAME).get("status") or {}
        pools = {pool["name"]: pool["readyReplicas"] for pool in reported.get("pools") or ()}
        over = pools == self.story.ends_on and len(self.view.all("pods")) == sum(pools.values())
        return over and (reported.get("rebalancing") or {}).get("reason") == self.story.ends_with


def load(stage: Stage, world: World) -> None:
    """Clients come: their requests fill one engine."""
    stage.engines.load(f"{world.namespace}/{NAME}", kv_tokens=PRESSURE)


def shrink(stage: Stage, world: World) -> None:
    """The engine starts anew in its pod, and gets less KV cache than the declared load needs."""
    stage.engines.resize(f"{world.namespace}/{NAME}", TOO_FEW_TOKENS)


def approve(_: Stage, world: World) -> dict[str, Any]:
    """Somebody approves the only proposal."""
    [proposal] = world.view.all("placementproposals", NAME)
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "PlacementApproval",
        "metadata": {"name": APPROVAL, "namespace": world.namespace},
        "spec": {"deployment": NAME, "proposal": proposal["id"], "decision": "approve", "by": ADMIN},
    }


SCALE_OUT = Story("scale", {"L4": 2}, _AUTO, load, {L4_POOL: 2})
CALM = Story("calm", {"L4": 2}, _AUTO, lambda _, __: None, {L4_POOL: 1})
"""The live loop listens, and nothing happens."""
OFF = Story("off", {"L4": 2}, {"mode": "Off"}, lambda _, __: None, {L4_POOL: 1}, ends_with=None)
"""Nobody listens."""
MOVE = Story("move", {"L4": 1, "L40S": 1}, _AUTO, shrink, {L40S_POOL: 1})
APPROVED = Story("approved", {"L4": 2}, _ADVICE, approve, {L4_POOL: 2}, is_loaded=True)


def make(stage: Stage, worlds: Iterable[World]) -> None:
    """Make worlds, and wait until the cause may come in each of them."""
    worlds = list(worlds)
    plane = stage.control_plane
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}} for world in worlds)
    for world in worlds:
        path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/default"
        stage.wait(partial(plane.client.exists, path), path)
    add_known_nodes(stage.operator, plane, [node for world in worlds for node in world.nodes()])
    plane.apply(world.deployment() for world in worlds)
    for world in worlds:
        if world.story.is_loaded:
            load(stage, world)
    for world in worlds:
        stage.wait(partial(world.story.is_prepared, world.view), f"{world.namespace} prepared")


def begin(stage: Stage, worlds: Iterable[World]) -> None:
    """Let the cause come in every world."""
    made = [manifest for world in worlds if (manifest := world.story.cause(stage, world))]
    if made:
        items = {"apiVersion": "v1", "kind": "List", "items": made}
        stage.control_plane.kubectl("create", "-f", "-", stdin=json.dumps(items))


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Start everything on a control plane without nodes."""
    with borrowed_plane() as plane, Engines(plane.client) as engines, fault_proxy(plane) as proxy:
        install(plane)
        install_kinds(plane)
        directory = plane.directory / "prometheus"
        with Prometheus(plane.binaries, directory, [engines.target]) as prometheus:
            settings = {
                "PLIMSOLL_SIGNALS_SECONDS": "1",
                "PLIMSOLL_APPROVALS": "true",
                "PLIMSOLL_REBALANCING_MOVES_PER_HOUR": "1000",  # the worlds are many, and each one moves
                "PLIMSOLL_PROMETHEUS_URL": prometheus.url,
            }
            with operator_through(plane, proxy, environment=settings) as operator:
                yield Stage(plane, engines, proxy, operator)
