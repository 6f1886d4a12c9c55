"""One pass over objects that draft: the planner reads the model and its draft, and says whose problem is whose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
)
from plimsoll.adapters.hub import HubModels
from plimsoll.adapters.metrics import Metrics
from plimsoll.adapters.models import ModelSources
from plimsoll.app.executor import Executor
from plimsoll.app.live import LiveSignals
from plimsoll.app.model_book import ModelBook
from plimsoll.app.planner import Planner
from plimsoll.app.prices import PriceList
from plimsoll.app.settings import Settings
from plimsoll.app.store import Store
from testbed.fleet import gpu_node
from tests.support.bodies import Body, inference_deployment_body
from tests.support.speculation import EAGLE3_HEAD

KINDS = (INFERENCE_DEPLOYMENTS, NODES, PODS, DEPLOYMENTS, SERVICES, DISRUPTION_BUDGETS)


class Recorder:
    """An executor that keeps what it was given."""

    def __init__(self) -> None:
        self.status: Mapping[str, Any] = {}
        self.applied: list[Body] = []

    async def write_status(self, _: Body, status: Mapping[str, Any]) -> bool:
        self.status = status
        return True

    async def check_names(self, _: Body, manifests: Sequence[Body]) -> None:
        assert len({(each["kind"], each["metadata"]["name"]) for each in manifests}) == len(manifests)

    async def apply(self, _: Body, manifest: Body) -> bool:
        self.applied.append(manifest)
        return True

    async def tell(self, _: Body, notes: Sequence[Any]) -> None:
        assert all(note.reason for note in notes)

    def ready(self) -> tuple[str, str]:
        """Reason and message of the first condition."""
        first = self.status["conditions"][0]
        return first["reason"], first["message"]

    def arguments(self) -> list[str]:
        """Arguments of the one engine that was applied."""
        (workload,) = (each for each in self.applied if each["kind"] == "Deployment")
        (engine,) = workload["spec"]["template"]["spec"]["containers"]
        return list(engine["args"])


class Desk:
    """A planner with its fakes: one node with an H100, no network, no Prometheus."""

    def __init__(self, cache: Path) -> None:
        self.recorder = Recorder()
        self.store = Store({kind: lambda body: body for kind in KINDS}, lambda: None)
        self.book = ModelBook(ModelSources(hub=HubModels(cache)), _no_token, lambda: None)
        self.planner = Planner(
            settings=Settings(),
            store=self.store,
            executor=cast("Executor", self.recorder),
            models=self.book,
            live=LiveSignals(None, lambda: None),
            prices=cast("PriceList", SimpleNamespace(current={})),
            gpu_types=load_gpu_types(),
            metrics=Metrics(),
        )
        self.store.replace(NODES, [_stamped(gpu_node("h100-0", "H100-80GB-HBM3", 1))])

    async def plan(self, draft: dict[str, Any]) -> None:
        """One pass that asks for the configurations, and the one after they were read."""
        spec = {
            "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
            "contextLength": 8192,
            "concurrency": 16,
            "engine": {"speculation": {"method": "Eagle", "tokens": 3, "draftModel": draft}},
        }
        self.store.replace(INFERENCE_DEPLOYMENTS, [inference_deployment_body(spec=spec)])
        await self.planner.one_pass()
        assert self.recorder.ready()[0] == "ResolvingModel"
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        await self.planner.one_pass()


async def _no_token(*_: str) -> str | None:
    return None


def _stamped(node: Body) -> Body:
    node["metadata"] |= {"uid": "node-0", "resourceVersion": "1"}
    return node


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.book.close()


async def test_a_draft_is_read_beside_its_model_and_given_to_the_engine(desk: Desk) -> None:
    await desk.plan({"name": "org/head", "revision": "abc", "config": EAGLE3_HEAD})
    arguments = desk.recorder.arguments()
    assert json.loads(arguments[arguments.index("--speculative-config") + 1]) == {
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "model": "org/head",
        "revision": "abc",
    }


async def test_what_is_wrong_with_a_draft_is_said_of_the_draft(desk: Desk) -> None:
    await desk.plan({"name": "org/head", "config": EAGLE3_HEAD | {"hidden_size": -1}})
    reason, message = desk.recorder.ready()
    assert reason == "InvalidModelConfig"
    assert message.startswith("spec.engine.speculation.draftModel: ")
    assert "hidden_size" in message
    assert desk.recorder.applied == []


async def test_a_draft_of_another_model_is_the_spec_s_mistake(desk: Desk) -> None:
    await desk.plan({"name": "org/head", "config": EAGLE3_HEAD | {"architectures": ["Qwen2ForCausalLM"]}})
    reason, message = desk.recorder.ready()
    assert reason == "InvalidSpec"
    assert "spec.engine.speculation.draftModel.name" in message
