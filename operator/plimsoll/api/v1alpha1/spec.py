"""The model to serve, the load, and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from plimsoll.api.bounds import (
    DEFAULT_UTILIZATION_PERCENT,
    ENGINE_VERSION,
    MOST_CONCURRENCY,
    STEP_TOKENS,
    UTILIZATION_PERCENT,
    usual_release,
)
from plimsoll.api.v1alpha1.base import (
    LARGEST_BOUND,
    MODEL_NAME,
    NAME_OR_ADDRESS,
    PATH_OR_ADDRESS,
    SOURCE,
    ApiModel,
    GpuTypeName,
    Milliseconds,
    Tokens,
    no_addresses,
    optional,
    rule,
    several,
)
from plimsoll.api.v1alpha1.options import (
    MOST_SCHEDULED,
    MOST_WINDOWS,
    MaintenanceWindowSpec,
    MultimodalSpec,
    ScheduledMinimumSpec,
    SpeculationSpec,
)
from plimsoll.api.v1alpha1.pods import PodTemplateSpec
from plimsoll.api.v1alpha1.values import LONGEST_QUANTITY, DataKey, DnsLabel, DnsSubdomain, FreeForm
from plimsoll.domain.engines.engine_choice import ANY_ENGINE, DEFAULT_ENGINE, EngineVersion
from plimsoll.domain.requests.routing import RoutingMode
from plimsoll.engines.base import Engine
from plimsoll.engines.flags import every_spelling
from plimsoll.engines.registry import ENGINES, engine_of


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
    BITSANDBYTES = "bitsandbytes"


class KvPrecisionChoice(StrEnum):
    """KV-cache precision. ``auto`` takes what the checkpoint fixes, else the weights' 16-bit type."""

    AUTO = "auto"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    NVFP4 = "nvfp4"
    INT8 = "int8"
    INT4 = "int4"
    FP8_SCALED = "fp8_per_token_head"
    TURBO_K8V4 = "turboquant_k8v4"
    TURBO_4BIT = "turboquant_4bit_nc"
    TURBO_K3V4 = "turboquant_k3v4_nc"
    TURBO_3BIT = "turboquant_3bit_nc"


class Sizing(StrEnum):
    """The load that the KV cache must hold."""

    GUARANTEED = "Guaranteed"
    EXPECTED = "Expected"


