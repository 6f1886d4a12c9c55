"""A start that must fail by the engine's flags is refused before there is a pod, where the flags are known for sure."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.vllm.flags.extra_arguments import OWNED_FLAGS, misused_argument
from plimsoll.engines.vllm.flags.table import Given, table_for
from plimsoll.engines.vllm.releases.serve_options import SERVE_OPTIONS
from plimsoll.placement.places.warnings import model_warnings
from tests.api.manifests import deployment
from tests.support.planning import model
from tests.support.tables import every_case
from tests.support.vllm_flags import owned_flag
from tests.support.work import measured_effort

RELEASE = EngineVersion(0, 32)
TABLE = table_for(RELEASE)
SEPARATE = "write each flag and each value as an entry of its own, or as --flag=value."

WRONG: dict[str, tuple[list[str], int, str]] = {
    "a misspelt flag": (
        ["--seed=1", "--enable-prefx-caching"],
        1,
        "vLLM 0.32.0 has no such flag: the nearest is --enable-prefix-caching.",
    ),
    "a flag in capitals": (["--SEED=1"], 0, "vLLM 0.32.0 has no such flag: the nearest is --seed."),
    "a flag like no other": (["--quux=1"], 0, "vLLM 0.32.0 has no such flag: correct its name, or remove it."),
    "two flags in one entry": (["--seed 1 --enable-eplb"], 0, f"The engine reads this as one word: {SEPARATE}"),
    "a second flag in a value": (
        ["--tool-call-parser=hermes --enable-auto-tool-choice"],
        0,
        f"It holds the flag --enable-auto-tool-choice, too: {SEPARATE}",
    ),
    "tool choice without a parser": (
        ["--enable-auto-tool-choice", "--seed=1"],
        0,
        "--enable-auto-tool-choice needs --tool-call-parser: add it, or remove --enable-auto-tool-choice.",
    ),
    "no value": (["--seed"], 0, "--seed takes a value: write it as the next entry, or as --seed=VALUE."),
    "no value before a flag": (
        ["--seed", "--enable-eplb"],
        0,
        "--seed takes a value: write it as the next entry, or as --seed=VALUE.",
    ),
    "no value of a key": (["-cc.mode"], 0, "-cc.mode takes a value: write it as the next entry, or as -cc.mode=VALUE."),
    "a word for a number": (["--seed", "one"], 1, "--seed takes a whole number."),
    "a value of a switch": (
        ["--enable-eplb=true"],
        0,
        "--enable-eplb takes no value: write --enable-eplb or --no-enable-eplb.",
    ),
    "a value too many": (["--enable-eplb", "true"], 1, f"No flag takes this value: {SEPARATE}"),
    "no JSON": (
        ["--override-generation-config", "{'a': 1}"],
        1,
        "--override-generation-config takes JSON, e.g. '{\"key\": 1}'.",
    ),
    "an unknown choice": (["--scheduling-policy=lifo"], 0, "--scheduling-policy takes fcfs, priority."),
    "a misspelt choice": (
        ["--scheduling-policy", "priorty"],
        1,
        "--scheduling-policy has no such choice: the nearest is priority.",
    ),
    "a beginning of several flags": (
        ["--enable-l=1"],
        0,
        (
            "It may mean --enable-layerwise-nvtx-tracing, --enable-log-deltas, --enable-log-outputs, "
            "--enable-log-requests or 2 others: write one in full."
        ),
    ),
    "help": (["--help"], 0, "The engine prints its help and ends: remove it."),
}

RIGHT: dict[str, list[str]] = {
    "nothing": [],
    "switches and values": ["--enable-prefix-caching", "--seed=7", "--no-enable-log-requests", "--seed", "-1"],
    "underscores and beginnings": ["--enable_prefix_caching", "--chat_template_content_format=auto", "--see=1"],
    "keys of JSON": [
        "-cc.mode=3",
        "--compilation-config.pass_config.x",
        "true",
        "-O3",
        "--kv-transfer-config.a",
        "80g",
    ],
    "several values": ["--cudagraph-capture-sizes", "1", "2", "--lora-modules", "a=b", "c=d"],
    "tools": ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser=qwen3"],
    "own parsers": [
        *("--enable-auto-tool-choice", "--tool-call-parser=own", "--tool-parser-plugin=/own.py"),
        *("--reasoning-parser=own", "--reasoning-parser-plugin=/own.py"),
    ],
    "a text with dashes": ["--chat-template", "{{ a }} - b --nobody-knows"],
    "words behind two dashes": ["--", "anything"],
}


def refusal(**engine: Any) -> InvalidInput | None:
    try:
        check_without_model(deployment(engine=engine).spec)
    except InvalidInput as error:
        return error
    return None


def remarks(**engine: Any) -> list[str]:
    engine = {"lora": {"maxAdapters": 1, "maxRank": 8}} | engine
    request = to_request(deployment(engine=engine), model())
    return [each for each in model_warnings(request) if "extraArgs[" in each]


@pytest.mark.parametrize("case", WRONG)
def test_a_start_that_must_fail_is_refused_with_place_value_and_fix(case: str) -> None:
    arguments, position, fix = WRONG[case]
    refused = refusal(extraArgs=arguments)
    assert refused is not None
    assert (refused.field, refused.value) == (f"spec.engine.extraArgs[{position}]", arguments[position])
    assert refused.fix == fix


@pytest.mark.parametrize("case", RIGHT)
def test_what_the_engine_takes_is_taken_without_a_word(case: str) -> None:
    assert refusal(extraArgs=RIGHT[case]) is None
    assert remarks(extraArgs=RIGHT[case]) == []


@pytest.mark.parametrize(
    ("engine", "whose", "known"),
    [
        ({"version": "0.34.0"}, "vLLM 0.34.0", "0.33.0"),
        ({"version": "1.0"}, "vLLM 1.0.0", "0.33.0"),
        ({"version": "0.32.1"}, "vLLM 0.32.1", "0.32.0"),
        ({"version": "0.30"}, "vLLM 0.30.0", "0.32.0"),
        ({"image": "registry/own:1"}, "the image in spec.engine.image", "0.32.0"),
    ],
)
def test_what_another_release_or_image_may_take_is_a_warning(engine: dict[str, Any], whose: str, known: str) -> None:
    engine |= {"extraArgs": ["--seed=1", "--tomorrow=2"]}
    assert refusal(**engine) is None
    [said] = remarks(**engine)
    assert said == (
        f"spec.engine.extraArgs[1], '--tomorrow=2', is not as vLLM {known} takes it; whether "
        f"{whose} does is not known here. vLLM {known} has no such flag: correct its name, or remove it."
    )
    assert remarks(**engine | {"extraArgs": ["--seed=1"]}) == []


def test_a_release_may_be_written_without_its_patch_number() -> None:
    assert refusal(version="0.32", extraArgs=["--tomorrow"]) is not None


@every_case("release", SERVE_OPTIONS)
def test_no_spelling_of_a_flag_of_the_operators_gets_through(release: str) -> None:
    """Of each recorded release, as its parser reads a word: 0.33 has a ``--disable-x`` for each ``--enable-x``."""
    table = table_for(EngineVersion.of(release))
    owned = {table.options[flag.name].names for flag in OWNED_FLAGS if flag.name in table.options}
    words = {name[:length] for name in table.options for length in range(len("--x"), len(name) + 1)}
    read = {word: table.read(word) for word in words}
    sets = {word for word, found in read.items() if isinstance(found, Given) and found.option.names in owned}
    assert len(sets) > 400
    assert sorted(word for word in sets if owned_flag(word) is None) == []
    assert len(owned) >= len(OWNED_FLAGS) - 1


NEW_IN_0_33: dict[str, tuple[list[str], str | None]] = {
    "--sleep-mode-backend": (["--sleep-mode-backend", "cumem"], "has no such flag"),
    "--watchdog-config": (["--watchdog-config.timeout", "3"], "has no such flag"),
    "--monokernel": (["--monokernel"], "has no such flag"),
    "--disable-prefix-caching": (["--disable-prefix-caching"], "has no such flag"),
    "no reasoning parser": (["--reasoning-parser", "none"], "--reasoning-parser takes "),
    "a flag of both": (["--enable-eplb"], None),
}


@every_case("case", NEW_IN_0_33)
def test_what_0_33_added_is_refused_for_0_32_alone(case: str) -> None:
    arguments, before = NEW_IN_0_33[case]
    assert refusal(version="0.33.0", extraArgs=arguments) is None
    assert remarks(version="0.33.0", extraArgs=arguments) == []
    refused = refusal(extraArgs=arguments)
    assert (refused is None) if before is None else (refused is not None and before in refused.fix)


@every_case("word", ["--disable-auto-tool-choice", "--no-enable-auto-tool-choice"])
def test_a_switch_that_is_turned_off_needs_nothing(word: str) -> None:
    wanted = ["--enable-auto-tool-choice"]
    assert refusal(version="0.33.0", extraArgs=wanted) is not None
    assert refusal(version="0.33.0", extraArgs=[*wanted, word]) is None
    assert refusal(version="0.33.0", extraArgs=[word, *wanted]) is not None


def test_a_flag_of_the_operators_is_refused_as_such() -> None:
    refused = refusal(extraArgs=["--nobody", "--max-model-len=x"])
    assert refused is not None
    assert "use spec.contextLength" in refused.fix


def test_the_operator_owns_flags_that_the_release_has() -> None:
    assert [flag.name for flag in OWNED_FLAGS if flag.name not in TABLE.options] == []


names = st.sampled_from(sorted(TABLE.options))
values = st.sampled_from(["1", "x", "{}", "--", "-1", "=", "a b", "None"]) | st.text(max_size=5)
words = names | values | st.builds("{}={}".format, names, values) | st.builds("{}.key={}".format, names, values)


@given(st.lists(words, max_size=5))
def test_any_line_is_taken_or_one_of_its_arguments_is_named(arguments: list[str]) -> None:
    misuse = misused_argument(arguments, RELEASE)
    if misuse is not None:
        assert arguments[misuse.position] == misuse.value
        assert re.search(r"\S\.$", misuse.fix)


@given(names.filter(lambda name: name.startswith("--")), st.integers(2, 30))
def test_a_flag_with_a_letter_too_many_is_no_flag(name: str, at: int) -> None:
    spelt = f"{name[:at]}Q{name[at:]}"
    misuse = misused_argument([spelt], RELEASE)
    assert misuse is not None
    assert "no such flag" in misuse.fix


def test_no_value_keeps_its_reader_busy() -> None:
    """A quotation mark that nothing closes is looked at once, and not once for each one before it."""
    with measured_effort() as spent:
        found = misused_argument(["--compilation-config=" + '\\"' * 20_000], EngineVersion(0, 32, 0))
    assert found is not None
    assert "takes a JSON object" in found.fix
    assert spent.amount < 30


def test_a_suffix_within_a_text_stays_and_outside_of_one_is_a_number() -> None:
    for value in ('{"a \\" 80g": 80g}', '{"a": "80g"}'):
        assert misused_argument([f"--compilation-config={value}"], EngineVersion(0, 32, 0)) is None
