"""Are the recorded options those of the engine's own parser, and do we refuse exactly what it refuses?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.flags.extra_arguments import misused_argument
from plimsoll.engines.vllm.flags.table import Option, table_for
from testbed.engine.arguments import Accepted, Refused
from testbed.engine.environment import VLLM_VERSION
from tests.engine.questions import MODEL, parse
from tests.engine.recording import Recording

RELEASE = EngineVersion.of(VLLM_VERSION)
OPTIONS = {option.names[0]: option for option in table_for(RELEASE).options.values()}

VALUES = {
    "text": ["", "x", "None"],
    "maybe-text": ["", "None"],
    "word": ["deep-GEMM", "deep gemm"],
    "whole": ["-1", "+1", "1_0", " 7", "1.0", "1k", "", "None"],
    "maybe-whole": ["", "None", "none", "3", "3.5"],
    "number": ["1e-3", "nan", "-0.5", ".5", "1,5", "1k"],
    "maybe-number": ["None", "2", "two"],
    "size": ["4k", "4K", "1.5k", "1.5K", "2 k", "-1", "4kb"],
    "maybe-size": ["None", "4M", "M"],
    "size-or-auto": ["auto", "AUTO", "-1", "8k", "all"],
    "json": ["{}", "[1]", "3", "{'a': 1}", "NaN", "None", ""],
    "maybe-json": ["{}", "None", "{", '{"a": 1k}'],
    "object": ["{}", "{'a': 1}", "3x", "None"],
    "maybe-object": ["None", "", "{"],
    "text-or-json": ["x", "{}", "{x}", " {'a': 1} ", "{", "None"],
    "adapter": ["a=b", '{"name": "a", "path": "b"}', "a", "a=b,c", ""],
}
"""Values of each kind that its converter takes, and some that it does not."""

LINES: tuple[tuple[str, ...], ...] = (
    ("--enable-prefx-caching",),
    ("--enable-prefix-caching", "--seed=7"),
    ("--enable_prefix_caching", "--seed", "7"),
    ("--enable-prefix-caching", "true"),
    ("--enable-prefix-caching=true",),
    ("--no-enable-prefix-caching",),
    ("--no-seed",),
    ("--seed 1",),
    ("--seed 1 --enable-eplb",),
    ("--seed=1 --enable-eplb",),
    ("--seed", "1 --enable-eplb"),
    ("--seed", "--enable-eplb"),
    ("--seed", "-1"),
    ("--seed", "1", "2"),
    ("--see=1",),
    ("--SEED=1",),
    ("-seed=1",),
    ("seed=1",),
    ("--enable",),
    ("--enable=1",),
    ("-",),
    ("-O3",),
    ("-O=2",),
    ("-O", "1"),
    ("-O", "decode"),
    ("-O",),
    ("-cc", '{"mode": 3}'),
    ("-cc.mode=3",),
    ("-cc.mode", "3"),
    ("-cc.mode",),
    ("-ac.backend=FLASH_ATTN",),
    ("--compilation_config.mode", "3", "--seed", "1"),
    ("--compilation-config.pass_config.fuse_norm_quant", "true"),
    ("--cudagraph-capture-sizes", "1", "2", "4"),
    ("--cudagraph-capture-sizes", "1", "two"),
    ("--cudagraph-capture-sizes=1", "2"),
    ("--cudagraph-capture-sizes",),
    ("--collect-detailed-traces", "all", "model"),
    ("--collect-detailed-traces", "all", "nothing"),
    ("--lora-modules", "a=b", "c=d"),
    ("--middleware", "a", "--middleware", "b"),
    ("--seed.x=1",),
    ("--enable-eplb.x=1",),
    ("--nobody.x=1",),
    ("--enable-auto-tool-choice",),
    ("--enable-auto-tool-choice", "--tool-call-parser"),
    ("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ("--enable-auto-tool-choice", "--tool-call-parser=None"),
    ("--enable-auto-tool-choice", "--no-enable-auto-tool-choice"),
    ("--tool-call-parser", "hermes"),
    ("--enable-log-outputs",),
    ("--enable-log-outputs", "--enable-log-requests"),
    ("--enable-log-requests", "--no-enable-log-requests", "--enable-log-outputs"),
    ("--help",),
    ("-h",),
    ("--disable-log-requests",),
    ("--swap-space", "4"),
    ("--task", "embed"),
)
"""Command lines as people write them, right and wrong."""

OF_THE_SERVER: dict[tuple[str, ...], str] = {
    ("--enable-auto-tool-choice", "--tool-call-parser", "Hermes"): "hermes",
    ("--reasoning-parser", "qwen4"): "qwen3",
    ("--reasoning-parser=Qwen3",): "qwen3",
}
"""What the parser takes and the server ends its start for, and the name that is meant."""

TAKEN = {
    *OF_THE_SERVER,
    ("--enable-auto-tool-choice", "--tool-call-parser", "own", "--tool-parser-plugin", "/own.py"),
    ("--tool-call-parser", "own"),
    ("--reasoning-parser", "own", "--reasoning-parser-plugin", "/own.py"),
}

OF_A_FILE = ("--chat-template", "--config")
"""Options of which the parser reads the file that they name."""

BEYOND = {
    "--model": "the operator writes it, in front of all options",
    "--data-parallel-multi-port-external-lb": "it needs options that the operator owns",
}
"""Options of which the parser refuses more than we do, and why."""


def lines() -> Iterator[tuple[str, ...]]:
    """All command lines that the parser and we are asked about."""
    kinds = {option.kind: name for name, option in OPTIONS.items() if name not in BEYOND and not option.choices}
    kinds["word"] = "--moe-backend"
    for kind, values in VALUES.items():
        yield from ((f"{kinds[kind]}={value}",) for value in values)
    for name, option in OPTIONS.items():
        yield (name,)
        yield from () if name in OF_A_FILE or option.registered else ((f"{name}=~",),)
        yield from ((name, each) for each in option.choices[:1])
    yield from (*LINES, *sorted(TAKEN))


@pytest.fixture(scope="module")
def answers(recording: Recording) -> dict[tuple[str, ...], Accepted | Refused]:
    asked = list(dict.fromkeys(lines()))
    results = parse(recording, [[MODEL, *each] for each in asked]).results
    return dict(zip(asked, results, strict=True))


def option_of(line: tuple[str, ...]) -> Option | None:
    """The option in the first word of a command line."""
    return OPTIONS.get(line[0].partition("=")[0])


def test_the_table_is_what_the_engine_answers(recording: Recording) -> None:
    found = {Option.recorded(option) for option in parse(recording).options.values()}
    assert found == set(table_for(RELEASE).options.values())


def test_nothing_is_refused_that_the_engine_takes(answers: dict[tuple[str, ...], Accepted | Refused]) -> None:
    refused = {line for line in answers if misused_argument(line, RELEASE)}
    taken = {line for line, answer in answers.items() if isinstance(answer, Accepted)}
    assert len(taken) > 100
    assert refused & taken - set(OF_THE_SERVER) == set()


def test_what_the_engine_refuses_is_refused(answers: dict[tuple[str, ...], Accepted | Refused]) -> None:
    missed = {
        line: answer.error
        for line, answer in answers.items()
        if isinstance(answer, Refused) and misused_argument(line, RELEASE) is None
    }
    assert {line: said for line, said in missed.items() if line[0].partition("=")[0] not in BEYOND} == {}
    assert {line[0].partition("=")[0] for line in missed} == set(BEYOND)


@pytest.mark.parametrize("line", OF_THE_SERVER, ids=" ".join)
def test_a_parser_that_does_not_come_with_the_release_is_refused_with_the_nearest_one(line: tuple[str, ...]) -> None:
    misuse = misused_argument(line, RELEASE)
    assert misuse is not None
    assert misuse.position == len(line) - 1
    assert misuse.fix.endswith(f"the nearest is {OF_THE_SERVER[line]}.")