class RebalancingMode(StrEnum):
    """The mode of the live loop."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


class MovesMode(StrEnum):
    """The use of moves."""

    RECOMMEND = "Recommend"
    AUTO = "Auto"


class ScaleOwner(StrEnum):
    """Who decides the number of replicas."""

    PLIMSOLL = "Plimsoll"
    EXTERNAL = "External"


class WakeSignal(StrEnum):
    """The signal that starts a replica when none runs."""

    GATEWAY = "Gateway"
    MANUAL = "Manual"


class SecretKeyRef(ApiModel):
    """A key of a Secret in the same namespace."""

    name: DnsSubdomain = Field(description="Name of the Secret.")
    key: DataKey = Field(default="token", description="Key that holds the token.")


class SourceSecretRef(ApiModel):
    """A Secret in the same namespace whose entries are variables with credentials."""

    name: DnsSubdomain = Field(description="Name of the Secret, e.g. with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")


class WeightsCacheSpec(ApiModel):
    """A claim that keeps one copy of the weights for all replicas, and for later deployments of the same revision."""

    claim_name: DnsSubdomain = Field(
        description="PersistentVolumeClaim that a Job fills before the first pod starts. Several replicas need "
        "ReadWriteMany."
    )


class ModelSpec(ApiModel):
    """The model to serve."""

    cel_rules = (
        *no_addresses("model"),
        rule(
            "!has(self.path) || !(has(self.source) || has(self.cache))",
            "model.path names weights that are in the pod already: remove it, or model.source and model.cache",
        ),
        rule(
            "!has(self.sourceSecretRef) || (has(self.source) && !self.source.startsWith('oci://'))",
            "model.sourceSecretRef is for a source at s3:// or gs://: remove it, or write the source. A token for the "
            "hub goes into model.tokenSecretRef, and a password for a registry into podTemplate.imagePullSecrets",
        ),
        rule(
            "!has(self.cache) || !has(self.source) || !self.source.startsWith('oci://')",
            "model.cache is not for images: nodes keep the images of an oci:// source themselves. Remove it",
        ),
        rule(
            "!has(self.revision) || !has(self.source)",
            "model.revision is for models of the hub: remove it, and write the place of this version in model.source",
        ),
    )

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=MODEL_NAME,
        json_schema_extra=NAME_OR_ADDRESS,
        description="Hugging Face id, e.g. meta-llama/Llama-3.1-8B-Instruct; any name where config is given inline.",
    )
    revision: str | None = optional(
        "Commit, tag or branch. Pin a commit: checkpoints change size.", min_length=1, max_length=128
    )
    token_secret_ref: SecretKeyRef | None = optional(
        "Token for gated or private models; given to the engine and used to read the configuration."
    )
    config: FreeForm | None = optional(
        "The model's config.json, inline, for models that are on no hub. Mount the weights yourself."
    )
    path: str | None = optional(
        "Directory in the pod that holds the weights.",
        min_length=1,
        max_length=1024,
        pattern=r"^/",
        json_schema_extra=PATH_OR_ADDRESS,
    )
    parameters: Annotated[int, Field(ge=1, le=LARGEST_BOUND)] | None = optional(
        "Exact number of parameters, if config is inline and the number is known."
    )
    source: str | None = optional(
        "Where the weights are if not on the hub: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, or oci://IMAGE, which is "
        "mounted as an image volume.",
        max_length=1024,
        pattern=SOURCE,
    )
    source_secret_ref: SourceSecretRef | None = optional(
        "Credentials for a source at s3:// or gs://, given as environment to what reads it."
    )
    cache: WeightsCacheSpec | None = optional("Keep the weights on a claim. Empty: each pod loads them itself.")


HOST_MEMORY = r"^(auto|[0-9]+(\.[0-9]+)?(Mi|Gi|Ti|M|G|T))$"


class KvCacheSpec(ApiModel):
    """Settings of the KV cache."""

    cel_rules = (
        rule(
            "!has(self.allowFp8) || !self.allowFp8 || self.precision == 'auto'",
            "kvCache.allowFp8 leaves the choice to auto: set kvCache.precision to auto, or remove allowFp8",
        ),
    )
    precision: KvPrecisionChoice = Field(
        default=KvPrecisionChoice.AUTO,
        description="auto: the type that the checkpoint sets, else its 16-bit type. int8, "
        "int4 and fp8_per_token_head keep a scale for every token and head; turboquant_* leave the first two and the "
        "last two layers in 16 bits. Answers can get worse with fewer bits.",
    )
    allow_fp8: bool | None = optional(
        "With precision auto: use fp8 where 16 bits do not fit, and only if that saves more than a tenth "
        "of the bill or nothing else is free. Answers can get worse."
    )
    host_memory: Annotated[str, Field(max_length=LONGEST_QUANTITY, pattern=HOST_MEMORY)] | None = optional(
        "Host memory of each replica that keeps the KV cache of finished requests, for prompts that begin alike: e.g. "
        "200Gi, or auto for half of its GPUs' share of a node, as far as it is free. It makes no model fit: what runs "
        "must be in GPU memory."
    )


class ExpectedTokens(ApiModel):
    """Mean lengths of the expected requests: the KV cache is then sized for these, not for the full context."""

    prompt: Tokens = Field(description="Mean prompt length in tokens.")
    output: Tokens = Field(description="Mean output length in tokens.")


class SharedPrefixSpec(ApiModel):
    """The beginning that prompts have in common, such as instructions or a document."""

    tokens: Tokens = Field(description="Tokens at the beginning of the prompts.")
    requests_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=100, description="Share of the requests that begin with them."
    )


class WorkloadSpec(ApiModel):
    """Facts about the requests, beyond their lengths."""

    shared_prefix: SharedPrefixSpec | None = optional(
        "Tokens that a replica computes once and finds in its prefix cache from then on. Speed and the expected need "
        "of memory count with it. It makes no fit sure, and the live loop counts with what engines report."
    )


class LatencyPercentile(StrEnum):
    """The measured time that counts: so many percent of all times are shorter."""

    P50 = "P50"
    P95 = "P95"
    P99 = "P99"

    @property
    def percent(self) -> int:
        """So many."""
        return int(self.value.removeprefix("P"))


class SloSpec(ApiModel):
    """The latency that users must get at the declared load. GPUs that are too slow for it are not used."""

    cel_rules = (
        rule(
            "!has(self.percentile) || has(self.ttftMilliseconds) || has(self.tpotMilliseconds)",
            "slo.percentile says which of the measured times must be within slo.ttftMilliseconds and "
            "slo.tpotMilliseconds: write one of them",
        ),
    )

    ttft_milliseconds: Milliseconds | None = optional(
        "Longest median time to the first token, without waiting for a free slot."
    )
    tpot_milliseconds: Milliseconds | None = optional("Longest median time between two tokens of an answer.")
    percentile: LatencyPercentile | None = optional(
        "Which of the measured times the live loop holds against these: P50, P95 or P99, from the engines' histograms. "
        "Unset: their mean."
    )


class CapacityTypeChoice(StrEnum):
    """How a node is paid for."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


