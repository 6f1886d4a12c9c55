"""A decision is written once, also where the passes are faster than the writes, and costly writes leave others room."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, ClusterRefused, ObjectKind
from plimsoll.api.bounds import MOST_CHARACTERS
from plimsoll.app.plan.planning_time import AFTER_OTHERS, QUEUED, PlanningTime
from plimsoll.app.watch.store import Body, key_of
from plimsoll.app.write import writers
from plimsoll.app.write.writers import AT_ONCE_PER_NAMESPACE, LONGEST_REST_SECONDS, RESTS
from plimsoll.decision.deployment import Deployment
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.names import POOL_ANNOTATION, POOL_LABEL
from plimsoll.status.record.report import DeploymentProblem
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import OperatorInMemory

BUSY, HONEST = "busy", "honest"
OBJECTS = 3 * AT_ONCE_PER_NAMESPACE
LARGE = 6


async def test_a_status_that_was_written_during_a_pass_is_not_written_again_with_other_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.read)
    api = ApiInMemory(clock)
    for tenant in (BUSY, HONEST):
        for node in honest_nodes(1, tenant):
            api.put(node)
    for number in range(OBJECTS):
        api.put(inference_deployment(f"many-{number:02}", BUSY, **honest_spec(BUSY)))
    api.put(inference_deployment("one", HONEST, **honest_spec(HONEST)))
    operator = OperatorInMemory(api, tmp_path, [(tenant, LLAMA_8B) for tenant in (BUSY, HONEST)])
    await operator.start()
    operator.client.trouble = operator.planner.news.set  # each pass ends at once; its writes go on during the next one
    for _ in range(4):
        await operator.planner.one_pass()
        clock.now += 5
    await operator.one_pass()
    written = Counter(event.name for event in api.writes if event.resource == "inferencedeployments/status")
    assert len(written) == OBJECTS + 1
    assert set(written.values()) == {1}
    assert api.all(INFERENCE_DEPLOYMENTS, HONEST)[0]["status"]["conditions"]
    await operator.close()


@pytest.mark.parametrize(("write_seconds", "rest_seconds"), [(0.5, RESTS * 0.5), (30.0, LONGEST_REST_SECONDS)])
async def test_statuses_of_large_objects_are_written_one_by_one_with_rests_and_keep_no_neighbour_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_seconds: float, rest_seconds: float
) -> None:
    api, clock = ApiInMemory(Clock()), Seconds()
    for node in honest_nodes(1, HONEST):
        api.put(node)
    config = {"text": "x" * MOST_CHARACTERS}
    for number in range(LARGE):
        namespace = f"large-{number % 2}"
        api.put(inference_deployment(f"large-{number}", namespace, model={"name": "x", "config": config}))
    operator = OperatorInMemory(api, tmp_path, [(HONEST, LLAMA_8B)])
    await operator.start()
    written: list[str] = []
    at_once, rests = operator.client.put_status, Rests(monkeypatch)

    async def costly(kind: ObjectKind, known: Body, status: Mapping[str, Any]) -> dict[str, Any]:
        clock.now += write_seconds
        written.append(known["metadata"]["namespace"])
        return await at_once(kind, known, status)

    monkeypatch.setattr(operator.client, "put_status", costly)
    monkeypatch.setattr(writers, "time", clock)
    await operator.one_pass()
    assert written == ["large-0"]
    api.put(inference_deployment("newcomer", HONEST, **honest_spec(HONEST)))
    await operator.hear()
    await operator.one_pass()
    assert written == ["large-0", HONEST], "the second large one rests"
    for number in range(2, LARGE + 1):
        rests.end()
        await operator.one_pass()
        assert len(written) == number + 1
    assert [namespace for namespace in written if namespace != HONEST] == ["large-0", "large-1"] * (LARGE // 2)
    assert rests.seconds == [rest_seconds] * LARGE
    await operator.close()


@pytest.mark.parametrize("of_router", [False, True], ids=["alone", "and a router"])
async def test_a_deletion_that_is_refused_stops_no_other_write_and_is_said_before_a_refused_router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, of_router: bool
) -> None:
    api = ApiInMemory(Clock())
    for node in honest_nodes(1, HONEST):
        api.put(node)
    routing = {"routing": {"mode": "Standalone", "replicas": 1}} if of_router else {}
    api.put(inference_deployment("one", HONEST, **honest_spec(HONEST), **routing))
    operator = OperatorInMemory(api, tmp_path, [(HONEST, LLAMA_8B)])
    await operator.start()
    applied = operator.client.apply

    async def refuse_pickers(manifest: dict[str, Any], *more: Any, **others: Any) -> Any:
        if manifest["metadata"]["name"] == "one-picker":
            raise ClusterRefused("apply the picker", 403, "a policy forbids it")
        return await applied(manifest, *more, **others)

    monkeypatch.setattr(operator.client, "apply", refuse_pickers)
    await operator.one_pass()
    [made] = api.all(DEPLOYMENTS, HONEST)
    left_over = deepcopy(made)
    head = left_over["metadata"]
    head["labels"][POOL_LABEL] = "h100-sxm-80gb-tp8"
    head["annotations"][POOL_ANNOTATION] = head["annotations"][POOL_ANNOTATION].replace('Parallel": 1', 'Parallel": 8')
    head |= {"name": "one-h100-sxm-80gb-tp8", "uid": ""}
    api.put(left_over)
    api.delete(DEPLOYMENTS, key_of(made))
    refused: list[str] = []

    async def refuse(_: ObjectKind, key: ObjectKey, __: str) -> None:
        refused.append(key.name)
        raise ClusterRefused(f"delete deployments {key}", 403, "a policy forbids it")

    monkeypatch.setattr(operator.client, "delete", refuse)
    await operator.hear()
    await operator.one_pass()
    assert refused == ["one-h100-sxm-80gb-tp8"]
    [body] = api.all(INFERENCE_DEPLOYMENTS, HONEST)
    assert condition(body, "Placed")["reason"] == "PodsNotCreated"
    assert "refused to delete deployments" in condition(body, "Placed")["message"]
    assert made["metadata"]["name"] in {body["metadata"]["name"] for body in api.all(DEPLOYMENTS, HONEST)}
    await operator.close()


@pytest.mark.parametrize(("status", "scale_is_refused", "replicas"), [(403, False, 0), (403, True, 1), (503, False, 1)])
async def test_what_is_scaled_to_zero_ends_though_another_change_with_it_is_refused_and_a_neighbour_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, replicas: int, *, scale_is_refused: bool
) -> None:
    api = ApiInMemory(Clock())
    for tenant in (BUSY, HONEST):
        for node in honest_nodes(1, tenant):
            api.put(node)
        api.put(inference_deployment("one", tenant, **honest_spec(tenant)))
    operator = OperatorInMemory(api, tmp_path, [(tenant, LLAMA_8B) for tenant in (BUSY, HONEST)])
    await operator.start()
    await operator.one_pass()
    apply, scale = operator.client.apply, operator.client.scale

    async def refuse(manifest: dict[str, Any]) -> Body:
        if manifest["kind"] == DEPLOYMENTS.kind and manifest["metadata"]["namespace"] == BUSY:
            raise ClusterRefused("apply deployments", status, "the template is refused")
        return await apply(manifest)

    async def refuse_scale(*arguments: Any) -> Body:
        if scale_is_refused:
            raise ClusterRefused("scale deployments", 403, "so is the number")
        return await scale(*arguments)

    monkeypatch.setattr(operator.client, "apply", refuse)
    monkeypatch.setattr(operator.client, "scale", refuse_scale)
    for tenant, wanted in ((BUSY, 0), (HONEST, 2)):
        [body] = api.all(INFERENCE_DEPLOYMENTS, tenant)
        api.put({**body, "spec": {**body["spec"], "replicas": wanted, "contextLength": 2048}})
    await operator.hear()
    await operator.one_pass()
    found = [[body["spec"]["replicas"] for body in api.all(DEPLOYMENTS, tenant)] for tenant in (BUSY, HONEST)]
    assert found == [[replicas], [2]]
    [said] = [
        each for each in api.all(INFERENCE_DEPLOYMENTS, BUSY)[0]["status"]["conditions"] if each["type"] == "Placed"
    ]
    assert status != 403 or "the template is refused" in said["message"]
    await operator.close()


@pytest.mark.parametrize(("waits_for", "after_seconds"), [(QUEUED, 2.0), (AFTER_OTHERS, 120.0)])
async def test_a_wait_is_reported_when_it_lasts_and_a_decision_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits_for: DeploymentProblem, after_seconds: float
) -> None:
    api, clock = ApiInMemory(Clock()), Seconds()
    for node in honest_nodes(1, HONEST):
        api.put(node)
    for name in ("planned", "waits"):
        api.put(inference_deployment(name, HONEST, **honest_spec(HONEST)))
    operator = OperatorInMemory(api, tmp_path, [(HONEST, LLAMA_8B)])
    await operator.start()
    monkeypatch.setattr(operator.planner.passes, "time", Waiting("waits", waits_for))
    monkeypatch.setattr(writers, "time", clock)
    for seconds in (0.0, 0.9 * after_seconds):
        clock.now += seconds
        await operator.one_pass()
        assert [reason(api, name) for name in ("planned", "waits")] == ["PlacementDecided", None]
    clock.now += 0.2 * after_seconds
    await operator.one_pass()
    assert reason(api, "waits") == "PlanningQueued"
    await operator.close()


def reason(api: ApiInMemory, name: str) -> str | None:
    """The reason of the condition Planned."""
    [body] = [body for body in api.all(INFERENCE_DEPLOYMENTS, HONEST) if body["metadata"]["name"] == name]
    found = [each["reason"] for each in (body.get("status") or {}).get("conditions", ()) if each["type"] == "Planned"]
    return found[0] if found else None


@dataclass
class Waiting(PlanningTime):
    """One deployment waits in each pass."""

    name: str = ""
    problem: DeploymentProblem = QUEUED

    def __init__(self, name: str, problem: DeploymentProblem) -> None:
        super().__init__()
        self.name, self.problem = name, problem

    @override
    def waits(self, deployment: Deployment, *, reading: bool = False) -> DeploymentProblem | None:
        return self.problem if deployment.key.name == self.name else None


@dataclass
class Seconds:
    """A clock that goes on when something is written."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


class Rests:
    """Calls that the event loop was asked to make later: the test makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.seconds: list[float] = []
        self._waiting: list[Callable[[], object]] = []
        self._at_once = loop.call_later
        monkeypatch.setattr(loop, "call_later", self._later)

    def _later(self, seconds: float, call: Callable[..., object], *arguments: Any, **more: Any) -> object:
        if call.__name__ != "_leave":
            return self._at_once(seconds, call, *arguments, **more)
        self.seconds.append(seconds)
        self._waiting.append(partial(call, *arguments))
        return None

    def end(self) -> None:
        """End the only rest there is."""
        [leave] = self._waiting
        self._waiting.clear()
        leave()
