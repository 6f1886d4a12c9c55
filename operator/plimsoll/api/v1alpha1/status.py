"""The status: the decision with its reasons, and what runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, Bytes64, keyed, optional, several
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Digest = Annotated[str, Field(max_length=64)]
PoolName = Annotated[str, Field(max_length=128)]


class StatusModel(ApiModel, strict=True):
    """A part of the status. No value is converted: what another type was meant by, nobody knows."""


class Condition(StatusModel):
    """One condition, as Kubernetes' ``metav1.Condition``."""

    type: Annotated[str, Field(max_length=316)] = Field(description="Type of the condition, in CamelCase.")
    status: Annotated[str, Field(pattern=r"^(True|False|Unknown)$")] = Field(description="True, False or Unknown.")
    observed_generation: int | None = optional("Generation of the spec that the condition is about.", ge=0)
    last_transition_time: Time = Field(description="Time of the last change of the status.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Reason, as one CamelCase word for programs."
    )
    message: Annotated[str, Field(max_length=32_768)] = Field(default="", description="Reason, as text for people.")


ENGINES = (
    "Engines that share the requests of a replica, each with a KV cache of its own (data parallelism), if several."
)


class ModelStatus(StatusModel):
    """Facts of the model."""

    architecture: str = Field(description="Architecture class of the configuration.")
    source: str = Field(description="Catalog, Hub or Inline.")
    parameters: int | None = optional("Number of parameters, if the checkpoint's metadata has it.")
    precision: str = Field(description="Weight precision in use.")
    kv_precision: str = Field(description="KV-cache precision in use.")


class EstimateStatus(StatusModel):
    """VRAM of one GPU of one replica, term by term, in bytes."""

    gpu_type: str = Field(description="GPU type that the estimate is for.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that the estimate is for.")
    pipeline_parallel: int | None = optional(
        "Pipeline stages, if there are several. The estimate is of the stage with the least room."
    )
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    fit: Annotated[str, Field(pattern=r"^(Sure|Probable|No)$")] | None = optional(
        "Sure: fits at the upper edge of the error band. Probable: inside the band, or with doubts."
    )
    doubts: list[str] | None = optional(
        "Why the fit is not called sure, however much room there is, e.g. GenericReading or NewerRelease.",
        max_length=16,
    )
    weights_bytes: Bytes64 = Field(description="Weights of one rank.")
    kv_cache_bytes: Bytes64 = Field(description="KV cache needed by the declared load.")
    activations_bytes: Bytes64 = Field(description="Peak of activations and sampler.")
    cuda_graphs_bytes: Bytes64 = Field(description="CUDA graphs.")
    overhead_bytes: Bytes64 = Field(description="Memory outside PyTorch and inside the engine's budget.")
    adapters_bytes: Bytes64 | None = optional("LoRA slots.")
    learned_bytes: int | None = optional(
        "Correction learned from engines of the same kind; negative if they use less than all terms."
    )
    learned_from: str | None = optional(
        "Whose engines taught it: this deployment's, others' of its namespace, or how many namespaces'."
    )
    host_bytes: Bytes64 | None = optional("Weights in host memory, read in every step.")
    margin_bytes: Bytes64 = Field(description="Upper half of the error band: the need may be higher by this much.")
    slack_bytes: Bytes64 | None = optional("Lower half of the error band: the need may be lower by this much.")
    expected_bytes: Bytes64 | None = optional("Sum of the terms without the margin.")
    computed_bytes: Bytes64 = Field(description="Sum of the terms with the margin. If this fits, the fit is sure.")
    override_bytes: Bytes64 | None = optional("The admin's figure that replaces the sum.")
    budget_bytes: Bytes64 = Field(description="Memory that the engine may use: usable memory times utilization.")
    usable_bytes: Bytes64 = Field(description="The GPU's memory as the engine sees it.")
    outside_bytes: Bytes64 = Field(description="CUDA context and communication buffers, outside the budget.")
    kv_bytes_per_token: Bytes64 = Field(
        description="KV cache of one more token in all layers with attention, on one rank, as if no window ended."
    )
    kv_needed_tokens: Bytes64 = Field(description="Tokens that the declared load needs, on all engines of a replica.")
    kv_capacity_tokens: Bytes64 = Field(
        description="Tokens that fit into the whole budget, on all engines of a replica."
    )
    kv_capacity_low_tokens: Bytes64 | None = optional("The same at the band's upper edge.")
    kv_capacity_high_tokens: Bytes64 | None = optional("The same at the band's lower edge.")
    gib_per_gpu: str = Field(description="Need that the placement uses, in GiB, for the printer column.")


