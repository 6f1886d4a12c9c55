"""The chart's README is made of the comments of its values."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts.chart_readme import README, text_of
from tests.support.helm import CHART

pytestmark = pytest.mark.helm


def test_it_is_what_the_values_say() -> None:
    assert README.read_text(encoding="utf-8") == text_of()


def test_another_comment_makes_another_readme(tmp_path: Path) -> None:
    chart = Path(shutil.copytree(CHART, tmp_path / "plimsoll"))
    values = chart / "values.yaml"
    comment = "# -- Labels for every object of the chart.\n"
    before = values.read_text(encoding="utf-8")
    assert comment in before
    values.write_text(before.replace(comment, "# -- Labels of all.\n"), encoding="utf-8")
    assert "| commonLabels | object | `{}` | Labels of all. |" in text_of(chart)
