"""The same cluster gets the same plan: in any order of its lists, in any process, and on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.laws.world_of_one_plan import decisions, digest

BUSY = "while True: pass"


@pytest.fixture(scope="module")
def known() -> str:
    """The digest of the plan from lists in one order."""
    return digest(0)


def test_some_deployments_wait_and_some_get_a_part_so_that_the_digest_says_something() -> None:
    missing = {each.request.key.name: each.missing for each in decisions(0)}
    assert 0 < sum(count > 0 for count in missing.values()) < len(missing)
    assert any(each.rejections for each in decisions(0))


def test_the_same_world_planned_again_gives_the_same_plan(known: str) -> None:
    assert digest(0) == known


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_order_of_the_lists_changes_nothing(known: str, seed: int) -> None:
    assert digest(seed) == known


@pytest.mark.parametrize("hash_seed", [1, 2])
def test_another_process_on_a_busy_machine_makes_the_same_plan(known: str, hash_seed: int) -> None:
    with _busy_machine():
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
        command = [sys.executable, "-m", "tests.laws.world_of_one_plan", str(hash_seed)]
        made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    assert made.stdout == known


@contextmanager
def _busy_machine() -> Iterator[None]:
    """Keep every core busy with a process that counts nothing."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))  # noqa: S603 - a constant
            stack.callback(busy.kill)
        yield
