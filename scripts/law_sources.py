#!/usr/bin/env python3
"""Compare what the memory law was read from with another vLLM release, straight from the wheels of a package index.

    python -m scripts.law_sources                   # the newest release of the index against the last recorded one
    python -m scripts.law_sources 0.34.0            # that release
    python -m scripts.law_sources 0.34.0 --record   # the same, and its digests are written down

``operator/plimsoll/engines/vllm/memory/sources.json`` lists files of the wheel with the functions, fields and constants
that the law names or was read from (``Class.*``: all fields of a class), and a digest of each from every release in
which it changed. Digests are of the syntax, without comments, docstrings and layout; in place of a file, ``METADATA``
lists packages whose required releases count. Nothing of a wheel is run, and only its index and these files are fetched.

The exit status is 1 where something changed and the digests that are recorded for the release are not those of its
wheel: read the changes, add what they mean to ``laws.py`` or ``kv_law.py``, and record.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol
from urllib.parse import urljoin

import requests
from remotezip import RemoteZip

from plimsoll.domain.engines.engine_choice import EngineVersion

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "memory" / "sources.json"
PACKAGE = "vllm"

_METADATA = "METADATA"
_FIELDS = ".*"
"""The end of an entry that stands for all fields of a class."""
_SILENT = frozenset({"ctx", "kind", "type_comment"})
"""Parts of a syntax tree that say nothing about what a program does."""
_DIGITS = 16
_TIMEOUT_SECONDS = 60
_PARTS = 3

Digests = Mapping[str, Mapping[str, str]]
"""The digest of each entry, by file and name."""


class Wheel(Protocol):
    """An archive of files: as much of ``zipfile.ZipFile`` as is used here."""

    def namelist(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""


class Difference(NamedTuple):
    """An entry and its fate: ``changed``, ``moved``, ``gone`` or ``new``, and for a moved one where to."""

    what: str
    file: str
    name: str
    remark: str = ""

    def __str__(self) -> str:
        return f"  {self.what:8} {self.file}  {self.name}{self.remark}"


@dataclass(frozen=True, slots=True)
class Record:
    """The content of the file: the releases that were read, what to look at, and digests since the release of each."""

    releases: tuple[str, ...]
    watched: Mapping[str, tuple[str, ...]]
    digests: Mapping[str, Mapping[str, Mapping[str, str | None]]]

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return the content of ``path``."""
        found = json.loads(path.read_text(encoding="utf-8"))
        watched = {file: tuple(names) for file, names in found["watched"].items()}
        return cls(tuple(found["releases"]), watched, found["digests"])

    def write(self, path: Path) -> None:
        """Write the content to ``path``."""
        found: dict[str, Any] = {
            "releases": list(self.releases),
            "watched": {file: list(names) for file, names in sorted(self.watched.items())},
            "digests": {file: dict(sorted(names.items())) for file, names in sorted(self.digests.items())},
        }
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    def before(self, release: str) -> str | None:
        """Return the last recorded release before ``release``; None without one."""
        earlier = [each for each in self.releases if _order(each) < _order(release)]
        return max(earlier, key=_order) if earlier else None

    def at(self, release: str) -> dict[str, dict[str, str]]:
        """Return the digests of a release."""
        found: dict[str, dict[str, str]] = {}
        for file, names in self.digests.items():
            known = {name: _at(history, release) for name, history in names.items()}
            kept = {name: digest for name, digest in known.items() if digest is not None}
            if kept:
                found[file] = kept
        return found

    def with_release(self, release: str, digests: Digests, moved: Iterable[Difference]) -> Record:
        """Return the record with the digests of one release more. What has moved is looked at in both files."""
        history = {file: {name: dict(since) for name, since in names.items()} for file, names in self.digests.items()}
        before = {} if self.before(release) is None else self.at(str(self.before(release)))
        for file, name in {*_entries(before), *_entries(digests)}:
            now = digests.get(file, {}).get(name)
            own = history.setdefault(file, {}).setdefault(name, {})
            own.pop(release, None)
            if now != before.get(file, {}).get(name):
                own[release] = now
        watched = dict(self.watched)
        for each in moved:
            file = _file_in(each.remark)
            watched[file] = tuple(dict.fromkeys((*watched.get(file, ()), each.name)))
        releases = tuple(sorted({*self.releases, release}, key=_order))
        return Record(releases, watched, {file: _without_empty(names) for file, names in history.items()})


