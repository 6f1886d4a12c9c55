"""The page of a deployment names the engine that runs, and why the planner chose it."""

from __future__ import annotations

from plimsoll.console.views.deployment.page import deployment_of
from tests.support.bodies import Body
from tests.support.console_pages import chat, deployment_page, world_of

CHOSEN = {
    "name": "sglang",
    "version": "0.5.23",
    "reason": "Preferred",
    "message": "SGLang comes before vLLM in spec.engine.prefer, and has a place.",
    "others": [{"name": "vllm", "version": "0.32.0", "reason": "LessPreferred", "message": "vLLM <b>comes</b> after."}],
}


def with_engine() -> Body:
    body = chat()
    body["spec"] = {**body["spec"], "engine": {"name": "auto", "prefer": ["sglang"]}}
    body["status"]["engine"] = CHOSEN
    return body


def test_the_facts_have_the_engine_that_runs_and_the_reasons() -> None:
    facts = {each.name: each.words for each in deployment_of(with_engine(), world_of(with_engine())).facts}
    assert facts["Engine"].startswith("SGLang ")
    assert facts["Chosen engine"] == f"{CHOSEN['message']} vLLM <b>comes</b> after."
    named = {each.name: each.words for each in deployment_of(chat(), world_of(chat())).facts}
    assert named["Engine"].startswith("vLLM ")
    assert "Chosen engine" not in named


async def test_a_reason_is_text_on_the_page_whatever_it_holds() -> None:
    text = (await deployment_page(with_engine())).text
    assert "Chosen engine" in text
    assert "vLLM <b>comes</b> after." in text
