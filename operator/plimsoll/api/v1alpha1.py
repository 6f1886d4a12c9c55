"""``plimsoll.dev/v1alpha1``: the one source of the CRD, of parsing and of the reference documentation.

Evolution is additive: fields are added as optional, never renamed or retyped, so that no conversion webhook is ever
needed. Money and quantities are strings, byte counts and tokens integers; there is no float and no phase.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from plimsoll.api.owned_flags import EVERY_OWNED_SPELLING

LARGEST_BOUND = 2**53
"""Bounds of a CRD are doubles: beyond this the API server would keep another figure than the one written here."""

Tokens = Annotated[int, Field(ge=1, le=100_000_000)]
Bytes64 = Annotated[int, Field(ge=0, le=LARGEST_BOUND)]
GpuTypeName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
FreeForm = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]


def rule(expression: str, message: str) -> JsonDict:
    """A CEL rule of the CRD: ``message`` says what to write instead."""
    return {"rule": expression, "message": message}


def _carry_rules(schema: JsonDict, model: type[Any]) -> None:
    """Put a model's CEL rules into its JSON schema, so that the CRD is made from that schema alone."""
    if model.cel_rules:
        schema["x-kubernetes-validations"] = [dict(each) for each in model.cel_rules]


class ApiModel(BaseModel):
    """Camel case outside, snake case inside; unknown fields are errors, as `kubectl apply` warns of them."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        json_schema_extra=_carry_rules,
    )
    cel_rules: ClassVar[tuple[JsonDict, ...]] = ()


class PrecisionChoice(StrEnum):
    """Weight precision. ``auto`` takes what the checkpoint says."""

    AUTO = "auto"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"


class KvPrecisionChoice(StrEnum):
    """KV-cache precision. ``auto`` takes what the checkpoint fixes, else the weights' 16-bit type."""

    AUTO = "auto"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"


class RebalancingMode(StrEnum):
    """What the live loop may do."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


class SecretKeyRef(ApiModel):
    """A key of a Secret in the same namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret.")
    key: str = Field(default="token", min_length=1, max_length=253, description="Key that holds the token.")


class ModelSpec(ApiModel):
    """Which model to serve."""

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="Hugging Face id, e.g. meta-llama/Llama-3.1-8B-Instruct; any name where config is given inline.",
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Commit, tag or branch. Pin a commit: checkpoints change size.",
    )
    token_secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="Token for gated or private models; given to the engine and used to read the configuration.",
    )
    config: FreeForm | None = Field(
        default=None,
        description="The model's config.json, inline, for models that no hub serves; mount the weights yourself.",
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        pattern=r"^/",
        description="Directory in the pod that holds the weights.",
    )
    parameters: Annotated[int, Field(ge=1, le=LARGEST_BOUND)] | None = Field(
        default=None, description="Exact parameter count, where config is inline and the count is known."
    )


class KvCacheSpec(ApiModel):
    """How keys and values are cached."""

    precision: KvPrecisionChoice = Field(
        default=KvPrecisionChoice.AUTO, description="auto: what the checkpoint fixes, else its 16-bit type."
    )


class ExpectedTokens(ApiModel):
    """Mean lengths of the expected requests: the KV cache is then sized for these, not for the full context."""

    prompt: Tokens = Field(description="Mean prompt length in tokens.")
    output: Tokens = Field(description="Mean output length in tokens.")


