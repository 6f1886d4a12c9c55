"""Real parts together: control plane, process kubelet with vLLM, Prometheus that finds the pods, and the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.fleet import cpu_node, gpu_node
from testbed.kubelet.addresses import Net, served_at
from testbed.kubelet.engine_image import ENGINE_IMAGE, KV_BLOCKS_ANNOTATION, engine_image
from testbed.kubelet.images import Image
from testbed.kubelet.kubelet import Kubelet
from testbed.kubelet.router_images import router_images
from testbed.kubelet.scraping import ScrapeTargets
from testbed.operator_process import OperatorProcess
from testbed.prometheus import Prometheus
from testbed.routing_kinds import install_pools
from testbed.traffic.traffic import Load, Traffic
from tests.support.installed import View, install

START_SECONDS = 900.0
"""Two engines that start together on two quiet cores are ready after 60 to 100 s; only what hangs takes so long."""

L4_NODE, L40S_NODE = "cpu-as-l4", "cpu-as-l40s"
L4_POOL, L40S_POOL = "l4-24gb-tp1", "l40s-48gb-tp1"

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
"""Beside its weights, an L4 has room for 10,976 tokens of KV cache."""

QWEN = "Qwen/Qwen2.5-7B-Instruct"
"""Another model, so that nothing is learned from the engines of the first."""

LLAMA_BLOCKS = {L4_POOL: 86}
"""KV blocks of 128 tokens: the engine with the tiny model gets the cache that the GPU would have given."""

QWEN_BLOCKS = {L4_POOL: 17, L40S_POOL: 1000}
"""On an L4 the engine finds 2,176 tokens, of 4,096 that are needed; on an L40S there are enough."""

OVERLOAD = Load(per_second=20, users=24, prompt_tokens=1000, output_tokens=250)
"""24 requests at a time want 240 blocks of 128 tokens, almost three times the cache of one engine."""

LIGHT = Load(per_second=0.5, users=2, prompt_tokens=60, output_tokens=20)

SHORT = Load(per_second=1, users=4, prompt_tokens=60, output_tokens=20)
"""After a minute of it, the live loop has the 60 answers from which it knows that requests are short now."""

TIMING = {"windowSeconds": 10, "cooldownSeconds": 5, "changesPerHour": 60}
AUTO = {"mode": "Auto", "maxReplicas": 2, **TIMING}


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that runs, and short questions to it."""

    view: View
    kubelet: Kubelet
    prometheus: Prometheus
    between: FaultProxy
    """Carries the operator's questions to Prometheus, and can spoil the answers."""
    operator: OperatorProcess

    def deploy(self, name: str, model: str, kv_blocks: Mapping[str, int], **spec: Any) -> None:
        """A deployment in Auto mode. ``kv_blocks``: what its engines find for their KV cache, by pool."""
        annotations = {f"{KV_BLOCKS_ANNOTATION}.{pool}": str(blocks) for pool, blocks in kv_blocks.items()}
        usual: dict[str, Any] = {
            "model": {"name": model},
            "contextLength": 4096,
            "concurrency": 8,
            "expectedTokens": {"prompt": 100, "output": 50},
            "engine": {"enforceEager": True, "gpuMemoryUtilizationPercent": 76},
            "overrides": {"tensorParallel": 1},
            "podTemplate": {"annotations": annotations},
            "rebalancing": AUTO,
        }
        self.view.apply(name, **usual | spec)

    def traffic(self, service: str) -> Traffic:
        """Users of a deployment's Service, not started."""
        return Traffic(self.view.control_plane.client, self.view.namespace, service, locate=served_at)

    def rebalancing(self, name: str) -> dict[str, Any]:
        """The live loop's part of the status."""
        return dict((self.view.get(name).get("status") or {}).get("rebalancing") or {})

    def is_blind(self, name: str) -> bool:
        """Whether the live loop says that Prometheus gives no answers."""
        return self.rebalancing(name).get("reason") == "MetricsUnavailable"

    def reported_pool(self, name: str) -> dict[str, Any]:
        """The one pool of the status, once its engines have said how much KV cache they have."""
        [pool] = self.view.pools(name)
        return dict(pool) if "kvTokensReported" in pool else {}

    def wait_ready(self, name: str) -> dict[str, Any]:
        """Wait until everything wanted serves; returns the object."""
        return dict(self._explained(lambda: self.view.wait_ready(name, START_SECONDS)))

    def wait(self, question: Any, what: str, seconds: float) -> Any:
        """Ask until the answer is true."""
        return self._explained(lambda: self.view.wait(question, what, seconds))

    def ready_pods(self, name: str) -> list[str]:
        """Names of the deployment's pods that are Ready and stay."""
        return [
            pod["metadata"]["name"]
            for pod in self.view.pods(name)
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])
        ]

    def _explained(self, wait: Any) -> Any:
        """Add what everybody said to the error of a wait."""
        try:
            return wait()
        except AssertionError as error:
            said = "\n".join(self.operator.log_lines()[-20:])
            loop = "\n".join(f"{name}: {self.rebalancing(name)}" for name in self._names())
            raise AssertionError(
                f"{error}\n== live loop\n{loop}\n== operator\n{said}\n{self.kubelet.logs()}"
            ) from error

    def _names(self) -> list[str]:
        return [str(body["metadata"]["name"]) for body in self.view.all("inferencedeployments")]

    def arguments(self, pod: str) -> list[str]:
        """The command line of a pod's engine, as its process shows it; Linux only."""
        [address] = {each["status"]["podIP"] for each in self.view.all("pods") if each["metadata"]["name"] == pod}
        [found] = [words for words in _command_lines() if served_at(address) in words]
        return found

    def most(self, metric: str, pod: str) -> float:
        """The highest value of an engine's metric in the last half hour; NaN where Prometheus has none."""
        return self.prometheus.value(f'max_over_time({metric}{{pod="{pod}"}}[30m])')