class EngineSettingsStatus(StatusModel):
    """Engine flags decided with the placement."""

    max_model_len: int = Field(description="--max-model-len: longest request, in tokens.")
    max_num_seqs: int = Field(description="--max-num-seqs: requests that one engine serves at the same time.")
    max_num_batched_tokens: int = Field(description="--max-num-batched-tokens: tokens per engine step.")
    gpu_memory_utilization_percent: int = Field(description="--gpu-memory-utilization, in percent.")
    dtype: str = Field(description="--dtype: type of weights and activations that are not quantized.")
    quantization: str | None = optional("--quantization; empty where the checkpoint decides.")
    kv_cache_dtype: str = Field(description="--kv-cache-dtype: type of keys and values.")
    enforce_eager: bool = Field(description="--enforce-eager: no CUDA graphs.")
    version: str = Field(description="Release of the engine whose memory law was used.")


class PerformanceStatus(StatusModel):
    """The speed of one replica at the declared load, by the performance model."""

    tpot_milliseconds: int = Field(description="Time between two tokens of an answer.")
    tpot_low_milliseconds: int = Field(description="Lower edge of its error band.")
    tpot_high_milliseconds: int = Field(description="Upper edge of its error band.")
    ttft_milliseconds: int = Field(description="Median time to the first token, without waiting for a free slot.")
    ttft_low_milliseconds: int | None = optional("Lower edge of its error band.")
    ttft_high_milliseconds: int | None = optional("Upper edge of its error band.")
    output_tokens_per_second: int = Field(description="Tokens that one replica generates.")
    usd_per_million_tokens: str | None = optional("US dollars per million tokens, prompt and output, at full load.")
    bound: str = Field(description="What takes most of the time: Memory, Compute, Communication or Host.")
    validated: bool = Field(description="Whether the model was tested against measurements on GPUs of this class.")
    counted_percent: int | None = optional(
        "At how many percent of the model's times the figures count, because engines of this kind measured about that: "
        "in steps of a quarter."
    )


class HostTermStatus(StatusModel):
    """A part of the host memory of a pod."""

    name: str = Field(description="Name of the part, in camelCase.")
    size_bytes: Bytes64 = Field(description="Bytes of the part.")
    detail: str = Field(description="How the bytes come about.")


class HostCacheStatus(StatusModel):
    """The KV cache of finished requests that one replica keeps in host memory. None of it runs."""

    size_bytes: Bytes64 = Field(description="Host memory of all ranks for it.")
    tokens: Bytes64 = Field(description="Tokens that it keeps.")
    is_least: bool | None = optional("Whether it may keep more: layers with windows or states need not keep all.")
    loaded_nanoseconds: Bytes64 | None = optional("Time of one token of a prefix that is loaded from it.")
    computed_nanoseconds: Bytes64 | None = optional("Time of one token of a prefix that is computed once more.")


class HostLayersStatus(StatusModel):
    """One decoder layer of weights that stay in host memory: its copy over PCIe, and the work that could hide it."""

    size_bytes: Bytes64 = Field(description="Bytes of the layer on one GPU, as a mean over all layers.")
    link_gigabytes_per_second: int = Field(description="Rate at which copies from host memory arrive.")
    copy_nanoseconds: Bytes64 = Field(description="Time of its copy.")
    decode_nanoseconds: Bytes64 = Field(description="Its part of a step in which the declared requests generate.")
    requests: int = Field(description="Requests that generate in such a step.")
    prompt_nanoseconds: Bytes64 = Field(description="Its part of a step that is full of prompts.")
    prompt_tokens: int = Field(description="Tokens of such a step.")
    hidden_from_tokens: int | None = optional("Prompt tokens of a step from which on the work hides the copy.")
    streamed: int | None = optional("Layers of a group that are copied in each step; absent: kernels read them.")
    group: int | None = optional("Layers of a group.")


class HostStatus(StatusModel):
    """Host memory and CPU of the pod of one replica."""

    cpu_millis: int = Field(description="CPU that the engine needs, in thousandths of a core.")
    memory_bytes: Bytes64 = Field(description="Host memory that the engine needs: the sum of the terms, in whole GiB.")
    shared_memory_bytes: Bytes64 = Field(description="Size of /dev/shm; the memory contains it.")
    requested_cpu_millis: int = Field(description="CPU that the pod requests: yours, or what the engine needs.")
    requested_memory_bytes: Bytes64 = Field(description="Memory that the pod requests: yours, or the engine's need.")
    terms: list[HostTermStatus] = Field(max_length=16, description="Parts of the memory.")
    cache: HostCacheStatus | None = optional("KV cache of finished requests in this memory.")
    layers: HostLayersStatus | None = optional("Weights in this memory, and the time that they take.")


