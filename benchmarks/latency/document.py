"""A document with the tables between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- begin: written by `python -m benchmarks.latency` -->"
END: Final = "<!-- end -->"


def write_into(path: Path, text: str) -> None:
    """Put ``text`` between the marks of a document.

    Raises:
        ValueError: the document has no pair of marks.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"--write: {path} has no lines {BEGIN!r} and {END!r}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