class GpuVendor(StrEnum):
    """Whose GPUs: those that may be used, or those that an image is made for."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"


class ObjectiveChoice(StrEnum):
    """How much speed is worth."""

    INTERACTIVE = "Interactive"
    BALANCED = "Balanced"
    BATCH = "Batch"


class GpuSpec(ApiModel):
    """Which GPUs may be used."""

    cel_rules = (
        rule(
            "!has(self.allow) || !has(self.deny) || !self.allow.exists(a, a in self.deny)",
            "gpu.allow and gpu.deny name the same GPU type: remove it from one of them",
        ),
    )
    allow: list[GpuTypeName] | None = optional(
        "Only these GPU types (names as in `plimsoll gpus`). Empty: every type.", max_length=64
    )
    deny: list[GpuTypeName] | None = optional("GPU types that must not be used.", max_length=64)
    capacity_types: list[CapacityTypeChoice] | None = optional(
        "OnDemand: nodes that stay. Spot: nodes that the cloud may take back at any time. Both: the cheaper one comes "
        "first, and minReplicas replicas, one at least, stay on demand. Empty: both, and Spot only if nothing else is "
        "free.",
        max_length=2,
    )
    vendors: list[GpuVendor] | None = optional(
        "Only GPUs of these vendors. Empty: those that the cluster's admin names, or every vendor; then a GPU whose "
        "speed is not validated is used only if no other is free.",
        max_length=2,
    )
    max_per_replica: Annotated[int, Field(ge=1, le=64)] | None = optional("Most GPUs of one replica.")
    max_hourly_price: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,4})?$", max_length=11)] | None = optional(
        'Highest price of one replica in US dollars per hour, e.g. "12.50".'
    )


def _owned_flags_rule(engine: Engine) -> JsonDict:
    """The CEL twin of :func:`plimsoll.engines.flags.owned_flag` for one engine, for admission time."""
    spellings = every_spelling(engine.owned_flags).replace("-", "[-_]")
    return rule(
        f"{_is_other(engine)} || !has(self.extraArgs) || "
        f"self.extraArgs.all(a, !a.matches(r'(?i)^-+({spellings})(=|$)'))",
        "extraArgs holds a flag that the operator owns (model, lengths, parallelism, memory, precision, adapters, "
        f"speculation, host, port): use the field of the spec instead{_example(engine)}",
        field=".extraArgs",
    )


def _host_cache_rule(engine: Engine) -> JsonDict:
    """The CEL rule against the engine's own flags next to ``kvCache.hostMemory``."""
    spellings = every_spelling(engine.host_cache_flags).replace("-", "[-_]")
    return rule(
        "!has(self.kvCache) || !has(self.kvCache.hostMemory) || !has(self.engine) || !has(self.engine.extraArgs) || "
        f"self.engine.extraArgs.all(a, !a.matches(r'(?i)^-+({spellings})([.=]|$)'))",
        "kvCache.hostMemory sets the cache in host memory: remove the flag for it from engine.extraArgs, or hostMemory",
    )


def _example(engine: Engine) -> str:
    """Return an example of an owned flag of the usual engine, and the name of another engine."""
    if engine.name != DEFAULT_ENGINE:
        return f" ({engine.title})"
    return ", e.g. contextLength for --max-model-len, overrides.tensorParallel for -tp"


def _lora_rule(engine: Engine) -> JsonDict:
    if not engine.lora_ranks:
        return rule(
            f"{_is_other(engine)} || !has(self.lora)",
            f"lora is not for {engine.title}, whose adapters have no memory law: remove it",
            field=".lora",
        )
    *most, last = (str(rank) for rank in engine.lora_ranks)
    return rule(
        f"{_is_other(engine)} || !has(self.lora) || self.lora.maxRank in {list(engine.lora_ranks)}",
        f"lora.maxRank must be a rank that {engine.title} knows: {', '.join(most)} or {last}",
        field=".lora",
    )


def _is_other(engine: Engine) -> str:
    if engine.name == DEFAULT_ENGINE:
        return f"(has(self.name) && self.name != '{engine.name}')"
    return f"!has(self.name) || self.name != '{engine.name}'"


def _known_engine(name: str) -> str:
    if name not in ENGINES:
        raise ValueError(f"no such engine; write one of {', '.join(ENGINES)}")
    return name


def _known_choice(name: str) -> str:
    if name not in (*ENGINES, ANY_ENGINE):
        raise ValueError(f"no such engine; write one of {', '.join(ENGINES)}, or {ANY_ENGINE}")
    return name


