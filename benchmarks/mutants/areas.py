"""The areas of decision code that are mutated, and the fast tests that must notice a mutant of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SOURCE = "operator/plimsoll"


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the decision code.

    Attributes:
        source: its folder below ``operator/plimsoll``.
        tests: folders with its tests; property tests, which take long, are left out.
        left_out: modules that do I/O: other tests than these cover them.
        tests_left_out: files of tests that take long, or that test modules in ``left_out``.
    """

    source: str
    tests: tuple[str, ...]
    left_out: frozenset[str] = frozenset()
    tests_left_out: tuple[str, ...] = ()

    def modules(self, root: Path) -> Iterator[str]:
        """Yield the paths of the modules to mutate, relative to ``root``."""
        for path in sorted((root / SOURCE / self.source).rglob("*.py")):
            if path.stem not in self.left_out and path.name != "__init__.py":
                yield path.relative_to(root).as_posix()

    def stages(self, root: Path, module: str) -> list[list[str]]:
        """Return pytest's arguments, one list for each run: the tests named after the module or its folder, then all.

        Most mutants end in the first run, which is short.
        """
        path = PurePosixPath(module)
        patterns = (f"test_{path.stem}*.py", f"test_{path.parent.name}_*.py")
        found = {each for folder in self.tests for pattern in patterns for each in (root / folder).glob(pattern)}
        names = [each.relative_to(root).as_posix() for each in sorted(found)]
        own = [name for name in names if name not in self.tests_left_out]
        return [own, self.arguments] if own else [self.arguments]

    @property
    def arguments(self) -> list[str]:
        """Pytest's arguments for all tests of the area."""
        return [*self.tests, *(f"--ignore={path}" for path in self.tests_left_out)]


AREAS = {
    "placement": Area("placement", ("tests/placement", "tests/stories")),
    "rebalance": Area("rebalance", ("tests/rebalance",), tests_left_out=("tests/rebalance/test_properties.py",)),
    "loop": Area(
        "app",
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