class GpuSpec(ApiModel):
    """Which GPUs may be used."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.allow) || !has(self.deny) || !self.allow.exists(a, a in self.deny)",
            "gpu.allow and gpu.deny name the same GPU type: remove it from one of them",
        ),
    )
    allow: list[GpuTypeName] | None = Field(
        default=None,
        max_length=64,
        description="Only these GPU types (names as in `plimsoll gpus`). Empty: every type.",
    )
    deny: list[GpuTypeName] | None = Field(default=None, max_length=64, description="Never these GPU types.")
    max_per_replica: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="The most GPUs one replica may hold."
    )
    max_hourly_price: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,4})?$", max_length=11)] | None = Field(
        default=None, description='The most one replica may cost in US dollars per hour, e.g. "12.50".'
    )


def _owned_flags_rule() -> JsonDict:
    """The CEL twin of :func:`plimsoll.api.owned_flags.owned_flag`, for admission time."""
    spellings = EVERY_OWNED_SPELLING.replace("-", "[-_]")
    return rule(
        f"self.all(a, !a.matches(r'(?i)^-+({spellings})(=|$)'))",
        "extraArgs holds a flag that the operator owns (model, lengths, parallelism, memory, precision, host, port): "
        "use the field of the spec instead, e.g. contextLength for --max-model-len, overrides.tensorParallel for -tp",
    )


class EngineSpec(ApiModel):
    """How vLLM is run."""

    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Image with `vllm serve` as entry point. Default: the release's.",
    )
    version: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?$")] = Field(
        default="0.32.0", description="vLLM release; decides the memory law. Name it when image is your own build."
    )
    extra_args: list[Annotated[str, Field(min_length=1, max_length=1024)]] | None = Field(
        default=None,
        max_length=64,
        description="Further vLLM flags. Those the operator owns are refused.",
        json_schema_extra={"x-kubernetes-validations": [_owned_flags_rule()]},
    )
    gpu_memory_utilization_percent: Annotated[int, Field(ge=10, le=98)] = Field(
        default=92, description="Share of each GPU's usable memory that the engine may take."
    )
    max_batched_tokens: Annotated[int, Field(ge=64, le=1_048_576)] | None = Field(
        default=None, description="Tokens per engine step. Default: by the GPU's memory."
    )
    enforce_eager: bool = Field(default=False, description="Run without CUDA graphs: slower, needs less memory.")


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    key: str | None = Field(
        default=None, max_length=317, description="Key of the taint. Empty with Exists: every taint."
    )
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)$")] | None = Field(
        default=None, description="Exists or Equal (the default)."
    )
    value: str | None = Field(default=None, max_length=63, description="Value of the taint, for Equal.")
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$")] | None = Field(
        default=None, description="NoSchedule, PreferNoSchedule or NoExecute. Empty: every effect."
    )
    toleration_seconds: int | None = Field(
        default=None, description="How long a NoExecute taint is tolerated, in seconds. Empty: for ever."
    )


class ModelCacheSpec(ApiModel):
    """Where downloaded weights and compiled kernels are kept."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.claimName) || !has(self.sizeLimit)",
            "modelCache: claimName and sizeLimit exclude each other; a claim has a size of its own",
        ),
    )
    claim_name: str | None = Field(
        default=None, min_length=1, max_length=253, description="PersistentVolumeClaim to mount; survives pods."
    )
    size_limit: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$")] | None = Field(
        default=None, description="Limit of the default emptyDir."
    )


class PodTemplateSpec(ApiModel):
    """What the pods get beside what the operator decides."""

    labels: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Further pod labels."
    )
    annotations: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Further pod annotations."
    )
    node_selector: Annotated[dict[str, str], Field(max_length=32)] | None = Field(
        default=None, description="Only nodes with these labels are considered."
    )
    tolerations: list[Toleration] | None = Field(
        default=None, max_length=32, description="Further tolerations; the GPU taints are tolerated already."
    )
    env: list[FreeForm] | None = Field(
        default=None, max_length=64, description="Further environment, as in a container."
    )
    service_account_name: str | None = Field(default=None, max_length=253, description="Service account of the pods.")
    image_pull_secrets: list[FreeForm] | None = Field(default=None, max_length=16, description="As in a pod.")
    priority_class_name: str | None = Field(default=None, max_length=253, description="As in a pod.")
    runtime_class_name: str | None = Field(default=None, max_length=253, description="As in a pod, e.g. nvidia.")
    volumes: list[FreeForm] | None = Field(default=None, max_length=32, description="Further volumes, as in a pod.")
    volume_mounts: list[FreeForm] | None = Field(
        default=None, max_length=32, description="Further mounts, as in a container."
    )
    model_cache: ModelCacheSpec | None = Field(default=None, description="Default: an emptyDir.")
    resources: FreeForm | None = Field(
        default=None, description="CPU and memory requests and limits of the engine container; GPUs are the operator's."
    )


class OverridesSpec(ApiModel):
    """Decisions taken over the planner's head. The consequence is shown in status, never hidden."""

    gpu_type: GpuTypeName | None = Field(default=None, description="Use this GPU type, or nothing.")
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Use this tensor-parallel degree, or nothing."
    )
    memory_per_gpu: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(Mi|Gi|M|G)$")] | None = Field(
        default=None, description="Use this instead of the computed need of one GPU, e.g. 70Gi."
    )


