"""No test turns red because its machine is busy: none compares a time that passed, sleeps, or gives up soon."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.eventually import HANG_SECONDS
from tests.support.hurried import SHORT, Wait

ROOT = Path(__file__).resolve().parents[2]

CLOCKS = {
    f"time.{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
}
SAME_KIND = {"abs", "approx", "float", "int", "max", "mean", "median", "min", "quantiles", "round", "sorted", "sum"}
"""What these functions make of a time is a time."""

PATIENCE = {
    "wait_until": 1,
    "asyncio.wait_for": 1,
    "asyncio.timeout": 0,
    "pytest.mark.timeout": 0,
    "view.wait": 2,
    "here.wait": 2,
    "wait_condition": 4,
    "wait_healthy": 0,
    "wait_message": 2,
    "wait_ready": 1,
    "wait_reason": 2,
    "wait_settled": 2,
}
"""What gives up, and where it says after how many seconds."""

WORDS = re.compile(r"\b(?:time|sleep|deadline|timeout|wait_for|wait_until)\b")
"""A module without any of these words has nothing to be looked for."""

MAY = {
    "tests/support/eventually.py": "the one pause between two questions of an event loop",
}


class Times(ast.NodeVisitor):
    """Follows what was read from a clock through one module: names, parts of objects, lists and functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.modules = {
            (alias.asname or alias.name): f"{node.module}.{alias.name}"
            if isinstance(node, ast.ImportFrom)
            else alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self.known: set[str] = set()
        before = -1 if any(name.split(".")[0] == "time" for name in self.modules.values()) else 0
        while len(self.known) != before:
            before = len(self.known)
            self._learn(tree, "")

    def name(self, node: ast.expr) -> str:
        """Return the whole name of a function: ``time.monotonic`` also where only ``monotonic`` was imported."""
        first, _, rest = _dotted(node).partition(".")
        return ".".join(filter(None, (self.modules.get(first, first), rest)))

    def _learn(self, node: ast.AST, function: str) -> None:
        """Add to what is known. A name counts in its outermost function alone."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = function or node.name
            if any(isinstance(each, ast.Return) and self.of(each.value, function) for each in ast.walk(node)):
                self.known.add(f"{node.name}()")
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if self.of(node.value, function):
                self.known.update(f"{function}: {each}" for target in targets for each in _names(target))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            self.known.update(
                f"{function}: {ast.unparse(node.func.value)}" for each in node.args if self.of(each, function)
            )
        for child in ast.iter_child_nodes(node):
            self._learn(child, function)

    def of(self, node: ast.expr | None, function: str) -> bool:
        """Whether an expression is a time."""
        match node:
            case ast.Call():
                name = self.name(node.func)
                if name in CLOCKS or f"{name.rpartition('.')[2]}()" in self.known:
                    return True
                inner = name.rpartition(".")[2] in SAME_KIND and node.args
                return bool(inner) and any(self.of(each, function) for each in node.args)
            case ast.Name() | ast.Attribute():
                return f"{function}: {ast.unparse(node)}" in self.known
            case ast.BinOp():
                return self.of(node.left, function) or self.of(node.right, function)
            case ast.UnaryOp() | ast.Starred():
                return self.of(getattr(node, "operand", None) or getattr(node, "value", None), function)
            case ast.Subscript() | ast.NamedExpr():
                return self.of(node.value, function)
            case ast.Tuple() | ast.List():
                return any(self.of(each, function) for each in node.elts)
            case ast.ListComp() | ast.GeneratorExp():
                return self.of(node.elt, function)
            case _:
                return False


def _dotted(node: ast.expr) -> str:
    """Return a name with its parts; of a part of something else, the part alone."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _names(each)
    else:
        yield ast.unparse(target.value if isinstance(target, ast.Subscript | ast.Starred) else target)


def offences(source: str) -> list[str]:
    """What in a module would depend on how busy the machine is, each with its line."""
    if not WORDS.search(source):
        return []
    tree = ast.parse(source)
    times = Times(tree)
    constants = {
        target.id: each.value.value
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    found: list[tuple[int, str]] = []

    def look(node: ast.AST, function: str, *, waits: bool, asserts: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function, waits = function or node.name, bool(function)
        waits, asserts = waits or isinstance(node, ast.Lambda), asserts or isinstance(node, ast.Assert)
        if isinstance(node, ast.Compare) and (asserts or not waits):
            sides = (times.of(each, function) for each in (node.left, *node.comparators))
            found.extend((node.lineno, "compares a time") for is_time in sides if is_time)
        elif isinstance(node, ast.Call):
            found.extend((node.lineno, told) for told in _pauses(node, times.name(node.func), constants))
        for child in ast.iter_child_nodes(node):
            test_of_while = isinstance(node, ast.While) and child is node.test
            look(child, function, waits=waits or test_of_while, asserts=asserts)

    look(tree, "", waits=False, asserts=False)
    return [f"{line}: {told}" for line, told in sorted(set(found))]


def _pauses(call: ast.Call, name: str, constants: Mapping[str, object]) -> Iterator[str]:
    first = call.args[0] if call.args else None
    if name == "time.sleep" or (name == "asyncio.sleep" and not (isinstance(first, ast.Constant) and first.value == 0)):
        yield "sleeps"
    deadline = next((each.value for each in call.keywords if each.arg == "deadline"), None)
    if name.rpartition(".")[2] == "settings" and isinstance(deadline, ast.Constant) and deadline.value is not None:
        yield "bounds the time of an example"
    for kind, place in PATIENCE.items():
        if name == kind or name.endswith(f".{kind}"):
            named = next((each.value for each in call.keywords if each.arg == "timeout"), None)
            seconds = call.args[place] if len(call.args) > place else named
            value = constants.get(seconds.id) if isinstance(seconds, ast.Name) else getattr(seconds, "value", None)
            if isinstance(value, int | float) and value < HANG_SECONDS:
                yield f"gives up after {value:g} s"


def of_all_tests() -> dict[str, list[str]]:
    found = {
        path.relative_to(ROOT).as_posix(): offences(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }
    return {name: told for name, told in found.items() if told}


def test_no_test_depends_on_how_busy_its_machine_is() -> None:
    """Work is counted (tests/support/work.py); a wait has a clock of the test's own, or an end that only a hang sees.

    Where a real time has to pass, the loop that lets it pass ends late on a busy machine, and nothing turns red.
    """
    found = of_all_tests()
    assert MAY.keys() <= found.keys()
    assert {name: told for name, told in found.items() if name not in MAY} == {}


def test_no_property_has_a_deadline_and_a_failing_draw_can_be_repeated() -> None:
    usual = settings()
    assert usual.deadline is None
    assert HealthCheck.too_slow in usual.suppress_health_check
    assert usual.print_blob
    assert usual.derandomize or usual.database is not None


AROUND = "import asyncio, time\nfrom time import monotonic\nfrom statistics import median\nWAIT_SECONDS = 5.0\n{}"


@pytest.mark.parametrize(
    "source",
    [
        "def test():\n    began = time.monotonic()\n    work()\n    assert time.monotonic() - began < 5",
        "def test():\n    began = monotonic()\n    took = monotonic() - began\n    assert 0.4 <= took",
        "def test():\n    began = time.process_time()\n    quick = time.process_time() - began < 2\n    assert quick",
        "def test():\n    spent = []\n    spent.append(time.perf_counter())\n    assert median(spent) < 5",
        "def took():\n    began = time.time()\n    return time.time() - began\ndef test():\n    assert took() < 5",
        "def test():\n    assert seen() == pytest.approx(time.time(), abs=10)",
        "def test(self):\n    self.began = time.time()\n    assert self.began <= seen()",
        "def test():\n    end = time.monotonic() + 5\n    if time.monotonic() > end:\n        raise ValueError",
        "def test():\n    wait_until(is_there, 5, 'it')",
        "def test():\n    wait_until(is_there, WAIT_SECONDS, 'it')",
        "def test(cluster):\n    cluster.wait_until(is_there, 30, 'it')",
        "async def test():\n    async with asyncio.timeout(10):\n        await it",
        "async def test():\n    await asyncio.wait_for(it, 5)",
        "def test():\n    time.sleep(0.1)",
        "async def test():\n    await asyncio.sleep(0.1)",
        "@pytest.mark.timeout(10)\ndef test():\n    work()",
        "@settings(max_examples=examples(150), deadline=1000)\ndef test():\n    work()",
    ],
)
def test_what_a_busy_machine_would_turn_red_is_found(source: str) -> None:
    assert len(offences(AROUND.format(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def test():\n    began = time.time()\n    log.info('%.0f s', time.time() - began)",
        "def test():\n    found = read(now=time.time())\n    assert found == []",
        "def test():\n    since = time.time()\n    assert log.events(since) == []",
        "def test():\n    end = time.monotonic() + 5\n    wait_until(lambda: time.monotonic() >= end, 90, 'it')",
        "def test():\n    with counted_calls() as calls:\n        work()\n    assert calls.amount < 5",
        "def test(clock):\n    began = clock.monotonic()\n    assert clock.monotonic() - began < 5",
        "def one():\n    began = time.time()\ndef test():\n    began = read()\n    assert began < 5",
        "@settings(max_examples=examples(150), deadline=None)\ndef test():\n    work()",
        "async def test():\n    await asyncio.sleep(0)",
        "async def test():\n    async with asyncio.timeout(60):\n        await it",
        "@pytest.mark.timeout(900)\ndef test():\n    script = 'time.sleep(5)'",
    ],
)
def test_what_waits_or_tells_a_time_is_none_of_it(source: str) -> None:
    assert offences(AROUND.format(source)) == []


@pytest.mark.parametrize("wait", SHORT, ids=str)
def test_every_wait_that_tests_shorten_is_there_and_is_longer(wait: Wait) -> None:
    module, name, seconds = SHORT[wait]
    assert vars(import_module(module))[name] > seconds
