"""The words of the benchmark: engines, scenarios, and what came of a run.

Times are in seconds since the start of a run, lengths in tokens. All values are frozen, and everything random is drawn
from a seed, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.simulation.peers.view import Policy
from plimsoll.simulation.values import AnsweredRequest, Arrival, InjectedFault, Routing
from plimsoll.simulation.verdicts import Change

SPEED_ERROR: Final = 0.12
"""About the error of the performance model in rows of models that were held back from its fit (``checking.py``)."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One replica: the model on its GPUs, and the settings of the engine.

    ``kv_tokens`` is the KV cache, ``max_num_seqs`` and ``max_batched_tokens`` are vLLM's flags. ``hourly_price`` is in
    US dollars for all GPUs of the replica. ``context_tokens`` is the most that a prompt and its answer have together.
    """

    model: str
    gpu_type: str
    tensor_parallel: int
    kv_tokens: int
    max_num_seqs: int
    max_batched_tokens: int
    hourly_price: float
    context_tokens: int = 131_072


@dataclass(frozen=True, slots=True)
class Scenario:
    """One situation.

    Attributes:
        name: a short name, as the tables print it.
        engine: one replica.
        seconds: how long the run is measured. Requests that are under way then are served to their end.
        arrivals: the requests in the order of their arrival, from a seed. A run cuts those that its engine cannot hold.
        start_replicas: replicas that serve at the beginning.
        min_replicas: the least that a policy may ask for.
        max_replicas: the most that a policy may ask for.
        cold_start_seconds: from the creation of a replica until it serves, times a factor of ``cold_start_spread``.
        cold_start_spread: the least and the largest factor.
        scrape_seconds: the time between two scrapes of a pod. Each pod has a phase of its own.
        drain_seconds: how long a removed replica may finish its requests; after that they are lost.
        patience_seconds: how long a client waits for its first token before it gives up.
        ttft_seconds: the promise for the first token.
        tpot_seconds: the promise for each later token, as the mean of a request.
        routing: how a request finds its replica.
        faults: what breaks.
        declared_concurrency: requests at the same time of one replica, as the user declares them.
        speed_error: how far the true speed is from the operator's performance model: the standard deviation of the
            logarithm of a factor on the time of every step. A seed has one factor, the same for all policies, so that
            no policy knows the speed.
        tries: how often a client sends a request in all, if it gives up each time.
        neighbour: another deployment on the same GPUs, with the same law; None: there is none.
        stock: replicas for which there are GPUs, of both deployments together; None: GPUs never run out.
        past: the requests a second of the days before, from a seed: the ends of equal steps in seconds before the
            start of the run, and rates. They are what Prometheus would still have. None: nothing ran before.
    """

    name: str
    engine: EngineSpec
    seconds: float
    arrivals: Callable[[int], Sequence[Arrival]]
    start_replicas: int = 1
    min_replicas: int = 1
    max_replicas: int = 10
    cold_start_seconds: float = 100.0
    cold_start_spread: tuple[float, float] = (0.9, 1.3)
    scrape_seconds: float = 15.0
    drain_seconds: float = 90.0
    patience_seconds: float = 60.0
    ttft_seconds: float = 2.0
    tpot_seconds: float = 0.1
    routing: Routing = Routing.LEAST_LOADED
    faults: tuple[InjectedFault, ...] = ()
    declared_concurrency: int = 16
    speed_error: float = SPEED_ERROR
    tries: int = 1
    neighbour: Scenario | None = None
    stock: int | None = None
    past: Callable[[int], Sequence[tuple[float, float]]] | None = None


Maker = Callable[[Scenario], Policy]
"""Makes a fresh policy for one run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run. ``replica_seconds`` counts replicas while they hold their GPUs.

    ``neighbour`` is that of the other deployment on the same GPUs; None: there was none.
    """

    scenario: Scenario
    policy: str
    seed: int
    answered: tuple[AnsweredRequest, ...]
    changes: tuple[Change, ...]
    replica_seconds: float
    neighbour: Outcome | None = None
