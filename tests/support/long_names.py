"""A cluster whose names and numbers are as long as those of real ones: nothing of them may be cut on a page.

Kubernetes takes 63 letters for a label, and for the name of a node more; people use 40 for a deployment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from plimsoll.cli.commands.simulate import Simulated, simulation_document, simulation_run_of
from plimsoll.console.sources.commands import Commands, Ran
from plimsoll.console.sources.live import LiveSource
from plimsoll.console.views.load.live_use import (
    LiveReading,
    LiveState,
    MapSpan,
    PastUse,
    PodLast,
    PodPast,
    SampledFigure,
)
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL
from plimsoll.simulation.simulate import simulate
from testbed.fleet import gpu_node
from tests.support.console_pages import Answering, world_of
from tests.support.proposals import ID, place
from tests.support.proposals import proposal as short_proposal
from tests.support.rendered import example, fleet_of, plan_one

Body = dict[str, Any]

NAMESPACE = "retrieval-augmented-generation-production"
SERVING = "customer-support-assistant-llama-8b-chat"
OVER = "internal-code-review-assistant-forced-xl"
NEAR = "multilingualdocumentsummarizationservice"
UNPLACED = "quarterly-report-analysis-long-documents"
NAMES = (SERVING, OVER, NEAR, UNPLACED)
"""Names of 40 letters, one of them without a hyphen to break a line at."""

H100 = "gke-inference-production-us-central1-h100-80gb-pool-8f3c2b71-x9k"
L4 = "ip-10-128-200-113-eu-central-1-compute-internal-example-company1"
SMALL = "aks-gpusmallpool-37412907-vmss00002k-westeurope-1-cordoned-node1"
NODES = (H100, L4, SMALL)

REPLICAS = 1000


def _node(name: str, product: str, gpus: int, **how: Any) -> Body:
    body = gpu_node(name, product, gpus, **how)
    body["metadata"]["labels"]["topology.kubernetes.io/zone"] = "northamerica-northeast1-a"
    return body


NODE_BODIES = (_node(H100, "H100-80GB-HBM3", 8), _node(L4, "L4", 4), _node(SMALL, "L40S", 4, unschedulable=True))


@cache
def _status(folder: str) -> str:
    planned = plan_one(example(folder, {}), fleet_of(*NODE_BODIES[:2]))
    return planned.outcome().status.model_dump_json(by_alias=True, exclude_none=True)


def _deployment(name: str, folder: str, **status: Any) -> Body:
    body = example(folder, {})
    head = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-24T01:00:00Z",
    }
    found = json.loads(_status(folder))
    found["replicasSummary"] = f"{REPLICAS}/{REPLICAS}"
    found["placement"]["hourlyPrice"] = "12288.00"
    decided: Body = {
        "id": "4f0c8a1d92",
        "placed": f"{REPLICAS} on h100-sxm-80gb x 2",
        "solver": "in turn",
        "gapPermille": 0,
    }
    decided |= {"at": to_rfc3339(time.time() - 7200), "replaced": f"{REPLICAS - 1} on l4-24gb x 1"}
    found["decisions"] = [decided]
    for pool in found["pools"]:
        pool |= {
            "replicas": REPLICAS,
            "readyReplicas": REPLICAS,
            "kvTokensPredicted": 71_680,
            "kvTokensReported": 70_912,
        }
    return {**body, "metadata": head, "status": {**found, **status}}


def _condition(kind: str, status: str, reason: str, message: str) -> Body:
    since = "2026-11-24T01:10:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def _unplaced() -> Body:
    body = _deployment(UNPLACED, "01-minimal")
    status = body["status"]
    for each in ("placement", "estimate", "pools"):
        del status[each]
    message = (
        f"{NAMESPACE}/{UNPLACED}: the nearest candidate, h100-sxm-80gb x 8, holds 4,154,928 tokens and the load needs "
        "8,388,608."
    )
    status["conditions"] = [
        _condition("Ready", "False", "InsufficientVram", message),
        _condition("Stalled", "True", "InsufficientVram", message),
    ]
    status["remedies"] = [
        {"kind": "LowerContextLength", "message": "lower spec.contextLength from 131072 to 65536"},
    ]
    return body


def _serving(name: str, folder: str) -> Body:
    ready = _condition("Ready", "True", "Serving", f"{REPLICAS:,} of {REPLICAS:,} replicas serve.")
    return _deployment(name, folder, conditions=[ready])


@cache
def _bodies() -> str:
    return json.dumps(
        [_serving(SERVING, "01-minimal"), _serving(OVER, "06-overrides"), _serving(NEAR, "02-70b-fp8"), _unplaced()]
    )


def bodies() -> list[Body]:
    """The four deployments; copies for each caller."""
    return list(json.loads(_bodies()))


def pods() -> list[Body]:
    """A pod of each placed deployment, and somebody else's."""
    made = []
    for body in bodies()[:3]:
        (pool, *_) = body["status"]["pools"]
        name = body["metadata"]["name"]
        node = L4 if pool["gpuType"].startswith("l4-") else H100
        labels = {DEPLOYMENT_LABEL: name, POOL_LABEL: pool["name"]}
        made.append(_pod(f"{name}-{pool['name']}-7c9d8f6b5d-x2k9q", node, labels, pool["tensorParallel"]))
    return [*made, _pod("notebook-of-somebody-else-with-a-long-name", H100, {}, 1)]