def _of_one_engine(field: str, fix: str) -> JsonDict:
    """The CEL rule against a field that says something of one engine where the planner chooses it."""
    return rule(
        f"!has(self.name) || self.name != '{ANY_ENGINE}' || !has(self.{field})",
        f"engine.{field} is about one engine, and engine.name {ANY_ENGINE} leaves the choice: {fix}",
        field=f".{field}",
    )


class Platform(StrEnum):
    """A platform of an engine's image, as an image index names it."""

    AMD64 = "linux/amd64"
    ARM64 = "linux/arm64"


class RunnerKind(StrEnum):
    """The work that the engine does with a model."""

    GENERATE = "Generate"
    POOLING = "Pooling"


class LoraSpec(ApiModel):
    """Memory for LoRA adapters."""

    max_adapters: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="--max-loras: most adapters on the GPU at the same time."
    )
    max_rank: Annotated[int, Field(ge=1, le=512)] = Field(
        default=16,
        description="--max-lora-rank: largest rank of any adapter: 1, 8, 16, 32, 64, 128, 256, 320 or 512.",
    )


class WeightStreamingSpec(ApiModel):
    """Decoder layers that stay in host memory and are copied to the GPU before they are needed."""

    cel_rules = (rule("self.layers <= self.group", "weightStreaming.layers must not exceed weightStreaming.group"),)
    group: Annotated[int, Field(ge=1, le=1000)] = Field(description="--offload-group-size: layers of one group.")
    layers: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="--offload-num-in-group: layers of a group that stay in host memory."
    )
    prefetch: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="--offload-prefetch-step: layers that are copied ahead."
    )


class EngineSpec(ApiModel):
    """How the engine is run."""

    cel_rules = (
        rule(
            "!has(self.cpuOffload) || !has(self.weightStreaming)",
            "engine.cpuOffload and engine.weightStreaming are two ways for the same: remove one of them",
        ),
        rule(
            "!self.textOnly || !has(self.multimodal)",
            "engine.textOnly leaves the tower out, which engine.multimodal is about: remove one of them",
        ),
        rule(
            "!has(self.imageVendor) || has(self.image)",
            "engine.imageVendor is about engine.image, which is missing: name the image, or remove imageVendor",
        ),
        *(_owned_flags_rule(engine) for engine in ENGINES.values()),
        *(_lora_rule(engine) for engine in ENGINES.values()),
        _of_one_engine("version", "name the engine as well, or remove version"),
        _of_one_engine("image", "name the engine that the image runs, or remove image"),
        rule(
            f"!has(self.prefer) || (has(self.name) && self.name == '{ANY_ENGINE}')",
            f"engine.prefer is the order of the engines for engine.name {ANY_ENGINE}: write that, or remove prefer",
            field=".prefer",
        ),
    )

    name: (
        Annotated[str, AfterValidator(_known_choice), Field(json_schema_extra={"enum": [*ENGINES, ANY_ENGINE]})] | None
    ) = optional(
        f"Inference engine. {ANY_ENGINE} compares the engines like GPU types, and the status says why one was taken; "
        f"what runs stays on its engine. Default: {DEFAULT_ENGINE}."
    )
    prefer: (
        Annotated[
            list[Annotated[str, AfterValidator(_known_engine), Field(json_schema_extra={"enum": [*ENGINES]})]],
            Field(min_length=1, max_length=8),
        ]
        | None
    ) = optional(
        f"Engines in the order in which {ANY_ENGINE} takes them: the first one that has a place for all replicas. "
        "Engines that are not named come last. Default: the surer fit, then the lower cost.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    image: str | None = optional(
        "Image whose entry point is the engine's server (`vllm serve`). Default: the release's.",
        min_length=1,
        max_length=512,
        pattern=r"^[^ \t\r\n]+$",
    )
    image_vendor: GpuVendor | None = optional(
        "Vendor of the GPUs for image: NVIDIA or AMD. Default: AMD if image contains rocm, else NVIDIA."
    )
    platforms: Annotated[list[Platform], Field(min_length=1, max_length=len(Platform))] | None = optional(
        "Platforms that image is made for. Pods go to nodes of these architectures only. Default: "
        "those that the image's index names, where nodes have several and its registry is read; else linux/amd64 for "
        "your own image, and all that the release's image has.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    version: Annotated[str, Field(pattern=ENGINE_VERSION)] | None = optional(
        "Release of the engine. The memory law depends on it. Set it if image is your own build. Default: "
        f"{', '.join(f'{name} {usual_release(engine)}' for name, engine in ENGINES.items())}."
    )
    extra_args: list[Annotated[str, Field(min_length=1, max_length=1024)]] | None = optional(
        "Further flags of the engine. Flags that the operator sets are refused. The estimate does not "
        "include the memory that other flags need.",
        max_length=64,
    )
    gpu_memory_utilization_percent: Annotated[int, Field(ge=UTILIZATION_PERCENT[0], le=UTILIZATION_PERCENT[1])] = Field(
        default=DEFAULT_UTILIZATION_PERCENT,
        description="Share of each GPU's usable memory that the engine may use, in percent.",
    )
    max_batched_tokens: Annotated[int, Field(ge=STEP_TOKENS[0], le=STEP_TOKENS[1])] | None = optional(
        "Tokens per engine step. Default: by the GPU's memory."
    )
    max_sequences: Annotated[int, Field(ge=1, le=MOST_CONCURRENCY)] | None = optional(
        "--max-num-seqs: the most requests that one replica runs at the same time, on all its engines; at "
        "least concurrency. Default: as many as its KV cache holds within the latency limit."
    )
    enforce_eager: bool = Field(
        default=False, description="Run without CUDA graphs. This is slower and needs less memory."
    )
    cpu_offload: (
        Annotated[str, Field(max_length=LONGEST_QUANTITY, pattern=r"^[0-9]+(\.[0-9]+)?(Mi|Gi|M|G)$")] | None
    ) = optional("Weights of each GPU to keep in host memory, e.g. 8Gi. Slow: every step reads them over PCIe.")
    weight_streaming: WeightStreamingSpec | None = optional(
        "Decoder layers to keep in host memory and to copy to the GPU before they are needed."
    )
    lora: LoraSpec | None = optional("Memory for LoRA adapters. Sets --enable-lora.")
    text_only: bool = Field(
        default=False, description="--language-model-only: do not load the vision or audio tower of a multimodal model."
    )
    multimodal: MultimodalSpec | None = optional(
        "Images and videos: the most of one request, and how the GPUs share the tower."
    )
    runner: RunnerKind | None = optional(
        "Generate text, or Pooling: embeddings, scores or rewards. Default: by the model's class. Write "
        "Pooling for an embedding model or a reranker whose class generates, e.g. Qwen3-Embedding."
    )
    speculation: SpeculationSpec | None = optional(
        "Speculative decoding: the engine guesses tokens and checks them in one step."
    )

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that may run it, the preferred ones first; one if the spec names it."""
        if self.name != ANY_ENGINE:
            return (self.engine_name,)
        return tuple(dict.fromkeys((*(self.prefer or ()), *ENGINES)))

    @property
    def is_open(self) -> bool:
        """Whether the planner chooses the engine."""
        return self.name == ANY_ENGINE

    @property
    def engine_name(self) -> str:
        """The engine that is asked for. Where the planner chooses it, the first one that may run."""
        return self.engines[0] if self.name == ANY_ENGINE else self.name or DEFAULT_ENGINE

    @property
    def program(self) -> Engine:
        """The same with all that is known of it."""
        return engine_of(self.engine_name)

    @property
    def release(self) -> EngineVersion:
        """Its release."""
        return EngineVersion.of(self.release_name)

    @property
    def release_name(self) -> str:
        """Its release as the user writes it, or else the engine's usual one."""
        return self.version or str(usual_release(self.program))


