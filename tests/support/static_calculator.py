"""The static calculator's files for tests, or the reason why they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculator.building import build
from calculator.pyodide_package import NotFetched


def built_or_skip(folder: Path) -> None:
    """Build into a folder. Skips the test where Pyodide or a wheel is not in the cache and cannot be fetched."""
    try:
        build(folder)
    except NotFetched as error:
        pytest.skip(f"the static calculator needs files that are not in the cache: {error}")