class RebalancingSpec(ApiModel):
    """What the live loop may change, and how fast."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "rebalancing.minReplicas must not exceed rebalancing.maxReplicas",
        ),
        rule(
            "self.mode != 'Auto' || has(self.maxReplicas)",
            "rebalancing.mode Auto needs rebalancing.maxReplicas: name the most replicas it may run",
        ),
    )
    mode: RebalancingMode = Field(
        default=RebalancingMode.RECOMMEND,
        description="Off: silent. Recommend: proposals in status. Auto: acts within the bounds.",
    )
    min_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, description="Never fewer.")
    max_replicas: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Never more.")
    changes_per_hour: Annotated[int, Field(ge=0, le=120)] = Field(
        default=6, description="The most changes in any hour."
    )
    window_seconds: Annotated[int, Field(ge=5, le=86_400)] = Field(
        default=120, description="How long pressure or slack must last before it counts."
    )
    cooldown_seconds: Annotated[int, Field(ge=5, le=86_400)] = Field(
        default=300, description="Least time between changes; start-up time prolongs it."
    )


class InferenceDeploymentSpec(ApiModel):
    """What to serve, for what load, within which bounds."""

    cel_rules: ClassVar[tuple[JsonDict, ...]] = (
        rule(
            "!has(self.expectedTokens) || "
            "self.expectedTokens.prompt + self.expectedTokens.output <= self.contextLength",
            "expectedTokens.prompt + expectedTokens.output must not exceed contextLength",
        ),
        rule(
            "!has(self.gpu) || !has(self.gpu.maxPerReplica) || !has(self.overrides) || "
            "!has(self.overrides.tensorParallel) || self.overrides.tensorParallel <= self.gpu.maxPerReplica",
            "overrides.tensorParallel exceeds gpu.maxPerReplica: raise one or lower the other",
        ),
        rule(
            "!has(self.gpu) || !has(self.gpu.deny) || !has(self.overrides) || !has(self.overrides.gpuType) || "
            "!(self.overrides.gpuType in self.gpu.deny)",
            "overrides.gpuType is in gpu.deny: remove it from one of them",
        ),
    )
    model: ModelSpec = Field(description="Which model to serve.")
    precision: PrecisionChoice = Field(
        default=PrecisionChoice.AUTO, description="Weight precision; auto takes what the checkpoint says."
    )
    kv_cache: KvCacheSpec = Field(default_factory=KvCacheSpec, description="KV-cache settings.")
    context_length: Tokens = Field(description="Longest request in tokens, prompt and output together.")
    concurrency: Annotated[int, Field(ge=1, le=65_536)] = Field(
        description="Requests that one replica serves at the same time."
    )
    expected_tokens: ExpectedTokens | None = Field(
        default=None, description="Size the KV cache for these mean lengths instead of concurrency x contextLength."
    )
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=1, description="Replicas to run; in Auto mode the number to start from."
    )
    gpu: GpuSpec | None = Field(default=None, description="Which GPUs may be used.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="How vLLM is run.")
    pod_template: PodTemplateSpec | None = Field(
        default=None, description="What the pods get beside what is decided here."
    )
    overrides: OverridesSpec | None = Field(default=None, description="Decisions taken over the planner's head.")
    rebalancing: RebalancingSpec = Field(default_factory=RebalancingSpec, description="What the live loop may change.")
    suspend: bool = Field(
        default=False, description="Leave everything as it is: no planning, no change, no rebalancing."
    )


class Condition(ApiModel):
    """One condition, as Kubernetes' ``metav1.Condition``."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What the condition is about, in CamelCase.")
    status: Annotated[str, Field(pattern=r"^(True|False|Unknown)$")] = Field(description="True, False or Unknown.")
    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this was judged by."
    )
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = Field(
        description="When the status last changed from one value to another."
    )
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Why, as one CamelCase word for programs."
    )
    message: Annotated[str, Field(max_length=32_768)] = Field(default="", description="Why, in words for people.")


class ModelStatus(ApiModel):
    """What was found out about the model."""

    architecture: str = Field(description="Architecture class of the configuration.")
    source: str = Field(description="Catalog, Hub or Inline.")
    parameters: int | None = Field(default=None, description="Parameters, where the checkpoint's metadata tells.")
    precision: str = Field(description="Weight precision in use.")
    kv_precision: str = Field(description="KV-cache precision in use.")


