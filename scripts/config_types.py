#!/usr/bin/env python3
"""Write the configurations that every vLLM release reads without code of the checkpoint, from a package index.

    python -m scripts.config_types           # writes operator/plimsoll/engines/vllm/releases/config_types.py
    python -m scripts.config_types --check   # says whether that file is what the wheels give

A configuration names its kind (``model_type``). vLLM has classes for some kinds (``_CONFIG_REGISTRY`` of
``transformers_utils/config.py``), and Transformers has classes for most (``CONFIG_MAPPING_NAMES`` of
``models/auto/configuration_auto.py``). Of Transformers, the oldest release counts that a vLLM release admits. These
files are read as syntax trees, and nothing of a wheel is run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from remotezip import RemoteZip

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.releases.table import RELEASES
from scripts.law_sources import Wheel, usual_index, wheels_of
from scripts.model_releases import block, both

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "releases" / "config_types.py"

_OWN_FILE = "vllm/transformers_utils/config.py"
_OWN_TABLES = ("_CONFIG_REGISTRY", "_CONFIG_REGISTRY_OVERRIDE_HF", "_ARCHITECTURE_TO_MODEL_TYPE")
_FILES = ("transformers/models/auto/configuration_auto.py", "transformers/models/auto/auto_mappings.py")
_TABLES = ("CONFIG_MAPPING_NAMES",)

HEAD = '''"""The configurations that a release reads without code of the checkpoint. Made by scripts/config_types.py.

Each is a ``model_type``, or the class of a model whose configuration has none. Source: ``_CONFIG_REGISTRY`` of
``transformers_utils/config.py`` in the wheels of vLLM, and ``CONFIG_MAPPING_NAMES`` of the oldest Transformers that
each of them admits. What 0.8.0 has may be older. Each release is compared with the one before it.
"""

from __future__ import annotations
'''


def kinds_in(source: str, tables: Iterable[str]) -> frozenset[str]:
    """Return the keys of the module's tables of these names, and of what is added to them."""
    wanted = set(tables)
    return frozenset(key for name, value in _changes(source) if name in wanted for key in _keys(value))


def _changes(source: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the values that the module assigns to names at its top level, and those that ``update`` adds."""
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update")) as call):
                yield name, call
            case _:
                pass


def _keys(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Dict(keys=keys, values=values):
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))
            yield from (name for key, each in zip(keys, values, strict=True) if key is None for name in _keys(each))
        case ast.Call(args=arguments, keywords=keywords):
            yield from (each.arg for each in keywords if each.arg is not None)
            spread = [each.value for each in keywords if each.arg is None]
            yield from (name for each in (*arguments, *spread) for name in _keys(each))
        case ast.List(elts=rows) | ast.Tuple(elts=rows):
            firsts = (row.elts[0] for row in rows if isinstance(row, ast.Tuple) and row.elts)
            yield from (str(each.value) for each in firsts if isinstance(each, ast.Constant))
        case _:
            pass


def oldest_admitted(metadata: str) -> str:
    """Return the oldest release of Transformers that a wheel's metadata admits.

    Raises:
        ValueError: the metadata name none.
    """
    own = r"Requires-Dist: transformers(?![\w.-])(?!.*extra)"
    line = next((each for each in metadata.splitlines() if re.match(own, each)), "")
    found = re.search(r"[>=]=\s*(\d+\.\d+)(\.\d+)?", line)
    if found is None:
        raise ValueError(f"no oldest release of Transformers in {line!r}")
    return found[1] + (found[2] or ".0")


def _read(wheel: Wheel, names: Iterable[str], tables: Iterable[str]) -> frozenset[str]:
    present = set(wheel.namelist())
    wanted = tuple(tables)
    return frozenset[str]().union(*(kinds_in(wheel.read(name).decode(), wanted) for name in names if name in present))


def _metadata(wheel: Wheel) -> str:
    return wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode()


def text_of(index: str) -> str:
    """Return the module that holds the kinds of each release."""
    own, library = wheels_of(index), wheels_of(index, "transformers")

    @cache
    def of_library(release: str) -> frozenset[str]:
        with RemoteZip(library[release]) as wheel:
            return _read(wheel, _FILES, _TABLES)

    found: dict[tuple[int, ...], frozenset[str]] = {}
    for release in RELEASES.split():
        with RemoteZip(own[release]) as wheel:
            kinds, admitted = _read(wheel, [_OWN_FILE], _OWN_TABLES), oldest_admitted(_metadata(wheel))
        found[tuple(map(int, release.split(".")))] = kinds | of_library(admitted)
    newest = max(library, key=EngineVersion.of)
    later = sorted(of_library(newest).difference(*found.values()))
    doc = f"The kinds that Transformers {newest} reads, and no release above for sure."
    return "\n".join((HEAD, *both("KINDS", "kinds of configurations", found), block("LATER_KINDS", doc, [("", later)])))


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is up to date."""
    text = text_of(usual_index())
    if "--check" in arguments:
        return 0 if TABLE.exists() and TABLE.read_text(encoding="utf-8") == text else 1
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
