"""Nonsense that no schema refuses, as under an older or an edited CRD: the tenant next door is served as usual.

Run by ``make poison``. ``tests/app/test_poison_and_faults.py`` has the same nonsense in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import mixed_fleet
from testbed.operator_process import OperatorProcess
from tests.support.faulty import Calm, sampled_health
from tests.support.forgery import STATUSES_OF_WORDS
from tests.support.fuzz import SpecFuzzer
from tests.support.honest import Honest, honest_nodes
from tests.support.installed import LLAMA_8B, View, install, on_gpu
from tests.support.planes import borrowed_plane
from tests.support.poison import FAR_FROM_THE_TYPE, POISONED_SPECS, assert_explained, clear, create, opened_crd

pytestmark = [pytest.mark.cluster, pytest.mark.at_length]

TRACEBACKS = 3
WILD = 20
MINIMAL = {"model": {"name": LLAMA_8B}, "contextLength": 4096, "concurrency": 6}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with borrowed_plane() as running:
        running.apply([*mixed_fleet(), *honest_nodes()])
        install(running)
        running.apply([opened_crd()])
        yield running


def test_no_nonsense_that_reaches_the_operator_hurts_another_tenant(
    operator: OperatorProcess, honest: Honest, here: View
) -> None:
    calm, fuzzer = Calm.now(operator), SpecFuzzer(7, MINIMAL, wild=0.9)
    specs: dict[str, Mapping[str, Any]] = {
        **POISONED_SPECS,
        **FAR_FROM_THE_TYPE,
        **{f"wild-{n}": fuzzer.spec(n)[1] for n in range(WILD)},
    }
    with sampled_health(operator) as health, honest.standing():
        admitted = [name for name, spec in specs.items() if create(here, name, spec)]
        honest.assert_served()
        assert_explained(here, admitted)
        clear(here)
    assert {*FAR_FROM_THE_TYPE} <= {*admitted}
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS)


def test_no_status_that_reaches_the_operator_hurts_another_tenant(
    operator: OperatorProcess, honest: Honest, here: View
) -> None:
    for name in STATUSES_OF_WORDS:
        here.apply(name, **on_gpu("mi300x-192gb"))
    for name in STATUSES_OF_WORDS:
        here.wait_ready(name)
    calm = Calm.now(operator)
    with sampled_health(operator) as health, honest.standing():
        for name, status in STATUSES_OF_WORDS.items():
            here.patch_object("inferencedeployments", f"{name}/status", {"status": status})
        honest.assert_served()
        here.wait(lambda: all(is_repaired(here, name) for name in STATUSES_OF_WORDS), "every status as it should be")
    for name in STATUSES_OF_WORDS:
        here.wait_ready(name)
        assert len(here.pods(name)) == 1
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS)


def is_repaired(view: View, name: str) -> bool:
    """Whether the status is again one that this release writes."""
    status = view.get(name).get("status") or {}
    pools, conditions = status.get("pools"), status.get("conditions")
    if not (isinstance(pools, list) and isinstance(conditions, list)):
        return False
    named = [entry.get("type") if isinstance(entry, dict) else entry for entry in conditions]
    return "Ready" in named and [pool["name"] for pool in pools if isinstance(pool, dict)] == ["mi300x-192gb-tp1"]
