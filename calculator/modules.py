"""The modules of the package that the static calculator runs: the core, and whatever its own modules import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("plimsoll.console.alone", "plimsoll.cli.questions.manifest_question")
"""The modules that the page asks. ``later`` imports the second one inside of a function."""

CORE = ("domain", "facts", "memory", "engines", "performance", "placement", "catalog")
"""Whole folders: the core imports a few modules inside of functions, and the catalogue holds the data."""

TEMPLATES = ("calculator_main.html", "macros/bar.html", "macros/words.html")
_DATA = (".json", ".csv")


def package_files(source: Path) -> dict[str, Path]:
    """Return the files by their path in an archive. ``source`` is the folder that holds ``plimsoll``."""
    found = {path for folder in CORE for path in (source / "plimsoll" / folder).rglob("*") if _is_needed(path)}
    found |= set(_reached(source))
    found |= {source / "plimsoll" / "console" / "templates" / name for name in TEMPLATES}
    return {path.relative_to(source).as_posix(): path for path in sorted(found)}


def _is_needed(path: Path) -> bool:
    return path.suffix == ".py" or path.suffix in _DATA


def _reached(source: Path) -> Iterator[Path]:
    """Yield the files of the roots, of all that is imported at the top of them, and of the packages around these."""
    waiting, seen = list(ROOTS), set[str]()
    while waiting:
        name = waiting.pop()
        path = _file(source, name)
        if name in seen or path is None:
            continue
        seen.add(name)
        yield path
        waiting += _imports(path)
        waiting += [name.rpartition(".")[0]] if "." in name else []


def _file(source: Path, name: str) -> Path | None:
    base = source.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
