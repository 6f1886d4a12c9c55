"""``plimsoll learn``: a start-up log against the estimate, and what it teaches."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plimsoll import __version__
from plimsoll.cli import main as command_line
from plimsoll.cli.cluster.lessons import lessons_of
from plimsoll.cli.cluster.teachers import Lessons, Teachers
from plimsoll.cli.starts.logged_start import MOST_BYTES, MOST_LINES
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB, MIB
from tests.support.start_logs import (
    MODEL,
    NOTHING_LEFT,
    OUT_OF_MEMORY,
    TOO_SMALL_0_10,
    config_line,
    figures_0_11_0,
    log_0_8_5,
    log_0_11_0,
    log_0_32_0,
)

H100 = ("--gpu", "h100-sxm-80gb")


class Ran:
    """The status and the output of one call of the command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self.error = ""
        try:
            command_line.cli.main(list(words), standalone_mode=False)
        except PlimsollError as error:
            self.error = str(error)
        self.shown = capsys.readouterr().out

    def document(self) -> Any:
        assert self.error == ""
        return json.loads(self.shown)


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def learn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Ask for the lesson of a text as data; words come after it."""

    def ask(text: str, *words: str) -> Any:
        return Ran(capsys, "learn", written(tmp_path, text), "-o", "json", *words).document()

    return ask


def written(folder: Path, text: str) -> str:
    file = folder / "startup.log"
    file.write_text(text, encoding="utf-8")
    return str(file)


def row(document: Any, name: str) -> Any:
    return next(each for each in document["rows"] if each["name"] == name)


def predicted_gib(learn: Any) -> float:
    """The KV cache that the law predicts for the log of 0.11, in GiB with two digits, as the engine would log it."""
    found: float = round(row(learn(log_0_11_0(*figures_0_11_0(50)), *H100), "KV cache")["predicted"] / GIB, 2)
    return found


def test_a_start_as_predicted_is_inside_the_band_and_teaches_almost_nothing(learn: Any) -> None:
    document = learn(log_0_11_0(*figures_0_11_0(predicted_gib(learn))), *H100)
    assert row(document, "KV cache")["inside"]
    assert abs(document["lesson"]["correction"]["totalBytes"]) < 10 * MIB
    assert (document["fit"], document["lesson"]["after"]["fit"], document["failure"]) == ("Sure", "Sure", None)


def test_a_start_that_took_more_is_outside_and_the_estimate_after_it_says_what_it_got(learn: Any) -> None:
    logged = predicted_gib(learn) - 3
    document = learn(log_0_11_0(*figures_0_11_0(logged)), *H100)
    correction, after = document["lesson"]["correction"], document["lesson"]["after"]
    assert not row(document, "KV cache")["inside"]
    assert correction["totalBytes"] == pytest.approx(3 * GIB, abs=10 * MIB)
    assert correction["restBytes"] == pytest.approx(3 * GIB, abs=10 * MIB), "no term was logged that explains it"
    assert after["availableKvBytes"] == int(logged * GIB)
    assert document["notes"] == []


def test_terms_that_the_log_names_are_corrected_one_by_one(learn: Any) -> None:
    usual = learn(log_0_32_0(), *H100)
    more = learn(log_0_32_0(peak=2.5, kv_gib=51.5), *H100)
    terms = [each["lesson"]["correction"] for each in (usual, more)]
    assert terms[1]["activationsBytes"] - terms[0]["activationsBytes"] == pytest.approx(GIB / 2, abs=2)
    assert terms[1]["restBytes"] == pytest.approx(terms[0]["restBytes"], abs=2)
    assert row(usual, "CUDA graphs, charged")["logged"] == int(0.55 * GIB)
    assert row(usual, "weights and memory outside PyTorch")["logged"] == int(15.6 * GIB)
    assert any("--attention-backend" in note for note in usual["notes"]), "it changes the memory and has no law"


def test_a_log_of_0_8_gives_tokens_which_become_bytes(learn: Any) -> None:
    document = learn(log_0_8_5(), *H100)
    assert document["lesson"]["observation"]["availableKvBytes"] == 370_000 // 16 * 16 * 147_456
    assert row(document, "requests of full length")["logged"] == 45.17
    assert (document["engine"]["version"], document["maxNumBatchedTokens"]) == ("0.8.5", 4096)


def test_a_start_of_four_ranks_is_compared_rank_by_rank(learn: Any) -> None:
    one = learn(log_0_11_0(*figures_0_11_0(50)), *H100)
    four = learn(log_0_11_0(*figures_0_11_0(50), tensor_parallel_size=4), *H100)
    assert four["tensorParallel"] == 4
    assert row(four, "weights")["predicted"] < row(one, "weights")["predicted"] / 3


def test_the_gpu_is_asked_for_unless_its_name_or_its_memory_says_it(
    learn: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = log_0_11_0(*figures_0_11_0(50))
    refused = Ran(capsys, "learn", written(tmp_path, plain))
    assert "--gpu" in refused.error
    assert "h100-sxm-80gb" in Ran(capsys, "learn", written(tmp_path, log_0_32_0())).error, "several have 79.19 GiB"
    named = learn(plain + "\nUsing configuration from E=8,device_name=NVIDIA_H100_80GB_HBM3.json")
    assert named["gpuType"] == "h100-sxm-80gb"
    unique = learn(log_0_32_0(kv_gib=140.0).replace("78.60/79.19", "177.90/178.35"))
    assert unique["gpuType"] == "b200-sxm-180gb"
    assert any("178.35 GiB" in note for note in unique["notes"])


def test_a_gpu_with_another_memory_than_the_log_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = written(tmp_path, log_0_32_0())
    assert "79.19 GiB" in Ran(capsys, "learn", log, "--gpu", "h200-sxm-141gb").error
    assert Ran(capsys, "learn", log, "--gpu", "h100-pcie-80gb").error == "", "drivers differ by some tenths"
    assert "plimsoll gpus" in Ran(capsys, "learn", log, "--gpu", "h100").error


def test_more_cache_than_the_weights_leave_is_not_believed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = written(tmp_path, log_0_11_0(*figures_0_11_0(53)))
    assert "another model or GPU" in Ran(capsys, "learn", log, "--gpu", "l40s-48gb").error
    assert Ran(capsys, "learn", log, *H100).error == ""


def test_a_model_in_a_folder_of_the_container_is_asked_for(
    learn: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = log_0_11_0(*figures_0_11_0(50), model="/models/served")
    assert "--model" in Ran(capsys, "learn", written(tmp_path, text), *H100).error
    assert learn(text, "--model", MODEL, *H100)["model"] == MODEL


def test_the_users_release_and_utilization_replace_those_of_the_log(learn: Any) -> None:
    text = log_0_11_0(*figures_0_11_0(40)).replace("(v0.11.0)", "(v0.11.1.dev7)")
    document = learn(text, *H100)
    assert document["engine"] == {"name": "vllm", "build": "0.11.1.dev7", "version": "0.11.1"}
    assert any("0.11.1.dev7" in note for note in document["notes"])
    other = learn(text, "--engine", "0.12.0", "--utilization", "80", *H100)
    assert other["engine"]["version"] == "0.12.0"
    budgets = [row(each, "the engine may use")["predicted"] for each in (document, other)]
    assert budgets[1] == pytest.approx(budgets[0] * 80 / 90, rel=1e-6)


def test_a_share_that_is_no_whole_percentage_is_counted_exactly(learn: Any) -> None:
    document = learn(log_0_11_0(*figures_0_11_0(40), arguments={"gpu_memory_utilization": 0.8765}), *H100)
    whole = learn(log_0_11_0(*figures_0_11_0(40), arguments={"gpu_memory_utilization": 0.8}), *H100)
    budgets = [row(each, "the engine may use")["predicted"] for each in (document, whole)]
    assert budgets[0] == pytest.approx(budgets[1] * 0.8765 / 0.8, rel=1e-6)


@pytest.mark.parametrize(
    ("failure", "witness", "measured"),
    [
        (("Available KV cache memory: 1.25 GiB", TOO_SMALL_0_10), "StartFailure", True),
        ((TOO_SMALL_0_10,), "StartFailure", True),
        (("Available KV cache memory: -2.50 GiB", NOTHING_LEFT), "StartFailure", True),
        ((NOTHING_LEFT,), "OutOfMemory", False),
        ((OUT_OF_MEMORY,), "OutOfMemory", False),
    ],
)
def test_a_failed_start_teaches_what_it_says(
    learn: Any,
    failure: Sequence[str],
    witness: str,
    measured: bool,  # noqa: FBT001 - a row of a table
) -> None:
    document = learn(log_0_11_0(*failure), *H100)
    assert document["lesson"]["observation"]["witness"] == witness
    assert document["lesson"]["correction"]["measured"] is measured
    assert document["failure"]["message"]


def test_a_failed_start_says_how_much_was_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = Ran(capsys, "learn", written(tmp_path, log_0_11_0(TOO_SMALL_0_10)), *H100).shown
    assert "It missed 3.25 GiB: one request needs 4.50 GiB, and 1.25 were left." in said
    assert "9,104 tokens would fit" in said
    nothing = log_0_11_0("Available KV cache memory: -2.50 GiB", NOTHING_LEFT)
    assert "It missed 2.50 GiB" in Ran(capsys, "learn", written(tmp_path, nothing), *H100).shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (log_0_11_0("Total number of attention heads (32) must be divisible by tensor parallel size (5)."), "another"),
        (log_0_11_0(*figures_0_11_0(50), arguments={"kv_cache_memory_bytes": 1 << 33}), "size of the KV cache"),
        (log_0_11_0(*figures_0_11_0(50)).replace("a V1 LLM", "a V0 LLM"), "V0 engine"),
        (log_0_11_0(*figures_0_11_0(50), device_config="cpu"), "without a GPU"),
    ],
)
def test_what_says_nothing_about_memory_teaches_nothing(
    learn: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, why: str
) -> None:
    document = learn(text, *H100)
    assert document["lesson"] is None
    assert why in document["why"]
    saved = Ran(capsys, "learn", written(tmp_path, text), *H100, "--save", str(tmp_path / "kept.json"))
    assert why in saved.error
    assert not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no start-up log"),
        ("GET /health 200\n" * 50, "no start-up log"),
        ("\x00\xff" * 5000, "no start-up log"),
        (config_line("0.11.0")[:300], "ends before"),
        (log_0_11_0("Model loading took 15.2683 GiB and 5.1 seconds"), "ends before"),
    ],
)
def test_what_is_no_log_or_ends_too_early_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, why: str
) -> None:
    assert why in Ran(capsys, "learn", written(tmp_path, text), *H100).error


def test_a_log_comes_from_standard_input_and_only_its_beginning_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = log_0_11_0(*figures_0_11_0(50)).encode() + b"\n"
    for end in (b"\xff" * (MOST_BYTES + 10), b"\n" * (MOST_LINES + 10)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text + end)))
        document = Ran(capsys, "learn", "-", *H100, "-o", "json").document()
        assert document["served"]
        assert any("its first 64 MiB or 1,000,000 lines" in note for note in document["notes"])


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing.log" in Ran(capsys, "learn", "missing.log", *H100).error


def test_a_saved_observation_corrects_the_estimate_of_its_kind_and_of_no_other(
    capsys: pytest.CaptureFixture[str], learn: Any, tmp_path: Path
) -> None:
    text, kept = log_0_11_0(*figures_0_11_0(predicted_gib(learn) - 3)), str(tmp_path / "kept.json")
    log = written(tmp_path, text)
    assert "holds 1 now" in Ran(capsys, "learn", log, *H100, "--save", kept).shown
    assert "holds 1 now" in Ran(capsys, "learn", log, *H100, "--save", kept).shown, "the same start twice"

    def estimate(*words: str) -> Any:
        (found,) = Ran(capsys, "estimate", MODEL, *H100, "-o", "json", *words).document()["answers"]
        return found

    taught = estimate("--engine", "0.11.0", "--observations", kept)
    assert taught["learned"]["totalBytes"] == pytest.approx(3 * GIB, abs=10 * MIB)
    assert taught["terms"]["learnedBytes"] == taught["learned"]["restBytes"]
    assert any(f"1 engine ({kept})" in note and "3.00 GiB more" in note for note in taught["notes"])

    plain = estimate("--engine", "0.11.0")
    assert "learned" not in plain
    assert plain["terms"].get("learnedBytes", 0) == 0
    for other, what in (("0.12.0", "another release"), ("0.11.0", "another split")):
        words = ("--tp", "2") if what == "another split" else ()
        apart = estimate("--engine", other, "--observations", kept, *words)
        assert "learned" not in apart
        assert any(what in note for note in apart["notes"]), apart["notes"]
    eager = estimate("--engine", "0.11.0", "--eager", "--observations", kept)
    assert any("other options" in note for note in eager["notes"])


def test_of_several_engines_the_median_counts_and_the_spread_is_said(
    capsys: pytest.CaptureFixture[str], learn: Any, tmp_path: Path
) -> None:
    kept, expected = str(tmp_path / "kept.json"), predicted_gib(learn)
    for less in (1.0, 2.0, 4.0):
        log = written(tmp_path, log_0_11_0(*figures_0_11_0(expected - less)))
        Ran(capsys, "learn", log, *H100, "--save", kept)
    said = Ran(capsys, "estimate", MODEL, *H100, "--engine", "0.11.0", "--observations", kept, "--why").shown
    assert "from 3 engines" in said
    assert "2.00 GiB more" in said
    assert "others take up to 1.00 GiB less and 2.00 GiB more" in said
    assert "what engines of this kind took more, or less" in said


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "no JSON"),
        ("[]", "no list"),
        ('{"observations": [3]}', "Entry 1"),
        ('{"observations": [{"model": "m"}]}', "Entry 1"),
    ],
)
def test_a_file_of_observations_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, why: str
) -> None:
    file = tmp_path / "kept.json"
    file.write_text(content, encoding="utf-8")
    assert why in Ran(capsys, "estimate", MODEL, *H100, "--observations", str(file)).error


def test_an_observation_of_another_plimsoll_release_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    Ran(capsys, "learn", written(tmp_path, log_0_11_0(*figures_0_11_0(50))), *H100, "--save", str(kept))
    words = ("estimate", MODEL, *H100, "--engine", "0.11.0", "-o", "json", "--observations", str(kept))
    assert "learned" in Ran(capsys, *words).document()["answers"][0]
    kept.write_text(kept.read_text("utf-8").replace(f'"release": "{__version__}"', '"release": "0.0.1"'), "utf-8")
    (answer,) = Ran(capsys, *words).document()["answers"]
    assert "learned" not in answer
    assert any("1 observation of another Plimsoll release" in note for note in answer["notes"])


def test_options_of_a_cluster_need_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--from-cluster" in Ran(capsys, "estimate", MODEL, *H100, "-n", "mine").error
    assert Ran(capsys, "estimate", MODEL, *H100).error == ""


def test_gpu_types_on_which_the_clusters_engines_have_reported_come_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.json"
    Ran(capsys, "learn", written(tmp_path, log_0_11_0(*figures_0_11_0(50))), *H100, "--save", str(kept))
    words = ("estimate", MODEL, "--engine", "0.11.0", "-o", "json", "--observations", str(kept))
    assert Ran(capsys, *words).document()["answers"][0]["gpuType"] != H100[1]  # a file is no cluster

    def from_cluster(teachers: Teachers) -> Lessons:
        found = lessons_of(teachers)
        return replace(found, taught=tuple(replace(each, key=ObjectKey("ml", "chat")) for each in found.taught))

    monkeypatch.setattr("plimsoll.cli.commands.estimate.lessons_of", from_cluster)
    first, *_ = Ran(capsys, *words).document()["answers"]
    assert (first["gpuType"], first["advice"]) == (H100[1], ["CheapestOwned"])


def test_a_cluster_that_cannot_be_reached_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.adapters.cluster.api_errors._pause", lambda *_: 0.0)  # it tries again for seconds
    config = tmp_path / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "here",
            }
        ),
        encoding="utf-8",
    )
    words = ("estimate", MODEL, *H100, "--from-cluster", "--kubeconfig", str(config))
    error = Ran(capsys, *words).error
    assert str(config) in error
    assert "its current context" in error
    assert "context elsewhere" in Ran(capsys, *words, "--context", "elsewhere").error


def test_the_split_of_a_log_is_that_of_the_answer(learn: Any) -> None:
    document = learn(log_0_11_0(*figures_0_11_0(50), tensor_parallel_size=2), *H100)
    assert Split(document["tensorParallel"], document["pipelineParallel"], document["dataParallel"]) == Split(2)
