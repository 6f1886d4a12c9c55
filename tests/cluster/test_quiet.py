"""A cluster in which nothing changes: not one write in many passes and lists, and a process that does not grow.

:mod:`tests.support.hurried` makes a pass every few seconds in place of every minute. Lists are as frequent.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.audit import AuditLog
from testbed.fleet import gpu_node, mixed_fleet
from testbed.judge import Judge
from testbed.operator_process import OperatorProcess
from tests.support import hurried
from tests.support.faulty import passes
from tests.support.hurried import Wait
from tests.support.installed import LLAMA_8B, View, condition, install, namespace_of, on_gpu, operator_writes
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

QUIET_SECONDS = 20.0
QUIET_PASSES = 6
SETTLED_SECONDS = 4.0
LARGEST_MIB = 256
"""Twice what the process takes with this little to look at; a leak would pass it, a busy machine does not."""


@pytest.fixture(scope="module")
def here() -> Iterator[View]:
    spare = [gpu_node(f"spare-{index}", "L40S", 4) for index in range(10)]
    with borrowed_plane([*mixed_fleet(), *spare], judged=True) as control_plane, Judge(control_plane.client):
        install(control_plane)
        with namespace_of(control_plane, "quiet") as view:
            yield view


def test_a_settled_cluster_sees_no_write(here: View) -> None:
    plane = here.control_plane
    foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "conflict", "namespace": here.namespace}}
    plane.apply([foreign | {"spec": {"ports": [{"port": 80}]}}])
    here.apply("placed")
    here.apply("spread", replicas=10, gpu={"allow": ["h100-sxm-80gb", "a100-sxm-80gb"]})
    here.apply("impossible", model={"name": "meta-llama/Llama-3.3-70B-Instruct"}, contextLength=131072, concurrency=512)
    here.apply("waiting", **on_gpu("h100-sxm-80gb", 8))
    here.apply("invalid", precision="awq")
    here.apply("unknown", model={"name": "house/odd", "config": {"architectures": ["RwkvForCausalLM"], "ssm_cfg": {}}})
    too_small = on_gpu("h100-sxm-80gb", 1, memoryPerGpu="70Gi")
    here.apply("crashing", model={"name": "meta-llama/Llama-3.3-70B-Instruct"}, **too_small)
    here.apply("zero", replicas=0)
    here.apply("asleep", suspend=True)
    here.apply("conflict", **on_gpu("l40s-48gb"))
    here.apply("expected", model={"name": LLAMA_8B}, expectedTokens={"prompt": 512, "output": 128}, concurrency=64)
    environment = hurried.environment(Wait.REST) | {"PLIMSOLL_RELIST_SECONDS": "5"}
    with OperatorProcess(plane, environment=environment, module=hurried.MODULE) as operator:
        for name in ("placed", "spread", "expected"):
            here.wait_ready(name)
        reasons = {
            name: here.wait_condition(name, "Ready", status, reason)
            for name, status, reason in (
                ("impossible", "False", "NoGpuFits"),
                ("waiting", "False", "WaitingForGpus"),
                ("invalid", "False", "InvalidSpec"),
                ("unknown", "False", "UnsupportedModel"),
                ("crashing", "False", "WeightsDoNotFit"),
                ("zero", "True", "ScaledToZero"),
                ("asleep", "True", "Suspended"),
                ("conflict", "False", "NameConflict"),
            )
        }
        assert condition(reasons["impossible"], "Stalled")["message"]
        wait_until_settled(here)
        pods = sorted(pod["metadata"]["uid"] for pod in here.all("pods"))
        since, memory, threads = AuditLog(plane.audit_log).offset(), resident_mib(operator), thread_count(operator)

        watch(here, operator, since)

        written = operator_writes(plane, since)
        assert Counter(f"{event.verb} {event.resource} {event.name}" for event in written) == {}
        assert sorted(pod["metadata"]["uid"] for pod in here.all("pods")) == pods
        plane.kubectl("label", "namespace", here.namespace, "seen=true")
        assert AuditLog(plane.audit_log).events(since, resource="namespaces"), "a log that holds nothing proves nothing"
        assert resident_mib(operator) < LARGEST_MIB
        assert resident_mib(operator) - memory < 8
        assert thread_count(operator) <= threads + 1
        assert operator.healthy()
        assert [line for line in operator.log_lines() if "Traceback" in line] == []


def wait_until_settled(here: View) -> None:
    """Until the operator has written nothing for some seconds."""
    seen = [time.monotonic(), 0.0]

    def is_still() -> bool:
        count = float(len(operator_writes(here.control_plane)))
        if count != seen[1]:
            seen[:] = [time.monotonic(), count]
        return time.monotonic() - seen[0] > SETTLED_SECONDS

    here.wait(is_still, "no write for some seconds", timeout=60)


def watch(here: View, operator: OperatorProcess, since: int) -> None:
    """A while with many passes, cut short by the first write: there is nothing to wait for after it."""
    end, enough = time.monotonic() + QUIET_SECONDS, passes(operator) + QUIET_PASSES

    def is_over() -> bool:
        return time.monotonic() >= end and passes(operator) >= enough

    here.wait(lambda: is_over() or operator_writes(here.control_plane, since), "many passes")


def resident_mib(operator: OperatorProcess) -> int:
    """Resident memory, from the kernel."""
    return _status(operator, "VmRSS") // 1024


def thread_count(operator: OperatorProcess) -> int:
    """Threads, from the kernel."""
    return _status(operator, "Threads")


def _status(operator: OperatorProcess, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{operator.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])
