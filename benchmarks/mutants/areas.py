"""The areas of decision code that are mutated, and the fast tests that must notice a mutant of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SOURCE = "operator/plimsoll"


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the decision code.

    Attributes:
        sources: its folders below ``operator/plimsoll``.
        tests: folders with its tests.
        left_out: modules that do I/O: other tests than these cover them.
        tests_left_out: files of tests that take long, e.g. of properties, or that test modules in ``left_out``.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: frozenset[str] = frozenset()
    tests_left_out: tuple[str, ...] = ()

    def modules(self, root: Path) -> Iterator[str]:
        """Yield the paths of the modules to mutate, relative to ``root``."""
        for path in sorted(each for source in self.sources for each in (root / SOURCE / source).rglob("*.py")):
            if path.stem not in self.left_out and path.name != "__init__.py":
                yield path.relative_to(root).as_posix()

    def nearest(self, root: Path, module: str) -> list[str]:
        """Return the files of tests that are named after a module or its folder, or import it."""
        path = PurePosixPath(module)
        names = (f"test_{path.stem}*.py", f"test_{path.parent.name}_*.py")
        parent = ".".join(path.relative_to("operator").parent.parts)
        imports = re.compile(rf"^from {parent}(\.{path.stem} import|.* import .*\b{path.stem}\b)", re.MULTILINE)
        return [
            file
            for file in self.files(root)
            if any(PurePosixPath(file).match(name) for name in names)
            or imports.search((root / file).read_text(encoding="utf-8"))
        ]

    def files(self, root: Path) -> list[str]:
        """Return the files of all tests of the area."""
        found = (each for folder in self.tests for each in sorted((root / folder).rglob("test_*.py")))
        names = (each.relative_to(root).as_posix() for each in found)
        return [name for name in names if name not in self.tests_left_out]


AREAS = {
    "placement": Area(("placement",), ("tests/placement", "tests/stories")),
    "rebalance": Area(
        ("rebalance",),
        ("tests/rebalance",),
        tests_left_out=tuple(
            f"tests/rebalance/test_{name}.py" for name in ("price_properties", "properties", "replay")
        ),
    ),
    "memory": Area(("memory", "engines/vllm/memory"), ("tests/memory",)),
    "loop": Area(
        ("app",),
        ("tests/app",),
        left_out=frozenset(
            {
                "executor", "fleet_file", "health", "health_server", "leadership", "lease_times", "model_book",
                "operator", "planner", "prices", "relist", "settings", "shell", "store", "writers",
            }
        ),
        tests_left_out=tuple(
            f"tests/app/test_{name}.py"
            for name in (
                "executor", "health", "leadership", "model_book", "model_book_hub", "prices", "relist", "shell",
                "store", "record_properties", "workload_trust_properties",
            )
        ),
    ),
}  # fmt: skip
