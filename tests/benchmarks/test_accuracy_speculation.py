"""Speculation under every spelling reaches the estimate, or the row says that it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.accuracy.loading import Sources, load
from benchmarks.accuracy.ours import Ours, follows
from benchmarks.accuracy.reading.records import read_records
from benchmarks.accuracy.reading.speculation import Drafting, drafting_of
from benchmarks.accuracy.setups import SPECULATION
from tests.support.accuracy import LLAMA_8B, setup
from tests.support.model_configs import config_of
from tests.support.tables import every_case

CLI = [
    ('--speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\' --max-num-seqs 8', "mtp", 3, None),
    ('--speculative-config {"method": "deepseek_mtp", "num_speculative_tokens": 1}', "mtp", 1, None),
    ('--speculative-config "{\\"method\\":\\"qwen3_next_mtp\\",\\"num_speculative_tokens\\":2}"', "mtp", 2, None),
    ("-sc '{method: mtp, num_speculative_tokens: 2}'", "mtp", 2, None),
    ("--speculative-config.method mtp --speculative-config.num_speculative_tokens 4", "mtp", 4, None),
    ("--speculative-config.method=ngram --speculative-config.num_speculative_tokens=5", "ngram", 5, None),
    ("-sc.method ngram -sc.num_speculative_tokens 5", "ngram", 5, None),
    ("--spec-method mtp --spec-tokens 1", "mtp", 1, None),
    ('--speculative-config \\\n  \'{"method": "mtp", "num_speculative_tokens": 2}\'', "mtp", 2, None),
    ("--spec-tokens 2 --spec-method", "unknown", 2, None),
    ("--spec-model a/b-EAGLE3 --spec-tokens 3", "eagle3", 3, "a/b-EAGLE3"),
    ("--speculative-model [ngram] --num-speculative-tokens 5", "ngram", 5, "[ngram]"),
    ("--speculative_model=a/small --num_speculative_tokens=5", "draft_model", 5, "a/small"),
]


@every_case(("cli", "method", "tokens", "model"), CLI)
def test_command_lines(cli: str, method: str, tokens: int, model: str | None) -> None:
    assert drafting_of({"cli": f"vllm serve a/b {cli}"}) == Drafting(method, tokens, model)


@every_case(
    ("flags", "found"),
    [
        ({"speculative": {"method": "mtp", "num_speculative_tokens": 2}}, Drafting("mtp", 2)),
        ({"speculative_config": '{"method": "medusa", "model": "x"}'}, Drafting("medusa", None, "x")),
        ({"--spec-method": "mtp", "--spec-tokens": "2"}, Drafting("mtp", 2)),
        ({"speculative": "eagle"}, Drafting("eagle", None)),
        ({"speculative": True}, Drafting("unknown", None)),
        ({"mtp": True}, Drafting("mtp", None)),
        ({"speculative_model": "a/EAGLE3-x", "num_speculative_tokens": 2}, Drafting("eagle3", 2, "a/EAGLE3-x")),
    ],
)
def test_flags_of_records(flags: dict[str, Any], found: Drafting) -> None:
    assert drafting_of(flags) == found


@every_case(
    "flags",
    [
        {},
        {"speculative": None},
        {"speculative": False},
        {"speculative_config": "none"},
        {"speculative": "mtp", "num_speculative_tokens": 0},
        {"cli": "--enforce-eager --scheduling-policy fcfs --dtype half"},
        {"method": "mtp"},
    ],
)
def test_nothing_is_drafted_where_nothing_says_so(flags: dict[str, Any]) -> None:
    assert drafting_of(flags) is None


def test_a_record_may_state_it_next_to_its_other_fields(tmp_path: Path) -> None:
    rows = [
        {"id": "one", "model": "a/b", "speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
        {"id": "two", "model": "a/b", "other_flags": "--spec-method ngram --spec-tokens 4"},
        {"id": "three", "model": "a/b"},
        {"id": "four", "model": "a/b", "args": ["--spec-method", "mtp", "--spec-tokens", "3"]},
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    found = [drafting_of(each.other_flags) for each in read_records(path, "logs", [])]
    assert found == [Drafting("mtp", 2), Drafting("ngram", 4), None, Drafting("mtp", 3)]


def test_prediction_layers_take_memory_in_the_estimate() -> None:
    config = config_of("Qwen__Qwen3.5-0.8B")
    flags = {"cli": "--spec-method mtp --spec-tokens 2"}
    with_mtp, plain = (setup(config, version="0.32.0", other_flags=each) for each in (flags, {}))
    assert follows(with_mtp)
    assert SPECULATION not in with_mtp.assumed
    more, less = Ours().predict([with_mtp, plain])
    assert (more.weights_gib or 0) > (less.weights_gib or 0)
    assert (more.kv_gib or 0) < (less.kv_gib or 0)


def test_n_grams_are_followed_and_weigh_nothing() -> None:
    drafted, plain = setup(other_flags={"cli": "--spec-method ngram --spec-tokens 4"}), setup()
    assert follows(drafted)
    assert SPECULATION not in drafted.assumed
    more, less = Ours().predict([drafted, plain])
    assert more.weights_gib == less.weights_gib


def test_a_number_that_is_not_stated_is_assumed() -> None:
    assert "num_speculative_tokens" in setup(other_flags={"speculative": "mtp"}).assumed
    assert "num_speculative_tokens" not in setup(other_flags={"cli": "--spec-method mtp --spec-tokens 2"}).assumed


def loaded_assumptions(folder: Path, *rows: dict[str, Any], **configs: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    (folder / "configs").mkdir()
    for name, config in {"own__model": LLAMA_8B, **configs}.items():
        (folder / "configs" / f"{name}.json").write_text(json.dumps(config))
    base = {
        "model": "own/model",
        "gpu": "NVIDIA H100",
        "gpu_memory_gib": 79.2,
        "vllm_version": "0.32.0",
        "outcome": "ok",
    }
    written = [{**base, "flags_complete": True, "id": str(number), **row} for number, row in enumerate(rows)]
    (folder / "logs.json").write_text(json.dumps(written))
    found = load(Sources(runs=None, logs=folder / "logs.json", configs=folder / "configs", oracle=None))
    return {each.case.id: each.setup.assumed for each in found.scored}


def test_what_no_law_covers_is_assumed_by_name(tmp_path: Path) -> None:
    """A model without prediction layers drafts none; a method without a law, and a draft without a configuration."""
    found = loaded_assumptions(
        tmp_path,
        {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
        {"speculative_config": {"method": "medusa", "model": "own/model", "num_speculative_tokens": 1}},
        {"speculative_config": {"method": "eagle3", "model": "no/config", "num_speculative_tokens": 1}},
        {"speculative_config": {"model": "own/small", "num_speculative_tokens": 1}},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 1}},
        {},
        own__small={**LLAMA_8B, "num_hidden_layers": 2},
    )
    assert {key: SPECULATION in names for key, names in found.items()} == {
        "0": True,
        "1": True,
        "2": True,
        "3": False,
        "4": False,
        "5": False,
    }
