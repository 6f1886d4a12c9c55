"""One tenant's nonsense and forgeries, and a killed operator: another tenant is placed, updated and deleted as usual.

``tests/app/test_poison_and_faults.py`` tries every order of them in memory. Here is one short mixture on a real API
server; ``make poison`` has the long ones.
"""

from __future__ import annotations

import logging
import os
import random
import time

import pytest

from testbed.control_plane import ControlPlane
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support.faulty import Calm, sampled_health
from tests.support.forgery import EDITED_STATUSES, edit_status, forged_deployment
from tests.support.fuzz import SpecFuzzer
from tests.support.honest import Honest
from tests.support.installed import LLAMA_8B, View, on_gpu
from tests.support.poison import POISONED_SPECS, assert_explained, clear, create

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(7200)]
at_length = pytest.mark.at_length

OBJECTS = int(os.environ.get("PLIMSOLL_POISON_OBJECTS", "60"))
SEED = int(os.environ.get("PLIMSOLL_POISON_SEED", "20261122"))
BATCH = 20
MINIMAL = {"model": {"name": LLAMA_8B}, "contextLength": 4096, "concurrency": 6}
TRACEBACKS = 3
"""An object that could not be handled may say so once with its stack; it must not do so again and again."""

logger = logging.getLogger(__name__)


MIXTURE = ("env-of-numbers", "volume-twice", "quantity-is-endless", "a-thousand-replicas", "config-very-deep")


def test_a_mixture_of_poison_forgeries_and_a_kill_hurts_no_other_tenant(
    operator: OperatorProcess, honest: Honest, here: View
) -> None:
    here.apply("real", **on_gpu("mi300x-192gb"))
    owner = here.wait_ready("real")
    calm = Calm.now(operator)
    with honest.standing():
        admitted = [name for name in MIXTURE if create(here, name, POISONED_SPECS[name])]
        here.control_plane.apply([forged_deployment("record-is-a-list", owner, "[]", 2_000_000)])
        edited = [name for name, status in EDITED_STATUSES.items() if edit_status(here, "real", status)]
        honest.assert_served()
        assert_explained(here, admitted)
        calm.assert_kept(tracebacks=TRACEBACKS)
        operator.kill()
        here.patch("real", {"contextLength": 8192})
        operator.start()
        here.wait_ready("real", timeout=120)  # a new process waits for the lease of the dead one
        honest.assert_served()
    assert [pool["name"] for pool in here.pools("real") if pool["replicas"] == pool["readyReplicas"]] == [
        "mi300x-192gb-tp1"
    ]
    assert admitted, "nothing was admitted, so nothing was tried"
    assert edited, "no status was edited"


@at_length
def test_no_spec_that_is_admitted_hurts_another_tenant(operator: OperatorProcess, honest: Honest, here: View) -> None:
    calm = Calm.now(operator)
    with sampled_health(operator) as health, honest.standing():
        admitted = [name for name, spec in POISONED_SPECS.items() if create(here, name, spec)]
        honest.assert_served()
        assert_explained(here, admitted)
        clear(here)
        honest.assert_served()
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS)
    assert admitted, "nothing was admitted, so nothing was tried"


@at_length
def test_nonsense_in_the_price_list_hurts_nobody(
    control_plane: ControlPlane, operator: OperatorProcess, honest: Honest
) -> None:
    words = {"l4-24gb": "cheap", "h100-sxm-80gb": "-1", "a100-sxm-80gb": "1e999999", "": "NaN", "no-such-gpu": "1"}
    data = {name or "empty": text for name, text in words.items()} | {"l40s-48gb": "9" * 5000, "huge": "x" * 100_000}
    prices = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plimsoll-prices", "namespace": NAMESPACE}}
    calm = Calm.now(operator)
    control_plane.apply([prices | {"data": data}])
    try:
        control_plane.wait_until(lambda: "is no price" in "\n".join(calm.new_lines()), 60, "a complaint in the log")
        honest.assert_served()
    finally:
        control_plane.kubectl("delete", "configmap", "plimsoll-prices", "--namespace", NAMESPACE)
    assert max(len(line) for line in calm.new_lines()) < 10_000, "a value of 100,000 characters was logged whole"
    calm.assert_kept(tracebacks=0)


@at_length
def test_no_fuzzed_object_hurts_another_tenant(operator: OperatorProcess, honest: Honest, here: View) -> None:
    """The numbers of the specs in a failure make it repeatable with its seed."""
    calm, fuzzer, admitted = Calm.now(operator), SpecFuzzer(SEED, MINIMAL), 0
    with sampled_health(operator) as health:
        for first in range(0, OBJECTS, BATCH):
            numbers = range(first, min(first + BATCH, OBJECTS))
            began = time.monotonic()
            made = {number: create_fuzzed(here, fuzzer, number) for number in numbers}
            names = [f"fuzz-{number}" for number, was_admitted in made.items() if was_admitted]
            logger.info("%s admitted: %s", len(names), {number: fuzzer.spec(number)[0] for number in made})
            honest.assert_served()
            assert_explained(here, names)
            clear(here)
            admitted += len(names)
            logger.info("%.0f s; %s", time.monotonic() - began, honest.laps[-1])
    assert health.bad == []
    calm.assert_kept(tracebacks=TRACEBACKS + OBJECTS // 100, lines=3000 + 50 * OBJECTS)
    assert admitted >= OBJECTS // 20, "a generator whose objects are all refused tries nothing"


def create_fuzzed(view: View, fuzzer: SpecFuzzer, number: int) -> bool:
    """Create the object of this number, with nonsense in its metadata as well."""
    _, spec = fuzzer.spec(number)
    dice = random.Random(f"{SEED}/metadata/{number}")  # noqa: S311 - must be repeatable, not secret
    ours = ("plimsoll.dev/pool-record", "plimsoll.dev/rendered", "kubectl.kubernetes.io/last-applied-configuration")
    annotations = {key: dice.choice(("", "{", "[]", "null", "x" * 10_000)) for key in dice.sample(ours, 2)}
    labels = {"plimsoll.dev/deployment": dice.choice(("", "other", "fuzz-0")), "app.kubernetes.io/managed-by": "x"}
    return create(view, f"fuzz-{number}", spec, annotations=annotations, labels=labels)