class EstimateStatus(ApiModel):
    """VRAM of one GPU of one replica, term by term, in bytes."""

    gpu_type: str = Field(description="GPU type that the estimate is for.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that the estimate is for.")
    weights_bytes: Bytes64 = Field(description="Weights of one rank.")
    kv_cache_bytes: Bytes64 = Field(description="KV cache needed by the declared load.")
    activations_bytes: Bytes64 = Field(description="Peak of activations and sampler.")
    cuda_graphs_bytes: Bytes64 = Field(description="CUDA graphs.")
    overhead_bytes: Bytes64 = Field(description="What the engine allocates outside PyTorch, inside its budget.")
    margin_bytes: Bytes64 = Field(description="Kept free because an estimate has an error.")
    computed_bytes: Bytes64 = Field(description="Sum of the terms.")
    override_bytes: Bytes64 | None = Field(default=None, description="The admin's figure that replaces the sum.")
    budget_bytes: Bytes64 = Field(description="What the engine may use: usable memory times utilization.")
    usable_bytes: Bytes64 = Field(description="The GPU's memory as the engine sees it.")
    outside_bytes: Bytes64 = Field(description="CUDA context and communication buffers beside the budget.")
    kv_bytes_per_token: Bytes64 = Field(description="KV cache of one token on one rank.")
    kv_needed_tokens: Bytes64 = Field(description="Tokens the declared load needs.")
    kv_capacity_tokens: Bytes64 = Field(description="Tokens the whole budget has room for.")
    gib_per_gpu: str = Field(description="What placement goes by, in GiB, for the printer column.")


class EngineSettingsStatus(ApiModel):
    """Engine flags decided with the placement."""

    max_model_len: int = Field(description="--max-model-len: longest request, in tokens.")
    max_num_seqs: int = Field(description="--max-num-seqs: requests served at the same time.")
    max_num_batched_tokens: int = Field(description="--max-num-batched-tokens: tokens per engine step.")
    gpu_memory_utilization_percent: int = Field(description="--gpu-memory-utilization, in percent.")
    dtype: str = Field(description="--dtype: type of weights and activations that are not quantized.")
    quantization: str | None = Field(default=None, description="--quantization; empty where the checkpoint decides.")
    kv_cache_dtype: str = Field(description="--kv-cache-dtype: type of keys and values.")
    enforce_eager: bool = Field(description="--enforce-eager: no CUDA graphs.")
    version: str = Field(description="vLLM release whose memory law was used.")


class PlacementStatus(ApiModel):
    """The decision."""

    gpu_type: str = Field(description="Chosen GPU type.")
    node_selector: dict[str, str] = Field(description="Label of the nodes of that type.")
    tensor_parallel: int = Field(description="GPUs that share one copy of the weights.")
    pipeline_parallel: int = Field(description="Stages that a replica is cut into.")
    gpus_per_replica: int = Field(description="GPUs that one replica holds.")
    hourly_price_per_replica: str | None = Field(
        default=None, description="US dollars per hour, where a price is known."
    )
    hourly_price: str | None = Field(default=None, description="US dollars per hour of all replicas.")
    price_source: str | None = Field(default=None, description="Where the price is from.")
    engine: EngineSettingsStatus = Field(description="Engine flags decided with the placement.")
    warnings: list[str] | None = Field(default=None, max_length=16, description="Consequences of overrides.")


class PoolStatus(ApiModel):
    """Replicas of one kind: a GPU type and a split. Normally one pool; two while a move or a spill-over lasts."""

    name: str = Field(description="Name of the pool; its Deployment is NAME-POOL.")
    gpu_type: str = Field(description="GPU type of the pool.")
    tensor_parallel: int = Field(description="GPUs that share one copy of the weights.")
    node_selector: dict[str, str] = Field(description="Label of the nodes of that type.")
    resource: str = Field(description="Extended resource of the GPUs.")
    state: Annotated[str, Field(pattern=r"^(Active|Retiring)$")] = Field(
        description="Retiring pools go when the active ones serve."
    )
    generation: int = Field(description="Generation of the spec that this pool was last judged by.")
    replicas: int = Field(description="Replicas wanted of this pool.")
    ready_replicas: int = Field(description="Replicas that serve.")
    kv_tokens_predicted: int | None = Field(default=None, description="KV tokens of one replica by the estimate.")
    kv_tokens_reported: int | None = Field(default=None, description="KV tokens of one replica by the engine itself.")


