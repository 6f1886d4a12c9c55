"""``plimsoll completion``: the code for a shell, and the words that the shell then gets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.cli.main import COMMANDS
from tests.cli.conftest import Run


def completed(run: Run, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Return the answer that a shell gets to words of which the last one is not finished."""
    monkeypatch.setenv("_PLIMSOLL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("plimsoll", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    return [line.partition(",")[2] for line in run()[1].splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_of_each_shell_asks_the_command(run: Run, shell: str) -> None:
    status, code, _ = run("completion", shell)
    assert status == 0
    assert f"_PLIMSOLL_COMPLETE={shell}_complete" in code
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=code, text=True, check=True)  # noqa: S607 - the shell itself


def test_another_shell_is_refused(run: Run) -> None:
    status, _, said = run("completion", "tcsh")
    assert (status, "'bash', 'zsh', 'fish'" in said) == (2, True)


def test_models_and_gpu_types_are_completed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    qwen = [name for name in catalogued_models() if name.lower().startswith("qwen/qwen3-")]
    assert completed(run, monkeypatch, "estimate", "qwen/qwen3-") == qwen
    assert "Qwen/Qwen3-8B" in completed(run, monkeypatch, "simulate", "Qwen3-8")
    h100 = [gpu.name for gpu in load_gpu_types() if gpu.name.startswith("h100")]
    for command in ("estimate", "capacity"):
        assert completed(run, monkeypatch, command, "Qwen/Qwen3-8B", "--gpu", "h100") == h100


def test_commands_options_and_words_of_a_list_are_completed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(run, monkeypatch, "") == sorted(COMMANDS)
    assert completed(run, monkeypatch, "plan", "-o", "m") == ["markdown"]
    assert "--context-length" in completed(run, monkeypatch, "estimate", "--context")


def test_a_file_is_completed_by_the_shell(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed(run, monkeypatch, "plan", "-f", "depl") == ["depl"]
