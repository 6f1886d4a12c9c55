"""The public words: conditions, events, and the codes for acceptance and refusal.

They are part of the API: words are added, and never renamed.
"""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """The conditions of an InferenceDeployment, as kstatus defines them: the last three exist only while true."""

    READY = "Ready"
    PLANNED = "Planned"
    PLACED = "Placed"
    AVAILABLE = "Available"
    STALLED = "Stalled"
    RECONCILING = "Reconciling"
    TROUBLED = "Troubled"


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
    WEIGHTS_ARRIVING = "WeightsArriving"
    WEIGHTS_FAILED = "WeightsFailed"
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
    CLAIM_UNUSABLE = "ClaimUnusable"
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


class LiveTrouble(StrEnum):
    """Why a deployment that serves does so worse than asked: the reason of ``Troubled``."""

    KV_BOUND = "KvBound"
    BATCH_BOUND = "BatchBound"
    DECODE_BOUND = "DecodeBound"
    HOST_BOUND = "HostBound"
    PREFILL_BOUND = "PrefillBound"
    QUEUE_BOUND = "QueueBound"
    PREEMPTION_STORM = "PreemptionStorm"
    REPLICA_SLOW = "ReplicaSlow"
    REPLICA_SILENT = "ReplicaSilent"
    STUCK_REPLICA = "StuckReplica"
    PAGE_LIVELOCK = "PageLivelock"
    IMBALANCED = "Imbalanced"
    PROMISE_MISSED = "PromiseMissed"
    TOO_SLOW = "TooSlow"


class RoutingTrouble(StrEnum):
    """Why requests do not go through the router that was asked for: the reason of ``Troubled``, too."""

    GATEWAY_MISSING = "GatewayMissing"
    ROUTE_NOT_ACCEPTED = "RouteNotAccepted"
    ROUTER_NOT_READY = "RouterNotReady"
    ROUTER_REFUSED = "RouterRefused"


class EventReason(StrEnum):
    """The reason of an event."""

    PLACEMENT_DECIDED = "PlacementDecided"
    PLACEMENT_RETIRED = "PlacementRetired"
    PLACEMENT_IMPOSSIBLE = "PlacementImpossible"
    REBALANCED_ADD_REPLICA = "RebalancedAddReplica"
    REBALANCED_REMOVE_REPLICA = "RebalancedRemoveReplica"
    REBALANCED_RETUNE = "RebalancedRetune"
    REBALANCED_MOVE = "RebalancedMove"
    REBALANCED_REPLACE_REPLICA = "RebalancedReplaceReplica"
    REPLACEMENT_ENDED = "ReplacementEnded"
    NODE_USED_AGAIN = "NodeUsedAgain"
    MOVE_ROLLED_BACK = "MoveRolledBack"
    RETUNE_ROLLED_BACK = "RetuneRolledBack"


PublicWord = StrEnum
"""A member of one of the sets of public words: the reasons above, of failed starts, of failed steps, of decisions."""


Numbers = tuple[tuple[str, int | str], ...]
"""The figures behind a reason, by name. Percentages, tokens, seconds and counts are whole numbers."""


class Reason(StrEnum):
    """Why a candidate (GPU type and split) was turned down."""

    TOO_LITTLE_VRAM = "TooLittleVram"
    KV_CACHE_TOO_SMALL = "KvCacheTooSmall"
    TOO_FEW_STATES = "TooFewStates"
    HEADS_NOT_DIVISIBLE = "HeadsNotDivisible"
    KV_HEADS_NOT_DIVISIBLE = "KvHeadsNotDivisible"
    WIDTH_NOT_DIVISIBLE = "WidthNotDivisible"
    TOWER_NOT_DIVISIBLE = "TowerNotDivisible"
    QUANT_BLOCK_NOT_DIVISIBLE = "QuantBlockNotDivisible"
    STAGES_EXCEED_LAYERS = "StagesExceedLayers"
    STAGES_CUT_SHARED_LAYERS = "StagesCutSharedLayers"
    STAGES_NOT_SUPPORTED = "StagesNotSupported"
    EXPERTS_NOT_DIVISIBLE = "ExpertsNotDivisible"
    CONTEXT_RANKS_NOT_DIVISIBLE = "ContextRanksNotDivisible"
    DATA_PARALLEL_NEEDS_EXPERTS = "DataParallelNeedsExperts"
    DATA_PARALLEL_NOT_SUPPORTED = "DataParallelNotSupported"
    PRECISION_NOT_SUPPORTED = "PrecisionNotSupported"
    IMAGE_FOR_OTHER_VENDOR = "ImageForOtherVendor"
    IMAGE_FOR_OTHER_PLATFORM = "ImageForOtherPlatform"
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    VOLUME_IN_USE = "VolumeInUse"
    NODE_DISK_TOO_SMALL = "NodeDiskTooSmall"
    DRIVER_TOO_OLD = "DriverTooOld"
    NODE_LEFT = "NodeLeft"
    GPU_TYPE_DENIED = "GpuTypeDenied"
    CAPACITY_TYPE_DENIED = "CapacityTypeDenied"
    GPU_TYPE_NOT_FORCED = "GpuTypeNotForced"
    SPLIT_NOT_FORCED = "SplitNotForced"
    TOO_MANY_GPUS_PER_REPLICA = "TooManyGpusPerReplica"
    NODE_TOO_SMALL = "NodeTooSmall"
    NODES_NOT_SELECTED = "NodesNotSelected"
    GPUS_TAKEN = "GpusTaken"
    TOO_EXPENSIVE = "TooExpensive"
    PRICE_UNKNOWN = "PriceUnknown"
    TOO_SLOW = "TooSlow"
    PROMISE_NOT_SURE = "PromiseNotSure"
    SPOT_NOT_ASKED = "SpotNotAsked"
    TOO_MANY_ON_SPOT = "TooManyOnSpot"
    SPEED_NOT_MEASURED = "SpeedNotMeasured"
    SLOWER_FOR_ITS_PRICE = "SlowerForItsPrice"
    COSTS_MORE = "CostsMore"
    NARROW_CACHE_SAVES_LITTLE = "NarrowCacheSavesLittle"
    FITS_ONLY_PROBABLY = "FitsOnlyProbably"
    ROOM_FOR_FEWER = "RoomForFewer"
    SCARCE_FOR_OTHERS = "ScarceForOthers"
    OBSERVED_TOO_SMALL = "ObservedTooSmall"
    START_FAILED = "StartFailed"
    PLACEMENT_KEPT = "PlacementKept"
    KEPT_TO_AVOID_MOVE = "KeptToAvoidMove"
    QUOTA_EXCEEDED = "QuotaExceeded"
    HOST_MEMORY_TOO_SMALL = "HostMemoryTooSmall"
    LIMIT_RANGE_EXCEEDED = "LimitRangeExceeded"
    NODE_LACKS_CPU = "NodeLacksCpu"
    NODE_LACKS_MEMORY = "NodeLacksMemory"
    NODE_LACKS_PODS = "NodeLacksPods"
    NODE_LACKS_RESOURCE = "NodeLacksResource"
    LEFT_RECENTLY = "LeftRecently"
    MOVE_FAILED = "MoveFailed"


