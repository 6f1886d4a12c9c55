"""Would the engine start with what the operator renders for each catalogued model? Its own checks answer, on each card.

They run before the weights are loaded: the context against the model's positions, the step against the largest image,
the quantization against the card, and what else a configuration can contradict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest

from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.engines.vllm.refusals import context_refusal
from testbed.engine.environment import VLLM_VERSION
from tests.engine.questions import start, starts
from tests.engine.recording import Recording
from tests.engine.rendered_starts import (
    EVERY_MODEL_ON,
    SMALL,
    TOO_OLD,
    USUAL,
    Arguments,
    Kind,
    card_of,
    kind_of,
    kinds,
    published,
    rendered,
    representatives,
)
from tests.support.model_configs import facts_from
from tests.support.planning import fleet, gpu, node
from tests.support.rendered import container_arguments, plan_one

LENGTH_OF_THE_CLASS: Final = {"tiiuae/falcon-40b"}
"""The file names no length, and Transformers' class has one: here the length bounds nothing."""


class Start(NamedTuple):
    """What is started on a kind of card."""

    model: str
    kind: Kind
    arguments: Arguments

    @property
    def question(self) -> dict[str, Any]:
        """The start as a question to the engine."""
        return start(self.model, published()[self.model], kinds()[self.kind], self.arguments)

    def given(self, flag: str) -> str:
        """The value of a flag."""
        return self.arguments[self.arguments.index(flag) + 1]


@pytest.fixture(scope="module")
def asked() -> list[Start]:
    """The starts of every model on one type with either load, and those of the representatives on all types."""
    wanted = [(name, load, [gpu(EVERY_MODEL_ON)]) for name in published() for load in (USUAL, SMALL)]
    wanted += [(name, USUAL, [*load_gpu_types()]) for name in representatives()]
    found = (Start(name, *each) for name, load, types in wanted for each in rendered(name, load, types))
    return [*dict.fromkeys(found)]


@pytest.fixture(scope="module")
def answers(recording: Recording, asked: list[Start]) -> dict[Start, dict[str, Any]]:
    """What the engine makes of each start."""
    return dict(zip(asked, starts(recording, [each.question for each in asked]), strict=True))


def test_no_rendered_command_is_refused(answers: dict[Start, dict[str, Any]]) -> None:
    assert {each: answer["error"] for each, answer in answers.items() if "error" in answer} == {}
    assert len({each.model for each in answers}) > 100
    assert {each.kind for each in answers} == {*kinds()} - {TOO_OLD}
    for each, answer in answers.items():
        assert answer["max_num_batched_tokens"] == int(each.given("--max-num-batched-tokens")), each
        assert answer["max_model_len"] == int(each.given("--max-model-len")), each


@pytest.mark.parametrize("card", ["l40s-48gb", "a100-sxm-80gb", "h200-sxm-141gb", "mi300x-192gb"])
def test_what_is_asked_is_what_the_operator_renders(asked: list[Start], card: str) -> None:
    """The operator's own plan of some models on one such node, so that no shorter way of finding starts misses any."""
    sample = representatives()[::6]
    body = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": "asked"}}
    known, kind, found = set(asked), kind_of(gpu(card)), 0
    for name in sample:
        for each in (arguments for _, arguments in rendered(name, USUAL, (gpu(card),))):
            count = int(each[each.index("--tensor-parallel-size") + 1])
            planned = plan_one({**body, "spec": {"model": {"name": name}, **USUAL}}, fleet(node("only", card, count)))
            words = container_arguments(planned)
            assert _in_order(each, words), (each, words)
            assert Start(name, kind, each) in known
            found += 1
    assert found >= 4


def _in_order(few: Arguments, many: list[str]) -> bool:
    left = iter(many)
    return all(word in left for word in few)


def test_models_that_read_images_as_a_whole_are_those_of_the_engine(answers: dict[Start, dict[str, Any]]) -> None:
    theirs = {each.model for each, answer in answers.items() if answer.get("whole_items")}
    names = {each.model for each in answers}
    ours = {name for name, config in published().items() if _reads_whole(name, config)} & names
    assert theirs == ours
    assert any("gemma-4-26B" in name for name in ours)
    assert any("gemma-3" in name for name in ours)
    items = {each.model: answer["largest_item"] for each, answer in answers.items() if answer.get("largest_item")}
    assert {name: items[name] for name in items if "gemma-4" in name.lower()}.keys() & ours
    assert set(items.values()) == {2496}


def _reads_whole(name: str, config: Mapping[str, Any]) -> bool:
    encoder = facts_from(name, dict(config)).encoder
    return encoder is not None and encoder.whole_items


def test_the_longest_context_is_the_engines(recording: Recording) -> None:
    """One token more than the longest is refused by the engine, and by us; the longest itself is not."""
    questions, lengths = [], []
    for name in sorted({*representatives()} - LENGTH_OF_THE_CLASS):
        facts, config = load_model_facts(name), published()[name]
        assert facts is not None
        for tokens in (facts.max_context_tokens, facts.max_context_tokens + 1):
            lengths.append((facts, tokens))
            given = ["--max-num-seqs", "1", "--max-model-len", str(tokens), "--max-num-batched-tokens", "2048"]
            questions.append(start(name, config, card_of(gpu(EVERY_MODEL_ON)), given))
    wrong = []
    for (facts, tokens), answer in zip(lengths, starts(recording, questions), strict=True):
        is_theirs = re.search(r"max_model_len \(\d+\) is greater than the derived", answer.get("error", ""))
        if (context_refusal(facts, tokens, (), {}) is None) is not (is_theirs is None):
            wrong.append((facts.name, tokens, answer))
    assert wrong == []


@pytest.mark.parametrize(("release", "times"), [("0.13.0", 0), ("0.14.0", 1), (VLLM_VERSION, 1)])
def test_an_old_quantization_is_permitted_once(release: str, times: int) -> None:
    name = "meta-llama/Llama-3.1-405B-Instruct-FP8"
    body = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": "old"}}
    spec = {"model": {"name": name}, "contextLength": 4096, "concurrency": 2, "engine": {"version": release}}
    place = fleet(node("only", "h200-sxm-141gb", 8))
    flag = "--allow-deprecated-quantization"
    assert container_arguments(plan_one({**body, "spec": spec}, place)).count(flag) == times
    spec["engine"] = {"version": release, "extraArgs": [flag]}
    assert container_arguments(plan_one({**body, "spec": spec}, place)).count(flag) == 1
