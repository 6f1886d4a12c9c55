"""The public words of conditions and events. Part of the API: words are added, and never renamed."""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """The conditions of an InferenceDeployment, as kstatus defines them: the last two exist only while true."""

    READY = "Ready"
    PLANNED = "Planned"
    PLACED = "Placed"
    AVAILABLE = "Available"
    STALLED = "Stalled"
    RECONCILING = "Reconciling"


class ConditionReason(StrEnum):
    """The reason of a condition. A failed start, a failed step and a rejected candidate have words of their own.

    ``docs/reasons.md`` says what each means and what to do.
    """

    PENDING = "Pending"
    SUSPENDED = "Suspended"
    NAME_CONFLICT = "NameConflict"
    CHANGE_WAITS_FOR_GPUS = "ChangeWaitsForGpus"
    PLACEMENT_TOO_SMALL = "PlacementTooSmall"
    PLACEMENT_KEPT = "PlacementKept"
    PLACEMENT_DECIDED = "PlacementDecided"
    WAITING_FOR_NODE_RESOURCES = "WaitingForNodeResources"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_GPUS = "WaitingForGpus"
    NO_GPU_FITS = "NoGpuFits"
    NOT_PLANNED = "NotPlanned"
    PODS_NOT_CREATED = "PodsNotCreated"
    PODS_REJECTED = "PodsRejected"
    REPLICAS_CONTESTED = "ReplicasContested"
    WAITING_FOR_SCHEDULER = "WaitingForScheduler"
    WAITING_FOR_NODES = "WaitingForNodes"
    WAITING_FOR_QUEUE = "WaitingForQueue"
    CREATING_PODS = "CreatingPods"
    PODS_SCHEDULED = "PodsScheduled"
    SCALED_TO_ZERO = "ScaledToZero"
    ROLLING_OUT = "RollingOut"
    ALL_REPLICAS_SERVE = "AllReplicasServe"
    SOME_REPLICAS_SERVE = "SomeReplicasServe"
    ENGINES_STARTING = "EnginesStarting"
    NO_REPLICA_SERVES = "NoReplicaServes"
    REPLACEMENT_LATE = "ReplacementLate"
    SERVING = "Serving"
    RESOLVING_MODEL = "ResolvingModel"
    READING_VOLUMES = "ReadingVolumes"
    READING_IMAGE = "ReadingImage"
    PLANNING_QUEUED = "PlanningQueued"
    TOKEN_SECRET_MISSING = "TokenSecretMissing"  # noqa: S105 - a word, no secret
    TOKEN_SECRET_UNREADABLE = "TokenSecretUnreadable"  # noqa: S105 - a word, no secret
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    MODEL_NOT_FOUND = "ModelNotFound"
    UNSUPPORTED_MODEL = "UnsupportedModel"
    INVALID_MODEL_CONFIG = "InvalidModelConfig"
    MODEL_SOURCE_UNAVAILABLE = "ModelSourceUnavailable"
    NOT_PERMITTED = "NotPermitted"
    INVALID_SPEC = "InvalidSpec"
    TOO_LARGE = "TooLarge"
    NAMESAKE_LEAVING = "NamesakeLeaving"


RESOLVING = (ConditionReason.RESOLVING_MODEL, ConditionReason.READING_VOLUMES, ConditionReason.READING_IMAGE)
"""Facts are being read, which takes a moment."""


class EventReason(StrEnum):
    """The reason of an event."""

    PLACEMENT_DECIDED = "PlacementDecided"
    PLACEMENT_RETIRED = "PlacementRetired"
    PLACEMENT_IMPOSSIBLE = "PlacementImpossible"
    REBALANCED_ADD_REPLICA = "RebalancedAddReplica"
    REBALANCED_REMOVE_REPLICA = "RebalancedRemoveReplica"
    REBALANCED_RETUNE = "RebalancedRetune"
    REBALANCED_MOVE = "RebalancedMove"
    MOVE_ROLLED_BACK = "MoveRolledBack"
    RETUNE_ROLLED_BACK = "RetuneRolledBack"


PublicWord = StrEnum
"""A member of one of the sets of public words: the reasons above, of failed starts, of failed steps, of decisions."""
