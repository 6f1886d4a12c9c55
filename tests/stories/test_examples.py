"""The examples and the stories, as they are promised: whole answers, compared letter by letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from plimsoll.cli.main import cli
from scripts.update_goldens import EXAMPLES, ROOT, STORIES, WORDS_OF_THE_CONSOLE, goldens, main
from tests.support.tables import every_case

GOLDENS = dict(goldens())
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/deployment.yaml"))


@every_case("path", GOLDENS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_expected_is_what_comes_out(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == GOLDENS[path]


def test_the_script_finds_nothing_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_no_expected_file_is_left_over_and_no_story_is_without_one() -> None:
    on_disk = {WORDS_OF_THE_CONSOLE, *EXAMPLES.glob("*/expected/*"), *STORIES.glob("*/expected.yaml")}
    assert on_disk == set(GOLDENS)
    assert {path.parent.name for path in STORIES.glob("*/fleet.yaml")} == {
        path.parent.name for path in GOLDENS if path.name == "expected.yaml"
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
    figures = re.findall(r"\d+\.\d+|\d{4,}", readme.partition("What to see:")[2].split("[expected")[0])
    assert figures
    manifest = (folder / "deployment.yaml").read_text(encoding="utf-8")
    known = {*re.findall(r"\d+\.\d+|\d+", shown.output + manifest), *_products(manifest)}
    assert [figure for figure in figures if figure not in known] == []


def _products(manifest: str) -> set[str]:
    """Figures that a reader gets by multiplying what stands in the manifest."""
    spec = yaml.safe_load(manifest)["spec"]
    expected = spec.get("expectedTokens", {})
    return {str(spec["contextLength"] * spec.get("concurrency", 1)), str(sum(expected.values()))}
