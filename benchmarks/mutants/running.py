"""Mutate a copy of the tree with cosmic-ray, and run the tests of an area on each mutant.

cosmic-ray changes files in place. The checkout is not touched.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db

from benchmarks.mutants.areas import Area
from benchmarks.mutants.choosing import OPERATORS, is_left_alone, spans_left_alone
from benchmarks.mutants.mutant import Equivalent, Mutant, Verdict, changed_lines

TIMES_THE_ORIGINAL = 4
"""A mutant has timed out when its tests take this many times as long as those of the original: it loops."""

LEAST_SECONDS = 60.0
"""The shortest limit: on a busy machine a short run may well take a multiple of its usual time."""

PLUGINS = tuple(
    word for name in ("cacheprovider", "hypothesispytest", "anyio", "xdist") for word in ("-p", f"no:{name}")
)
"""Without these plugins the tests run as well, and each run starts in two thirds of the time."""


class NotGreen(RuntimeError):
    """The tests fail without any mutation; the message is their output."""


@dataclass(frozen=True, slots=True)
class Run:
    """A mutation run over one area: ``sample`` mutants at most (None: all), chosen by ``seed``."""

    area: Area
    modules: tuple[str, ...]
    sample: int | None
    seed: int
    known: list[Equivalent]

    def results(self, say: Callable[[str], None]) -> Iterator[tuple[Mutant, Verdict]]:
        """Yield each mutant with its verdict, as soon as it is known. Must run in :func:`copied_tree`.

        Raises:
            NotGreen: the tests fail already before any mutation.
        """
        root = Path.cwd()
        limit = max(LEAST_SECONDS, TIMES_THE_ORIGINAL * _seconds(_command(self.area.arguments)))
        specs = self._chosen()
        for number, spec in enumerate(specs, 1):
            mutant = _mutant(spec)
            if any(entry.is_of(mutant) for entry in self.known):
                yield mutant, Verdict.EQUIVALENT
                continue
            verdict = self._tested(spec, root, limit)
            say(f"{number}/{len(specs)} {verdict.value}: {mutant.file}:{mutant.line} {mutant.after}")
            yield mutant, verdict

    def _chosen(self) -> list[Any]:
        specs = sorted(_sensible(self.modules), key=lambda spec: (str(spec.module_path), spec.start_pos, *_kind(spec)))
        if self.sample is None or self.sample >= len(specs):
            return specs
        return random.Random(self.seed).sample(specs, self.sample)  # noqa: S311 - a sample, no secret

    def _tested(self, spec: Any, root: Path, limit: float) -> Verdict:
        verdict = Verdict.SURVIVED
        for arguments in self.area.stages(root, str(spec.module_path)):
            if verdict is Verdict.SURVIVED:
                verdict = _verdict(mutate_and_test([spec], _command(arguments), limit))
        return verdict


@contextmanager
def copied_tree(root: Path) -> Iterator[None]:
    """Work in a copy of the files that git knows or would add. The package of the copy comes first on the path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout  # noqa: S603
    with TemporaryDirectory(prefix="plimsoll-mutants-") as folder:
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target)
        with chdir(folder):
            os.environ["PYTHONPATH"] = str(Path(folder) / "operator")
            yield


def _sensible(modules: tuple[str, ...]) -> Iterator[Any]:
    spans = {module: spans_left_alone(Path(module).read_text(encoding="utf-8")) for module in modules}
    with TemporaryDirectory() as folder, use_db(Path(folder) / "session.sqlite", WorkDB.Mode.create) as session:
        init([Path(module) for module in modules], session, {})
        for item in session.work_items:
            (spec,) = item.mutations
            position = (tuple(spec.start_pos), tuple(spec.end_pos))
            if spec.operator_name in OPERATORS and not is_left_alone(*position, spans[str(spec.module_path)]):
                yield spec


def _command(arguments: Sequence[str]) -> str:
    return shlex.join([sys.executable, "-m", "pytest", "-x", "-q", *PLUGINS, *arguments])


def _kind(spec: Any) -> tuple[str, int]:
    return spec.operator_name, spec.occurrence


def _mutant(spec: Any) -> Mutant:
    original = Path(spec.module_path).read_text(encoding="utf-8")
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    before, after = changed_lines(original, mutate_code(original, operator, spec.occurrence))
    return Mutant(str(spec.module_path), spec.definition_name or "", spec.start_pos[0], before, after)


def _verdict(result: Any) -> Verdict:
    if result.test_outcome not in ("survived", "killed"):
        raise RuntimeError(f"cosmic-ray ran no test: {result.worker_outcome}\n{result.output}")
    if not result.is_killed:
        return Verdict.SURVIVED
    return Verdict.TIMED_OUT if result.output == "timeout" else Verdict.KILLED


def _seconds(command: str) -> float:
    begun = time.monotonic()
    done = subprocess.run(shlex.split(command), check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode != 0:
        raise NotGreen(f"the tests fail without any mutation: {command}\n{done.stdout}{done.stderr}")
    return time.monotonic() - begun
