"""What is tried, and what is written down about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.faults import Delay, Fault, Verb, too_many_requests


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run.

    Attributes:
        objects: InferenceDeployments that are created as fast as the API server takes them.
        nodes: fake nodes of eight GPUs.
        fault: what the operator's requests meet until everything serves.
        share: share of the requests that meet it.
        limit_seconds: when it counts as failed.
        hopeless: further objects that no node can hold, half of them too large for every GPU there is and half of them
            for a GPU that there is none of.
        bare: no operator; the workloads that it would render are created directly. This is the floor of the others.
        busy: another tenant changes 30 costly objects all the time, 25 times a second. Nothing ever settles then.
    """

    objects: int
    nodes: int
    fault: Fault | None = None
    share: float = 1.0
    limit_seconds: float = 900.0
    verbs: frozenset[Verb] = frozenset({Verb.READ, Verb.WRITE})
    hopeless: int = 0
    bare: bool = False
    busy: bool = False


SCENARIOS = {
    "300": Scenario(300, 60),
    "300-latency": Scenario(300, 60, Delay(0.1)),
    "300-refusals": Scenario(300, 60, too_many_requests(1), share=0.5),
    "300-and-40-unplaceable": Scenario(300, 60, hopeless=40),
    "1000-without-operator": Scenario(1000, 1250, bare=True),
    "1000": Scenario(1000, 1250),
    "1000-and-a-busy-neighbour": Scenario(1000, 1250, busy=True),
}


@dataclass(slots=True)
class Figures:
    """What was measured; None: not in time.

    Attributes:
        objects: how many.
        nodes: how many.
        creating_seconds: how long it took to create the objects.
        first_deployment_seconds: from the first object created until the first Deployment.
        last_deployment_seconds: from the first object created until every object had a Deployment.
        serving_seconds: from the first object created until every object served.
        health: answers of ``/healthz``, one a second, by HTTP status; 0 for none.
        rss_mib: resident memory when everything served.
        settled_cpu_share: share of one core over five minutes in which nothing changes.
        new_object_seconds: from the creation of one more object to its pod.
        writes_when_settled: requests of the operator that change something, in these five minutes.
        writes: requests of the operator that change something, until everything served, by kind of object.
        cpu_seconds: CPU time until everything served, by process.
    """

    objects: int
    nodes: int
    creating_seconds: float = 0.0
    first_deployment_seconds: float | None = None
    last_deployment_seconds: float | None = None
    serving_seconds: float | None = None
    health: dict[int, int] = field(default_factory=dict)
    rss_mib: int = 0
    settled_cpu_share: float | None = None
    new_object_seconds: float | None = None
    writes_when_settled: int | None = None
    writes: dict[str, int] = field(default_factory=dict)
    cpu_seconds: dict[str, int] = field(default_factory=dict)
