"""The view of a scaling law at one moment, and its answer.

Times are in seconds since the start of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from plimsoll.simulation.values import EngineLimits, Sample


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod as Kubernetes and Prometheus show it. ``samples`` are those of the last ten minutes, the oldest first.

    ``ready_since`` is None while it starts. A pod that is not placed waits for a GPU. A pod that drains is not shown.
    """

    name: str
    created_at: float
    ready_since: float | None
    samples: tuple[Sample, ...] = ()
    is_placed: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """The view of a policy at one tick. ``has_metrics`` is False while Prometheus does not answer.

    ``held`` are the requests that wait in the gateway because no replica is ready. The gateway is always seen.
    ``past`` has the requests a second that got a first token, summed over all pods that ever were, as Prometheus gives
    them for the days before and for the run so far: the ends of equal steps, and rates. ``free`` are the replicas for
    which GPUs are free; None: there are always more.
    """

    now: float
    wanted: int
    pods: tuple[PodView, ...]
    has_metrics: bool
    engine: EngineLimits
    min_replicas: int
    max_replicas: int
    declared_concurrency: int
    ttft_seconds: float
    tpot_seconds: float
    held: int = 0
    past: Sequence[tuple[float, float]] = ()
    free: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The replicas that are wanted from now on, the engines' limit of requests at the same time, and their step.

    With another limit or step than before, all replicas are replaced one after another: each new one serves before an
    old one goes. None keeps what is. While one replica is to be replaced there is one more (``replaces``), and then the
    pod ``ends``.
    """

    replicas: int
    max_num_seqs: int | None = None
    max_batched_tokens: int | None = None
    replaces: bool = False
    ends: str = ""


class Policy(Protocol):
    """Says how many replicas there shall be. It may remember what it saw.

    ``tick_seconds`` is the time between two calls. The answer is clamped to the scenario's bounds.
    """

    tick_seconds: float

    def __call__(self, view: View) -> int | Order:
        """Return the number of replicas that is wanted from now on, or an order."""


class FleetSizes(Protocol):
    """The numbers of replicas that a law is made for."""

    @property
    def start_replicas(self) -> int:
        """Replicas that serve at the beginning."""

    @property
    def max_replicas(self) -> int:
        """The most that a law may ask for."""


Maker = Callable[[FleetSizes], Policy]
"""Makes a fresh policy for one run."""
