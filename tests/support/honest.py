"""The honest tenant: is it placed, updated and deleted as fast as when nobody hurts anybody?"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from testbed.fleet import gpu_node
from tests.support.installed import View

_TENANT = "tenant"
_FACTOR, _FLOOR_SECONDS = 4.0, 60.0
"""A machine of two cores that runs other tests at the same time is not slow because of a fault."""
_FIRST_SECONDS = 120.0
_LOADING_SECONDS = 120.0
"""The fake kubelet's part: it has the same two cores, and a poisoner's pods to play as well."""

ALLOWED_SECONDS = float(os.environ.get("PLIMSOLL_ALLOWED_SECONDS", "45"))
"""What a busy machine may add to twice the usual time. ``make neighbours`` allows 1.5 s, on a quiet one."""

_serial = itertools.count(1)


def honest_nodes(count: int = 2, tenant: str = "honest") -> list[dict[str, Any]]:
    """Nodes that only one tenant may use: what others lawfully take is not taken from it."""
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": _TENANT, "value": tenant, "effect": "NoSchedule"},
    ]
    return [
        gpu_node(f"{tenant}-{index}", "H100-80GB-HBM3", 8, labels={_TENANT: tenant}, taints=taints)
        for index in range(count)
    ]


def honest_spec(tenant: str = "honest", **more: Any) -> dict[str, Any]:
    """The spec of an object that is served on the nodes of that tenant and nowhere else."""
    return {
        "overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 1},
        "podTemplate": {
            "nodeSelector": {_TENANT: tenant},
            "tolerations": [{"key": _TENANT, "operator": "Equal", "value": tenant, "effect": "NoSchedule"}],
        },
        **more,
    }


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds until an object's pods had nodes, until a change was in its Deployment, and until all of it was gone."""

    placed: float
    updated: float
    deleted: float


@dataclass(slots=True)
class Honest:
    """A tenant in a namespace of its own.

    Attributes:
        view: its namespace.
        usual: how long each step takes when nothing is wrong; see :meth:`measure`.
        laps: every lap that was run.
    """

    view: View
    usual: Lap | None = None
    laps: list[Lap] = field(default_factory=list)

    def measure(self) -> None:
        """Find out how fast things are on this machine, before there is any fault."""
        self.usual = None
        self.usual = self.assert_served()

    def assert_served(self) -> Lap:
        """Place, change and delete an object. Raises NotInTime where a step takes much longer than usual."""
        name = f"honest-{next(_serial)}"
        began = time.monotonic()
        self.view.apply(name, **honest_spec())
        self.view.wait_condition(name, "Placed", "True", timeout=self._limit("placed"))
        placed = time.monotonic()
        self.view.wait_ready(name, timeout=_LOADING_SECONDS)
        changed = time.monotonic()
        self.view.patch(name, {"contextLength": 8192})
        self.view.wait(lambda: self._told(name, "8192"), f"the change in {name}'s Deployment", self._limit("updated"))
        updated = time.monotonic()
        self.view.wait(lambda: self._serves_only(name, "8192"), f"the change in {name}'s pods", _LOADING_SECONDS)
        self.view.wait_ready(name, timeout=_LOADING_SECONDS)
        ended = time.monotonic()
        self.view.delete("inferencedeployments", name)
        self.view.wait(lambda: self._is_gone(name), f"{name} gone", self._limit("deleted"))
        lap = Lap(placed - began, updated - changed, time.monotonic() - ended)
        self.laps.append(lap)
        return lap

    @contextmanager
    def standing(self, name: str = "stands") -> Iterator[None]:
        """An object that serves before, through and after a block, by the very same pod."""
        self.view.apply(name, **honest_spec())
        self.view.wait_ready(name, timeout=_FIRST_SECONDS)
        before = [pod["metadata"]["uid"] for pod in self.view.pods(name)]
        yield
        self.view.wait_ready(name, timeout=_LOADING_SECONDS)
        assert [pod["metadata"]["uid"] for pod in self.view.pods(name)] == before, "its pod was replaced"
        self.view.delete("inferencedeployments", name)
        self.view.wait(lambda: self._is_gone(name), f"{name} gone", self._limit("deleted"))

    def _limit(self, step: str) -> float:
        if self.usual is None:
            return _FIRST_SECONDS
        return max(_FLOOR_SECONDS, _FACTOR * float(getattr(self.usual, step)))

    def _told(self, name: str, context: str) -> bool:
        live = self.view.all("deployments", name)
        return bool(live) and all(_context_of(body["spec"]["template"]) == context for body in live)

    def _serves_only(self, name: str, context: str) -> bool:
        pods = self.view.pods(name)
        return bool(pods) and all(_context_of(pod) == context for pod in pods)

    def _is_gone(self, name: str) -> bool:
        return not self.view.get(name) and not any(self.view.all(kind, name) for kind in ("deployments", "pods"))


def _context_of(pod: dict[str, Any]) -> str:
    """What a pod, or a template of pods, tells its engine to serve."""
    words = pod["spec"]["containers"][0]["args"]
    return str(words[words.index("--max-model-len") + 1])