def _without_empty(names: Mapping[str, Mapping[str, str | None]]) -> dict[str, Mapping[str, str | None]]:
    return {name: since for name, since in names.items() if since}


def _entries(digests: Digests) -> Iterator[tuple[str, str]]:
    return ((file, name) for file, names in digests.items() for name in names)


def _order(release: str) -> EngineVersion:
    return EngineVersion.of(release)


def _at(history: Mapping[str, str | None], release: str) -> str | None:
    """Return the digest that is valid for a release; None where the entry is not there."""
    known = [since for since in history if _order(since) <= _order(release)]
    return history[max(known, key=_order)] if known else None


def definitions(source: str) -> dict[str, ast.stmt]:
    """Return the functions, classes, fields and constants of a module by their qualified name.

    Of several definitions of one name (behind conditions), the first counts.
    """
    found: dict[str, ast.stmt] = {}
    for name, statement in _named(ast.parse(source).body, ""):
        found.setdefault(name, statement)
    return found


def _named(statements: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, statement
            case ast.ClassDef(name=name, body=body):
                yield prefix + name, statement
                yield from _named(body, f"{prefix}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield prefix + name, statement
            case ast.If(body=body, orelse=other) | ast.Try(body=body, orelse=other):
                yield from _named([*body, *other], prefix)
            case _:
                pass


def digest_of(node: ast.stmt) -> str:
    """Return a digest of what a definition does: the same after a change of comments, docstrings or layout."""
    return hashlib.sha256(_form(node).encode()).hexdigest()[:_DIGITS]


def _form(value: object) -> str:
    if isinstance(value, ast.AST):
        parts = (f"{name}={_form(part)}" for name, part in ast.iter_fields(value) if _says_something(name, part))
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, list):
        return f"[{', '.join(_form(each) for each in value if not _is_text(each))}]"
    return repr(value)


def _says_something(name: str, part: object) -> bool:
    return name not in _SILENT and part is not None and part != []


def _is_text(node: object) -> bool:
    """Whether a statement is nothing but a text: a docstring, or the description of a field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def chosen(found: Mapping[str, ast.stmt], entries: Iterable[str]) -> dict[str, str]:
    """Return the digests of the listed entries that a module has."""
    names = (name for entry in entries for name in _expanded(found, entry))
    return {name: digest_of(found[name]) for name in names if name in found}


def _expanded(found: Mapping[str, ast.stmt], entry: str) -> list[str]:
    if not entry.endswith(_FIELDS):
        return [entry]
    owner = entry.removesuffix("*")
    fields = [name for name, node in found.items() if isinstance(node, ast.AnnAssign | ast.Assign)]
    return [name for name in fields if name.startswith(owner) and "." not in name.removeprefix(owner)]


def read_wheel(wheel: Wheel, watched: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Return the digests of the listed entries in a wheel."""
    present = set(wheel.namelist())
    read = {
        file: chosen(_definitions_in(wheel, file), entries)
        for file, entries in watched.items()
        if f"{PACKAGE}/{file}" in present
    }
    required = _requirements(wheel)
    read[_METADATA] = {name: required[name] for name in watched.get(_METADATA, ()) if name in required}
    return {file: names for file, names in read.items() if names}


def _requirements(wheel: Wheel) -> dict[str, str]:
    """Return the required releases of the packages that the wheel requires in any case."""
    file = next((name for name in wheel.namelist() if name.endswith(f".dist-info/{_METADATA}")), None)
    lines = "" if file is None else wheel.read(file).decode()
    found = (re.fullmatch(r"Requires-Dist: ([\w.-]+) *([^;]*)", line) for line in lines.splitlines())
    return {each[1]: each[2].strip() for each in found if each is not None}


def _definitions_in(wheel: Wheel, file: str) -> dict[str, ast.stmt]:
    return definitions(wheel.read(f"{PACKAGE}/{file}").decode())


def differences(before: Digests, now: Digests) -> Iterator[Difference]:
    """Yield what differs between two releases, file by file."""
    for file, name in sorted({*_entries(before), *_entries(now)}):
        old, new = before.get(file, {}).get(name), now.get(file, {}).get(name)
        if old is None:
            yield Difference("new", file, name)
        elif new is None:
            yield Difference("gone", file, name)
        elif old != new:
            yield Difference("changed", file, name)


def traced(found: Iterable[Difference], wheel: Wheel, before: Digests) -> Iterator[Difference]:
    """Yield the differences; what is gone but in another module near by has moved, and is not new there."""
    listed: dict[str, dict[str, ast.stmt]] = {}
    known = [_moved(each, wheel, before, listed) if each.what == "gone" else each for each in found]
    places = {(_file_in(each.remark), each.name) for each in known if each.what == "moved"}
    yield from (each for each in known if each.what != "new" or (each.file, each.name) not in places)


def _moved(each: Difference, wheel: Wheel, before: Digests, listed: dict[str, dict[str, ast.stmt]]) -> Difference:
    for file in [] if each.file == _METADATA else _modules_near(wheel, each.file):
        if file not in listed:
            listed[file] = _definitions_in(wheel, file)
        if each.name in listed[file]:
            same = digest_of(listed[file][each.name]) == before[each.file][each.name]
            return each._replace(what="moved", remark=_remark(file, "unchanged" if same else "changed"))
    return each


def _remark(file: str, how: str) -> str:
    return f" -> {file}, {how}"


def _file_in(remark: str) -> str:
    return remark.removeprefix(" -> ").rpartition(", ")[0]


def _modules_near(wheel: Wheel, file: str) -> list[str]:
    """Return the modules of the same folder, and those of the same name in other folders."""
    own = PurePosixPath(PACKAGE, file)
    paths = (PurePosixPath(name) for name in wheel.namelist() if name.startswith(f"{PACKAGE}/"))
    near = (path for path in paths if path.suffix == ".py" and (path.parent == own.parent or path.name == own.name))
    return sorted(str(path.relative_to(PACKAGE)) for path in near)


def wheels_of(index: str, package: str = PACKAGE) -> dict[str, str]:
    """Return the address of a wheel for each release of a package. Pre- and post-releases are left out.

    Raises:
        requests.RequestException: the index does not answer.
    """
    address = f"{index.rstrip('/')}/{package}/"
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    answer = requests.get(address, headers=accept, timeout=_TIMEOUT_SECONDS)
    answer.raise_for_status()
    found: dict[str, str] = {}
    for each in answer.json()["files"]:
        _, release, *_ = each["filename"].split("-") if each["filename"].endswith(".whl") else ("", "")
        parts = release.split(".")
        if len(parts) == _PARTS and all(part.isdigit() for part in parts):
            found[release] = urljoin(address, each["url"])
    return found


def main(arguments: list[str]) -> int:
    """Compare a release with the last recorded one, and record it if asked to."""
    asked = _parser().parse_args(arguments)
    wheels = wheels_of(asked.index)
    release = asked.release or max(wheels, key=_order)
    if release not in wheels:
        sys.stderr.write(
            f"{asked.index} has no wheel of {PACKAGE} {release}: the newest is {max(wheels, key=_order)}\n"
        )
        return 2
    record = Record.read(asked.sources)
    with RemoteZip(wheels[release]) as wheel:
        now = read_wheel(wheel, record.watched)
        before = record.before(release)
        known = {} if before is None else record.at(before)
        found = list(traced(differences(known, now), wheel, known))
        moved = [each for each in found if each.what == "moved"]
        for each in moved:
            file = _file_in(each.remark)
            now.setdefault(file, {}).update(chosen(_definitions_in(wheel, file), [each.name]))
    _print(release, before, found, sum(map(len, known.values())))
    if asked.record:
        record.with_release(release, now, moved).write(asked.sources)
        return 0
    is_recorded = release in record.releases and record.at(release) == now
    return 1 if found and not is_recorded else 0


def usual_index() -> str:
    """Return the address of the package index that pip uses."""
    return os.environ.get("PIP_INDEX_URL") or str(import_module("pip._internal.models.index").PyPI.simple_url)


def _print(release: str, before: str | None, found: list[Difference], count: int) -> None:
    against = "nothing recorded" if before is None else f"{before}: {len(found)} of {count} definitions differ"
    lines = [f"{PACKAGE} {release} against {against}", *map(str, found)]
    sys.stdout.write("\n".join(lines) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("release", nargs="?", help="a release, e.g. 0.34.0; the newest by default")
    parser.add_argument("--record", action="store_true", help="write the release's digests down")
    parser.add_argument("--index", default=usual_index(), help="the package index (simple API); pip's own by default")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="the file with the digests")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
