"""The examples for pipelines are valid YAML, and every command in them is one that the program understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.cli.commands.plan import command
from plimsoll.cli.process import EXIT_BAD_INPUT, EXIT_PLACED, EXIT_UNPLACED

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "ci"
PIPELINES = ("argocd-presync.yaml", "github-actions.yaml", "gitlab-ci.yml")


def scripts(node: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(node, str):
        yield from node.splitlines()
    elif isinstance(node, dict):
        for child in node.values():
            yield from scripts(child)
    elif isinstance(node, list):
        for child in node:
            yield from scripts(child)


@pytest.mark.parametrize("name", PIPELINES)
def test_the_command_line_of_a_pipeline_is_understood(name: str) -> None:
    document = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    lines = [line for line in scripts(document) if line.startswith("plimsoll ")]
    assert len(lines) == 1
    words = shlex.split(lines[0].partition(">")[0])
    assert words[:2] == ["plimsoll", "plan"]
    given = command.make_context("plan", words[2:]).params
    assert given["files"] in {("deploy/",), ("/manifests",)}
    assert given["fleet"] is None, "it asks the cluster"


def test_every_file_is_in_the_readme_and_every_yaml_is_valid() -> None:
    files = {path.name for path in FOLDER.iterdir()} - {"README.md"}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert files == set(re.findall(r"\]\(([\w.-]+)\)", readme)) - {"plan.md"}
    for name in files:
        assert all(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def test_the_exit_statuses_of_the_page_are_those_of_the_program() -> None:
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", page, re.MULTILINE)
    assert [int(status) for status, _ in rows] == [EXIT_PLACED, EXIT_UNPLACED, EXIT_BAD_INPUT]
