#!/usr/bin/env python3
"""Write the options of ``vllm serve`` that only releases before the first recorded one have, from their wheels.

    python -m scripts.older_options           # writes operator/plimsoll/engines/vllm/releases/older_options.py
    python -m scripts.older_options --check   # says whether that file is what the wheels give

The parsers of these releases are not asked: two files of each wheel are read as syntax trees, and nothing of it is run.
An option is a call of ``add_argument``, or a field of the class of the server's own options. The kind of its value
follows from the call, or from the type of the field that the call names. Where releases differ, the newest counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from remotezip import RemoteZip

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.flags.table import table_for
from plimsoll.engines.vllm.releases.serve_options import SERVE_OPTIONS
from plimsoll.engines.vllm.releases.table import RELEASES
from scripts.law_sources import Wheel, usual_index, wheels_of

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "releases" / "older_options.py"

_FILES = ("vllm/engine/arg_utils.py", "vllm/entrypoints/openai/cli_args.py")
_CLASSES = ("EngineArgs", "AsyncEngineArgs", "FrontendArgs", "BaseFrontendArgs")
_SERVERS_OWN = ("FrontendArgs", "BaseFrontendArgs")
"""Classes of which a loop makes an option of each field."""

_SWITCHES = ("store_true", "store_false", "argparse.BooleanOptionalAction", "BooleanOptionalAction")
_KINDS = (("int", "whole"), ("float", "number"), ("json.loads", "json"), ("human_readable_int", "size"))
_TEXT = "text"

HEAD = '''"""Options of ``vllm serve`` that releases before the first recorded one have, and that it lacks.

Made by scripts/older_options.py from ``engine/arg_utils.py`` and ``entrypoints/openai/cli_args.py`` in the wheels of
{oldest} to {newest}. The form is that of :mod:`~plimsoll.engines.vllm.releases.serve_options`, without choices: these
differ between the releases.
"""

from __future__ import annotations

OLDER_OPTIONS = """\\
'''


class Found(NamedTuple):
    """An option: its names, as they are written, and the kind of its values."""

    names: tuple[str, ...]
    takes: str

    @property
    def row(self) -> str:
        """The option as a row of a table."""
        return " ".join((*self.names, self.takes))


def options_in(sources: Iterable[str]) -> dict[str, Found]:
    """Return the options that these modules make, by their first names."""
    trees = [ast.parse(source) for source in sources]
    fields = {name: kind for tree in trees for _, name, kind in _fields(tree)}
    found = [each for tree in trees for each in _calls(tree, fields)]
    found += [_of_field(name, kind) for tree in trees for owner, name, kind in _fields(tree) if owner in _SERVERS_OWN]
    return {each.names[0]: each for each in found}


def _fields(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of the classes of options: the class, the name, and the type as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in _CLASSES:
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield node.name, each.target.id, ast.unparse(each.annotation)


def _of_field(name: str, written: str) -> Found:
    flag = f"--{name.replace('_', '-')}"
    takes = _kind_of_type(written)
    return Found((flag, f"--no-{flag[2:]}") if takes == "switch" else (flag,), takes)


def _kind_of_type(written: str) -> str:
    words = re.findall(r"[\w.]+", written)
    many = "+" if {"list", "List", "tuple", "Tuple", "set"} & set(words) else ""
    if "bool" in words:
        return "switch"
    if {"dict", "Dict"} & set(words):
        return _TEXT
    return next((kind for word, kind in _KINDS if word in words), _TEXT) + many


def _calls(tree: ast.AST, fields: Mapping[str, str]) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = tuple(each.value for each in node.args if isinstance(each, ast.Constant))
            flags = tuple(str(name) for name in names if str(name).startswith("-"))
            if flags:
                yield _of_call(flags, node, fields)


def _of_call(names: tuple[str, ...], call: ast.Call, fields: Mapping[str, str]) -> Found:
    given = {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg is not None}
    action = given.get("action", "").strip("'\"")
    spread = [each.value for each in call.keywords if each.arg is None]
    named = next((field for each in spread if (field := _field_of(each)) is not None), None)
    own = (name[2:].replace("-", "_") for name in names if name.startswith("--"))
    written = next((fields[each] for each in (*own, str(named)) if each in fields), "")
    takes = _kind_of_type(written) if named is not None and "type" not in given else _typed(given)
    if action in _SWITCHES:
        takes = "switch"
    both = "Optional" in action or (takes == "switch" and named is not None and not action)
    return Found((*names, *(f"--no-{name[2:]}" for name in names if both and name.startswith("--"))), takes)


def _field_of(value: ast.expr) -> str | None:
    """Return the key of ``arguments["key"]``; None for anything else."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value)
    return None


def _typed(given: Mapping[str, str]) -> str:
    many = {"+": "+", "*": "+", "?": "?"}.get(given.get("nargs", "").strip("'\""), "")
    words = re.findall(r"[\w.]+", given.get("type", ""))
    return next((kind for word, kind in _KINDS if word in words), _TEXT) + many


def older_options(found: Mapping[EngineVersion, Mapping[str, Found]]) -> list[Found]:
    """Return the options that the first recorded release lacks, each as the newest release has it that has it."""
    newest: dict[str, Found] = {}
    for release in sorted(found):
        newest |= found[release]
    recorded = table_for(min(map(EngineVersion.of, SERVE_OPTIONS))).options
    return [each for name, each in sorted(newest.items()) if name not in recorded]


def text_of(index: str) -> str:
    """Return the module that holds the options."""
    wheels, first = wheels_of(index), min(map(EngineVersion.of, SERVE_OPTIONS))
    releases = [each for each in RELEASES.split() if EngineVersion.of(each) < first]
    found = {}
    for release in releases:
        with RemoteZip(wheels[release]) as wheel:
            found[EngineVersion.of(release)] = options_in(_sources(wheel))
    rows = "\n".join(each.row for each in older_options(found))
    return f'{HEAD.format(oldest=releases[0], newest=releases[-1])}{rows}\n"""\n'


def _sources(wheel: Wheel) -> list[str]:
    present = set(wheel.namelist())
    return [wheel.read(name).decode() for name in _FILES if name in present]


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is up to date."""
    text = text_of(usual_index())
    if "--check" in arguments:
        return 0 if TABLE.exists() and TABLE.read_text(encoding="utf-8") == text else 1
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
