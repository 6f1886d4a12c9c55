"""The input of a simulation: a kind of replica, how many there are, what comes, and what the policy may do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.state.memory import FIRST_STARTUP_SECONDS
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.simulation.kind import Kind
from plimsoll.simulation.workload import Workload

MOST_REPLICAS: Final = 50
MOST_STARTUP_SECONDS: Final = 7200.0

USUAL_PATIENCE_SECONDS: Final = 60.0
USUAL_SCRAPE_SECONDS: Final = 15.0
MANY_REPLICAS: Final = 16
"""With more replicas, the simulated Prometheus scrapes every 30 s: the longest time that the operator's documentation
allows. The live loop then reads half as many samples, and a run takes half as long."""


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """The subject of a simulation.

    Attributes:
        kind: one replica.
        workload: the requests.
        policy: the bounds of the live loop, with the fewest and the most replicas.
        replicas: those that serve at the beginning.
        startup_seconds: from the creation of a replica until it serves. The loop knows it from the first replicas.
        patience_seconds: how long a client waits for its first token before it gives up.
        drain_seconds: how long a removed replica may finish its requests.
        sample_seconds: the time between two moments of the answer.
        seed: of the moments, the lengths and the routes of requests.
    """

    kind: Kind
    workload: Workload
    policy: RebalancePolicy
    replicas: int = 1
    startup_seconds: float = FIRST_STARTUP_SECONDS
    patience_seconds: float = USUAL_PATIENCE_SECONDS
    drain_seconds: float = 90.0
    sample_seconds: float = 15.0
    seed: int = 1

    @property
    def scrape_seconds(self) -> float:
        """The time between two scrapes of a pod, and between two turns of the live loop.

        In a cluster, turns come more often. Those without new samples mostly decide the same again.
        """
        most = max(self.replicas, self.policy.max_replicas)
        return USUAL_SCRAPE_SECONDS if most <= MANY_REPLICAS else 2 * USUAL_SCRAPE_SECONDS

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated.

        Raises:
            InvalidInput: a figure is out of its range.
        """
        for field, value, least, most in self._ranges():
            if not least <= value <= most:
                raise InvalidInput(field, value, f"Use {least:,g} to {most:,g}.")
        longest = self.workload.prompt_tokens + self.workload.output_tokens
        if longest > self.kind.room_tokens:
            fix = f"A replica takes {self.kind.room_tokens:,} tokens of a prompt with its answer. Use a longer context."
            raise InvalidInput("prompt + output", longest, fix)

    def _ranges(self) -> Iterator[tuple[str, float, float, float]]:
        yield "max-replicas", self.policy.max_replicas, 1, MOST_REPLICAS
        yield "min-replicas", self.policy.min_replicas, 1, self.policy.max_replicas
        yield "replicas", self.replicas, 1, MOST_REPLICAS
        yield "startup", self.startup_seconds, 1, MOST_STARTUP_SECONDS
        yield "patience", self.patience_seconds, 1, MOST_STARTUP_SECONDS
        yield "drain", self.drain_seconds, 0, MOST_STARTUP_SECONDS
        yield "sample-seconds", self.sample_seconds, 1, self.workload.seconds
