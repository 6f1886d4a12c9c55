"""Would the engine start with what the operator renders for each catalogued model? Its own checks answer, on each card.

They run before the weights are loaded: the context against the model's positions, the step against the largest image,
the quantization against the card, and what else a configuration can contradict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.vllm.context import context_refusal
from testbed.engine.environment import VLLM_VERSION
from testbed.engine.oracle.config_folder import engine_config
from testbed.engine.oracle.questions import Card
from tests.engine.questions import start, starts
from tests.engine.recording import Recording
from tests.support.model_configs import CONFIGS, config_of, facts_from
from tests.support.planning import fleet, gpu, node
from tests.support.rendered import container_arguments, plan_one

CARDS: Final = {
    "t4-16gb": "Tesla T4",
    "a100-sxm-80gb": "NVIDIA A100-SXM4-80GB",
    "h100-sxm-80gb": "NVIDIA H100 80GB HBM3",
    "rtx-5090-32gb": "NVIDIA GeForce RTX 5090",
}
"""One card of each generation, with the name that its driver gives."""

USUAL: Final = {"contextLength": 512, "concurrency": 16}
SMALL: Final = {"contextLength": 512, "concurrency": 1}
"""A load whose step is no larger than one request."""

EVERY_MODEL_ON: Final = "h100-sxm-80gb"
"""On the other cards one model stands for all of its class and quantization."""

OF_NO_CONSEQUENCE: Final = {
    "--served-model-name",
    "--max-num-seqs",
    "--gpu-memory-utilization",
    "--port",
    "--shutdown-timeout",
}
"""Flags with a value that no check depends on: a change of the memory law needs no new recording."""

NOT_THE_PUBLISHED_CLASS: Final = {"stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8"}
"""Their catalogued configuration is another project's, with a class name of its own. The language model is the same."""


READ_BY_THEIR_OWN_CODE: Final = {"microsoft/Phi-3-small", "xverse/XVERSE-7B"}
"""The engine reads their configuration with code of their repositories alone, which nothing here downloads."""

LENGTH_OF_THE_CLASS: Final = {"tiiuae/falcon-40b"}
"""The file names no length, and Transformers' class has one: here the length bounds nothing."""


@cache
def published() -> dict[str, dict[str, Any]]:
    """Whole configurations of catalogued models, by name. The catalogue itself keeps what the memory depends on."""
    names = {path.stem.replace("__", "/", 1): path.stem for path in CONFIGS.glob("*.json")}
    configs = {name: config_of(names[name]) for name in catalogued_models() if name in names}
    return {
        name: engine_config(config, quantized=True)
        for name, config in configs.items()
        if "model_type" in config and name not in NOT_THE_PUBLISHED_CLASS | READ_BY_THEIR_OWN_CODE
    }


def rendered(name: str, card: str, load: Mapping[str, int]) -> list[str] | None:
    """What follows ``vllm serve MODEL``; None where the model has no place on eight such cards, or is refused."""
    body = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": {"name": "asked"}}
    try:
        planned = plan_one({**body, "spec": {"model": {"name": name}, **load}}, fleet(node("only", card, 8)))
    except (AssertionError, PlimsollError):
        return None
    return [*_of_consequence(container_arguments(planned)[1:])]


def _of_consequence(arguments: list[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word in OF_NO_CONSEQUENCE:
            next(words)
        else:
            yield word


def card_of(name: str) -> Card:
    kind = gpu(name)
    assert kind.compute_capability is not None
    return Card(CARDS[name], kind.compute_capability, kind.usable_bytes)


@pytest.fixture(scope="module")
def asked() -> dict[tuple[str, str, int], dict[str, Any]]:
    """The start of a model on a card with so many requests, where it has a place there."""
    wanted = [(name, EVERY_MODEL_ON, load) for name in published() for load in (USUAL, SMALL)]
    wanted += [(name, card, USUAL) for name in representatives() for card in CARDS if card != EVERY_MODEL_ON]
    found = {}
    for name, card, load in wanted:
        arguments = rendered(name, card, load)
        if arguments is not None:
            found[name, card, load["concurrency"]] = start(name, published()[name], card_of(card), arguments)
    return found


def representatives() -> list[str]:
    """The first model of each class with each quantization and each way of rotary scaling."""
    first: dict[str, str] = {}
    for name, config in published().items():
        inner = config.get("text_config") or config
        traits = [
            config.get("architectures"),
            _method(config),
            inner.get("rope_scaling") or inner.get("rope_parameters"),
        ]
        first.setdefault(json.dumps(traits, sort_keys=True), name)
    return [*first.values()]


def _method(config: Mapping[str, Any]) -> str | None:
    quantization = config.get("quantization_config") or {}
    return quantization.get("quant_method")


def test_no_rendered_command_is_refused(
    recording: Recording, asked: dict[tuple[str, str, int], dict[str, Any]]
) -> None:
    answers = dict(zip(asked, starts(recording, [*asked.values()]), strict=True))
    assert {key: answer["error"] for key, answer in answers.items() if "error" in answer} == {}
    assert len({name for name, _, _ in answers}) > 80
    assert {card for _, card, _ in answers} == set(CARDS)
    for key, answer in answers.items():
        given = asked[key]["arguments"]
        assert answer["max_num_batched_tokens"] == int(given[given.index("--max-num-batched-tokens") + 1]), key
        assert answer["max_model_len"] == int(given[given.index("--max-model-len") + 1]), key


def test_models_that_read_images_as_a_whole_are_those_of_the_engine(
    recording: Recording, asked: dict[tuple[str, str, int], dict[str, Any]]
) -> None:
    answers = dict(zip(asked, starts(recording, [*asked.values()]), strict=True))
    theirs = {name for (name, _, _), answer in answers.items() if answer.get("whole_items")}
    ours = {name for name, config in published().items() if _reads_whole(name, config)} & {key[0] for key in answers}
    assert theirs == ours
    assert any("gemma-4-26B" in name for name in ours)
    assert any("gemma-3" in name for name in ours)
    items = {name: answer["largest_item"] for (name, _, _), answer in answers.items() if answer.get("largest_item")}
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
            questions.append(start(name, config, card_of(EVERY_MODEL_ON), given))
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
