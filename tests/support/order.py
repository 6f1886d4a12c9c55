"""The order of tests: which files several workers take first, which wait for their day, and which tests keep an order.

The longest files come first. A file is one worker's alone, and the others have nothing to do while it ends a run.
A file with the marker ``story`` is one long course of events, and each test of it a step. Every other test must pass in
any order and alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.support.tables import day, everything

ROOT = Path(__file__).resolve().parents[2]

SECONDS: Mapping[str, int] = MappingProxyType(
    {
        "tests/cluster/test_additions_in_vain.py": 260,
        "tests/cluster/test_live_loop.py": 165,
        "tests/cluster/test_retune_rollback.py": 155,
        "tests/browser/test_pages.py": 150,
        "tests/cluster/test_bounds_of_changes.py": 120,
        "tests/cluster/test_dependencies.py": 110,
        "tests/cluster/test_two_operators.py": 110,
        "tests/cluster/test_zero.py": 95,
        "tests/browser/test_static_calculator.py": 90,
        "tests/cluster/test_live_decisions.py": 90,
        "tests/cluster/test_control_plane_faults.py": 80,
        "tests/cluster/test_faults.py": 80,
        "tests/cluster/test_bad_places.py": 70,
        "tests/cluster/test_approvals.py": 65,
        "tests/cluster/test_rejecting_kubelet.py": 65,
        "tests/cluster/test_sites.py": 65,
        "tests/browser/test_walkthrough.py": 60,
        "tests/cluster/test_chart.py": 60,
        "tests/cluster/test_console_live_use.py": 60,
        "tests/cluster/test_rollback.py": 60,
        "tests/cluster/test_what_users_do.py": 60,
        "tests/browser/test_long_names.py": 55,
        "tests/browser/test_outages.py": 55,
        "tests/cluster/test_days_before.py": 55,
        "tests/cluster/test_disruption.py": 55,
        "tests/cluster/test_packing.py": 50,
        "tests/cluster/test_upgrade.py": 50,
        "tests/testbed/test_control_plane.py": 50,
        "tests/cluster/test_console_rights.py": 45,
        "tests/cluster/test_lifecycle.py": 45,
        "tests/cluster/test_quiet.py": 40,
        "tests/cluster/test_console_people.py": 35,
        "tests/testbed/test_kubelet.py": 35,
        "tests/cluster/test_dra.py": 30,
        "tests/cluster/test_namespaced.py": 30,
        "tests/cluster/test_plan_review.py": 30,
        "tests/cluster/test_queue.py": 30,
        "tests/benchmarks/test_placement.py": 25,
        "tests/cluster/test_alerts.py": 25,
        "tests/cluster/test_console_approvals.py": 25,
        "tests/cluster/test_judge.py": 25,
        "tests/cluster/test_killed_while_rebalancing.py": 25,
        "tests/cluster/test_limit_ranges.py": 25,
        "tests/cluster/test_two_labels.py": 25,
        "tests/app/test_poison_and_faults.py": 20,
        "tests/cli/test_readme.py": 20,
        "tests/cluster/test_admission.py": 20,
        "tests/cluster/test_poison.py": 20,
        "tests/cluster/test_priorities.py": 20,
        "tests/facts/test_tensors.py": 20,
        "tests/rebalance/test_replay.py": 20,
        "tests/testbed/test_command_line.py": 20,
        "tests/testbed/test_engines.py": 20,
        "tests/cluster/test_host_room.py": 15,
        "tests/browser/test_tabs.py": 10,
        "tests/cluster/test_fleet_export.py": 10,
        "tests/cluster/test_lying_pages.py": 10,
        "tests/cluster/test_scale_from_zero.py": 10,
        "tests/testbed/test_planes.py": 10,
        "tests/browser/test_progress.py": 5,
        "tests/cluster/test_learned_estimate.py": 5,
        "tests/cluster/test_lists.py": 5,
        "tests/cluster/test_placeholders.py": 5,
        "tests/cluster/test_restricted.py": 5,
        "tests/testbed/test_operator_process.py": 5,
    }
)
"""Seconds of a file by the clock and by the processor, added up, with two files at a time on two cores, by its path.

