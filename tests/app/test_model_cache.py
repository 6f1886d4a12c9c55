"""Look-ups in the background: answered at once, started in fair turns, asked again with patience."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.adapters.cluster.secrets import SecretMissing, SecretUnreadable
from plimsoll.adapters.hub.hub import AccessRefused
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.api.v1alpha1 import ModelSpec, SecretKeyRef
from plimsoll.app.lookups import model_cache
from plimsoll.app.lookups.model_cache import (
    ACCESS_RETRY_SECONDS,
    AT_ONCE,
    FORGOTTEN_AFTER_SECONDS,
    PER_NAMESPACE,
    PERMANENT_RETRY_SECONDS,
    RETRY_LONGEST_SECONDS,
    SECRET_RETRY_SECONDS,
    ModelCache,
)
from plimsoll.domain.errors import InvalidInput, ModelNotFound, SourceUnavailable, UnsupportedModel
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem
from tests.api.manifests import deployment

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
OTHER = "org/other"
GATED = ModelSpec(name=OTHER, token_secret_ref=SecretKeyRef(name="hf"))


class Sources:
    """Answers with facts or raises what it is told to; keeps what it was asked with. ``slow`` names wait for ``go``."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked: list[dict[str, Any]] = []
        self.threads: list[str] = []
        self.slow: tuple[str, ...] = ()
        self.go = threading.Event()
        self.was_asked = threading.Event()
        self.closed = False

    def needs_hub(self, name: str, *, revision: str | None, inline: object) -> bool:
        return ModelSources(cast("Any", None)).needs_hub(name, revision=revision, inline=cast("Any", inline))

    def stand_in(self, name: str, revision: str | None) -> ModelFacts | None:
        return ModelSources(cast("Any", None)).stand_in(name, revision)

    def resolve(self, name: str, **how: Any) -> ModelFacts:
        self.asked.append({"name": name, **how})
        self.threads.append(threading.current_thread().name)
        self.was_asked.set()
        if name.startswith(self.slow):
            self.go.wait()
        if self.error is not None:
            raise self.error
        facts = load_model_facts(LLAMA)
        assert facts is not None
        return facts

    def close(self) -> None:
        self.closed = True
        self.go.set()


