"""No code outside its folder knows an engine by name: what is left are the default's name and texts for users."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "operator" / "plimsoll"

ALLOWED = {
    "engines/registry.py": 3,  # the one row, and its import
    "domain/engines/engine_choice.py": 1,  # the default
    "api/crd/schema.py": 1,  # description of the CRD
    "api/v1alpha1/spec.py": 1,  # description of spec.engine.image
    "facts/models/quantization/rule.py": 1,  # a plugin's name, in a sentence for users
}
"""How often each file says the word in code: identifiers, imports and strings that are not documentation."""


def words(tree: ast.Module) -> Iterator[str]:
    """Identifiers, module names and strings, without docstrings and strings that document a constant."""
    documentation = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.ImportFrom(module=str(name)) | ast.ClassDef(name=name):
                yield name
            case _:
                pass


def test_only_an_engines_own_folder_says_its_name_in_code() -> None:
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("engines/vllm/"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[name] += sum("vllm" in word.lower() for word in words(tree))
    assert {name: count for name, count in found.items() if count} == ALLOWED
