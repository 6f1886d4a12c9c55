"""The examples and the stories, as they are promised: whole answers, compared letter by letter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from plimsoll.cli.main import cli
from scripts import update_goldens
from scripts.update_goldens import EXAMPLES, ROOT, STATES, STORIES, WORDS_OF_THE_CONSOLE, goldens, main

FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/deployment.yaml"))


@pytest.fixture(scope="module")
def written() -> Mapping[Path, str]:
    """Every expected file with its text, as the code says now."""
    return dict(goldens())


def test_what_is_expected_is_what_comes_out(written: Mapping[Path, str]) -> None:
    changed = {}
    for path, text in written.items():
        told = path.read_text(encoding="utf-8") if path.exists() else ""
        if told != text:
            changed[str(path.relative_to(ROOT))] = list(unified_diff(told.splitlines(), text.splitlines(), lineterm=""))
    assert changed == {}


def test_the_script_finds_a_stale_file_and_nothing_else(
    written: Mapping[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes the texts as the fixture does; they are not made twice."""
    for others in ("estimated_starts", "estimated_kinds", "kept_decisions", "kept_plans"):
        monkeypatch.setattr(update_goldens, others, lambda: iter(()))
    monkeypatch.setattr(update_goldens, "goldens", lambda: iter(written.items()))
    assert main(["--check"]) == 0, capsys.readouterr().err
    other = {**written, WORDS_OF_THE_CONSOLE: "other words"}
    monkeypatch.setattr(update_goldens, "goldens", lambda: iter(other.items()))
    assert main(["--check"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{WORDS_OF_THE_CONSOLE.relative_to(ROOT)} is not what the code says")


def test_no_expected_file_is_left_over_and_no_story_is_without_one(written: Mapping[Path, str]) -> None:
    on_disk = {WORDS_OF_THE_CONSOLE, STATES, *EXAMPLES.glob("*/expected/*"), *STORIES.glob("*/expected.yaml")}
    assert on_disk == set(written)
    assert {path.parent.name for path in STORIES.glob("*/fleet.yaml")} == {
        path.parent.name for path in written if path.name == "expected.yaml"
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_command_of_the_readme_shows_every_figure_of_the_readme(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    command = next(line for line in readme.splitlines() if line.startswith("plimsoll "))
    shown = CliRunner().invoke(cli, command.split()[1:])
    assert shown.exit_code == (1 if "exit status is 1" in readme else 0), shown.output
    figures = re.findall(r"\d+\.\d+|\d{4,}", _plain(readme.partition("What to see:")[2].split("[expected")[0]))
    assert figures
    manifest = (folder / "deployment.yaml").read_text(encoding="utf-8")
    known = {*re.findall(r"\d+\.\d+|\d+", _plain(shown.output + manifest)), *_products(manifest)}
    assert [figure for figure in figures if figure not in known] == []


def _plain(text: str) -> str:
    """Return a text without the commas between thousands."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text)


def _products(manifest: str) -> set[str]:
    """Figures that a reader gets by multiplying what stands in the manifest."""
    spec = yaml.safe_load(manifest)["spec"]
    expected = spec.get("expectedTokens", {})
    return {str(spec["contextLength"] * spec.get("concurrency", 1)), str(sum(expected.values()))}
