"""Mutate a copy of the tree with cosmic-ray, and run the tests of an area on each mutant.

cosmic-ray changes files in place. The checkout is not touched.
"""

from __future__ import annotations

import math
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from compileall import compile_file
from contextlib import ExitStack, chdir, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec

from benchmarks.mutants import noting
from benchmarks.mutants.areas import Area
from benchmarks.mutants.changed import Lines
from benchmarks.mutants.choosing import OPERATORS, is_left_alone, spans_left_alone
from benchmarks.mutants.mutant import Equivalent, Mutant, Verdict, changed_lines
from benchmarks.mutants.reach import Position, Reach, marked

TIMES_THE_ORIGINAL = 4
"""A mutant has timed out when its tests take the processor this many times as long as with the original: it loops."""

LEAST_SECONDS = 30.0
"""The shortest limit: to start tests may take ten seconds of the processor."""

WAITING = 40
"""A run is given up, and its mutant is undecided, after this many times its limit: the machine is busy, or it waits."""

PLUGINS = tuple(
    word
    for name in ("cacheprovider", "hypothesispytest", "anyio", "xdist", "randomly")
    for word in ("-p", f"no:{name}")
)
"""Without these plugins the tests run as well, in their own order, and each run starts in two thirds of the time."""

LEAVING_OUT = "-m", "not lengthy"

SURVIVED = 0
NOTICED = (1, 2, 4)
"""Statuses of pytest: all tests pass; a test fails, a file of tests cannot be imported, or has the test no more."""

ENDED = (-signal.SIGXCPU, -signal.SIGKILL)
"""Exit statuses of a run that has had all its time of the processor."""

INTERRUPTED = 2
"""Pytest's exit status where a plugin has ended the run before all tests: no test has failed until then."""


class NotGreen(RuntimeError):
    """The tests fail without any mutation; the message is their output."""


@dataclass(frozen=True, slots=True)
class Run:
    """A mutation run over one area: ``sample`` mutants at most (None: all), chosen by ``seed``.

    ``changed`` are the lines to mutate, by file; None: all lines. Without ``late``, what only late tests notice, or
    lengthy ones, counts as survived.
    """

    area: Area
    modules: tuple[str, ...]
    sample: int | None
    seed: int
    known: list[Equivalent]
    changed: Lines | None = None
    late: bool = True

    def results(self, say: Callable[[str], None], seconds: float = math.inf) -> Iterator[tuple[Mutant, Verdict]]:
        """Yield each mutant with its verdict, as soon as it is known. Must run in :func:`copied_tree`.

        ``seconds`` bound it: half of them are for the tests without any mutation. A mutant counts as survived only if
        all of these had time.

        Raises:
            NotGreen: the tests fail already before any mutation.
        """
        end, specs = time.monotonic() + seconds, self._chosen(say)
        if not specs:
            return
        reach, marks = self._reach(specs, seconds / 2)
        for number, (spec, mark) in enumerate(zip(specs, marks, strict=True), 1):
            mutant, left = _mutant(spec), end - time.monotonic()
            if left <= 0:
                say(f"{len(specs) - number + 1} of {len(specs)} were not tried in this time")
                return
            verdict = Verdict.EQUIVALENT
            if not any(entry.is_of(mutant) for entry in self.known):
                tests = reach.tests(mark, self.area.nearest(Path.cwd(), mutant.file))
                verdict = _tested(spec, reach, tests, end)
            if verdict is Verdict.SURVIVED and not reach.complete:
                verdict = Verdict.UNDECIDED
            say(f"{number}/{len(specs)} {verdict.value}: {mutant.file}:{mutant.line} {mutant.after}")
            yield mutant, verdict

    def _chosen(self, say: Callable[[str], None]) -> list[Any]:
        modules = self.modules if self.changed is None else tuple(each for each in self.modules if each in self.changed)
        specs = [
            spec for spec in _sensible(modules) if self.changed is None or _lines(spec) & self.changed[_file(spec)]
        ]
        specs.sort(key=lambda spec: (_file(spec), spec.start_pos, *_kind(spec)))
        count = len(specs) if self.sample is None else min(self.sample, len(specs))
        if self.changed is not None and count < len(specs):
            say(f"{count} of {len(specs)} mutants are chosen")
        order = random.Random(self.seed).sample(specs, len(specs))  # noqa: S311 - a sample, no secret
        return list(islice(filter(compiles, order), count))

    def _reach(self, specs: Sequence[Any], seconds: float) -> tuple[Reach, list[int | None]]:
        """Run the tests once on marked modules, for the given time at most. Return also the mark of each mutation."""
        root, marks, count = Path.cwd(), dict[tuple[str, Position], int | None](), 0
        files = list(dict.fromkeys(_file(spec) for spec in specs))
        with ExitStack() as stack:
            for file in files:
                positions = [tuple(spec.start_pos) for spec in specs if _file(spec) == file]
                source, found = marked((root / file).read_text(encoding="utf-8"), positions, count)
                marks |= {(file, position): mark for position, mark in zip(positions, found, strict=True)}
                count += len(positions)
                stack.enter_context(_replaced(root / file, source))
            late = self.late and self.changed is None
            near = [test for file in files for test in self.area.nearest(root, file)]
            tests = dict.fromkeys([*near, *self.area.files(root, late=late)])
            reach = _noted([*tests, *(() if self.late else LEAVING_OUT)], seconds)
        return reach, [marks[_file(spec), tuple(spec.start_pos)] for spec in specs]


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
    """Yield what cosmic-ray's own list has of the operators that tell something: to make all of it takes minutes."""
    operators = [(name, get_operator(name)()) for name in sorted(OPERATORS)]
    for module in modules:
        spans = spans_left_alone(Path(module).read_text(encoding="utf-8"))
        nodes = list(ast_nodes(get_ast_from_path(Path(module))))
        for name, operator in operators:
            found = ((node, *each) for node in nodes for each in operator.mutation_positions(node))
            for number, (node, start, end) in enumerate(found):
                if not is_left_alone(start, end, spans):
                    function = ASTQuery(node).get_definition_name()
                    yield MutationSpec(module, name, number, start, end, definition_name=function)


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-x", "-q", *PLUGINS, *arguments]


