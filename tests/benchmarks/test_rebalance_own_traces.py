"""Traces of the user's own: files in three formats, what is wrong with them, and the command that runs them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchmarks.rebalance.__main__ import main
from benchmarks.rebalance.asked import asked
from benchmarks.rebalance.own import Own, OwnReplay, own_situation
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.traces import replayed
from plimsoll.cli.reading.traces import read_trace
from plimsoll.simulation.values import Arrival

Write = Callable[[str], Path]

OWN = "seconds,prompt_tokens,output_tokens,cached_tokens\n103.5,900,100,300\n100,800,200,\n"
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
MOONCAKE = "".join(
    json.dumps({"timestamp": at, "input_length": prompt, "output_length": 5, "hash_ids": hashes}) + "\n"
    for at, prompt, hashes in ((3000, 1300, [1, 2, 3]), (4500, 1200, [1, 2, 9]), (6000, 1024, [1, 2]))
)


@pytest.fixture(name="write")
def writer(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "mine.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_own_columns_are_sorted_and_count_from_the_first_request(write: Write) -> None:
    assert read_trace(write(OWN)) == (Arrival(0, 800, 200), Arrival(3.5, 900, 100, 300))


def test_the_cached_tokens_may_be_left_out(write: Write) -> None:
    assert read_trace(write("seconds,prompt_tokens,output_tokens\n5,10,20\n")) == (Arrival(0, 10, 20),)


def test_azures_file_is_read_as_it_is_published(write: Write) -> None:
    first, second = read_trace(write(AZURE))
    assert (first.at, first.prompt_tokens, first.output_tokens) == (0, 374, 44)
    assert (second.prompt_tokens, second.output_tokens) == (396, 109)
    assert second.at == pytest.approx(4.314579, abs=1e-5)


def test_mooncakes_file_is_read_as_it_is_published(write: Write) -> None:
    assert read_trace(write(MOONCAKE)) == (
        Arrival(0, 1300, 5, blocks=(1, 2, 3)),
        Arrival(1.5, 1200, 5, blocks=(1, 2, 9)),
        Arrival(3, 1024, 5, blocks=(1, 2)),
    )


def test_copies_of_a_request_begin_as_it_does(write: Write) -> None:
    twice = replayed(read_trace(write(MOONCAKE)), 2.0, 60.0, Random(1))  # noqa: S311 - a reproducible draw
    assert sorted(each.blocks for each in twice) == sorted(2 * [(1, 2), (1, 2, 3), (1, 2, 9)])


def test_a_packed_file_is_unpacked(tmp_path: Path, write: Write) -> None:
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(OWN.encode()))
    assert read_trace(packed) == read_trace(write(OWN))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: the file is empty"),
        ("seconds,prompt_tokens,output_tokens\n", "line 1: no request follows"),
        ("time,tokens\n1,2\n", "line 1: the columns are time, tokens; a trace is a CSV file with the columns seconds"),
        (f"{OWN}x,5,5,\n", "line 4: seconds: 'x' is not a number"),
        (f"{OWN}nan,5,5,\n", "line 4: seconds: 'nan' is not a finite number"),
        (f"{OWN}1,0,5,\n", "line 4: prompt_tokens: '0' is not a whole number from 1"),
        (f"{OWN}1,5,2.5,\n", "line 4: output_tokens: '2.5' is not a whole number from 1"),
        (f"{OWN}1,5,5,-1\n", "line 4: cached_tokens: '-1' is not a whole number from 0"),
        (f"{OWN}1,5\n", "line 4: output_tokens: None is not a number"),
        (f"{AZURE}yesterday,5,5\n", "line 4: TIMESTAMP: 'yesterday' is not a date and a time"),
        (f"{MOONCAKE}nothing\n", "line 4: not JSON"),
        (f'{MOONCAKE}{{"timestamp": 1}}\n', "line 4: it lacks timestamp, input_length, output_length"),
        *(
            (MOONCAKE.replace("[1, 2, 9]", ids), f"line 2: hash_ids: {ids} is not a list of whole numbers from 0")
            for ids in ("7", "[[1]]", "[-1]", "[1.5]")
        ),
    ],
)
def test_a_wrong_line_is_named(text: str, words: str, write: Write) -> None:
    path = write(text)
    with pytest.raises(ValueError, match=r"mine\.csv, line") as raised:
        read_trace(path)
    assert str(raised.value).startswith(f"{path}, {words}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "broken.gz"
    packed.write_bytes(gzip.compress(OWN.encode())[:-12])
    for path in (tmp_path / "missing.csv", packed, tmp_path):
        with pytest.raises(ValueError, match=path.name):
            read_trace(path)


def test_a_situation_has_the_engine_and_the_promises_that_were_asked_for(write: Write) -> None:
    situation = own_situation(
        Own(write(OWN), "meta-llama/Llama-3.1-8B-Instruct", "l40s-48gb", 1, 8192, 8, 3.0, 50.0, 5.0, 2, 4, 1.5, 0.05)
    )
    scenario, engine = situation.scenario, situation.scenario.engine
    assert (engine.model, engine.gpu_type, engine.tensor_parallel) == (
        "meta-llama/Llama-3.1-8B-Instruct",
        "l40s-48gb",
        1,
    )
    assert (engine.context_tokens, scenario.declared_concurrency) == (8192, 8)
    assert (scenario.name, scenario.seconds) == ("mine", 4.0)
    assert (scenario.cold_start_seconds, scenario.scrape_seconds) == (50, 5)
    assert (scenario.start_replicas, scenario.max_replicas) == (2, 4)
    assert (scenario.ttft_seconds, scenario.tpot_seconds) == (1.5, 0.05)
    assert isinstance(scenario.arrivals, OwnReplay)
    assert len([each for each in scenario.arrivals(1) if each.prompt_tokens == 800]) in range(1, 4)


def test_a_rate_factor_copies_requests(write: Write) -> None:
    path = write(OWN)
    assert OwnReplay(path, 1, 100)(1) == read_trace(path)
    assert len(OwnReplay(path, 3, 100)(1)) == 6


def test_requests_that_are_cut_are_counted(write: Write) -> None:
    own = Own(write(f"{OWN}104,40000,10,\n"))
    assert own_situation(own).tests.endswith("; 1 of 3 requests are longer than 32768 tokens, and cut")
    assert own_situation(replace(own, context_length=40_010)).tests.endswith("at 1 times its rate")


def test_the_command_runs_a_trace(write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    asked_for = ("--trace", str(write(OWN)), "--policies", "static-start", "--seeds", "1", "--json", str(figures))
    assert main(asked_for) == 0
    said = capsys.readouterr()
    assert "The own set in detail" in said.out
    assert "mine.csv at 1 times its rate" in said.err
    (run,) = json.loads(figures.read_text(encoding="utf-8"))["runs"]
    assert (run["scenario"], run["group"], run["requests"], run["goodput"]) == ("mine", "own", 2, 100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "Qwen/Qwen3-32B"), "--model: it belongs to --trace FILE, which is missing"),
        (("--rate-factor", "2"), "--rate-factor: it belongs to --trace FILE, which is missing"),
        (("--trace", "FILE", "--scenarios", "S1"), "--trace: it is a scenario of its own"),
        (("--trace", "FILE", "--quick"), "--trace: it is a scenario of its own"),
        (("--trace", "FILE", "--model", "no/model"), "--model: 'no/model' is not in the catalogue"),
        (("--trace", "FILE", "--gpu", "none"), "--gpu: 'none' is not in the catalogue"),
        (("--trace", "FILE", "--tp", "1", "--gpu", "l4-24gb"), "has no price or no room"),
        (("--trace", "FILE", "--tp", "0"), "'0' is not a whole number from 1"),
        (("--trace", "FILE", "--ttft", "0"), "'0' is not a number above 0"),
        (("--trace", "FILE", "--scrape", "often"), "'often' is not a number above 0"),
        (("--trace", "FILE", "--start-replicas", "11"), "--start-replicas: 11 is more than --max-replicas, 10"),
        (("--trace", "missing.csv"), "missing.csv"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[str, ...], words: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    own = str(write(OWN))
    with pytest.raises(SystemExit) as ended:
        asked([own if each == "FILE" else each for each in arguments], ["kpa"], situations())
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_without_a_trace_the_carried_situations_are_run() -> None:
    assert list(asked([], ["kpa"], situations()).situations) == list(situations().values())