def _pod(name: str, node: str, labels: Mapping[str, str], gpus: int) -> Body:
    head = {"name": name, "namespace": NAMESPACE, "labels": labels, "creationTimestamp": "2026-11-24T01:30:00Z"}
    return {
        "metadata": head,
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def proposal() -> Body:
    """A proposal for the first deployment."""
    before, after = place("l4-24gb", REPLICAS - 1), place("l4-24gb", REPLICAS)
    places: dict[str, Any] = {"from": [before], "to": [after]}
    body = short_proposal(
        **places,
        deployment=SERVING,
        generation=1,
        summary=f"{REPLICAS - 1} on l4-24gb x 1 -> {REPLICAS} on l4-24gb x 1",
        expiresAt="2099-11-25T01:00:00Z",
        bill={"before": "12288.00", "after": "12300.00", "summary": "12288.00 -> 12300.00"},
    )
    body["metadata"] |= {"name": f"{SERVING}-{ID}", "namespace": NAMESPACE}
    return body


PROPOSAL = f"{SERVING}-{ID}"


def world() -> ClusterView:
    """All of it, as one person sees it."""
    return world_of(*bodies(), pods=pods(), nodes=NODE_BODIES, proposals=(proposal(),))


@dataclass
class ByName(Answering):
    """A cluster that has the deployments and the proposal."""

    async def get(self, kind: Any, key: ObjectKey) -> Body | None:
        found = [*bodies(), proposal()]
        same = (each for each in found if each["metadata"]["name"] == key.name)
        return next((each for each in same if ("deployment" in each) == (kind.plural == "placementproposals")), None)


@dataclass(slots=True)
class PlayedLive(LiveSource):
    """Every pod is nearly full, has been so for an hour, and has a queue."""

    reader: None = None
    now: float = field(default_factory=time.time)

    async def last(self, pods: Any) -> LiveReading:
        def figure(value: float) -> SampledFigure:
            return SampledFigure(value, self.now - 5)

        each = PodLast(figure(0.94), 70_912, figure(1016), figure(1248), self.now - 5)
        return LiveReading(LiveState.ANSWERS, dict.fromkeys(pods, each))

    async def over_time(self, pods: Any, span: MapSpan) -> PastUse | None:
        at = [self.now - span.step * back for back in range(span.columns)]
        past = PodPast(
            kv={each: 0.35 + 0.6 * (index % 7) / 7 for index, each in enumerate(at)},
            running=dict.fromkeys(at, 900.0),
            waiting={each: float(index % 3) for index, each in enumerate(at)},
            preemptions=4821,
        )
        return PastUse(self.now, span, dict.fromkeys(pods, past))


@cache
def _simulated() -> str:
    run = simulation_run_of(
        Simulated(
            "meta-llama/Llama-3.1-8B-Instruct",
            "l4-24gb",
            concurrency=4,
            context_length=4096,
            requests_per_second=3,
            minutes=15,
        )
    )
    return json.dumps(simulation_document(run, simulate(run)))


def _at(replicas: int, gpu: str) -> Body:
    split = {"tensorParallel": 1, "pipelineParallel": 1}
    return {"gpuType": gpu, **split, "replicas": replicas, "hourlyPrice": "12288.00"}


def _change(name: str, verdict: str) -> Body:
    status = bodies()[0]["status"]
    asked = name == SERVING
    shown = ("placement", "estimate", "rejections", "conditions") if asked else ()
    return {
        "name": name,
        "namespace": NAMESPACE,
        "change": verdict,
        "reason": "InsufficientVram",
        "message": f"{NAMESPACE}/{name} has no place any more: 1,000 GPUs are needed and 8 are free.",
        "before": [_at(REPLICAS, "h100-sxm-80gb")],
        "after": [_at(REPLICAS - 1, "l4-24gb")],
        "inFiles": asked,
        "withoutFilesToo": False,
        "restarts": True,
        **{key: status[key] for key in shown},
    }


def _planned() -> str:
    """The document of ``plimsoll plan`` with long names."""
    changes = [_change(*each) for each in ((SERVING, "moved"), (NEAR, "waiting"), (OVER, "changed"))]
    bill = {"before": "24576.00", "after": "36864.00", "unpricedPlaces": 12}
    return json.dumps({"changes": changes, "unchanged": {"count": 4321}, "bill": bill, "notes": [], "problems": []})


class PlayedCommands(Commands):
    """Answers like ``plimsoll simulate`` and ``plimsoll plan``."""

    async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:
        assert (given, bearer) == ("", None)
        return Ran(0, _simulated() if arguments[0] == "simulate" else _planned(), "")