class OverridesSpec(ApiModel):
    """Decisions that replace the planner's. The status shows their consequences."""

    cel_rules = (
        rule(
            "!has(self.memoryPerGpu) || self.memoryPerGpu.matches('[1-9]')",
            "overrides.memoryPerGpu must be more than 0: write what one GPU needs, e.g. 70Gi, or remove it",
        ),
    )
    gpu_type: GpuTypeName | None = optional("Use only this GPU type.")
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] | None = optional("Use only this tensor-parallel degree.")
    memory_per_gpu: (
        Annotated[str, Field(max_length=LONGEST_QUANTITY, pattern=r"^[0-9]+(\.[0-9]+)?(Mi|Gi|M|G)$")] | None
    ) = optional("Memory that one GPU needs, e.g. 70Gi. Replaces the estimate.")


class GatewaySpec(ApiModel):
    """The gateway in front of the deployment. Requests that wait there count as waiting ones."""

    inference_pool: DnsSubdomain = Field(
        description="InferencePool of the same namespace whose endpoint picker holds the queue (flow control)."
    )


class RoutingGatewaySpec(ApiModel):
    """The Gateway of the Gateway API that requests come through. Its listeners must admit routes of this namespace."""

    name: DnsSubdomain = Field(description="Name of the Gateway.")
    namespace: DnsLabel | None = optional("Namespace of the Gateway. Default: that of the InferenceDeployment.")
    section_name: DnsSubdomain | None = optional("Listener of the Gateway. Default: all that admit the route.")
    hostnames: list[DnsSubdomain] | None = several(
        16,
        "Host names of requests, e.g. chat.example.com. Without any, the address is that of the Gateway with the path "
        "/NAMESPACE/NAME.",
    )
    picker_tls: bool = Field(
        default=True,
        description="Whether the Gateway asks the picker by TLS, with a certificate that the picker makes itself. "
        "False for Gateways that ask in plain text, as Istio does without a DestinationRule.",
    )


