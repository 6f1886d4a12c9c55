"""Does the engine's own parser take what the operator renders, and mean the same by it?"""

from __future__ import annotations

import pytest

from testbed.engine.arguments import Accepted, ParserAnswer, Refused, ask_parser
from tests.support.rendered import rendered_examples

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

EXAMPLES = rendered_examples()

MODEL = "meta-llama/Llama-3.1-8B-Instruct"

WRONG = {
    "an option that does not exist": ([MODEL, "--max-num-sequences", "3"], "unrecognized arguments"),
    "an option that was removed": ([MODEL, "--swap-space", "4"], "unrecognized arguments"),
    "a word for a number": ([MODEL, "--tensor-parallel-size", "two"], "invalid int value: 'two'"),
    "a KV-cache type that does not exist": ([MODEL, "--kv-cache-dtype", "fp9"], "invalid choice: 'fp9'"),
    "two models": ([MODEL, "--model", "other/model"], "unrecognized arguments"),
    "a name and no model": (["--served-model-name", "x"], "first positional argument"),
    "tool choice without a parser": ([MODEL, "--enable-auto-tool-choice"], "requires --tool-call-parser"),
    "a call for help": ([MODEL, "--help"], "printed help"),
}


@pytest.fixture(scope="module")
def answer() -> ParserAnswer:
    return ask_parser([*EXAMPLES.values(), *(argv for argv, _ in WRONG.values())])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_parser_accepts_what_is_rendered_and_reads_every_value_as_meant(answer: ParserAnswer, name: str) -> None:
    result = answer.results[list(EXAMPLES).index(name)]
    assert isinstance(result, Accepted), result
    model, *options = EXAMPLES[name]
    assert result.values["model"] == model
    destinations = {spelling: option for option, spellings in answer.spellings.items() for spelling in spellings}
    for position, word in enumerate(options):
        if word.startswith("--"):
            # A KeyError here: an abbreviation, which the parser takes today and may find ambiguous tomorrow.
            parsed = result.values[destinations[word]]
            assert _as_words(parsed) == _words_after(options, position), word


@pytest.mark.parametrize("case", WRONG)
def test_the_parser_refuses_what_is_wrong_and_says_why(answer: ParserAnswer, case: str) -> None:
    result = answer.results[len(EXAMPLES) + list(WRONG).index(case)]
    assert isinstance(result, Refused), result
    assert WRONG[case][1] in result.error


def test_spellings_are_those_of_the_real_parser(answer: ParserAnswer) -> None:
    assert answer.spellings["tensor_parallel_size"] == ("--tensor-parallel-size", "-tp")
    assert "--shutdown-timeout" in answer.spellings["shutdown_timeout"]


def _words_after(options: list[str], position: int) -> list[str]:
    following = options[position + 1 : position + 2]
    return [] if not following or following[0].startswith("-") else following


def _as_words(parsed: object) -> list[str]:
    if parsed is True:
        return []
    return [str(word) for word in parsed] if isinstance(parsed, list) else [str(parsed)]
