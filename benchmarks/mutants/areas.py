"""The areas of decision code that are mutated, and the fast tests that must notice a mutant of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

SOURCE = "operator/plimsoll"


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the decision code.

    Attributes:
        sources: its folders below ``operator/plimsoll``.
        tests: folders with its tests.
        left_out: modules that do I/O: other tests than these cover them.
        late: files of tests that take long, e.g. of properties, or that test more than the area, and folders of them.
            They are run for samples, after all others. Changed lines have no time for them.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: frozenset[str] = frozenset()
    late: tuple[str, ...] = ()

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
            for file in self.files(root, late=False)
            if any(PurePosixPath(file).match(name) for name in names)
            or imports.search((root / file).read_text(encoding="utf-8"))
        ]

    def files(self, root: Path, *, late: bool) -> list[str]:
        """Return the files of all tests of the area, with the late ones at the end, or without them."""
        later = _files(root, self.late)
        return [*(each for each in _files(root, self.tests) if each not in later), *(later if late else ())]


def _files(root: Path, places: Iterable[str]) -> list[str]:
    """Return the files of tests in folders, and files that are named themselves."""
    found = ([root / place] if place.endswith(".py") else sorted((root / place).rglob("test_*.py")) for place in places)
    return [each.relative_to(root).as_posix() for each in chain.from_iterable(found)]


_LAWS = tuple(
    f"tests/laws/test_{name}.py" for name in ("memo", "placement", "rehoming", "rolled_back", "whole_objects")
)
"""What must be true of any cluster: of the placement, and of the loop around it."""

_DOCS = "tests/house/test_docs.py"
"""Pages that quote constants of the decision code."""

_DECIDED = ("tests/status/test_record_properties.py", *_LAWS, _DOCS)

AREAS = {
    "placement": Area(("placement",), ("tests/placement", "tests/stories"), late=(*_LAWS, _DOCS)),
    "rebalance": Area(
        ("rebalance",),
        ("tests/rebalance",),
        late=(
            *(f"tests/rebalance/test_{name}.py" for name in ("price_properties", "properties", "replay")),
            "tests/simulation",
            _DOCS,
        ),
    ),
    "memory": Area(
        ("memory", "engines/vllm/memory"), ("tests/memory",), late=("tests/engines", "tests/laws/test_memory.py")
    ),
    "decision": Area(
        ("decision", "status"),
        ("tests/decision", "tests/status", "tests/states/test_states.py", "tests/app"),
        late=_DECIDED,
    ),
    "loop": Area(
        ("app",),
        ("tests/app",),
        left_out=frozenset(
            {
                "executor", "fleet_file", "health", "leadership", "lease_times", "model_cache",
                "operator", "planner", "prices", "relist", "settings", "shell", "store", "writers",
            }
        ),
        late=(
            *(
                f"tests/app/test_{name}.py"
                for name in (
                    "executor", "health", "leadership", "model_cache", "model_cache_hub", "prices", "relist", "shell",
                    "store", "workload_trust_properties",
                )
            ),
            *_LAWS,
        ),
    ),
}  # fmt: skip
