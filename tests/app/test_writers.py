"""A decision is written once, also where the passes are faster than the writes."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from plimsoll.adapters.cluster import INFERENCE_DEPLOYMENTS
from plimsoll.app.writers import AT_ONCE_PER_NAMESPACE
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