Only the order counts. A file that takes less than 20 s needs a row only if it is one of cluster tests.
"""

IN_TURN = frozenset(
    {
        "tests/browser/test_long_names.py",
        "tests/browser/test_outages.py",
        "tests/browser/test_static_calculator.py",
        "tests/browser/test_walkthrough.py",
        "tests/cluster/test_additions_in_vain.py",
        "tests/cluster/test_approvals.py",
        "tests/cluster/test_bad_places.py",
        "tests/cluster/test_bounds_of_changes.py",
        "tests/cluster/test_chart.py",
        "tests/cluster/test_console_live_use.py",
        "tests/cluster/test_console_people.py",
        "tests/cluster/test_console_rights.py",
        "tests/cluster/test_control_plane_faults.py",
        "tests/cluster/test_days_before.py",
        "tests/cluster/test_dependencies.py",
        "tests/cluster/test_disruption.py",
        "tests/cluster/test_making_room.py",
        "tests/cluster/test_namespaced.py",
        "tests/cluster/test_packing.py",
        "tests/cluster/test_plan_review.py",
        "tests/cluster/test_rejecting_kubelet.py",
        "tests/cluster/test_retune_rollback.py",
        "tests/cluster/test_rollback.py",
        "tests/cluster/test_sites.py",
        "tests/cluster/test_upgrade.py",
        "tests/cluster/test_weights.py",
    }
)
"""Long files: the usual run takes a third of them, and another third each day. Quicker tests prove much of the same.

``make test-cluster`` and ``make test-browser`` take all of them, and so does a run that is asked for some of them.
"""

DAYS = 3
"""Parts of the files in turn. They take about the same time, so no day is longer than another."""

NEW_SECONDS = 60
"""Seconds for a file of cluster tests that has no row yet."""


def without_waiting(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that run today, and those whose file is in turn on another day."""
    items = list(items)
    found = IN_TURN & {_path(item) for item in items}
    if everything() or found != IN_TURN:
        return items, []
    waiting = IN_TURN - parts()[day() % DAYS]
    return [each for each in items if _path(each) not in waiting], [each for each in items if _path(each) in waiting]


def parts() -> list[frozenset[str]]:
    """Return the files in turn of each day: the longest file that is left goes to the part with the least time."""
    files: list[set[str]] = [set() for _ in range(DAYS)]
    for file in sorted(IN_TURN, key=lambda name: (-SECONDS.get(name, NEW_SECONDS), name)):
        min(files, key=_seconds).add(file)
    return [frozenset(each) for each in files]


def _seconds(files: Iterable[str]) -> int:
    return sum(SECONDS.get(each, NEW_SECONDS) for each in files)


def longest_file_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The same tests; those of a file stay together and keep their order."""
    items = list(items)
    clustered = frozenset(item.path for item in items if item.get_closest_marker("cluster"))
    return sorted(items, key=partial(_rank, clustered))


def _rank(clustered: frozenset[Path], item: pytest.Item) -> int:
    return -SECONDS.get(_path(item), NEW_SECONDS if item.path in clustered else 0)


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT).as_posix()


STORY = "story"

_NUMBER = pytest.StashKey[int]()
_numbers = count()


def number(item: pytest.Item) -> None:
    """Note that an item is the next one of its file. Must see all items as they are found."""
    item.stash[_NUMBER] = next(_numbers)


def stories_in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The same tests. Where a plugin has shuffled them, the steps of a story go back into the order of their file."""
    items = list(items)
    steps: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker(STORY):
            steps[item.path].append(item)
    ordered: dict[Path, Iterator[pytest.Item]] = {
        path: iter(sorted(found, key=lambda item: item.stash[_NUMBER])) for path, found in steps.items()
    }
    return [next(ordered[item.path]) if item.get_closest_marker(STORY) else item for item in items]