class RoutingSpec(ApiModel):
    """The part that chooses the replica of a request."""

    cel_rules = (
        rule(
            "self.mode != 'Gateway' || has(self.gateway)",
            "routing.mode Gateway needs routing.gateway: name the Gateway, e.g. gateway: {name: shared, namespace: "
            "infra}, or set routing.mode to Standalone, which needs none",
        ),
        rule(
            "!has(self.gateway) || self.mode == 'Gateway'",
            "routing.gateway belongs to routing.mode Gateway: set the mode, or remove routing.gateway",
        ),
    )
    mode: RoutingMode = Field(
        default=RoutingMode.SERVICE,
        description="Service: connections go to any ready replica. Standalone: Envoys and an endpoint picker behind "
        "the Service of the same name send a request to the replica that knows its prefix or has the shortest queue, "
        "and hold it while no replica runs. Gateway: a Gateway of the cluster asks the endpoint picker.",
    )
    replicas: Annotated[int, Field(ge=1, le=8)] = Field(
        default=2,
        description="Pods of the router in mode Standalone. They ask the same picker, so more of them find as many "
        "prefixes.",
    )
    gateway: RoutingGatewaySpec | None = optional("The Gateway of mode Gateway.")

    @property
    def has_router(self) -> bool:
        """Whether an endpoint picker chooses the replica."""
        return self.mode is not RoutingMode.SERVICE


class RebalancingLimitsSpec(ApiModel):
    """Bounds of what the live loop adds and spends."""

    cel_rules = (
        rule(
            "!has(self.dollarsPerHour) || self.dollarsPerHour.matches('[1-9]')",
            "rebalancing.limits.dollarsPerHour must be more than 0: write the highest bill in US dollars an hour, e.g. "
            "40, or remove it",
        ),
    )
    additions_per_hour: Annotated[int, Field(ge=1, le=1000)] | None = optional(
        "Most replicas that are added in any hour, but up to minReplicas. Default: no limit but maxReplicas."
    )
    dollars_per_hour: Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,4})?$", max_length=11)] | None = optional(
        "US dollars an hour of all replicas that no addition or move may exceed, e.g. 40 or 12.5. Default: no limit."
    )

    @property
    def dollars(self) -> Decimal | None:
        """The bound of the bill as a number; None: there is none."""
        return None if self.dollars_per_hour is None else Decimal(self.dollars_per_hour)


