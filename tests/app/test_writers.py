"""A decision is written once, also where the passes are faster than the writes, and costly writes leave others room."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.cluster import INFERENCE_DEPLOYMENTS, Kind
from plimsoll.api.bounds import MOST_CHARACTERS
from plimsoll.app.writers import AT_ONCE_PER_NAMESPACE, RESTS
from plimsoll.domain.keys import ObjectKey
from tests.support.api_in_memory import ApiInMemory, Clock
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, inference_deployment
from tests.support.operator_in_memory import OperatorInMemory

BUSY, HONEST = "busy", "honest"
OBJECTS = 3 * AT_ONCE_PER_NAMESPACE


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


async def test_statuses_of_large_objects_are_written_one_by_one_with_rests_and_keep_no_neighbour_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ApiInMemory(Clock(time.time()))
    for node in honest_nodes(1, HONEST):
        api.put(node)
    config = {"text": "x" * MOST_CHARACTERS}
    for number in range(8):
        body = inference_deployment(f"large-{number}", f"large-{number % 2}", model={"name": "x", "config": config})
        api.put(body)
    operator = OperatorInMemory(api, tmp_path, [(HONEST, LLAMA_8B)])
    await operator.start()
    at_once = operator.client.apply_status
    written: list[tuple[str, float, float]] = []

    async def slowly(kind: Kind, key: ObjectKey, uid: str, status: Mapping[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        await asyncio.sleep(0.05 if key.name.startswith("large") else 0)
        answer = await at_once(kind, key, uid, status)
        written.append((key.namespace, began, time.monotonic()))
        return answer

    monkeypatch.setattr(operator.client, "apply_status", slowly)
    while sum(namespace != HONEST for namespace, *_ in written) < 2:
        await operator.one_pass()
    api.put(inference_deployment("newcomer", HONEST, **honest_spec(HONEST)))
    came = time.monotonic()
    await operator.hear()
    while not (honest := [end for namespace, _, end in written if namespace == HONEST]):
        await operator.one_pass()
    assert len(written) < 8, "it did not wait for them all"
    assert honest[0] - came < 2.0
    while len(written) < 9:
        await operator.one_pass()
        await asyncio.sleep(0.05)
    large = [entry for entry in written if entry[0] != HONEST]
    for (_, began, ended), (_, following, _) in itertools.pairwise(large):
        assert following - ended >= 0.9 * RESTS * (ended - began)
    assert {namespace for namespace, *_ in large[:2]} == {"large-0", "large-1"}, "by turns"
    await operator.close()
