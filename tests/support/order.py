"""The order in which several workers take the files of tests.

The longest come first. A file is one worker's alone, and the others have nothing to do while it ends a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).resolve().parents[2]

SECONDS: Mapping[str, int] = MappingProxyType(
    {
        "tests/cluster/test_two_operators.py": 440,
        "tests/cluster/test_dependencies.py": 420,
        "tests/cluster/test_chart.py": 350,
        "tests/cluster/test_control_plane_faults.py": 300,
        "tests/cluster/test_killed_while_rebalancing.py": 60,
        "tests/cluster/test_plan_review.py": 270,
        "tests/cluster/test_live_loop.py": 220,
        "tests/cluster/test_faults.py": 200,
        "tests/cluster/test_console_live_use.py": 180,
        "tests/cluster/test_approvals.py": 160,
        "tests/cluster/test_upgrade.py": 150,
        "tests/cluster/test_what_users_do.py": 150,
        "tests/cluster/test_zero.py": 130,
        "tests/cluster/test_live_decisions.py": 130,
        "tests/cluster/test_packing.py": 110,
        "tests/cluster/test_fleet_export.py": 110,
        "tests/cluster/test_lifecycle.py": 110,
        "tests/testbed/test_control_plane.py": 110,
        "tests/cluster/test_poison.py": 60,
        "tests/browser/test_static_calculator.py": 60,
        "tests/console/test_calculator.py": 60,
        "tests/app/test_poison_and_faults.py": 40,
        "tests/cluster/test_quiet.py": 90,
        "tests/cluster/test_judge.py": 90,
        "tests/cluster/test_rollback.py": 80,
        "tests/cluster/test_console_approvals.py": 80,
        "tests/cluster/test_console_people.py": 75,
        "tests/cluster/test_admission.py": 70,
        "tests/cluster/test_priorities.py": 70,
        "tests/cluster/test_two_labels.py": 70,
        "tests/cluster/test_host_room.py": 60,
        "tests/browser/test_pages.py": 90,
        "tests/testbed/test_kubelet.py": 60,
        "tests/browser/test_outages.py": 50,
        "tests/browser/test_walkthrough.py": 80,
        "tests/testbed/test_engines.py": 40,
        "tests/cluster/test_namespaced.py": 30,
        "tests/testbed/test_command_line.py": 30,
        "tests/browser/test_tabs.py": 20,
        "tests/cluster/test_restricted.py": 20,
        "tests/cluster/test_console_rights.py": 170,
        "tests/cluster/test_alerts.py": 20,
        "tests/facts/test_tensors.py": 210,
        "tests/benchmarks/test_rebalance_scenarios.py": 180,
        "tests/cli/test_imports.py": 100,
        "tests/benchmarks/test_placement.py": 90,
        "tests/cli/test_snapshot.py": 80,
        "tests/rebalance/test_replay.py": 70,
        "tests/benchmarks/test_rebalance_policies.py": 50,
        "tests/simulation/test_physics.py": 30,
        "tests/console/test_simulator.py": 20,
    }
)
"""Seconds that a file takes while several run at a time on two busy cores, by its path; ``--durations=0`` shows them.

Only the order counts. A file that takes less than 20 s does not need a row.
"""

NEW_SECONDS = 60
"""Seconds for a file of cluster tests that has no row yet."""


def longest_file_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The same tests; those of a file stay together and keep their order."""
    items = list(items)
    clustered = frozenset(item.path for item in items if item.get_closest_marker("cluster"))
    return sorted(items, key=partial(_rank, clustered))


def _rank(clustered: frozenset[Path], item: pytest.Item) -> int:
    return -SECONDS.get(item.path.relative_to(ROOT).as_posix(), NEW_SECONDS if item.path in clustered else 0)
