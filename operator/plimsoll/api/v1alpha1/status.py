"""What was decided, why, and what runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, Bytes64


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
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there are several: of the shortest.")
    fit: Annotated[str, Field(pattern=r"^(Sure|Probable|No)$")] | None = Field(
        default=None,
        description="Sure: fits at the upper edge of the error band. Probable: only at the estimate itself.",
    )
    weights_bytes: Bytes64 = Field(description="Weights of one rank.")
    kv_cache_bytes: Bytes64 = Field(description="KV cache needed by the declared load.")
    activations_bytes: Bytes64 = Field(description="Peak of activations and sampler.")
    cuda_graphs_bytes: Bytes64 = Field(description="CUDA graphs.")
    overhead_bytes: Bytes64 = Field(description="What the engine allocates outside PyTorch, inside its budget.")
    adapters_bytes: Bytes64 | None = Field(default=None, description="LoRA slots.")
    learned_bytes: int | None = Field(
        default=None, description="What engines of the kind took more, or less (negative), than all terms say."
    )
    host_bytes: Bytes64 | None = Field(default=None, description="Weights in host memory, read in every step.")
    margin_bytes: Bytes64 = Field(description="Upper half of the error band: the need may be so much higher.")
    slack_bytes: Bytes64 | None = Field(
        default=None, description="Lower half of the error band: the need may be so much lower."
    )
    expected_bytes: Bytes64 | None = Field(default=None, description="Sum of the terms without the margin.")
    computed_bytes: Bytes64 = Field(description="Sum of the terms with the margin: what must fit to be sure.")
    override_bytes: Bytes64 | None = Field(default=None, description="The admin's figure that replaces the sum.")
    budget_bytes: Bytes64 = Field(description="What the engine may use: usable memory times utilization.")
    usable_bytes: Bytes64 = Field(description="The GPU's memory as the engine sees it.")
    outside_bytes: Bytes64 = Field(description="CUDA context and communication buffers beside the budget.")
    kv_bytes_per_token: Bytes64 = Field(description="KV cache of one token on one rank.")
    kv_needed_tokens: Bytes64 = Field(description="Tokens the declared load needs.")
    kv_capacity_tokens: Bytes64 = Field(description="Tokens the whole budget has room for.")
    kv_capacity_low_tokens: Bytes64 | None = Field(default=None, description="The same at the band's upper edge.")
    kv_capacity_high_tokens: Bytes64 | None = Field(default=None, description="The same at the band's lower edge.")
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
    warnings: list[str] | None = Field(default=None, max_length=16, description="Consequences of overrides.")
    engine: EngineSettingsStatus = Field(description="Engine flags decided with the placement.")


class PoolStatus(ApiModel):
    """Replicas of one kind: a GPU type and a split. Normally one pool; two while a move or a spill-over lasts."""

    name: str = Field(description="Name of the pool; its Deployment is NAME-POOL.")
    gpu_type: str = Field(description="GPU type of the pool.")
    tensor_parallel: int = Field(description="GPUs that share one copy of the weights.")
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there are several.")
    node_selector: dict[str, str] = Field(description="Label of the nodes of that type.")
    resource: str = Field(description="Extended resource of the GPUs.")
    state: Annotated[str, Field(pattern=r"^(Active|Retiring)$")] = Field(
        description="Retiring pools go when the active ones serve."
    )
    generation: int = Field(description="Generation of the spec that this pool was last judged by.")
    replicas: int = Field(description="Replicas wanted of this pool.")
    batched_tokens: int | None = Field(
        default=None, description="--max-num-batched-tokens of its engines: kept while the spec stays the same."
    )
    ready_replicas: int = Field(description="Replicas that serve.")
    served: bool | None = Field(default=None, description="An engine of it has served under that generation's spec.")
    kv_tokens_predicted: int | None = Field(default=None, description="KV tokens of one replica by the estimate.")
    kv_tokens_reported: int | None = Field(default=None, description="KV tokens of one replica by the engine itself.")


class RejectionStatus(ApiModel):
    """A GPU type and split that was not taken."""

    gpu_type: str = Field(description="GPU type that was turned down.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that was turned down.")
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there are several.")
    reason: str = Field(description="Why, as one CamelCase word for programs.")
    message: str = Field(description="Why, with the figures, for people.")


class RemedyStatus(ApiModel):
    """A change that would make it fit."""

    kind: str = Field(description="What to change, as one CamelCase word for programs.")
    message: str = Field(description="What to change and to which figure, for people.")


class TooSmallStatus(ApiModel):
    """A placement whose engine got less KV cache than declared."""

    gpu_type: str = Field(description="GPU type it ran on.")
    tensor_parallel: int = Field(description="Tensor-parallel degree it ran at.")
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there were several.")
    kv_tokens: Bytes64 = Field(description="KV tokens of one replica, as its engine reported.")
    spec: str = Field(description="Digest of the spec for which this holds, as far as it bears on memory.")


class ObservationStatus(ApiModel):
    """What an engine said of its memory when it started: later estimates of engines like it use it."""

    model: str = Field(description="Model that the engine served.")
    precision: str = Field(description="Weight precision.")
    kv_precision: str = Field(description="KV-cache precision.")
    gpu_type: str = Field(description="GPU type.")
    engine_version: str = Field(description="vLLM release.")
    tensor_parallel: int = Field(description="Tensor-parallel degree.")
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there are several.")
    options: str = Field(description="Digest of the model's facts and of the engine options that change its memory.")
    batched_tokens: int = Field(description="--max-num-batched-tokens that it ran with.")
    max_sequences: int = Field(description="--max-num-seqs that it ran with.")
    witness: Annotated[str, Field(pattern=r"^(Metrics|StartLog|StartFailure|OutOfMemory)$")] = Field(
        description="Where it is from: a running engine's metrics, or the error of one that did not start."
    )
    predicted_kv_bytes: int = Field(description="KV cache of one GPU by the memory law alone; negative: none is left.")
    available_kv_bytes: int | None = Field(default=None, description="KV cache of one GPU as the engine got it.")
    spec: str = Field(description="Digest of the spec it was seen at; a failure counts for that alone.")
    release: str = Field(description="Release of the operator, whose law foretold the figure.")


class RehomingStatus(ApiModel):
    """A placement that replicas left because their pods found no node there."""

    gpu_type: str = Field(description="GPU type that was left.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that was left.")
    pipeline_parallel: int | None = Field(default=None, description="Stages, where there were several.")
    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = Field(
        description="When replicas last left it. It is not gone back to within an hour."
    )
    reason: str = Field(default="", description="What the scheduler had against it, as one CamelCase word.")


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
    url: str | None = Field(default=None, description="Base URL of the OpenAI API, inside the cluster.")
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
    observations: list[ObservationStatus] | None = Field(
        default=None,
        max_length=40,
        description="What engines said of their memory: corrects the estimates of engines like them, in every object.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    rehomings: list[RehomingStatus] | None = Field(
        default=None,
        max_length=20,
        description="Placements left in the last hour because their pods found no node; not gone back to meanwhile.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    rebalancing: RebalancingStatus | None = Field(default=None, description="What the live loop sees and proposes.")