class RebalancingSpec(ApiModel):
    """The bounds of the live loop's changes."""

    cel_rules = (
        rule(
            "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "rebalancing.minReplicas must not exceed rebalancing.maxReplicas",
        ),
        rule(
            "self.mode != 'Auto' || has(self.maxReplicas) || (has(self.scale) && self.scale == 'External')",
            "rebalancing.mode Auto needs rebalancing.maxReplicas: name the most replicas it may run",
        ),
        rule(
            "!has(self.moves) || self.moves != 'Auto' || self.mode == 'Auto'",
            "rebalancing.moves Auto needs rebalancing.mode Auto: set the mode, or leave rebalancing.moves out",
        ),
        rule(
            "self.minReplicas > 0 || self.mode == 'Auto'",
            "rebalancing.minReplicas 0 needs rebalancing.mode Auto: set the mode, or write 1 or more",
        ),
        rule(
            "!has(self.scale) || self.scale != 'External' || self.minReplicas > 0",
            "rebalancing.scale External leaves the number to another controller, also that of zero: remove "
            "rebalancing.minReplicas",
        ),
        rule(
            "!has(self.schedule) || !has(self.maxReplicas) || "
            "self.schedule.all(each, each.minReplicas <= self.maxReplicas)",
            "rebalancing.schedule: a minReplicas exceeds rebalancing.maxReplicas: lower it, or raise maxReplicas",
        ),
        rule(
            "!has(self.schedule) || !has(self.scale) || self.scale != 'External'",
            "rebalancing.scale External leaves the number to another controller, also that of a schedule: remove "
            "rebalancing.schedule",
        ),
    )
    mode: RebalancingMode = Field(
        default=RebalancingMode.RECOMMEND,
        description="Off: no decisions. Recommend: proposals in the status. Auto: changes within the bounds.",
    )
    moves: MovesMode | None = optional(
        "Recommend: moves to another placement are only proposed. Unset: as the mode says."
    )
    scale: ScaleOwner | None = optional(
        "Plimsoll: the live loop decides the number of replicas. External: another controller, e.g. a "
        "HorizontalPodAutoscaler, sets spec.replicas by the scale subresource, and the loop adds and removes nothing. "
        "Default: Plimsoll."
    )
    min_replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=1, description="Fewest replicas. 0: none runs where no request has come for idleSeconds."
    )
    max_replicas: Annotated[int, Field(ge=1, le=1000)] | None = optional("Most replicas.")
    idle_seconds: Annotated[int, Field(ge=30, le=604_800)] | None = optional(
        "With minReplicas 0: seconds without any request before the last replicas go. Default: 1800."
    )
    gateway: GatewaySpec | None = optional(
        "Count requests that wait at this gateway. Needs a Prometheus that scrapes it."
    )
    wake: WakeSignal | None = optional(
        "With minReplicas 0, what starts a replica again. Gateway: a request that waits there. Manual: "
        "nobody but a person or program that scales the deployment. Default: Gateway."
    )
    changes_per_hour: Annotated[int, Field(ge=0, le=120)] = Field(
        default=6, description="Most removals, moves and changes of settings in any hour. Additions are not counted."
    )
    reversals_per_hour: Annotated[int, Field(ge=0, le=120)] = Field(
        default=2, description="Most additions after a removal in any hour. Then no replica is removed."
    )
    limits: RebalancingLimitsSpec | None = optional("Bounds of what is added and spent, next to maxReplicas.")
    window_seconds: Annotated[int, Field(ge=5, le=86_400)] = Field(
        default=120,
        description="Seconds over which arrivals are counted. A sudden rise is seen in the last scrapes already.",
    )
    cooldown_seconds: Annotated[int, Field(ge=5, le=86_400)] = Field(
        default=1800, description="Seconds for which fewer replicas must have been enough before some are removed."
    )
    maintenance_windows: list[MaintenanceWindowSpec] | None = several(
        MOST_WINDOWS,
        "When moves and changes of engine settings may be made without an approval. Empty: always. "
        "Replicas are added and removed at any time.",
    )
    schedule: list[ScheduledMinimumSpec] | None = several(
        MOST_SCHEDULED,
        "Fewest replicas at certain times, e.g. before people begin to work. More than minReplicas, and ready by then.",
    )


