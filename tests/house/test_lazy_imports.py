"""A command imports what it needs to answer, and not what others need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.alone import command

pytestmark = pytest.mark.lengthy

OF_DECISIONS = frozenset(
    {
        "highspy", "kopf", "numpy", "plimsoll.adapters.highs", "plimsoll.app", "plimsoll.decision.decide",
        "plimsoll.placement.plan", "plimsoll.placement.solvers", "plimsoll.rebalance.decide", "plimsoll.simulation",
        "prometheus_client", "prometheus_api_client",
    }
)  # fmt: skip
"""The modules that a pass of the operator needs: solvers, exporters, the live loop."""

SLOW = frozenset({"aiohttp", "asyncio", "kubernetes", "pydantic", "plimsoll.api.v1alpha1", "yaml"})
"""The modules that take longer to import than to answer a plain question."""

_HELP_OF_LISTS = ("approve", "completion", "console", "gpus", "models", "prices", "reject", "run", "top")


@pytest.mark.parametrize("words", [("explain", "x"), ("approve", "x"), ("explain", "--help")], ids=" ".join)
def test_reading_an_object_of_a_cluster_needs_no_solver(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = command(list(words), tmp_path, refused=frozenset())
    assert "No cluster: " in ran.err or ran.status == 0, ran.err
    assert ran.modules & OF_DECISIONS == set()


@pytest.mark.parametrize("name", ["estimate", *_HELP_OF_LISTS])
def test_help_is_printed_without_anything_slow(name: str, tmp_path: Path) -> None:
    ran = command([name, "--help"], tmp_path, refused=frozenset())
    assert ran.status == 0, ran.err
    assert ran.modules & (SLOW | OF_DECISIONS) == set()
