"""One pass over objects that draft: the planner reads the model and its draft, and says whose problem is whose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.speculation import EAGLE3_HEAD


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