def bounded(command: Sequence[str], seconds: float) -> list[str]:
    """Return the command with an end of its own, in seconds of processor time.

    A busy machine makes no mutant look as if it looped, and one that loops ends although this process may have ended.
    """
    return ["sh", "-c", f'ulimit -t {math.ceil(seconds) + 1}; exec "$@"', "sh", *command]


def _kind(spec: Any) -> tuple[str, int]:
    return spec.operator_name, spec.occurrence


def _file(spec: Any) -> str:
    return str(spec.module_path)


def _lines(spec: Any) -> set[int]:
    return set(range(spec.start_pos[0], spec.end_pos[0] + 1))


def _mutant(spec: Any) -> Mutant:
    before, after = changed_lines(*_texts(spec))
    return Mutant(_file(spec), spec.definition_name or "", spec.start_pos[0], before, after)


def compiles(spec: Any) -> bool:
    """Whether the mutated module compiles. If not, e.g. ``{*known, key: value}``, it says nothing of the tests."""
    try:
        compile(_texts(spec)[1], spec.module_path, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _texts(spec: Any) -> tuple[str, str]:
    """Return a module's text without and with a mutation."""
    original = Path(spec.module_path).read_text(encoding="utf-8")
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    return original, mutate_code(original, operator, spec.occurrence)


def _tested(spec: Any, reach: Reach, tests: Sequence[str], end: float) -> Verdict:
    """Return whether the tests that run the statement notice its mutation. Where none runs it, none can."""
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    with use_mutation(spec.module_path, operator, spec.occurrence):
        for batch in reach.batches(tests):
            limit = LEAST_SECONDS + TIMES_THE_ORIGINAL * reach.seconds_of(batch)
            verdict = verdict_of(batch, limit, min(WAITING * limit, end - time.monotonic()))
            if verdict is not Verdict.SURVIVED:
                return verdict
    return Verdict.SURVIVED


def verdict_of(tests: Sequence[str], limit: float, wait: float) -> Verdict:
    """Run tests once, and return their verdict on the tree as it is. Time of the clock alone decides nothing.

    Args:
        tests: their names.
        limit: seconds of the processor, after which a mutant loops.
        wait: seconds of the clock, after which nobody waits any longer.

    Raises:
        RuntimeError: no test has run.
    """
    command = bounded(_command(tests), limit)
    # Two mutants of one second can have the same size: bytecode of the first one would be taken for the second one's.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with TemporaryFile() as output:
        run = subprocess.Popen(  # noqa: S603 - our own tests
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        try:
            status = run.wait(timeout=max(0.0, wait))
        except subprocess.TimeoutExpired:
            return Verdict.UNDECIDED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        if status in ENDED:
            return Verdict.TIMED_OUT
        if status not in (SURVIVED, *NOTICED):
            output.seek(0)
            raise RuntimeError(f"no test has run: {shlex.join(command)}\n{output.read().decode(errors='replace')}")
    return Verdict.SURVIVED if status == SURVIVED else Verdict.KILLED


@contextmanager
def _replaced(path: Path, text: str) -> Iterator[None]:
    """Write another text into a file for a time. Then its time is the earlier one, so that Python reads it anew."""
    original, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        compile_file(path, quiet=2)  # mutants' tests write no bytecode, and would compile it again each time


def _noted(arguments: Sequence[str], seconds: float) -> Reach:
    """Run tests that must be green, and return what they have run. Bytecode is written for the runs that follow."""
    with TemporaryDirectory() as folder:
        result, longest = Path(folder) / "reach.json", None if seconds == math.inf else 2 * seconds
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        given = {noting.RESULT: str(result), noting.SECONDS: str(seconds)}
        command = _command(["-p", noting.__name__, *arguments])
        try:
            done = subprocess.run(  # noqa: S603 - our own tests
                command, check=False, capture_output=True, text=True, env=usual | given, timeout=longest
            )
        except subprocess.TimeoutExpired:
            return Reach({}, {}, frozenset(), complete=False)
        reach = Reach.read(result) if result.exists() else None
        if reach is None or done.returncode != (0 if reach.complete else INTERRUPTED):
            raise NotGreen(f"the tests fail without any mutation: {shlex.join(command)}\n{done.stdout}{done.stderr}")
        return reach
