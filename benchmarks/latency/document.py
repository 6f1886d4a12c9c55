"""A document with the tables between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- begin: written by `python -m benchmarks.latency` -->"
BEGIN_ENGINE: Final = "<!-- begin: written by `python -m benchmarks.latency --engine {engine}` -->"
END: Final = "<!-- end -->"


def write_into(path: Path, text: str, mark: str = BEGIN) -> None:
    """Put ``text`` between the marks of a document.

    Raises:
        ValueError: the document has no pair of marks.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"--write: {path} has no lines {mark!r} and {END!r}")
    path.write_text(f"{before}{mark}\n\n{text}\n\n{END}{after}", encoding="utf-8")