class InferenceDeploymentSpec(ApiModel):
    """The model to serve, the load, and the bounds."""

    cel_rules = (
        rule(
            "!has(self.expectedTokens) || "
            "self.expectedTokens.prompt + self.expectedTokens.output <= self.contextLength",
            "expectedTokens.prompt + expectedTokens.output must not exceed contextLength",
        ),
        rule(
            "!has(self.sizing) || self.sizing != 'Expected' || has(self.expectedTokens)",
            "sizing Expected needs expectedTokens: name the mean prompt and output",
        ),
        rule(
            "!has(self.workload) || !has(self.workload.sharedPrefix) || "
            "self.workload.sharedPrefix.tokens < (has(self.expectedTokens) ? self.expectedTokens.prompt : "
            "self.contextLength)",
            "workload.sharedPrefix.tokens must be less than expectedTokens.prompt, or than contextLength without it: "
            "lower it",
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
        rule(
            "has(self.concurrency) != has(self.totalConcurrency)",
            "write exactly one of concurrency (requests of one replica) and totalConcurrency (requests of all "
            "replicas)",
        ),
        rule(
            "!has(self.totalConcurrency) || !has(self.replicas) || self.replicas == 1",
            "totalConcurrency lets the planner choose the number of replicas: remove replicas, or write minReplicas "
            "for the fewest",
        ),
        rule(
            "!has(self.minReplicas) || has(self.totalConcurrency)",
            "minReplicas belongs to totalConcurrency: with concurrency write replicas",
        ),
        rule(
            "!has(self.minReplicas) || !has(self.totalConcurrency) || self.minReplicas <= self.totalConcurrency",
            "minReplicas exceeds totalConcurrency: lower it, or raise totalConcurrency",
        ),
        rule(
            "!has(self.engine) || !has(self.engine.maxSequences) || !has(self.concurrency) || "
            "self.concurrency <= self.engine.maxSequences",
            "engine.maxSequences is less than concurrency: raise it, lower concurrency, or remove it",
        ),
        rule(
            "!has(self.totalConcurrency) || !has(self.rebalancing) || self.rebalancing.minReplicas > 0",
            "totalConcurrency is a load that is always there, so rebalancing.minReplicas must not be 0: write "
            "concurrency instead",
        ),
        rule(
            "!has(self.rebalancing) || self.rebalancing.minReplicas > 0 || has(self.rebalancing.gateway) || "
            "(has(self.routing) && self.routing.mode != 'Service') || "
            "(has(self.rebalancing.wake) && self.rebalancing.wake == 'Manual')",
            "rebalancing.minReplicas 0 needs a signal that starts a replica again, and with routing.mode Service "
            "nobody answers at zero: set routing.mode to Standalone or Gateway, name rebalancing.gateway, or set "
            "rebalancing.wake to Manual and scale the deployment yourself",
        ),
        rule(
            "!has(self.rebalancing) || !has(self.rebalancing.wake) || self.rebalancing.wake != 'Gateway' || "
            "has(self.rebalancing.gateway) || (has(self.routing) && self.routing.mode != 'Service')",
            "rebalancing.wake Gateway needs a gateway that holds requests: set routing.mode to Standalone or Gateway, "
            "name rebalancing.gateway, or set rebalancing.wake to Manual",
        ),
        rule(
            "!has(self.routing) || self.routing.mode == 'Service' || !has(self.rebalancing) || "
            "!has(self.rebalancing.gateway)",
            "rebalancing.gateway names the gateway of somebody else, and routing.mode has a router of its own: remove "
            "one of them",
        ),
        rule(
            "!has(self.totalConcurrency) || !has(self.rebalancing) || !has(self.rebalancing.scale) || "
            "self.rebalancing.scale != 'External'",
            "totalConcurrency lets the planner choose the number of replicas, so rebalancing.scale must not be "
            "External: write concurrency and replicas",
        ),
        *(_host_cache_rule(engine) for engine in ENGINES.values() if engine.host_cache_flags),
    )
    model: ModelSpec = Field(description="The model to serve.")
    routing: RoutingSpec = Field(default_factory=RoutingSpec, description="Who chooses the replica of a request.")
    precision: PrecisionChoice = Field(
        default=PrecisionChoice.AUTO, description="Weight precision. auto: the checkpoint's own."
    )
    kv_cache: KvCacheSpec = Field(default_factory=KvCacheSpec, description="KV-cache settings.")
    context_length: Tokens = Field(description="Longest request in tokens, prompt and output together.")
    concurrency: Annotated[int, Field(ge=1, le=MOST_CONCURRENCY)] | None = optional(
        "Requests that one replica serves at the same time. Or write totalConcurrency."
    )
    total_concurrency: Annotated[int, Field(ge=1, le=MOST_CONCURRENCY)] | None = optional(
        "Requests that all replicas together serve at the same time. The planner chooses the number of "
        "replicas and the requests of one replica. Or write concurrency and replicas."
    )
    min_replicas: Annotated[int, Field(ge=1, le=1000)] | None = optional(
        "Fewest replicas for totalConcurrency, for availability. Default: 1."
    )
    expected_tokens: ExpectedTokens | None = optional(
        "Size the KV cache for these mean lengths instead of concurrency x contextLength."
    )
    sizing: Sizing | None = optional(
        "Guaranteed: the KV cache holds concurrency requests of contextLength. Expected: 1.5 x "
        "concurrency x the mean length, at least one request of contextLength. Default: Expected where expectedTokens "
        "is given."
    )
    workload: WorkloadSpec | None = optional("What is known of the requests, beyond their lengths.")
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=1,
        description="Replicas to run. In Auto mode, the number to start from. Not with totalConcurrency.",
    )
    slo: SloSpec | None = optional(
        "The latency that users must get. Default: 5000 ms to the first token and 100 ms per token, as far "
        "as GPUs allow."
    )
    objective: ObjectiveChoice | None = optional(
        "How much speed is worth against dollars. Interactive: somebody waits for each token. Balanced: people read "
        "along. Batch: the price alone decides. Default: the cluster's, which is Balanced."
    )
    gpu: GpuSpec | None = optional("Which GPUs may be used.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="How the engine is run.")
    pod_template: PodTemplateSpec | None = optional("Further fields of the pods.")
    overrides: OverridesSpec | None = optional("Decisions that replace the planner's.")
    rebalancing: RebalancingSpec = Field(
        default_factory=RebalancingSpec, description="The bounds of the live loop's changes."
    )
    suspend: bool = Field(
        default=False, description="Stop planning, changes and rebalancing. Everything stays as it is."
    )

    @property
    def pods(self) -> PodTemplateSpec:
        """The further fields of the pods; empty ones if the user writes none."""
        return self.pod_template or PodTemplateSpec()

    @property
    def fewest(self) -> int:
        """The fewest replicas that the user asks for."""
        return self.replicas if self.total_concurrency is None else self.min_replicas or 1

    @property
    def limits(self) -> Mapping[str, str | int]:
        """The limits of the engine's container."""
        return (self.pods.resources and self.pods.resources.limits) or {}
