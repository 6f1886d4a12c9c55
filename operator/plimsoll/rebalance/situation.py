"""The facts that the live loop decides from, for one deployment at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.rebalance.history import ChangeHistory
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary


@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """The load that one replica must carry, as declared now.

    ``kv_tokens`` is the KV cache that it needs (0: no minimum). ``bytes_per_gpu`` is the memory that the memory law
    expects on the placed GPU type and split.
    """

    kv_tokens: int
    bytes_per_gpu: int


@dataclass(frozen=True, slots=True)
class PlacementState:
    """The current placement: ``replicas`` are wanted now, and ``ready`` of them serve.

    ``kv_capacity_tokens`` is the predicted KV cache of one replica. It is assumed for every replica that reports none.
    ``budget_bytes_per_gpu`` is the memory that one GPU of the placed type gives. ``startup_seconds`` is the longest
    start-up seen. ``new_replicas`` are those of ``replicas`` that the plan has just placed or has no place for.
    ``moving`` means that an old pool still serves in place of a new one, so the signals describe both.
    """

    replicas: int
    ready: int
    kv_capacity_tokens: int
    budget_bytes_per_gpu: int
    startup_seconds: float | None = None
    new_replicas: int = 0
    moving: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts of one decision. ``now`` is in POSIX seconds."""

    need: DeclaredNeed
    placement: PlacementState
    load: LoadSummary
    history: ChangeHistory
    now: float
    policy: RebalancePolicy
