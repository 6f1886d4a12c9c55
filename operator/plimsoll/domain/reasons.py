"""The public codes for acceptance and refusal. Part of the API: codes are added, and never renamed."""

from __future__ import annotations

from enum import StrEnum

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
    SLOWER_THAN_USUAL = "SlowerThanUsual"
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
    NODE_LACKS_CPU = "NodeLacksCpu"
    NODE_LACKS_MEMORY = "NodeLacksMemory"
    NODE_LACKS_PODS = "NodeLacksPods"
    LEFT_RECENTLY = "LeftRecently"
    MOVE_FAILED = "MoveFailed"


NODE_LACKS = (Reason.NODE_LACKS_CPU, Reason.NODE_LACKS_MEMORY, Reason.NODE_LACKS_PODS)
"""Reasons where nodes have the GPUs but lack another resource."""

MAY_PASS = (Reason.GPUS_TAKEN, Reason.QUOTA_EXCEEDED, *NODE_LACKS, Reason.LEFT_RECENTLY, Reason.MOVE_FAILED)
"""Reasons where a candidate fits and only waits: for used resources, for a larger quota, or for time to pass."""


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
    NO_PRODUCT_LABEL = "NoProductLabel"
    UNKNOWN_GPU = "UnknownGpu"
    MIXED_GPUS = "MixedGpus"
    SHARED_GPUS = "SharedGpus"
    MIG_SLICES = "MigSlices"
    NO_DEVICES = "NoDevices"
    NOT_SUPPORTED = "NotSupported"
    UNREADABLE = "Unreadable"


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


class SuggestionKind(StrEnum):
    """A change that would make a placed deployment cheaper. It is never made by itself."""

    NARROW_KV_CACHE = "NarrowKvCache"
    EXPECTED_LENGTHS = "ExpectedLengths"
    OTHER_CHECKPOINT = "OtherCheckpoint"
