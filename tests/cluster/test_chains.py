"""Random chains of faults, by seed: in the end everything is as if nothing had happened.

Run by ``make chaos``. ``tests/app/test_poison_and_faults.py`` has chains of faults in memory.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from testbed.audit import AuditLog
from testbed.control_plane import ControlPlane
from testbed.fault_proxy import FaultProxy
from testbed.fleet import mixed_fleet
from testbed.operator_process import USER
from tests.support.chains import Stage, Watchman, bench_nodes, bench_spec, end_state, volumes_of
from tests.support.faulty import fault_proxy, operator_through
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import View, inference_deployment, install, namespace_of
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.at_length, pytest.mark.timeout(1200)]

OBJECTS = int(os.environ.get("PLIMSOLL_CHAOS_OBJECTS", "12"))
SEEDS = range(int(os.environ.get("PLIMSOLL_CHAOS_SEEDS", "2")))
PAUSE_SECONDS = 5.0 if OBJECTS <= 12 else 20.0
LENGTH = 3
STRANDED_SECONDS = "10"
"""As long as the operator's default: what it hears of volumes until then is part of the chains."""
SETTLED_SECONDS = 60.0 + 2 * OBJECTS

FAULTS = tuple(os.environ.get("PLIMSOLL_CHAOS_FAULTS", "").split(","))
"""Each chain has a fault whose name begins like one of these; all names begin like the default."""

logger = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        running.apply([*mixed_fleet(), *honest_nodes(), *bench_nodes(OBJECTS)])
        install(running)
        yield running


@pytest.fixture(scope="module")
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with fault_proxy(control_plane) as running:
        yield running


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, proxy: FaultProxy) -> Iterator[Stage]:
    settings = {"PLIMSOLL_RELIST_SECONDS": "10", "PLIMSOLL_STRANDED_SECONDS": STRANDED_SECONDS}
    with (
        namespace_of(control_plane, "poison") as poison,
        operator_through(control_plane, proxy, environment=settings) as operator,
    ):
        yield Stage(control_plane, operator, proxy, poison, OBJECTS, PAUSE_SECONDS)


@pytest.fixture(scope="module")
def honest(stage: Stage) -> Iterator[Honest]:
    with namespace_of(stage.control_plane, "tenant-honest") as view:
        tenant = Honest(view)
        tenant.measure()
        yield tenant


@pytest.fixture(scope="module")
def undisturbed(stage: Stage, honest: Honest) -> dict[str, Any]:
    """The end state when the same is done and nothing goes wrong."""
    assert honest.usual
    with namespace_of(stage.control_plane, "undisturbed") as view:
        make_volumes(view)
        for step in range(LENGTH):
            act(view, step)
        return settled(
            stage, view, lambda state: len(state) == OBJECTS and all(is_served(one) for one in state.values())
        )


def make_volumes(view: View) -> None:
    """The volumes of the objects are there before them."""
    for own in volumes_of(view, OBJECTS).values():
        own.make()


def act(view: View, step: int) -> None:
    """What the user does before, between and after the faults: create, change, delete and create again, scale."""
    if step == 0:
        manifests = [inference_deployment(f"chained-{n}", view.namespace, **bench_spec(n)) for n in range(OBJECTS)]
        view.control_plane.apply(manifests)
    elif step == 1:
        for number in range(0, OBJECTS, 3):
            view.patch(f"chained-{number}", {"contextLength": 8192})
    else:
        view.delete("inferencedeployments", f"chained-{OBJECTS - 1}")
        view.wait(lambda: not view.get(f"chained-{OBJECTS - 1}"), "it deleted")
        view.apply(f"chained-{OBJECTS - 1}", **bench_spec(OBJECTS - 1, contextLength=2048))
        view.patch("chained-1", {"replicas": 1})
        view.patch("chained-2", {"replicas": 2})


def is_served(state: dict[str, Any]) -> bool:
    """Whether an object serves what its newest spec says."""
    wanted = sum(pool[3] for pool in state["pools"])
    return bool(state["ready"] == "Serving" and state["current"] and len(state["contexts"]) == wanted)


def settled(stage: Stage, view: View, is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait for the end state, or give back the last one. An operator that ends is started again, as a kubelet does."""
    end = time.monotonic() + SETTLED_SECONDS
    state: dict[str, Any] = {}

    def reached() -> bool:
        nonlocal state
        if not stage.operator.is_running:
            stage.operator.start()
        state = end_state(view)
        return is_right(state) or time.monotonic() > end

    view.wait(reached, "the end state", SETTLED_SECONDS + 30)
    return state


def created_twice(control_plane: ControlPlane, since: int, view: View) -> set[tuple[str, str]]:
    """Return the objects that the operator has created again although nobody had deleted them."""
    standing = Counter[tuple[str, str]]()
    twice = set()
    for event in AuditLog(control_plane.audit_log).events(since):
        what = event.resource, event.name
        if event.namespace != view.namespace or event.resource == "events":
            continue
        if event.verb == "delete" and event.status < 300:
            standing[what] = 0
        elif event.user == USER and event.status == 201:
            standing[what] += 1
            twice |= {what} if standing[what] > 1 else set()
    return twice


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_of_faults_ends_as_if_nothing_had_happened(
    stage: Stage, honest: Honest, undisturbed: dict[str, Any], seed: int
) -> None:
    dice = random.Random(f"chain/{seed}")  # noqa: S311 - must be repeatable, not secret
    since = AuditLog(stage.control_plane.audit_log).offset()
    with namespace_of(stage.control_plane, f"chain-{seed}") as view:
        make_volumes(view)
        faults = stage.faults(dice, view)
        chain = dice.sample(sorted(faults), LENGTH)
        while not any(name.startswith(FAULTS) for name in chain):
            chain = dice.sample(sorted(faults), LENGTH)
        logger.info("seed %d: %s", seed, chain)
        watchman = Watchman(view)
        with honest.standing(f"stands-{seed}"), watchman.watching():
            with ExitStack() as stack:
                for step, name in enumerate(chain):
                    stack.enter_context(faults[name]())
                    act(view, step)
            began = time.monotonic()
            state = settled(stage, view, lambda found: found == undisturbed)
            for name, one in state.items():
                if one != undisturbed.get(name):
                    logger.info("%s: %s; it says %s", name, one, view.get(name).get("status"))
            wrong = {name: one for name, one in state.items() if one != undisturbed.get(name)}
            assert wrong == {}, f"after {chain}; undisturbed: {[undisturbed.get(name) for name in wrong]}"
            assert state == undisturbed
            logger.info("seed %d: settled %.0f s after the last fault", seed, time.monotonic() - began)
            honest.assert_served()
        assert watchman.rounds > 5
        assert watchman.broken == [], f"after {chain}"
        assert created_twice(stage.control_plane, since, view) == set(), f"after {chain}"
    assert stage.operator.healthy()
