"""Flags that a person writes into a command: does the engine start with them, and in which type?"""

from __future__ import annotations

from typing import Final

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.cli.starts.started import started_request
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.engines.vllm.capabilities import missing_capability
from plimsoll.engines.vllm.refusals import misfit
from plimsoll.engines.vllm.settings import served_on
from plimsoll.engines.vllm.starts.command_line import read_command
from testbed.engine.environment import VLLM_VERSION
from tests.engine.questions import start, types
from tests.engine.recording import Recording
from tests.engine.rendered_starts import card_of, published
from tests.support.planning import gpu

RELEASE: Final = EngineVersion.of(VLLM_VERSION)

OVERFLOWING: Final = ("google/gemma-3-1b-it", "google/gemma-3-4b-it")
CARDS: Final = ("t4-16gb", "a100-sxm-80gb", "mi300x-192gb")

METHODS: Final = (
    *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "moe_wna16", "inc"),
    *("modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "mxfp8", "mxfp4", "humming", "quark", "torchao"),
    *("compressed-tensors", "fbgemm_fp8", "fp_quant", "experts_int8"),
    *("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "int8_per_channel_weight_only", "nvfp4_per_token"),
)
MADE_OF_CONFIGURATIONS: Final = ("quark", "torchao", "compressed-tensors")
DENSE: Final = "Qwen/Qwen3-8B"
SEEN_LATER: Final = {("t4-16gb", "bfloat16")}
"""A worker asks its GPU whether it has this type (``check_if_supports_dtype``), and here there is none."""


def facts_of(name: str) -> ModelFacts:
    facts = load_model_facts(name)
    assert facts is not None, name
    return facts


def request_of(name: str, words: list[str]) -> Request:
    options = read_command(words, {}, "here", RELEASE).options
    return started_request(options, RELEASE, facts_of(name), None, engine="vllm", share=0.9)


def test_the_type_is_the_engines(recording: Recording) -> None:
    """Nobody names a type, or names one: the estimate computes in that of the engine, and refuses what it refuses."""
    asked = [
        (name, card, [] if dtype is None else ["--dtype", dtype])
        for name in (*OVERFLOWING, DENSE)
        for card in CARDS
        for dtype in (None, "float16", "bfloat16", "float32")
        if (card, dtype) not in SEEN_LATER
    ]
    questions = [start(name, published()[name], card_of(gpu(card)), [*_SMALL, *words]) for name, card, words in asked]
    theirs = types(recording, questions)
    ours = [_type(*each) for each in asked]
    told = list(zip(asked, theirs, ours, strict=True))
    assert [each for each in told if each[1] != each[2]] == []
    assert {*theirs} == {None, "float16", "bfloat16", "float32"}
    assert (("google/gemma-3-1b-it", "t4-16gb", []), "float32", "float32") in told


def _type(name: str, card: str, words: list[str]) -> str | None:
    command = read_command(words, {}, "here", RELEASE)
    served = served_on(request_of(name, words), gpu(card))
    if misfit(served.model, command, RELEASE) is not None or missing_capability(served, gpu(card)):
        return None
    return engine_of("vllm").settings(served, gpu(card), command.split).dtype


_SMALL: Final = ("--max-model-len", "512", "--max-num-batched-tokens", "2048")


def test_methods_of_checkpoints_make_nothing_of_16_bits(recording: Recording) -> None:
    """What we refuse the engine refuses, and what it refuses we refuse or doubt."""
    words = [[*_SMALL, "--quantization", method] for method in METHODS]
    card = card_of(gpu("h100-sxm-80gb"))
    theirs = types(recording, [start(DENSE, published()[DENSE], card, each) for each in words])
    starts = {method: dtype is not None for method, dtype in zip(METHODS, theirs, strict=True)}
    refused = {method: _refused(each) for method, each in zip(METHODS, words, strict=True)}
    doubted = {
        method: bool(request_of(DENSE, each).engine.unfollowed) for method, each in zip(METHODS, words, strict=True)
    }
    assert [method for method in METHODS if refused[method] and starts[method]] == []
    assert [method for method in METHODS if not starts[method] and not (refused[method] or doubted[method])] == []
    assert [method for method in METHODS if refused[method]] == [*METHODS[:12], *MADE_OF_CONFIGURATIONS]


def _refused(words: list[str]) -> bool:
    found = misfit(facts_of(DENSE), read_command(words, {}, "here", RELEASE), RELEASE)
    return found is not None and found.flag == "--quantization"


def test_mistrals_format_needs_its_files(recording: Recording) -> None:
    """The question's folder has a ``config.json`` alone."""
    words = [[*_SMALL, "--config-format", each] for each in ("hf", "auto", "mistral")]
    card = card_of(gpu("h100-sxm-80gb"))
    theirs = types(recording, [start(DENSE, published()[DENSE], card, each) for each in words])
    assert [each is not None for each in theirs] == [True, True, False]
