"""Look-ups in the background: answered at once, asked again with patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.adapters.models import ModelSources
from plimsoll.api.v1alpha1 import ModelSpec, SecretKeyRef
from plimsoll.app.model_book import PERMANENT_RETRY_SECONDS, RESOLVING, RETRY_LONGEST_SECONDS, ModelBook
from plimsoll.domain.errors import InvalidInput, ModelNotFound, SourceUnavailable, UnsupportedModel
from plimsoll.domain.model import ModelFacts
from plimsoll.render.report import Problem
from tests.api.manifests import deployment

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


class Sources:
    """Answers with facts or raises what it is told to; keeps what it was asked with."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked: list[dict[str, Any]] = []

    def resolve(self, name: str, **how: Any) -> ModelFacts:
        self.asked.append({"name": name, **how})
        if self.error is not None:
            raise self.error
        facts = load_model_facts(LLAMA)
        assert facts is not None
        return facts


class Desk:
    """A book with its fakes, and a clock of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sources, self.changes, self.tokens = Sources(), 0, {("ns", "hf", "token"): " secret \n"}
        self.later = 0.0
        real: Callable[[], float] = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + self.later)
        self.book = ModelBook(cast("ModelSources", self.sources), self.read_token, self.changed)

    async def read_token(self, namespace: str, name: str, key: str) -> str | None:
        return self.tokens.get((namespace, name, key))

    def changed(self) -> None:
        self.changes += 1

    async def answer(self, model: ModelSpec, namespace: str = "ns") -> ModelFacts | Problem:
        """Ask, let the look-up finish, and ask again."""
        self.book.look_up(namespace, model)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return self.book.look_up(namespace, model)


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    made = Desk(asyncio.get_running_loop(), monkeypatch)
    yield made
    await made.book.close()


async def test_the_first_answer_comes_at_once_and_the_facts_when_they_are_there(desk: Desk) -> None:
    first = desk.book.look_up("ns", ModelSpec(name=LLAMA))
    assert isinstance(first, Problem)
    assert (first.reason, first.permanent) == (RESOLVING, False)
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), ModelFacts)
    assert desk.changes == 1


async def test_one_look_up_serves_everybody_and_facts_are_not_asked_for_again(desk: Desk) -> None:
    for _ in range(3):
        await desk.answer(ModelSpec(name=LLAMA))
    await desk.answer(ModelSpec(name=LLAMA), namespace="other")
    desk.later += 10 * PERMANENT_RETRY_SECONDS
    await desk.answer(ModelSpec(name=LLAMA))
    assert len(desk.sources.asked) == 1


async def test_a_token_ties_a_look_up_to_its_namespace_and_is_handed_on_stripped(desk: Desk) -> None:
    model = ModelSpec(name=LLAMA, token_secret_ref=SecretKeyRef(name="hf"))
    assert isinstance(await desk.answer(model), ModelFacts)
    assert desk.sources.asked[0]["token"] == "secret"  # noqa: S105 - a token of this test's
    elsewhere = await desk.answer(model, namespace="other")
    assert isinstance(elsewhere, Problem)
    assert (elsewhere.reason, elsewhere.permanent) == ("ModelNotFound", True)
    assert "other/hf" in elsewhere.message


async def test_a_draft_is_looked_up_with_the_token_of_its_model_and_its_problem_says_whose_it_is(desk: Desk) -> None:
    engine = {"speculation": {"method": "Draft", "tokens": 3, "draftModel": {"name": "org/small", "revision": "v1"}}}
    spec = deployment(model={"name": LLAMA, "tokenSecretRef": {"name": "hf"}}, engine=engine).spec
    resolving = desk.book.look_up_draft("ns", spec)
    assert isinstance(resolving, Problem)
    assert resolving.message == "spec.engine.speculation.draftModel: Reading the configuration of org/small."
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
    assert isinstance(desk.book.look_up_draft("ns", spec), ModelFacts)
    assert desk.sources.asked == [{"name": "org/small", "revision": "v1", "token": "secret", "inline": None}]
    assert desk.book.look_up_draft("ns", deployment().spec) is None


async def test_an_inline_configuration_needs_no_token(desk: Desk) -> None:
    model = ModelSpec(name="house/x", config={"a": 1}, token_secret_ref=SecretKeyRef(name="not-there"))
    assert isinstance(await desk.answer(model), ModelFacts)
    assert desk.sources.asked[0]["token"] is None


async def test_a_parameter_count_given_by_hand_replaces_the_sources(desk: Desk) -> None:
    facts = await desk.answer(ModelSpec(name=LLAMA, parameters=123))
    assert isinstance(facts, ModelFacts)
    assert facts.parameters == 123


@pytest.mark.parametrize(
    ("error", "reason", "permanent"),
    [
        (ModelNotFound("no such model"), "ModelNotFound", True),
        (UnsupportedModel("x", "mamba"), "UnsupportedModel", True),
        (InvalidInput("hidden_size", -1, "Write a size."), "InvalidModelConfig", True),
        (SourceUnavailable("hub is down"), "ModelSourceUnavailable", False),
        (KeyError("a fault of our own"), "ModelSourceUnavailable", False),
    ],
)
async def test_failures_have_names_and_are_not_asked_again_at_every_pass(
    desk: Desk,
    error: Exception,
    reason: str,
    permanent: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    desk.sources.error = error
    problem = await desk.answer(ModelSpec(name=LLAMA))
    assert isinstance(problem, Problem)
    assert (problem.reason, problem.permanent) == (reason, permanent)
    for _ in range(5):
        assert await desk.answer(ModelSpec(name=LLAMA)) == problem
    assert len(desk.sources.asked) == 1


async def test_a_source_that_comes_back_is_noticed_after_a_pause(desk: Desk) -> None:
    desk.sources.error = SourceUnavailable("hub is down")
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), Problem)
    desk.sources.error = None
    desk.later += RETRY_LONGEST_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), ModelFacts)


async def test_pauses_grow_and_end_at_the_longest(desk: Desk) -> None:
    desk.sources.error = SourceUnavailable("hub is down")
    for _ in range(1100):  # days of it
        await desk.answer(ModelSpec(name=LLAMA))
        desk.later += RETRY_LONGEST_SECONDS
    await desk.answer(ModelSpec(name=LLAMA))
    assert len(desk.sources.asked) == 1101
    desk.later += RETRY_LONGEST_SECONDS - 5
    await desk.answer(ModelSpec(name=LLAMA))
    assert len(desk.sources.asked) == 1101
    desk.later += 5
    await desk.answer(ModelSpec(name=LLAMA))
    assert len(desk.sources.asked) == 1102


async def test_even_not_found_is_asked_again_some_day(desk: Desk) -> None:
    desk.sources.error = ModelNotFound("not published yet")
    await desk.answer(ModelSpec(name=LLAMA))
    desk.sources.error = None
    desk.later += RETRY_LONGEST_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), Problem)
    desk.later += PERMANENT_RETRY_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), ModelFacts)