class Desk:
    """A cache with its fakes, and a clock of its own."""

    def __init__(self) -> None:
        self.sources, self.changes, self.reads = Sources(), 0, 0
        self.tokens: dict[tuple[str, str, str], str | Exception] = {("ns", "hf", "token"): " secret \n"}
        self.now = 1000.0
        self.changed_in: set[str] = set()
        self.book = ModelCache(
            cast("ModelSources", self.sources), self.read_token, self.changed, clock=lambda: self.now
        )

    async def read_token(self, namespace: str, name: str, key: str) -> str:
        self.reads += 1
        found = self.tokens.get((namespace, name, key), SecretMissing(f"Secret {namespace}/{name} does not exist yet."))
        if isinstance(found, Exception):
            raise found
        return found

    def changed(self) -> None:
        self.changes += 1
        self.changed_in.add(threading.current_thread().name)

    async def settle(self) -> None:
        """Let everything that runs come to its end."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*tasks)
            await asyncio.sleep(0)  # what ended may have made room for the next

    async def answer(self, model: ModelSpec, namespace: str = "ns") -> ModelFacts | DeploymentProblem:
        """Ask, let the look-up finish, and ask again."""
        self.book.look_up(namespace, model)
        self.book.start_wanted()
        await self.settle()
        return self.book.look_up(namespace, model)

    async def problem(self, model: ModelSpec, namespace: str = "ns") -> DeploymentProblem:
        answer = await self.answer(model, namespace)
        assert isinstance(answer, DeploymentProblem)
        return answer

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(60):
            while len(self.sources.asked) < times:
                await asyncio.to_thread(self.sources.was_asked.wait, 0.1)
                self.sources.was_asked.clear()


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.book.close()
    assert made.sources.closed


async def test_the_first_answer_comes_at_once_and_the_facts_when_they_are_there(desk: Desk) -> None:
    first = desk.book.look_up("ns", ModelSpec(name=LLAMA))
    assert isinstance(first, DeploymentProblem)
    assert (first.reason, first.permanent) == (ConditionReason.RESOLVING_MODEL, False)
    assert isinstance(await desk.answer(ModelSpec(name=LLAMA)), ModelFacts)
    assert desk.changes == 1
    assert desk.changed_in == {threading.current_thread().name}


async def test_asking_starts_nothing_and_may_be_done_in_any_thread(desk: Desk) -> None:
    answers = await asyncio.gather(
        *(asyncio.to_thread(desk.book.look_up, f"ns-{number % 7}", ModelSpec(name=OTHER)) for number in range(50))
    )
    assert {answer.reason for answer in answers if isinstance(answer, DeploymentProblem)} == {
        ConditionReason.RESOLVING_MODEL
    }
    assert not desk.sources.asked
    desk.book.start_wanted()
    await desk.settle()
    assert len(desk.sources.asked) == 7


async def test_look_ups_have_threads_of_their_own(desk: Desk) -> None:
    await desk.answer(ModelSpec(name=LLAMA))
    await desk.answer(ModelSpec(name=OTHER))
    assert [name.rpartition("_")[0] for name in desk.sources.threads] == ["known-models", "models"]


async def test_one_look_up_serves_a_namespace_and_facts_are_not_asked_for_again(desk: Desk) -> None:
    for _ in range(3):
        await desk.answer(ModelSpec(name=OTHER))
    desk.now += FORGOTTEN_AFTER_SECONDS - 1
    await desk.answer(ModelSpec(name=OTHER))
    assert len(desk.sources.asked) == 1


async def test_facts_that_come_while_somebody_asks_are_not_fetched_twice(desk: Desk) -> None:
    desk.sources.slow = (OTHER,)
    desk.book.look_up("ns", ModelSpec(name=OTHER))
    desk.book.start_wanted()
    await desk.until_asked(1)
    desk.book.look_up("ns", ModelSpec(name=OTHER))
    desk.book.start_wanted()
    desk.sources.go.set()
    await desk.settle()
    desk.book.start_wanted()
    await desk.settle()
    assert len(desk.sources.asked) == 1


async def test_a_token_is_read_in_the_object_s_namespace_and_handed_on_stripped(desk: Desk) -> None:
    assert isinstance(await desk.answer(GATED), ModelFacts)
    assert desk.sources.asked[0]["token"] == "secret"  # noqa: S105 - a token of this test's
    assert (await desk.problem(GATED, namespace="other")).reason == "TokenSecretMissing"


async def test_a_draft_is_looked_up_with_the_token_of_its_model_and_its_problem_says_whose_it_is(desk: Desk) -> None:
    engine = {"speculation": {"method": "Draft", "tokens": 3, "draftModel": {"name": "org/small", "revision": "v1"}}}
    spec = deployment(model={"name": LLAMA, "tokenSecretRef": {"name": "hf"}}, engine=engine).spec
    resolving = desk.book.look_up_draft("ns", spec)
    assert isinstance(resolving, DeploymentProblem)
    assert resolving.message == "spec.engine.speculation.draftModel: Reading the configuration of org/small."
    desk.book.start_wanted()
    await desk.settle()
    assert isinstance(desk.book.look_up_draft("ns", spec), ModelFacts)
    assert desk.sources.asked == [
        {"name": "org/small", "revision": "v1", "token": "secret", "inline": None, "asker": "ns"}
    ]
    assert desk.book.look_up_draft("ns", deployment().spec) is None


@pytest.mark.parametrize("model", [{"name": "house/x", "config": {"a": 1}}, {"name": LLAMA}])
async def test_what_needs_no_hub_needs_no_token(desk: Desk, model: dict[str, Any]) -> None:
    asked = ModelSpec(**model, token_secret_ref=SecretKeyRef(name="not-there"))
    assert isinstance(await desk.answer(asked), ModelFacts)
    assert desk.sources.asked[0]["token"] is None
    assert desk.reads == 0


async def test_a_parameter_count_given_by_hand_replaces_the_sources(desk: Desk) -> None:
    facts = await desk.answer(ModelSpec(name=LLAMA, parameters=123))
    assert isinstance(facts, ModelFacts)
    assert facts.parameters == 123


@pytest.mark.parametrize(
    ("error", "reason", "permanent"),
    [
        (ModelNotFound("no such model"), "ModelNotFound", True),
        (AccessRefused("not yours"), "ModelNotFound", True),
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
    problem = await desk.problem(ModelSpec(name=OTHER))
    assert (problem.reason, problem.permanent) == (reason, permanent)
    for _ in range(5):
        assert await desk.answer(ModelSpec(name=OTHER)) == problem
    assert len(desk.sources.asked) == 1


async def test_a_message_that_quotes_megabytes_is_cut(desk: Desk) -> None:
    desk.sources.error = InvalidInput("hidden_size", "x" * 3_000_000, "Write a size.")
    message = (await desk.problem(ModelSpec(name=OTHER))).message
    assert message.startswith("hidden_size: 'xxx")
    assert len(message) < 2100


async def test_a_source_that_comes_back_is_noticed_after_a_pause(desk: Desk) -> None:
    desk.sources.error = SourceUnavailable("hub is down")
    assert isinstance(await desk.answer(ModelSpec(name=OTHER)), DeploymentProblem)
    desk.sources.error = None
    desk.now += RETRY_LONGEST_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=OTHER)), ModelFacts)


async def test_pauses_grow_and_end_at_the_longest(desk: Desk) -> None:
    desk.sources.error = SourceUnavailable("hub is down")
    for _ in range(1100):  # days of it
        await desk.answer(ModelSpec(name=OTHER))
        desk.now += RETRY_LONGEST_SECONDS
    await desk.answer(ModelSpec(name=OTHER))
    assert len(desk.sources.asked) == 1101
    desk.now += RETRY_LONGEST_SECONDS - 5
    await desk.answer(ModelSpec(name=OTHER))
    assert len(desk.sources.asked) == 1101
    desk.now += 5
    await desk.answer(ModelSpec(name=OTHER))
    assert len(desk.sources.asked) == 1102


async def test_the_same_failure_again_is_no_news(desk: Desk) -> None:
    desk.sources.error = SourceUnavailable("hub is down")
    for _ in range(3):
        await desk.answer(ModelSpec(name=OTHER))
        desk.now += RETRY_LONGEST_SECONDS
    assert len(desk.sources.asked) == 3
    assert desk.changes == 1


async def test_even_not_found_is_asked_again_some_day(desk: Desk) -> None:
    desk.sources.error = ModelNotFound("not published yet")
    await desk.answer(ModelSpec(name=OTHER))
    desk.sources.error = None
    desk.now += RETRY_LONGEST_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=OTHER)), DeploymentProblem)
    desk.now += PERMANENT_RETRY_SECONDS
    assert isinstance(await desk.answer(ModelSpec(name=OTHER)), ModelFacts)


async def test_a_secret_that_comes_late_is_noticed_after_five_seconds(desk: Desk) -> None:
    secret = desk.tokens.pop(("ns", "hf", "token"))
    problem = await desk.problem(GATED)
    assert (problem.reason, problem.permanent) == ("TokenSecretMissing", False)
    assert problem.message == "spec.model.tokenSecretRef: Secret ns/hf does not exist yet."
    assert not desk.sources.asked
    desk.tokens["ns", "hf", "token"] = secret
    desk.now += SECRET_RETRY_SECONDS
    assert isinstance(await desk.answer(GATED), ModelFacts)


async def test_what_is_due_later_starts_without_another_pass(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_cache, "_REASONS", ((SecretMissing, "TokenSecretMissing", False, 0.05),))
    monkeypatch.setattr(model_cache, "SECONDS_PER_FAILURE", 0.0)
    secret = desk.tokens.pop(("ns", "hf", "token"))
    await desk.problem(GATED)
    desk.book.start_wanted()  # the pass after the failure; there is none after it
    desk.tokens["ns", "hf", "token"] = secret
    desk.now += 0.05
    await desk.until_asked(1)


async def test_a_namespace_that_waits_for_many_secrets_asks_twice_a_second_at_most(desk: Desk) -> None:
    models = [ModelSpec(name=OTHER, token_secret_ref=SecretKeyRef(name=f"s{number}")) for number in range(100)]
    for _ in range(2):  # the pause of each is known once all have failed
        for model in models:
            desk.book.look_up("ns", model)
        desk.book.start_wanted()
        await desk.settle()
        desk.now += 50
    assert desk.reads == 200
    for _ in range(9):
        for model in models:
            desk.book.look_up("ns", model)
        desk.book.start_wanted()
        await desk.settle()
        desk.now += 5
    assert desk.reads <= 300
    assert (await desk.problem(GATED, namespace="other")).reason == "TokenSecretMissing"


async def test_a_secret_that_may_not_be_read_costs_a_public_model_nothing(desk: Desk) -> None:
    desk.tokens["ns", "hf", "token"] = SecretUnreadable("the operator may not read Secret ns/hf. Grant it.")
    assert isinstance(await desk.answer(GATED), ModelFacts)
    assert desk.sources.asked[0]["token"] is None


async def test_a_secret_that_may_not_be_read_is_named_where_the_model_is_not_public(desk: Desk) -> None:
    desk.tokens["ns", "hf", "token"] = SecretUnreadable("the operator may not read Secret ns/hf. Grant it.")
    desk.sources.error = AccessRefused("gated")
    problem = await desk.problem(GATED)
    assert (problem.reason, problem.permanent) == ("TokenSecretUnreadable", True)
    assert problem.message == "spec.model.tokenSecretRef: the operator may not read Secret ns/hf. Grant it."
    known = replace_name(GATED, LLAMA)
    assert isinstance(await desk.answer(known), ModelFacts)


def replace_name(model: ModelSpec, name: str) -> ModelSpec:
    """At a pinned revision, which only the hub knows."""
    return model.model_copy(update={"name": name, "revision": "v1"})


async def test_a_revision_that_is_not_there_is_no_matter_of_the_secret(desk: Desk) -> None:
    desk.tokens["ns", "hf", "token"] = SecretUnreadable("the operator may not read it")
    desk.sources.error = ModelNotFound("no such revision")
    assert (await desk.problem(GATED)).reason == "ModelNotFound"


async def test_a_token_that_is_refused_is_tried_again_after_a_minute(desk: Desk) -> None:
    desk.sources.error = AccessRefused("not with this token")
    await desk.problem(GATED)
    await desk.problem(ModelSpec(name=OTHER))
    desk.sources.error = None
    desk.now += ACCESS_RETRY_SECONDS
    assert isinstance(await desk.answer(GATED), ModelFacts)
    assert isinstance(
        await desk.answer(ModelSpec(name=OTHER)), DeploymentProblem
    )  # no token was named: nothing to mend


async def test_a_crowd_of_one_namespace_does_not_delay_another(desk: Desk) -> None:
    desk.sources.slow = ("crowd/",)
    for number in range(60):
        desk.book.look_up("crowd", ModelSpec(name=f"crowd/m{number}"))
    desk.book.start_wanted()
    await desk.until_asked(PER_NAMESPACE)
    desk.book.look_up("honest", ModelSpec(name=OTHER))
    desk.book.start_wanted()
    await desk.until_asked(PER_NAMESPACE + 1)
    assert [asked["name"] for asked in desk.sources.asked] == ["crowd/m0", "crowd/m1", OTHER]


async def test_crowds_of_many_namespaces_do_not_delay_what_needs_no_hub(desk: Desk) -> None:
    desk.sources.slow = ("crowd/",)
    for number in range(60):
        desk.book.look_up(f"crowd-{number}", ModelSpec(name="crowd/m"))
    desk.book.start_wanted()
    await desk.until_asked(AT_ONCE)
    desk.book.look_up("honest", ModelSpec(name=LLAMA))
    desk.book.start_wanted()
    await desk.until_asked(AT_ONCE + 1)
    assert desk.sources.asked[-1]["name"] == LLAMA


async def test_everybody_s_turn_comes(desk: Desk) -> None:
    for number in range(10):
        for namespace in ("a", "b", "c"):
            desk.book.look_up(namespace, ModelSpec(name=f"org/m{number}"))
    desk.book.start_wanted()
    await desk.settle()
    assert len(desk.sources.asked) == 30


async def test_what_nobody_asked_for_in_an_hour_is_forgotten(desk: Desk) -> None:
    await desk.answer(ModelSpec(name=OTHER))
    desk.now += FORGOTTEN_AFTER_SECONDS - 1
    await desk.answer(ModelSpec(name="org/young"))
    desk.now += 2
    desk.book.start_wanted()
    assert isinstance(desk.book.look_up("ns", ModelSpec(name="org/young")), ModelFacts)
    assert isinstance(desk.book.look_up("ns", ModelSpec(name=OTHER)), DeploymentProblem)


async def test_a_flood_of_models_costs_the_namespace_that_makes_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_cache, "LARGEST_BOOK", 20)
    assert isinstance(await desk.answer(ModelSpec(name=OTHER), namespace="honest"), ModelFacts)
    for number in range(50):
        desk.book.look_up("flood", ModelSpec(name=f"org/m{number}"))
    assert isinstance(desk.book.look_up("honest", ModelSpec(name=OTHER)), ModelFacts)
    desk.book.start_wanted()
    await desk.settle()
    assert len(desk.sources.asked) == 20


def config_of(size: int) -> dict[str, Any]:
    return {"architectures": ["LlamaForCausalLM"], "text": "x" * size}


async def test_of_a_config_that_is_changed_all_the_time_only_the_last_version_stays(desk: Desk) -> None:
    answers = [await desk.answer(ModelSpec(name="a/b", config=config_of(size))) for size in range(50)]
    assert all(isinstance(answer, ModelFacts) for answer in answers)
    entries = [entry for page in desk.book._entries.pages.values() for entry in page.values()]  # noqa: SLF001 - the memory
    assert len(entries) <= 3
    assert [entry.model.config for entry in entries if entry.answer is not None and not entry.is_wanted] == [
        None for entry in entries
    ]


async def test_a_config_that_was_dropped_is_there_for_the_next_try(desk: Desk) -> None:
    model = ModelSpec(name="a/b", config=config_of(3))
    desk.sources.error = SourceUnavailable("not now")
    await desk.problem(model)
    desk.sources.error = None
    desk.now += 1000
    assert isinstance(await desk.answer(model), ModelFacts)
    assert [asked["inline"] for asked in desk.sources.asked] == [model.config, model.config]


async def test_a_book_that_is_closed_starts_nothing(desk: Desk) -> None:
    desk.book.look_up("ns", ModelSpec(name=OTHER))
    await desk.book.close()
    desk.book.start_wanted()
    await desk.settle()
    assert not desk.sources.asked


async def test_closing_does_not_wait_for_a_source_that_hangs(desk: Desk) -> None:
    desk.sources.slow = (OTHER,)
    desk.book.look_up("ns", ModelSpec(name=OTHER))
    desk.book.start_wanted()
    await desk.until_asked(1)
    async with asyncio.timeout(60):
        await desk.book.close()