class RejectionStatus(ApiModel):
    """A GPU type and split that was not taken."""

    gpu_type: str = Field(description="GPU type that was turned down.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that was turned down.")
    reason: str = Field(description="Why, as one CamelCase word for programs.")
    message: str = Field(description="Why, with the figures, for people.")


class RemedyStatus(ApiModel):
    """A change that would make it fit."""

    kind: str = Field(description="What to change, as one CamelCase word for programs.")
    message: str = Field(description="What to change and to which figure, for people.")


class TooSmallStatus(ApiModel):
    """A placement whose engine got less KV cache than declared."""

    gpu_type: str = Field(description="GPU type it ran on.")
    tensor_parallel: int = Field(description="GPUs of one replica.")
    kv_tokens: Bytes64 = Field(description="KV tokens of one replica, as its engine reported.")
    generation: int = Field(description="Generation of the spec for which this holds; a later one tries anew.")


class CeilingStatus(ApiModel):
    """Throughput of one replica when the live loop last found the replicas too few."""

    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = Field(description="When it was seen.")
    prompt_tokens_per_second: int | None = Field(default=None, description="Prompt tokens per second and replica.")
    generation_tokens_per_second: int | None = Field(default=None, description="Tokens made per second and replica.")


class RebalancingStatus(ApiModel):
    """What the live loop sees and proposes. Live figures are metrics; here stands what changes seldom."""

    decision: str = Field(description="Keep, AddReplica, RemoveReplica, Move or Wait.")
    reason: str = Field(description="Why, as one CamelCase word for programs.")
    message: str = Field(description="Why, in words for people.")
    proposal: str | None = Field(default=None, description="What Recommend mode proposes.")
    base_replicas: int | None = Field(default=None, description="spec.replicas that the target started from.")
    target_replicas: int | None = Field(default=None, description="Replicas the live loop wants, within the bounds.")
    change_times: list[Annotated[str, Field(json_schema_extra={"format": "date-time"})]] | None = Field(
        default=None, max_length=120, description="When changes were made in the last hour; kept across restarts."
    )
    last_change: str | None = Field(default=None, description="The last change made, in words.")
    ceiling: CeilingStatus | None = Field(
        default=None, description="Throughput at which replicas were too few: guards against removing one too early."
    )


class InferenceDeploymentStatus(ApiModel):
    """What the operator decided, why, and what runs."""

    conditions: list[Condition] | None = Field(
        default=None,
        max_length=16,
        description="The state in conditions: Ready sums up; Reconciling and Stalled are there only while true.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_generation: int | None = Field(
        default=None, ge=0, description="Generation of the spec that this status is about."
    )
    replicas: int | None = Field(default=None, description="Pods that exist.")
    ready_replicas: int | None = Field(default=None, description="Pods that serve.")
    replicas_summary: str | None = Field(default=None, description="ready/desired, for the printer column.")
    selector: str | None = Field(default=None, description="Label selector of the pods, for the scale subresource.")
    model: ModelStatus | None = Field(default=None, description="What was found out about the model.")
    estimate: EstimateStatus | None = Field(default=None, description="VRAM of one GPU of one replica, term by term.")
    placement: PlacementStatus | None = Field(
        default=None, description="Which GPUs were chosen, and how the replica is cut."
    )
    pools: list[PoolStatus] | None = Field(
        default=None,
        max_length=8,
        description="Replicas by kind: one pool, or two while a move or a spill-over lasts.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    rejections: list[RejectionStatus] | None = Field(
        default=None,
        max_length=40,
        description="Candidates not taken.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    rejections_omitted: int | None = Field(default=None, description="Further rejections beyond the list's bound.")
    remedies: list[RemedyStatus] | None = Field(
        default=None,
        max_length=10,
        description="What would help.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    too_small: list[TooSmallStatus] | None = Field(
        default=None,
        max_length=40,
        description="Placements that proved too small; not tried again until the spec changes.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    rebalancing: RebalancingStatus | None = Field(default=None, description="What the live loop sees and proposes.")


class ObjectMeta(BaseModel):
    """The metadata that the operator reads."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 1
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class InferenceDeployment(BaseModel):
    """One object of the API. ``status`` stays a plain mapping: the operator reads its own writing field by field."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
    metadata: ObjectMeta
    spec: InferenceDeploymentSpec
