"""``plimsoll.dev/v1alpha1``: the one source of the CRD, of parsing and of the reference documentation.

Evolution is additive: fields are added as optional, never renamed or retyped, so that no conversion webhook is ever
needed. Money and quantities are strings, byte counts and tokens integers; there is no float and no phase.
"""

from __future__ import annotations

from plimsoll.api.v1alpha1.base import ApiModel, rule
from plimsoll.api.v1alpha1.maintenance import MaintenanceWindowSpec
from plimsoll.api.v1alpha1.multimodal import EncoderParallelism, MultimodalSpec
from plimsoll.api.v1alpha1.pods import ModelCacheSpec, PodTemplateSpec, Toleration
from plimsoll.api.v1alpha1.resource import InferenceDeployment, ObjectMeta
from plimsoll.api.v1alpha1.spec import (
    CapacityTypeChoice,
    EngineSpec,
    ExpectedTokens,
    GatewaySpec,
    GpuSpec,
    InferenceDeploymentSpec,
    KvCacheSpec,
    KvPrecisionChoice,
    ModelSpec,
    MovesMode,
    OverridesSpec,
    PrecisionChoice,
    RebalancingMode,
    RebalancingSpec,
    RunnerKind,
    ScaleOwner,
    SecretKeyRef,
    Sizing,
    WakeSignal,
)
from plimsoll.api.v1alpha1.speculation import DraftModelSpec, SpeculationSpec
from plimsoll.api.v1alpha1.status import (
    ChangeStatus,
    Condition,
    DecisionStatus,
    EngineSettingsStatus,
    EstimateStatus,
    FailedMoveStatus,
    InferenceDeploymentStatus,
    ModelStatus,
    ObservationStatus,
    PlacementStatus,
    PoolStatus,
    ProposalStatus,
    RebalancingStatus,
    RejectedProposalStatus,
    RejectionStatus,
    RemedyStatus,
    SuggestionStatus,
    TooSmallStatus,
)
from plimsoll.domain.engine_options import SpeculationMethod

__all__ = [
    "ApiModel",
    "CapacityTypeChoice",
    "ChangeStatus",
    "Condition",
    "DecisionStatus",
    "DraftModelSpec",
    "EncoderParallelism",
    "EngineSettingsStatus",
    "EngineSpec",
    "EstimateStatus",
    "ExpectedTokens",
    "FailedMoveStatus",
    "GatewaySpec",
    "GpuSpec",
    "InferenceDeployment",
    "InferenceDeploymentSpec",
    "InferenceDeploymentStatus",
    "KvCacheSpec",
    "KvPrecisionChoice",
    "MaintenanceWindowSpec",
    "ModelCacheSpec",
    "ModelSpec",
    "ModelStatus",
    "MovesMode",
    "MultimodalSpec",
    "ObjectMeta",
    "ObservationStatus",
    "OverridesSpec",
    "PlacementStatus",
    "PodTemplateSpec",
    "PoolStatus",
    "PrecisionChoice",
    "ProposalStatus",
    "RebalancingMode",
    "RebalancingSpec",
    "RebalancingStatus",
    "RejectedProposalStatus",
    "RejectionStatus",
    "RemedyStatus",
    "RunnerKind",
    "ScaleOwner",
    "SecretKeyRef",
    "Sizing",
    "SpeculationMethod",
    "SpeculationSpec",
    "SuggestionStatus",
    "Toleration",
    "TooSmallStatus",
    "WakeSignal",
    "rule",
]
