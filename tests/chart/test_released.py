"""The chart as `make release` packs it: Helm takes it as one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scripts.release.archives import chart
from scripts.release.sources import Addresses, copied
from testbed.versions import KUBERNETES
from tests.support.helm import CHART, helm

pytestmark = pytest.mark.helm


def test_helm_renders_the_package_as_it_renders_the_folder(tmp_path: Path) -> None:
    sources = copied(
        CHART.parents[1], tmp_path / "sources", Addresses("https://code.example.org/x", "images.example.org")
    )
    package = str(chart(sources, tmp_path))
    options = ("--kube-version", f"v{KUBERNETES}", "--set", "image.registry=images.example.org")
    assert helm("template", "plimsoll", package, *options) == helm("template", "plimsoll", str(CHART), *options)
    shown = yaml.safe_load(helm("show", "chart", package))
    assert (shown["version"], shown["home"]) == (sources.version, "https://code.example.org/x")
    assert shown["icon"].startswith("https://code.example.org/x/")
    assert helm("show", "readme", package).startswith("# Plimsoll\n")
