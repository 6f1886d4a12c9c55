#!/usr/bin/env python3
"""Write the chart's README from README.md.gotmpl, Chart.yaml and the comments of values.yaml.

    python -m scripts.chart_readme           # writes charts/plimsoll/README.md
    python -m scripts.chart_readme --check   # says whether that file is what helm-docs makes

helm-docs does it; it is built on first use, in half a minute of CPU time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testbed.binaries import ensure_helm_docs

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "plimsoll"
README = CHART / "README.md"


def text_of(chart: Path = CHART) -> str:
    """Return the README of a chart. Raises BuildFailed, GoNotUsable, CalledProcessError."""
    command = [str(ensure_helm_docs()), "--chart-search-root", str(chart), "--log-level", "warning", "--dry-run"]
    return subprocess.run(command, cwd=chart, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603


def main(arguments: list[str]) -> int:
    """Write the file, or with ``--check`` only compare it. Returns the exit status."""
    text = text_of()
    if "--check" not in arguments:
        README.write_text(text, encoding="utf-8")
        return 0
    if README.exists() and README.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{README.relative_to(ROOT)} is not what its values say: run make chart-readme\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