def _command_lines() -> Iterator[list[str]]:
    """The command lines of all processes; one may end meanwhile."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_bytes().decode(errors="replace").split("\0")


def usual_nodes() -> list[dict[str, Any]]:
    """A node with three L4 and one with an L40S."""
    return [gpu_node(L4_NODE, "L4", 3), gpu_node(L40S_NODE, "L40S", 1)]


@contextmanager
def bench_of(
    namespace: str,
    model_dir: Path,
    *,
    nodes: Sequence[dict[str, Any]] | None = None,
    environment: Mapping[str, str] | None = None,
    image: Image | None = None,
    module: str = "plimsoll",
    routed: bool = False,
) -> Iterator[Bench]:
    """Start everything; there are no other nodes than these. ``environment`` holds more settings of the operator.

    ``image`` stands for the engine's; None: the one with this model. ``module`` is the operator that is run.
    ``routed``: there are InferencePools, and the images of routers. Then the API shows loopback addresses of pods.
    """
    with ControlPlane() as control_plane:
        install(control_plane)
        images = {ENGINE_IMAGE: image or engine_image(model_dir)}
        if routed:
            install_pools(control_plane)
            images |= router_images(control_plane)
            nodes = [*(nodes or usual_nodes()), cpu_node("cpu")]
        view = View(control_plane, control_plane.create_namespace(namespace))
        settings = {"PLIMSOLL_SIGNALS_SECONDS": "1", **(environment or {})}
        targets = ScrapeTargets(control_plane.client, control_plane.directory / "targets.json")
        with (
            targets,
            Kubelet(
                control_plane, nodes or usual_nodes(), images, net=Net.LOOPBACK if routed else Net.MAPPED
            ) as kubelet,
            Prometheus(
                control_plane.binaries, control_plane.directory / "prometheus", [], jobs=[targets.job()]
            ) as prometheus,
            FaultProxy(prometheus.url) as between,
            OperatorProcess(control_plane, prometheus_url=between.url, environment=settings, module=module) as operator,
        ):
            yield Bench(view, kubelet, prometheus, between, operator)