class PlacementStatus(StatusModel):
    """The decision."""

    gpu_type: str = Field(description="Chosen GPU type.")
    node_selector: dict[str, str] = Field(description="Label of the nodes of that type.")
    node_labels: list[str] | None = optional(
        "All labels of these nodes as key=value, where they differ. One of them is enough."
    )
    capacity_type: str | None = optional("OnDemand or Spot, if the pods run only on nodes of that capacity type.")
    avoided_nodes: list[str] | None = optional(
        "Nodes that the pods stay off, because they could not run there.", max_length=16
    )
    tensor_parallel: int = Field(description="GPUs that share one copy of the weights.")
    pipeline_parallel: int = Field(description="Pipeline stages of a replica.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    gpus_per_replica: int = Field(description="GPUs of one replica.")
    hourly_price_per_replica: str | None = optional("US dollars per hour of one replica, if the price is known.")
    hourly_price: str | None = optional("US dollars per hour of all replicas.")
    price_source: str | None = optional("Source of the price.")
    billing: str | None = optional(
        "OnDemand, if the dollars of the nodes end with their use. Owned (fleet.billing says it) or AssumedOwned "
        "(nothing is known that removes idle nodes), if the nodes are paid for whoever uses them: then half counts."
    )
    max_num_seqs: int | None = optional(
        "Requests that one replica serves at the same time, on all its engines: at least concurrency, and "
        "as many more as its KV cache holds within the latency limit."
    )
    performance: PerformanceStatus | None = optional("The speed of one replica.")
    host: HostStatus | None = optional("Host memory and CPU of one replica.")
    warnings: list[str] | None = optional("Consequences of overrides.", max_length=16)
    engine: EngineSettingsStatus = Field(description="Engine flags decided with the placement.")


class SizeOptionStatus(StatusModel):
    """One size that was compared."""

    replicas: int = Field(description="Number of replicas.")
    concurrency: int = Field(description="Requests that one replica serves at the same time.")
    places: list[PoolName] | None = optional("GPU types and splits.", max_length=16)
    hourly_price: str | None = optional("US dollars per hour of all replicas, if known.")
    missing: int | None = optional("Replicas that would find no place.")


class SizeStatus(StatusModel):
    """The size that was chosen for totalConcurrency. It stays until what the spec asks for changes."""

    replicas: int = Field(description="Chosen number of replicas.")
    concurrency: int = Field(description="Requests that one replica serves at the same time.")
    spec: Digest = Field(description="Digest of the spec that it was chosen for.")
    options: list[SizeOptionStatus] | None = several(8, "Sizes that were compared.")


class EngineOfferStatus(StatusModel):
    """An engine that was compared and not taken."""

    name: str = Field(description="Engine.")
    version: str | None = optional("Release that was compared. Absent if the engine refuses the spec.")
    reason: str = Field(description="Reason, as one CamelCase word for programs.")
    message: str = Field(description="Reason with its figures, as text for people.")
    places: list[PoolName] | None = optional("GPU types and splits that the replicas would get.", max_length=16)
    missing: int | None = optional("Replicas that would find no place.")


class ChosenEngineStatus(StatusModel):
    """The engine that was chosen for ``spec.engine.name: auto``. What runs stays on its engine."""

    name: str = Field(description="Engine. Where nothing is placed, the one that came nearest.")
    version: str = Field(description="Release of the engine.")
    reason: str = Field(description="Reason, as one CamelCase word for programs.")
    message: str = Field(description="Reason with its figures, as text for people.")
    others: list[EngineOfferStatus] | None = several(8, "Engines that were compared and not taken.")


class PoolStatus(StatusModel):
    """Replicas of one kind: a GPU type and a split. Normally one pool; two while a move or a spill-over lasts."""

    name: str = Field(description="Name of the pool; its Deployment is NAME-POOL.")
    gpu_type: str = Field(description="GPU type of the pool.")
    tensor_parallel: int = Field(description="GPUs that share one copy of the weights.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there are several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    node_selector: dict[str, str] = Field(description="Label of the nodes of that type.")
    node_labels: list[str] | None = optional(
        "All labels of these nodes as key=value, where they differ. One of them is enough."
    )
    capacity_type: str | None = optional("OnDemand or Spot, if the pods run only on nodes of that capacity type.")
    avoided_nodes: list[str] | None = optional(
        "Nodes that the pods stay off, because they could not run there.", max_length=16
    )
    resource: str = Field(description="Extended resource of the GPUs.")
    engine: str | None = optional(f"Name of the engine that it runs; empty for {DEFAULT_ENGINE}.")
    state: Annotated[str, Field(pattern=r"^(Active|Retiring)$")] = Field(
        description="Active, or Retiring: it is removed when the active pools serve."
    )
    generation: int = Field(description="Generation of the spec that this pool was last planned for.")
    replicas: int = Field(description="Replicas that are wanted of this pool.")
    batched_tokens: int | None = optional(
        "--max-num-batched-tokens of its engines: kept while the spec stays the same."
    )
    max_sequences: int | None = optional(
        "--max-num-seqs of its engines: kept while the spec of an engine stays the same."
    )
    spec: Digest | None = optional("Digest of the spec that maxSequences was chosen for.")
    drain_seconds: int | None = optional(
        "Seconds in which running requests may finish when a pod ends: kept while the engines run."
    )
    kv_precision: Annotated[str, Field(pattern=r"^fp8$")] | None = optional(
        "fp8 if the planner chose it for the KV cache, as kvCache.allowFp8 permits."
    )
    host_cache_bytes: Bytes64 | None = optional(
        "Host memory of a replica for the KV cache that kvCache.hostMemory asks for: kept while the spec of an engine "
        "stays the same."
    )
    ready_replicas: int = Field(description="Replicas that serve.")
    served: bool | None = optional("Whether one of its engines has served with that generation of the spec.")
    kv_tokens_predicted: int | None = optional("KV tokens of one replica, as estimated.")
    kv_tokens_reported: int | None = optional("KV tokens of one replica, as its engine reports.")
    host_tokens_reported: Bytes64 | None = optional(
        "Tokens of finished requests that one replica keeps in host memory, as its engine reports."
    )
    kv_tokens_note: str | None = optional("Remark where the engines report no KV tokens, as text for people.")


class CandidateFiguresStatus(StatusModel):
    """The figures that the memory of a candidate was judged by: VRAM of one GPU in bytes.

    A status has up to forty of them, so its fields have no bounds: checking these would take as long as reading them.
    """

    fit: str = Field(description="Sure, Probable or No: whether the memory fits, as in status.estimate.")
    weights_bytes: int = Field(description="Weights of one rank.")
    kv_cache_bytes: int = Field(description="KV cache needed by the declared load.")
    activations_bytes: int = Field(description="Peak of activations and sampler.")
    slack_bytes: int | None = optional("Lower half of the error band: the need may be lower by this much.")
    expected_bytes: int = Field(
        description="Sum of all terms without the margin. What exceeds the three terms above is CUDA graphs, overhead, "
        "adapters and the learned correction."
    )
    computed_bytes: int = Field(description="Sum of all terms with the margin. If this fits, the fit is sure.")
    override_bytes: int | None = optional("The admin's figure that replaces the sum.")
    budget_bytes: int = Field(description="Memory that the engine may use: usable memory times utilization.")
    usable_bytes: int = Field(description="The GPU's memory as the engine sees it.")
    kv_needed_tokens: int = Field(description="Tokens that the declared load needs, on all engines of a replica.")
    kv_capacity_tokens: int = Field(description="Tokens that fit into the whole budget, on all engines of a replica.")

    @property
    def overhead_bytes(self) -> int:
        """All terms other than weights, KV cache and activations, in bytes; negative if the learned correction is."""
        return self.expected_bytes - self.weights_bytes - self.kv_cache_bytes - self.activations_bytes


class RejectionStatus(StatusModel):
    """A GPU type and split that was rejected."""

    gpu_type: str = Field(description="Rejected GPU type.")
    tensor_parallel: int = Field(description="Rejected tensor-parallel degree.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there are several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    reason: str = Field(description="Reason, as one CamelCase word for programs.")
    message: str = Field(description="Reason with its figures, as text for people.")
    hourly_price: str | None = optional("US dollars per hour of one replica, if the price is known.")
    price_source: str | None = optional("Source of the price. Only the first entry of a GPU type has it.")
    figures: CandidateFiguresStatus | None = optional(
        "Figures of the candidate. Absent if it was ruled out before its memory was estimated, and if it fits and "
        "costs at least twice as much as the choice."
    )


class RemedyStatus(StatusModel):
    """A change that would make it fit."""

    kind: str = Field(description="Field to change, as one CamelCase word for programs.")
    message: str = Field(description="Change with its figure, as text for people.")


class SuggestionStatus(StatusModel):
    """A change that would make the placement cheaper. It is never made by itself."""

    kind: str = Field(description="Change, as one CamelCase word for programs.")
    message: str = Field(description="Change with its saving, its effect on speed and its risk, as text for people.")
    hourly_saving: str | None = optional("US dollars per hour that all replicas together would cost less.")
    tpot_milliseconds: int | None = optional("Time between two tokens of an answer after it.")


class TooSmallStatus(StatusModel):
    """A placement whose engine got less KV cache than declared."""

    gpu_type: str = Field(description="GPU type of the engine.")
    tensor_parallel: int = Field(description="Tensor-parallel degree of the engine.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there were several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    kv_tokens: Bytes64 = Field(description="KV tokens of one replica, as its engine reported.")
    engine: str | None = optional(f"Name of the engine; empty for {DEFAULT_ENGINE}.")
    spec: str = Field(
        description="Digest of the spec's fields that affect memory. The entry holds for this digest only."
    )


class ObservationStatus(StatusModel):
    """The memory that an engine reported at its start. Later estimates of engines of this kind use it."""

    model: str = Field(description="Model that the engine served.")
    precision: str = Field(description="Weight precision.")
    kv_precision: str = Field(description="KV-cache precision.")
    gpu_type: str = Field(description="GPU type.")
    engine: str | None = optional(f"Name of the engine; empty for {DEFAULT_ENGINE}.")
    engine_version: str = Field(description="Release of the engine.")
    tensor_parallel: int = Field(description="Tensor-parallel degree.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there are several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    options: str = Field(description="Digest of the model's facts and of the engine options that change its memory.")
    own_image: str | None = optional("The user's own image, if it ran that: it teaches this deployment alone.")
    batched_tokens: int = Field(description="--max-num-batched-tokens of the engine.")
    max_sequences: int = Field(description="--max-num-seqs of the engine.")
    witness: Annotated[str, Field(pattern=r"^(Metrics|StartLog|StartFailure|OutOfMemory)$")] = Field(
        description="Source: the metrics of a running engine, or the error of an engine that did not start."
    )
    predicted_kv_bytes: int = Field(
        description="KV cache of one GPU as predicted without corrections; negative if no memory is left."
    )
    available_kv_bytes: int | None = optional("KV cache of one GPU, as the engine reported.")
    spec: str = Field(description="Digest of the spec at that time. A failed start counts for this digest only.")
    release: str = Field(description="Release of the operator that made the prediction.")


class RehomingStatus(StatusModel):
    """A placement, or a single node, that replicas left because pods could not run there, or one was slow or silent."""

    gpu_type: str = Field(description="GPU type that was left.")
    tensor_parallel: int = Field(description="Tensor-parallel degree that was left.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there were several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    at: Time = Field(
        description="Time when replicas last left it. For an hour it is used only if there is no other place."
    )
    reason: str = Field(
        default="",
        description="The obstacle of the scheduler, the engine's failure, ReplicaSlow or ReplicaSilent, in one word.",
    )
    node: str | None = optional("The node that was left, where others of the same GPU type are still used.")
    used_again: bool | None = optional(
        "True if the node of a slow or silent replica takes replicas again, because no other node had room."
    )


class MoveStatus(StatusModel):
    """A move that is under way: new pools are to replace old ones."""

    pools: list[PoolName] = Field(max_length=64, description="New pools.")
    began_at: Time = Field(description="Time when the first new replicas were wanted.")
    due_at: Time = Field(
        description="Time by which the new replicas must serve. After it the move is taken back, if the old pools are "
        "still valid for the spec."
    )
    spec: Digest = Field(
        description="Digest of the spec's fields on which a start depends. The times hold for this digest only."
    )


class EarlierSettingsStatus(StatusModel):
    """Settings of a pool's engines that served before the live loop changed them."""

    name: PoolName = Field(description="Pool.")
    max_sequences: int = Field(description="Most requests at the same time of one engine.")
    batched_tokens: int | None = optional("Tokens of one step of an engine.")
    drain_seconds: int | None = optional("Seconds in which running requests may finish when a pod ends.")
    inputs: Digest | None = optional("Digest of what the pod template was made from.")


class RetuneStatus(StatusModel):
    """A change of engine settings by the live loop that is under way: engines start again one after another."""

    pools: list[EarlierSettingsStatus] = Field(
        max_length=64,
        description="Settings that served before, by pool.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    began_at: Time = Field(description="Time when the change was decided.")
    due_at: Time = Field(
        description="Time by which the next replica must serve with the new settings. After it the change is taken "
        "back, if the earlier settings are still valid for the spec."
    )
    replica_seconds: int = Field(description="Seconds that each replica may take.")
    spec: Digest = Field(
        description="Digest of the spec that the earlier settings were chosen for. The times hold for this digest only."
    )


class FailedMoveStatus(StatusModel):
    """A placement, or engine settings at a placement, whose replicas did not serve in time."""

    gpu_type: str = Field(description="GPU type of the failed replicas.")
    tensor_parallel: int = Field(description="Tensor-parallel degree of the failed replicas.")
    pipeline_parallel: int | None = optional("Pipeline stages, if there were several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    data_parallel: int | None = optional(ENGINES)
    engine: str | None = optional(f"Name of the engine that did not serve; empty for {DEFAULT_ENGINE}.")
    max_sequences: int | None = optional(
        "Most requests at the same time of one engine, where a change of settings failed at the placement "
        "where the replicas run. Absent where a move to the placement failed."
    )
    batched_tokens: int | None = optional("Most tokens of a step of one engine, where a change of settings failed.")
    at: Time = Field(description="Time when the move or the change was taken back.")
    until: Time = Field(
        description="Time before which the placement is not chosen again, unless spec.overrides.gpuType asks for it, "
        "or before which the live loop changes no settings at this placement."
    )
    times: int = Field(description="Failures there so far. Each one doubles the pause.")
    reason: PoolName = Field(description="Reason, as one CamelCase word for programs.")
    message: Annotated[str, Field(max_length=1024)] = Field(
        default="", description="Reason in the words of a pod or of the scheduler, as text for people."
    )
    spec: Digest = Field(
        description="Digest of the spec's fields on which a start depends. The entry holds for this digest only."
    )


class ProposalStatus(StatusModel):
    """A change of other deployments that would make room for this one. Nothing carries it out."""

    reason: str = Field(description="Reason, as one CamelCase word for programs.")
    message: str = Field(description="Change with its figures, as text for people.")


class DecisionStatus(StatusModel):
    """A decision about the pools of this object."""

    id: str = Field(description="Name of the decision.")
    at: Time = Field(description="Time of the decision.")
    placed: str = Field(default="", description="Replicas by GPU type and split from then on, as text for people.")
    replaced: str | None = optional("The same before the decision, if there were any.")
    solver: str | None = optional("What found the places; empty if nothing had to be placed.")
    gap_permille: int | None = optional(
        "Thousandths of the bill of that pass's new placements that a better plan might save at most."
    )


class CalledStatus(StatusModel):
    """The figure that called for an addition, and the load at that time."""

    figure: str = Field(description="Name of the figure, e.g. kv_percent or waiting.")
    before: int = Field(description="Its value when the replicas were added.")
    arrivals_per_minute: int = Field(description="Requests a minute that came.")
    served_per_minute: int = Field(description="Requests a minute that were begun.")
    counted_seconds: int | None = optional("Time over which these were counted, in seconds.")
    read_tokens_per_minute: int | None = optional(
        "Tokens of KV cache that were read in a minute, once for each generated token: the demand for KV cache."
    )


class AdditionResultStatus(StatusModel):
    """The result of an addition."""

    verdict: str = Field(description="Serves, Helps, NotKnown, DoesNotServe or DoesNotHelp.")
    at: Time = Field(description="Since when that is known.")
    in_a_row: int | None = optional("Additions in vain up to this one.")
    after: int | None = optional("The figure that called for it, when the addition was judged.")
    message: str | None = optional("What the kubelet, the engine or the scheduler says of its pods.", max_length=300)


class ChangeStatus(StatusModel):
    """One change that the live loop made."""

    at: Time = Field(description="Time of the change.")
    kind: str = Field(description="Add, Remove, Retune, Move, Replace, RollBack or TakeBack.")
    reason: str | None = optional("Reason, as one CamelCase word for programs.")
    replicas: int | None = optional("Replicas that were wanted from then on.")
    added: int | None = optional("Replicas that an addition added.")
    called_by: CalledStatus | None = optional("What called for an addition, if replicas can change it.")
    result: AdditionResultStatus | None = optional("What became of an addition; unset while that is not known.")
    engine: str | None = optional("Engine that a move led to, if it was another one than before.")


class LearnedElsewhereStatus(StatusModel):
    """Figures that were learned of a pool that the replicas left."""

    pool: str = Field(description="Pool that was left.")
    token_time_percent: int = Field(description="Measured time per token, in percent of the performance model's.")


class LearnedPercentileStatus(StatusModel):
    """How far a promised percentile is from the mean, in percent of it. A figure is left out while it is not known."""

    percentile: int = Field(description="The percentile: 50, 95 or 99.")
    first_token_percent: int | None = optional("That of the time to the first token.")
    token_percent: int | None = optional("That of the time between two tokens.")


class LearnedStatus(StatusModel):
    """Figures that the live loop learned of the replicas of one pool. Small differences are not written."""

    pool: str = Field(description="Pool whose replicas were measured.")
    engine: str | None = optional(f"Engine that was measured there and elsewhere; empty for {DEFAULT_ENGINE}.")
    token_time_percent: int = Field(description="Measured time per token, in percent of the performance model's.")
    startup_seconds: int | None = optional("Longest start-up of a replica that was seen.")
    most_work: int | None = optional("Prompt tokens and 4 x generated tokens a second of a replica at its limit.")
    output_tokens: int | None = optional("Mean length of an answer in tokens.")
    elsewhere: list[LearnedElsewhereStatus] | None = several(8, "What was learned of the pools that were left last.")
    percentile: LearnedPercentileStatus | None = optional("The promised percentile of the measured times.")
    dispersion_percent: int | None = optional(
        "Variance over mean of the requests that replicas hold, in percent; 100 if each request goes to any replica."
    )


class RejectedProposalStatus(StatusModel):
    """A proposal that somebody rejected. It is not made again while the entry holds."""

    proposal: str = Field(description="Id of the proposal.")
    by: str = Field(description="User name of the person who rejected it.")
    reason: str | None = optional("Reason, as text for people.")
    until: Time = Field(description="Time from which it may be proposed again.")
    generation: int = Field(description="Generation of the spec that the rejection is about.")


class AcknowledgedStatus(StatusModel):
    """A finding that somebody acknowledged by a PlacementApproval. Inbox and alerts leave it alone while it holds."""

    finding: str = Field(description="What is known: the reason of a condition, or OverLine.")
    generation: int = Field(description="Generation of the spec that it was found with.")
    severity: str = Field(description="How severe it was. It counts again when it is more severe.")
    serves: bool = Field(description="Whether anything served. It counts again when nothing does any more.")
    by: str = Field(description="User name of the person who acknowledged it.")
    until: Time = Field(description="Time from which it counts again.")
    approval: str = Field(description="Uid of the PlacementApproval. Without that object it counts again.")
    reason: str | None = optional("Reason, as text for people.")


class ReplacementStatus(StatusModel):
    """The replacement of one replica that is slow or silent, or that makes room for another deployment."""

    pod: str = Field(description="Pod that ends as soon as a new one serves; with GivesWay it has no successor.")
    node: str | None = optional("Its node.")
    reason: str = Field(description="Why it is replaced: ReplicaSlow, ReplicaSilent, MakesRoom or GivesWay.")
    began: Time = Field(description="When that was decided.")
    makes_room_for: str | None = optional(
        "Deployment that gets the room. That of another namespace is not named.", max_length=253
    )
    strays: list[str] | None = several(3, "New pods on that node that end, so that the next one starts elsewhere.")


class LeavingPodStatus(StatusModel):
    """A pod of another deployment that leaves its node."""

    pod: str = Field(description="Uid of the pod.")
    node: str = Field(description="Its node.")
    ends: bool | None = optional("True if it ends for good.")


class RoomOrderStatus(StatusModel):
    """An approved proposal for which others make room. Without it, its approval or these pods nothing more is done."""

    proposal: str = Field(description="Id of the proposal.")
    basis: str = Field(description="Id of the proposal without the pods of others.")
    approval: str = Field(description="Uid of the PlacementApproval. To delete that object ends it.")
    generation: int = Field(description="Generation of the spec that needs the room.")
    began: Time = Field(description="When that was decided.")
    leaving: list[LeavingPodStatus] | None = several(32, "The pods that leave their nodes.")
    gone: Time | None = optional("When all of them were gone.")


class RebalancingStatus(StatusModel):
    """The live loop's decision and proposal. Live figures are in the metrics."""

    decision: str = Field(description="Keep, AddReplica, RemoveReplica, Retune, Move, ReplaceReplica or Wait.")
    reason: str = Field(description="Reason, as one CamelCase word for programs.")
    message: str = Field(description="Reason, as text for people.")
    hints: list[str] | None = several(
        8, "What else people should know, e.g. a signal that cannot be read, as text for people."
    )
    diagnosis: str | None = optional("What limits the replicas, or what else is wrong, as one CamelCase word.")
    proposal: str | None = optional("Proposed change: what an approval would do, or what others could do.")
    proposal_id: str | None = optional("Id of the PlacementProposal that describes it and can be approved.")
    base_replicas: int | None = optional("spec.replicas that the target started from.")
    target_replicas: int | None = optional("Replicas that the live loop wants, within the bounds.")
    changes: list[ChangeStatus] | None = optional(
        "Changes within the last hour, and the ten last ones.", max_length=250
    )
    last_change: str | None = optional("Last change, as text.")
    learned: LearnedStatus | None = optional("What was learned of the replicas.")
    replacing: ReplacementStatus | None = optional("The replica that ends as soon as a new one serves in its place.")
    room: RoomOrderStatus | None = optional("The approved proposal for which others make room now.")
    approved: bool | None = optional("True if the target is from approved proposals, and the mode is Recommend.")
    rejected: list[RejectedProposalStatus] | None = several(
        8, "Rejected proposals. None of them is made again before its time."
    )
    carried_out: list[str] | None = several(8, "Uids of the last PlacementApprovals that were carried out.")


class ImagePlatformsStatus(StatusModel):
    """The platforms of an image that is not the release's own, if nobody declares them. What serves keeps them."""

    reference: str = Field(description="The image.")
    platforms: list[Annotated[str, Field(pattern=r"^linux/[a-z0-9]{1,16}$")]] | None = several(
        32, "Its platforms; empty where no node is ruled out."
    )
    source: Annotated[str, Field(pattern="^(Index|Assumed)$")] = Field(
        description="Index, or Assumed where the index could not be read, or did not have to be."
    )
    unread: str | None = optional("Why the index could not be read. spec.engine.platforms names the platforms.")


class WeightsStatus(StatusModel):
    """The copy of the weights on the claim of ``spec.model.cache``."""

    claim_name: str = Field(description="PersistentVolumeClaim of the copy.")
    source: str = Field(description="Where the files come from.")
    folder: str = Field(description="Folder of the copy on the claim.")
    state: Annotated[str, Field(pattern=r"^(Awaited|Arriving|Ready|Failed)$")] = Field(
        description="Awaited, Arriving, Ready or Failed. Engines start when it is Ready."
    )
    copied_bytes: Bytes64 | None = optional("Bytes that are on the claim, while they arrive.")
    total_bytes: Bytes64 | None = optional("Bytes of all files.")
    bytes_per_second: Bytes64 | None = optional("Rate of the download.")
    remaining_seconds: Bytes64 | None = optional("Time that the rest takes at this rate.")
    message: str | None = optional("Why the last try failed.", max_length=1024)
    retry_at: Time | None = optional("When a download that failed is tried again. It goes on with what is there.")


class RoutingGatewayStatus(StatusModel):
    """The Gateway of ``spec.routing.gateway``, and the controller's answer for the HTTPRoute to it."""

    name: str = Field(description="Name of the Gateway.")
    namespace: str = Field(description="Namespace of the Gateway.")
    controller: str | None = optional("Controller that answered for the HTTPRoute.", max_length=253)
    accepted: bool | None = optional("Whether it accepts the HTTPRoute. Unset: it has not answered.")
    resolved_refs: bool | None = optional(
        "Whether it can send requests to the InferencePool. Unset: it has not answered."
    )


class RoutingStatus(StatusModel):
    """The router of ``spec.routing``."""

    mode: str = Field(description="Mode of the router.")
    state: Annotated[str, Field(pattern=r"^(Starting|Ready|NotReady|Missing)$")] = Field(
        description="Ready: requests go through the router. In all other states they go to any ready replica."
    )
    ready_replicas: int | None = optional("Pods of the router that take requests, in mode Standalone.")
    address: str | None = optional("Base URL of the OpenAI API through the router.")
    endpoints: int | None = optional("Replicas that serve, among which the picker chooses.")
    picker_ready: bool | None = optional("Whether the picker answers.")
    gateway: RoutingGatewayStatus | None = optional("The Gateway of mode Gateway.")
    message: str | None = optional(
        "Why requests do not go through the router, or what may stop them there.", max_length=1024
    )


class InferenceDeploymentStatus(StatusModel):
    """The operator's decision with its reasons, and what runs.

    It has no names of pods: pods come and go far more often than decisions do, and every change of a status is a write
    to etcd and an event for every watch. ``selector`` lists the pods, with the rights of whoever asks. It has no nodes
    that the fleet leaves out either: these belong to no deployment.
    """

    conditions: list[Condition] | None = keyed(
        "type", 16, "Conditions. Ready is the summary. Reconciling and Stalled exist only while they are true."
    )
    observed_generation: int | None = optional("Generation of the spec that this status is about.", ge=0)
    replicas: int | None = optional("Pods that exist.")
    ready_replicas: int | None = optional("Pods that serve.")
    replicas_summary: str | None = optional("Ready and desired replicas, for the printer column.")
    selector: str | None = optional("Label selector of the pods, for the scale subresource.")
    routing: RoutingStatus | None = optional("Router of the deployment, if spec.routing asks for one.")
    url: str | None = optional("Base URL of the OpenAI API, inside the cluster.")
    model: ModelStatus | None = optional("Facts of the model.")
    estimate: EstimateStatus | None = optional("VRAM of one GPU of one replica, term by term.")
    placement: PlacementStatus | None = optional("Chosen GPUs, split and engine settings.")
    image_platforms: ImagePlatformsStatus | None = optional(
        "Platforms of an image that is not the release's own, where nobody declares them."
    )
    weights: WeightsStatus | None = optional("Copy of the weights on a claim, if spec.model.cache names one.")
    size: SizeStatus | None = optional("Number of replicas and requests of one replica, chosen for totalConcurrency.")
    engine: ChosenEngineStatus | None = optional("Engine that was chosen, if spec.engine.name is auto.")
    pools: list[PoolStatus] | None = keyed(
        "name", 64, "Replicas by kind: one pool, or two while a move or a spill-over lasts."
    )
    rejections: list[RejectionStatus] | None = several(40, "Rejected candidates with their reasons.")
    rejections_omitted: int | None = optional("Number of further rejections that the list does not hold.")
    remedies: list[RemedyStatus] | None = several(10, "Changes that would make the deployment fit.")
    suggestions: list[SuggestionStatus] | None = several(
        3, "Changes that would have made the last placement cheaper when it was decided."
    )
    too_small: list[TooSmallStatus] | None = several(
        40, "Placements that proved too small. They are not used again until the spec changes."
    )
    observations: list[ObservationStatus] | None = several(
        40, "Memory that engines reported. It corrects all estimates of engines of the same kind."
    )
    rehomings: list[RehomingStatus] | None = several(
        20, "Placements and nodes that replicas left within the last hour because their pods could not run."
    )
    move: MoveStatus | None = optional("The move that is under way, if there is one.")
    retune: RetuneStatus | None = optional(
        "The change of engine settings by the live loop that is under way, if there is one."
    )
    failed_moves: list[FailedMoveStatus] | None = several(
        10, "Placements and engine settings that did not come up in time within the last seven days."
    )
    proposals: list[ProposalStatus] | None = several(
        3, "Changes of other deployments that would make room for the missing replicas."
    )
    decisions: list[DecisionStatus] | None = several(10, "The last decisions, the newest first.")
    rebalancing: RebalancingStatus | None = optional("The live loop's decision and proposal.")
    acknowledged: list[AcknowledgedStatus] | None = several(
        8, "Findings that people know of. They are shown apart, and their alerts rest, while these entries hold."
    )
