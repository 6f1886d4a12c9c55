"""The input of a simulation: a kind of replica, how many there are, what comes, and what the policy may do.

One kind of replica: its estimate, the limits of its engine, and its speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plimsoll.domain.decisions.outcomes import Fit, Option, Target
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import Task
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.options.feasibility import hourly_price, sized
from plimsoll.placement.options.sizing import Sized
from plimsoll.rebalance.law.capacity import ReplicaModel, model_of
from plimsoll.rebalance.state.policy import RebalancePolicy
from plimsoll.simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """The limits of one engine, as its estimate and its settings give them."""

    kv_tokens: int
    max_num_seqs: int
    max_batched_tokens: int


@dataclass(frozen=True, slots=True)
class ReplicaKind:
    """One kind of replica: the request with its settings, the estimate, the limits of its engine, and its speed."""

    request: Request
    place: Sized
    limits: ReplicaLimits
    model: ReplicaModel

    @property
    def room_tokens(self) -> int:
        """The most tokens of a prompt and its answer: the context, or the whole KV cache if it is less."""
        block = self.place.figures.kv_block_tokens
        return min(self.place.settings.max_model_len, self.limits.kv_tokens // block * block)

    @property
    def option(self) -> Option:
        """The replica as the plan knows it. The labels of nodes decide nothing here."""
        gpu, split = self.place.gpu, self.place.split
        target = Target(gpu.name, split, ("gpu", gpu.name), "nvidia.com/gpu")
        return Option(gpu, target, self.place.settings, self.place.figures, hourly_price(gpu, split))

    def with_limits(self, limits: StepLimits) -> ReplicaKind | None:
        """Return the replica with other limits of a step; None if it would not fit then."""
        request, gpu, split = self.request.limited(limits), self.place.gpu, self.place.split
        place = Sized(gpu, split, *sized(request, gpu, split))
        return None if place.figures.fit is Fit.NO else kind_of_replica(request, place)


def kind_of_replica(request: Request, place: Sized) -> ReplicaKind:
    """Return one replica of a deployment on a GPU type.

    Raises:
        InvalidInput: it cannot be simulated.
    """
    split, figures, settings = place.split, place.figures, place.settings
    if request.model.task is not Task.GENERATE:
        raise InvalidInput("model", request.model.name, "Name a model that generates; this one pools.")
    if split.data_parallel > 1 or split.pipeline_parallel > 1:
        raise InvalidInput("split", str(tuple(split)), "Name a split with tensor parallelism alone.")
    if figures.fit is Fit.NO:
        missing = figures.needed_bytes - figures.budget_bytes
        fix = f"{format_gib(missing)} are missing on each GPU. Use more GPUs, a shorter context or fewer requests."
        raise InvalidInput("gpu", place.gpu.name, fix)
    model = model_of(request, place.gpu, split, figures.kv_capacity_tokens)
    if model is None:
        raise InvalidInput("model", request.model.name, "The performance model does not know it on this GPU type.")
    own = settings.limits
    sequences = min(own.sequences, figures.max_sequences or own.sequences)
    limits = ReplicaLimits(figures.kv_capacity_tokens, sequences, own.step_tokens)
    return ReplicaKind(request, place, limits, model.limited(StepLimits(sequences=sequences)))


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

    kind: ReplicaKind
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
        ranges: tuple[tuple[str, float, float, float], ...] = (
            ("max-replicas", self.policy.max_replicas, 1, MOST_REPLICAS),
            ("min-replicas", self.policy.min_replicas, 1, self.policy.max_replicas),
            ("replicas", self.replicas, 1, MOST_REPLICAS),
            ("startup", self.startup_seconds, 1, MOST_STARTUP_SECONDS),
            ("patience", self.patience_seconds, 1, MOST_STARTUP_SECONDS),
            ("drain", self.drain_seconds, 0, MOST_STARTUP_SECONDS),
            ("sample-seconds", self.sample_seconds, 1, self.workload.seconds),
        )
        for field, value, least, most in ranges:
            if not least <= value <= most:
                raise InvalidInput(field, value, f"Use {least:,g} to {most:,g}.")
        longest = self.workload.prompt_tokens + self.workload.output_tokens
        if longest > self.kind.room_tokens:
            fix = f"A replica takes {self.kind.room_tokens:,} tokens of a prompt with its answer. Use a longer context."
            raise InvalidInput("prompt + output", longest, fix)
