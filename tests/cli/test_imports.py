"""Which modules a command imports, and what it says where a distribution is not installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import catalogued_models
from tests.support.alone import EXTRAS, OTHER_EXTRAS, ROOT, command

pytestmark = pytest.mark.lengthy

MODEL = "Qwen/Qwen3-8B"
GPU = "h100-sxm-80gb"
DEPLOYMENT = str(ROOT / "examples" / "02-70b-fp8" / "deployment.yaml")
FLEET = str(ROOT / "examples" / "fleet.yaml")
CARRIED = str(ROOT / "operator" / "plimsoll" / "catalog" / "prices.csv")
PRICES = str(ROOT / "examples" / "prices.yaml")

SLOW = frozenset({"asyncio", "pydantic", "pydantic_core", "socket", "ssl", "yaml"})
"""Modules that a plain estimate does without: they would double the time that it takes."""


def imported(modules: frozenset[str], names: frozenset[str]) -> set[str]:
    """Those of ``names`` that were imported."""
    return set(names & modules)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--why", "--tp", "2", "--ep"),
        ("-o", "json", "--context-length", "4096", "--concurrency", "8", "--engine", "0.30.0", "--utilization", "90"),
        ("--precision", "fp8", "--kv-precision", "fp8", "--eager", "--batched-tokens", "4096"),
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_an_estimate_of_a_catalogued_model_imports_nothing_slow(options: tuple[str, ...], tmp_path: Path) -> None:
    ran = command(["estimate", MODEL, "--gpu", GPU, *options], tmp_path)
    assert ran.status == 0, ran.err
    assert GPU in ran.out
    assert imported(ran.modules, SLOW | EXTRAS) == set()
    outside = {name for name in ran.modules if name.startswith(("plimsoll.app", "plimsoll.api.v1alpha1"))}
    assert outside == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--", "vllm", "serve", MODEL, "--max-model-len", "4096"],
        [f"vllm serve {MODEL} --enable-lora --cpu-offload-gb 4 --kv-cache-dtype fp8 --limit-mm-per-prompt '{{}}'"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_about_a_catalogued_model_imports_nothing_slow(words: list[str], tmp_path: Path) -> None:
    ran = command(["estimate", "--gpu", GPU, *words], tmp_path)
    assert ran.status == 0, ran.err
    assert GPU in ran.out
    assert imported(ran.modules, SLOW | EXTRAS) == set()


def test_lists_read_no_configuration(tmp_path: Path) -> None:
    models, gpus = command(["models"], tmp_path), command(["gpus"], tmp_path)
    assert tuple(models.out.splitlines()) == catalogued_models()
    assert GPU in gpus.out
    for ran in (models, gpus):
        assert imported(ran.modules, SLOW | EXTRAS | {"plimsoll.facts", "plimsoll.memory"}) == set()
    assert "rich" not in models.modules


@pytest.mark.parametrize("words", [("prices",), ("prices", "check", CARRIED)], ids=" ".join)
def test_prices_in_csv_are_read_without_anything_slow(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = command(list(words), tmp_path)
    assert ran.status == 0, ran.err
    assert GPU in ran.out
    assert imported(ran.modules, SLOW | EXTRAS | {"plimsoll.memory", "plimsoll.placement"}) == set()


def test_prices_of_a_manifest_are_checked_without_the_api_s_models(tmp_path: Path) -> None:
    ran = command(["prices", "check", PRICES], tmp_path)
    assert ran.status == 0, ran.err
    assert imported(ran.modules, (SLOW | EXTRAS) - {"yaml"}) == set()


def test_an_estimate_that_only_a_manifest_can_ask_for_needs_no_extra(tmp_path: Path) -> None:
    ran = command(["estimate", DEPLOYMENT, "--gpu", GPU, "--lora", "4", "16"], tmp_path)
    assert ran.status == 0, ran.err
    assert "LoRA slots" in ran.out
    assert {"pydantic", "yaml"} <= ran.modules


def test_a_plan_from_files_needs_no_extra_but_the_solver(tmp_path: Path) -> None:
    ran = command(["plan", "-f", DEPLOYMENT, "--fleet", FLEET, "--prices", PRICES], tmp_path, refused=OTHER_EXTRAS)
    assert ran.status == 0, ran.err
    assert "mi300x-192gb" in ran.out
    assert imported(ran.modules, frozenset({"asyncio", "ssl"}) | OTHER_EXTRAS) == set()


def test_a_simulation_and_a_capacity_on_a_file_need_no_solver(tmp_path: Path) -> None:
    for words in (["simulate", MODEL, "--gpu", GPU, "--minutes", "1"], ["capacity", MODEL, "--fleet", FLEET]):
        ran = command(words, tmp_path)
        assert ran.status == 0, ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], r"The operator needs \w+, which is not installed\. Run: pip install 'plimsoll\[operator\]'$"),
        (["explain", "llama"], r"Asking a cluster needs \w+, which is not installed\. Run: pip install 'plimsoll\[op"),
        (
            ["plan", "-f", DEPLOYMENT, "--fleet", FLEET],
            r"A plan needs highspy, which is not installed\. Run: pip install 'plimsoll\[solver\]'$",
        ),
        (["plan", "-f", DEPLOYMENT], r"Run: pip install 'plimsoll\[operator\]', or name a file with --fleet\.$"),
        (
            ["estimate", "nobody/model"],
            r"Asking the Hub for a model needs \w+, which .* 'plimsoll\[hub\]', give the model's config\.json",
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_command_that_lacks_an_extra_names_it(words: list[str], said: str, tmp_path: Path) -> None:
    ran = command(words, tmp_path)
    assert ran.status == 2
    assert re.search(said, ran.err.rstrip())
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) == 1


def test_a_fault_of_the_package_is_not_taken_for_a_missing_extra(tmp_path: Path) -> None:
    ran = command(["run"], tmp_path, refused=frozenset({"decimal"}))
    assert ran.status == 1
    assert "No module named 'decimal'" in ran.err


def test_help_needs_no_extra(tmp_path: Path) -> None:
    ran = command(["--help"], tmp_path)
    assert ran.status == 0, ran.err
    for name in ("estimate", "explain", "fleet", "gpus", "models", "plan", "prices", "run"):
        assert f"  {name} " in ran.out