NODE_LACKS = (
    Reason.NODE_LACKS_CPU,
    Reason.NODE_LACKS_MEMORY,
    Reason.NODE_LACKS_PODS,
    Reason.NODE_LACKS_RESOURCE,
)
"""Reasons when nodes have the GPUs but lack another resource."""

MAY_PASS = (Reason.GPUS_TAKEN, Reason.QUOTA_EXCEEDED, *NODE_LACKS, Reason.LEFT_RECENTLY, Reason.MOVE_FAILED)
"""Reasons when a candidate fits and only waits: for used resources, for a larger quota, or for time to pass."""


WISHED = (
    Reason.GPU_TYPE_DENIED,
    Reason.CAPACITY_TYPE_DENIED,
    Reason.GPU_TYPE_NOT_FORCED,
    Reason.SPLIT_NOT_FORCED,
    Reason.TOO_MANY_GPUS_PER_REPLICA,
)
"""Reasons that are the user's own wishes."""


class NodeReason(StrEnum):
    """Why a node takes no part in placement."""

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    LEAVING = "Leaving"
    NO_PRODUCT_LABEL = "NoProductLabel"
    UNKNOWN_GPU = "UnknownGpu"
    MIXED_GPUS = "MixedGpus"
    SHARED_GPUS = "SharedGpus"
    MIG_SLICES = "MigSlices"
    NO_DEVICES = "NoDevices"
    NOT_SUPPORTED = "NotSupported"
    UNREADABLE = "Unreadable"


LEFT_OUT_ON_PURPOSE = (NodeReason.CORDONED, NodeReason.LEAVING)
"""Reasons that somebody wants: no alert fires, and nobody has to do anything."""


class PriceDoubt(StrEnum):
    """Why a price may be wrong."""

    THIN_PRICE = "ThinPrice"
    OLD_PRICE = "OldPrice"
    PRICES_UPSIDE_DOWN = "PricesUpsideDown"
    SPOT_COSTS_MORE = "SpotCostsMore"


class RemedyKind(StrEnum):
    """A change that would make an unplaceable deployment fit."""

    REDUCE_CONTEXT = "ReduceContext"
    REDUCE_CONCURRENCY = "ReduceConcurrency"
    REDUCE_SEQUENCES = "ReduceSequences"
    KV_CACHE_FP8 = "KvCacheFp8"
    WEIGHTS_FP8 = "WeightsFp8"
    WEIGHTS_FP16 = "WeightsFp16"
    FREE_GPUS = "FreeGpus"
    ADD_GPUS = "AddGpus"
    ADD_NODES = "AddNodes"
    RELAX_CONSTRAINTS = "RelaxConstraints"
    RAISE_QUOTA = "RaiseQuota"
    LOWER_REQUESTS = "LowerRequests"
    LESS_HOST_CACHE = "LessHostCache"
    STATE_LIMITS = "StateLimits"
    CACHE_ON_CLAIM = "CacheOnClaim"
    UPDATE_DRIVER = "UpdateDriver"
    FREE_CLAIM = "FreeClaim"


class SuggestionKind(StrEnum):
    """A change that would make a placed deployment cheaper. It is never made by itself."""

    NARROW_KV_CACHE = "NarrowKvCache"
    EXPECTED_LENGTHS = "ExpectedLengths"
    OTHER_CHECKPOINT = "OtherCheckpoint"


class EngineReason(StrEnum):
    """Why the planner took an engine, or did not take another one."""

    ONLY_ENGINE = "OnlyEngine"
    PREFERRED = "Preferred"
    MORE_CACHE = "MoreCache"
    MORE_ROOM = "MoreRoom"
    SURER_FIT = "SurerFit"
    LOWER_COST = "LowerCost"
    FIRST_IN_ORDER = "FirstInOrder"
    ENGINE_KEPT = "EngineKept"
    APPROVED = "Approved"
    NO_PLACE = "NoPlace"
    FIELD_REFUSED = "FieldRefused"
    NOTHING_FITS = "NothingFits"
    LESS_ROOM = "LessRoom"
    LESS_PREFERRED = "LessPreferred"
    LESS_SURE = "LessSure"
    HIGHER_COST = "HigherCost"
    LATER_IN_ORDER = "LaterInOrder"
