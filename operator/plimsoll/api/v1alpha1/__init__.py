"""``plimsoll.dev/v1alpha1``: the one source of the CRD, of parsing and of the reference documentation.

Evolution is additive: fields are added as optional, never renamed or retyped, so that no conversion webhook is ever
needed. Money and quantities are strings, byte counts and tokens integers; there is no float and no phase.
"""

from __future__ import annotations

from plimsoll.api.v1alpha1.base import ApiModel, rule
from plimsoll.api.v1alpha1.options import (
    EncoderParallelism,
    MaintenanceWindowSpec,
    MultimodalSpec,
    ScheduledMinimumSpec,
    SpeculationSpec,
)
from plimsoll.api.v1alpha1.pods import PodTemplateSpec
from plimsoll.api.v1alpha1.resource import InferenceDeployment
from plimsoll.api.v1alpha1.scheduling import Toleration
from plimsoll.api.v1alpha1.spec import (
    CapacityTypeChoice,
    EngineSpec,
    InferenceDeploymentSpec,
    KvPrecisionChoice,
    ModelSpec,
    MovesMode,
    RebalancingMode,
    RebalancingSpec,
    RoutingGatewaySpec,
    RoutingSpec,
    RunnerKind,
    ScaleOwner,
    SecretKeyRef,
    Sizing,
    WakeSignal,
)
from plimsoll.api.v1alpha1.status import (
    InferenceDeploymentStatus,
    PoolStatus,
)
from plimsoll.domain.engines.engine_choice import SpeculationMethod

__all__ = [
    "ApiModel",
    "CapacityTypeChoice",
    "EncoderParallelism",
    "EngineSpec",
    "InferenceDeployment",
    "InferenceDeploymentSpec",
    "InferenceDeploymentStatus",
    "KvPrecisionChoice",
    "MaintenanceWindowSpec",
    "ModelSpec",
    "MovesMode",
    "MultimodalSpec",
    "PodTemplateSpec",
    "PoolStatus",
    "RebalancingMode",
    "RebalancingSpec",
    "RoutingGatewaySpec",
    "RoutingSpec",
    "RunnerKind",
    "ScaleOwner",
    "ScheduledMinimumSpec",
    "SecretKeyRef",
    "Sizing",
    "SpeculationMethod",
    "SpeculationSpec",
    "Toleration",
    "WakeSignal",
    "rule",
]
