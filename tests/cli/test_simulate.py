"""``plimsoll simulate`` at a prompt: what happens at a load, without any network or cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll.cli.commands.simulate import Simulated, simulation_run_of, workload_of
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.workload import PRESETS
from tests.cli.conftest import Run
from tests.support.tables import every_case

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
QUESTION = ("simulate", MODEL, "--gpu", "L4", "--concurrency", "4", "--context-length", "4096")
SHORT = (*QUESTION, "--requests-per-second", "1", "--minutes", "15", "--startup", "120")
EXPECTED = Path(__file__).with_name("simulated.txt")


def test_the_summary_comes_first_and_the_input_is_repeated(run: Run) -> None:
    status, shown, _ = run(*SHORT)
    assert status == 0
    assert shown.startswith("At 1 requests/s the sequence slots fill after ")
    assert f"Replica: {MODEL} on 1 x l4-24gb, " in shown
    assert "Requests: 1 a second, 2 times as many for 180 s every 600 s; prompts of 1,155 tokens" in shown
    assert "Policy: Auto, 1 to 10 replicas, 1 at the beginning, 120 s to start one" in shown


def test_one_run_is_as_it_was(run: Run) -> None:
    assert run(*SHORT)[1] == EXPECTED.read_text(encoding="utf-8")


def test_the_document_holds_the_figures_of_the_core(run: Run) -> None:
    found = json.loads(run(*SHORT, "-o", "json")[1])
    asked = Simulated(
        MODEL, "l4-24gb", concurrency=4, context_length=4096, requests_per_second=1, minutes=15, startup=120
    )
    simulation_run = simulation_run_of(asked)
    result = simulate(simulation_run)
    assert found["summary"] == result.summary
    assert found["input"]["kv_tokens"] == simulation_run.kind.place.figures.kv_capacity_tokens
    assert found["totals"]["arrived"] == result.totals.arrived
    assert [each["sentence"] for each in found["events"]] == [each.sentence for each in result.events]
    assert [each["held_tokens"] for each in found["moments"]] == [each.held_tokens for each in result.moments]
    assert found["moments"][0]["ttft_seconds"] is None


def test_a_gpu_of_several_sizes_is_the_least_of_them_and_a_note_says_so(run: Run) -> None:
    words = (*QUESTION[:2], *QUESTION[4:], "--minutes", "2", "-o", "json", "--gpu")
    _, shown, said = run(*words, "GH200")
    found = json.loads(shown)
    assert (found["input"]["gpu"], len(found["notes"])) == ("gh200-96gb", 1)
    assert f"note: {found['notes'][0]}" in said
    assert json.loads(run(*words, "gh200-144gb")[1])["notes"] == []


@pytest.mark.parametrize("name", [each.name for each in PRESETS])
def test_every_preset_is_answered_on_a_usual_replica(run: Run, name: str) -> None:
    words = ("--gpu", "h100-sxm-80gb", "--preset", name, "--minutes", "2", "-o", "json")
    status, shown, error = run("simulate", MODEL, *words)
    assert (status, error) == (0, "")
    workload = json.loads(shown)["input"]["workload"]
    assert workload["minutes"] == 2
    assert workload["prompt_tokens"] == next(each for each in PRESETS if each.name == name).workload.prompt_tokens


def test_what_is_given_replaces_the_figure_of_the_preset() -> None:
    agents = PRESETS[2].workload
    found = workload_of(Simulated(MODEL, "l4-24gb", preset="agents", prompt=500, burst=3.0))
    assert (found.prompt_tokens, found.shared_prefix_tokens, found.burst_factor) == (500, 499, 3.0)
    assert (found.output_tokens, found.requests_per_second) == (agents.output_tokens, agents.requests_per_second)


@every_case(
    ("words", "fault"),
    [
        (("--requests-per-second", "0"), "requests-per-second: 0.0 cannot be used. Use a number above 0."),
        (("--requests-per-second", "500"), "can be simulated at once. Use 9.25 or less, or simulate fewer minutes."),
        (("--max-replicas", "51"), "max-replicas: 51 cannot be used. Use 1 to 50."),
        (
            ("--concurrency", "64", "--tp", "1"),
            "are missing on each GPU. Use more GPUs, a shorter",
        ),
        (("--prompt", "9000"), "Use a longer context."),
        (("--gpu", "L400"), "There is no such GPU type"),
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(run: Run, words: tuple[str, ...], fault: str) -> None:
    status, shown, error = run(*QUESTION, *words)
    assert (status, shown) == (2, "")
    assert fault in error
    assert error.startswith("error: ")
    assert "Traceback" not in error


def test_the_memory_of_a_large_model_is_that_of_the_law(run: Run) -> None:
    words = ("--gpu", "h100-sxm-80gb", "--tp", "8", "--context-length", "32768", "--concurrency", "8", "--minutes", "1")
    status, shown, _ = run("simulate", "meta-llama/Llama-3.3-70B-Instruct", *words, "-o", "json")
    found = json.loads(shown)["input"]
    assert status == 0
    assert 8 * found["weights_bytes_per_gpu"] == pytest.approx(141e9, rel=0.01)  # 70.6e9 parameters of 2 bytes
    assert 8 * found["kv_bytes_per_token_and_gpu"] * 32_768 == 80 * 2 * 8 * 128 * 2 * 32_768  # 10.7 GB
