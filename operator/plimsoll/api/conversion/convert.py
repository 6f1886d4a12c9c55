"""Convert the user's object to the planner's request. Resolve the precision and report each contradiction by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal

from plimsoll.api.checks.pod_checks import check_pod_template, engine_resources, gpus_remark, scheduling_remark
from plimsoll.api.checks.schedules import check_times
from plimsoll.api.checks.spec_checks import check_host_memory, check_load
from plimsoll.api.conversion.claims import disk_rules
from plimsoll.api.conversion.engine_options import (
    as_served,
    check_feature,
    check_host_cache,
    check_kv_format,
    check_media,
    check_release,
    check_start,
    environment_of,
    given_start,
    refuse,
    to_host_use,
    to_media,
)
from plimsoll.api.conversion.engines import on_engines, spec_on
from plimsoll.api.conversion.precision import AUTO, cache_precision, weight_precision
from plimsoll.api.conversion.speculation import check_speculation, draft_model, speculation_of
from plimsoll.api.crd.lost_fields import lost_fields
from plimsoll.api.v1alpha1 import (
    ApiModel,
    CapacityTypeChoice,
    EngineSpec,
    InferenceDeployment,
    InferenceDeploymentSpec,
    PodTemplateSpec,
    Sizing,
)
from plimsoll.api.v1alpha1.containers import Sidecar
from plimsoll.domain.cluster.containers import Companion, Stated
from plimsoll.domain.cluster.fleet import UNKNOWN_NODES, Toleration, Weakest
from plimsoll.domain.cluster.gpus import CapacityType, Vendor
from plimsoll.domain.cluster.host import Amounts
from plimsoll.domain.cluster.node_rules import NodeRule, Requirement, chosen_rule, driver_rule
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    EngineChoice,
    LoraSlots,
    MediaUse,
    Residency,
    Speculation,
    WeightStreaming,
)
from plimsoll.domain.engines.images import (
    OF_RELEASE,
    EngineImages,
    ImagePlatforms,
    PlatformSource,
    assumed,
    declared,
    vendor_of,
)
from plimsoll.domain.errors import InvalidInput, shortened
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import WIDE
from plimsoll.domain.requests.routing import GatewayRef, RouterImages, Routing
from plimsoll.domain.requests.serving import (
    NO_CHOICES,
    ClusterDefaults,
    GpuConstraints,
    Overrides,
    Request,
    ServingShape,
    TotalLoad,
)
from plimsoll.domain.requests.weights import Scheme, Weights
from plimsoll.domain.requests.workload import ENGINE_CONTAINER, Manifest, PodOptions, SecretKey, WorkloadOptions
from plimsoll.domain.units import ceil_div, parse_bytes, parse_quantity
from plimsoll.engines.base import Engine, Feature
from plimsoll.engines.flags import Misuse, owned_flag
from plimsoll.engines.given import cache_blocks, unconfirmed_files
from plimsoll.engines.node_needs import least_driver
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartCommand
from plimsoll.facts.cluster.host_reading import is_other

_CAPACITY_TYPES = {CapacityTypeChoice.ON_DEMAND: CapacityType.ON_DEMAND, CapacityTypeChoice.SPOT: CapacityType.SPOT}

MOST_REPLICAS = 1000
"""The most replicas that a planner chooses if the user sets no limit: the most that ``spec.replicas`` allows."""


def to_request(
    resource: InferenceDeployment,
    model: ModelFacts,
    *,
    replicas: int | None = None,
    draft: ModelFacts | None = None,
    platforms: ImagePlatforms | None = None,
    images: EngineImages | None = None,
    weakest: Weakest = UNKNOWN_NODES,
    defaults: ClusterDefaults = NO_CHOICES,
    refuses_code: bool = True,
) -> Request:
    """Return the planner's request for one object.

    Args:
        resource: the parsed object.
        model: the facts of its model.
        replicas: the live loop's target, if it differs from ``spec.replicas``.
        draft: the facts of its draft, if it names one (:func:`~plimsoll.api.conversion.speculation.draft_model`).
        platforms: those of its image, if more is known of them than the spec says.
        images: the engines' images as the admin set them; None: those of the release.
        weakest: what the cluster's nodes have at least. A rule that all of them follow is left out.
        defaults: the admin's choices for what the spec leaves open.
        refuses_code: whether a model is refused whose code must be run and may not be. Without, that is a doubt alone.

    Raises:
        InvalidInput: a field contradicts the model or another field.
    """
    platforms = platforms_of(resource.spec.engine) if platforms is None else platforms
    spec = resource.spec
    check_without_model(spec)
    model = as_served(model, spec.engine)
    _check_adapters(spec, model)
    _check_context(spec, model)
    precision = weight_precision(spec.precision, model)
    check_release(spec.engine, model, precision)
    media = to_media(spec.engine, model)
    drafting = spec.engine.speculation
    speculation = None if drafting is None else speculation_of(drafting.method, drafting.tokens, model, draft)
    _check_draft(spec, speculation)
    start = given_start(spec)
    engine = _engine(spec, start, model, media, speculation)
    check_start(spec, start, model, engine.lora)
    if refuses_code:
        refuse(spec.engine, "spec.model", model.name, spec.engine.program.code_refusal(model, engine))
    check_kv_format(spec)
    kv_precision = cache_precision(spec.kv_cache.precision, model, precision)
    refusal = spec.engine.program.cache_refusal(model, precision, kv_precision, spec.engine.release)
    refuse(spec.engine, "spec.kvCache.precision", kv_precision.value, refusal)
    loaded, options = engine_of(engine.name).loaded(model, engine), to_workload_options(resource, images)
    request = Request(
        key=ObjectKey(resource.metadata.namespace, resource.metadata.name),
        model=loaded,
        precision=precision,
        kv_precision=kv_precision,
        shape=_shape(spec),
        engine=engine,
        replicas=spec.fewest if replicas is None else replicas,
        constraints=_constraints(spec, defaults),
        overrides=_overrides(spec),
        node_selector=tuple(sorted((spec.pods.node_selector or {}).items())),
        tolerations=_tolerations(spec),
        platforms=platforms,
        node_rules=(
            *_chosen_rules(spec.pods),
            *platforms.rules,
            *_driver_rules(options, weakest.driver),
            *disk_rules(options, loaded, weakest.disk_bytes),
        ),
        created=resource.metadata.creation_timestamp,
        cpu_millis=_requested(spec, "cpu", 1000),
        memory_bytes=_requested(spec, "memory", 1),
        slo=_slo(spec),
        objective=_objective(spec, defaults),
        total=_total(spec),
        cpu_limit_millis=_limit(spec, "cpu", 1000),
        memory_limit_bytes=_limit(spec, "memory", 1),
        other_resources=_other_resources(spec),
        other_limits=_others(spec.limits),
        may_narrow_cache=bool(spec.kv_cache.allow_fp8) and kv_precision in WIDE,
        priority_class=spec.pods.priority_class_name or "",
        least_on_demand=_least_on_demand(spec, defaults),
        remarks=_remarks(resource),
        companions=_companions(spec.pods),
    )
    check_host_memory(request, spec.pods.resources)
    if request.shape.shared_tokens and request.engine.prefix_caching is False:
        fix = "spec.engine.extraArgs turn the prefix cache off: remove that argument, or sharedPrefix."
        raise InvalidInput("spec.workload.sharedPrefix.tokens", request.shape.shared_tokens, fix)
    return request


def _driver_rules(options: WorkloadOptions, oldest: int | None) -> tuple[NodeRule, ...]:
    least = least_driver(options)
    return (driver_rule(least),) if oldest is not None and oldest < least else ()


def _chosen_rules(template: PodTemplateSpec) -> tuple[NodeRule, ...]:
    """Return the rule for the nodes that the user's node affinity requires."""
    terms = () if template.affinity is None else template.affinity.node_terms
    chosen = tuple(
        tuple(
            Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in (*(term.match_expressions or ()), *(term.match_fields or ()))
        )
        for term in terms
    )
    return (chosen_rule(chosen),) if chosen else ()


def _companions(template: PodTemplateSpec) -> tuple[Companion, ...]:
    """Return the further containers of the pods with what they state, those that start before the engine first."""
    before = (
        Companion(_stated(each), starts_first=True, stays=each.restart_policy is not None)
        for each in template.init_containers or ()
    )
    return (*before, *(Companion(_stated(each)) for each in template.containers or ()))


def _stated(container: Sidecar) -> tuple[tuple[str, Stated], ...]:
    """Return the requests and limits in thousandths. A limit without a request is requested, as in Kubernetes."""
    limits = (container.resources and container.resources.limits) or {}
    requests = limits | ((container.resources and container.resources.requests) or {})
    return tuple(
        (name, Stated(_whole(amount, 1000), _whole(limits[name], 1000) if name in limits else None))
        for name, amount in sorted(requests.items())
    )


def _least_on_demand(spec: InferenceDeploymentSpec, defaults: ClusterDefaults) -> int:
    """Return how many replicas stay off spot nodes if the user permits both capacity types and people wait."""
    permitted = set(spec.gpu.capacity_types or ()) if spec.gpu is not None else set()
    if len(permitted) < len(CapacityTypeChoice) or _objective(spec, defaults) is Objective.BATCH:
        return 0
    return max(1, spec.rebalancing.min_replicas)


def _objective(spec: InferenceDeploymentSpec, defaults: ClusterDefaults) -> Objective:
    return defaults.objective if spec.objective is None else Objective(spec.objective.value)


def _total(spec: InferenceDeploymentSpec) -> TotalLoad | None:
    if spec.total_concurrency is None:
        return None
    most = spec.rebalancing.max_replicas or MOST_REPLICAS
    return TotalLoad(spec.total_concurrency, spec.fewest, max(most, spec.fewest))


def _concurrency(spec: InferenceDeploymentSpec) -> int:
    """Return the requests of one replica: the declared ones, or an equal part of those of all replicas."""
    if spec.total_concurrency is None:
        return spec.concurrency or 1
    return ceil_div(spec.total_concurrency, spec.fewest)


def _slo(spec: InferenceDeploymentSpec) -> Slo | None:
    if spec.slo is None:
        return None
    if spec.slo.percentile is not None and spec.slo.ttft_milliseconds is spec.slo.tpot_milliseconds is None:
        fix = "It says which of the measured times counts: write slo.ttftMilliseconds or slo.tpotMilliseconds as well."
        raise InvalidInput("spec.slo.percentile", spec.slo.percentile.value, fix)
    times = _seconds(spec.slo.ttft_milliseconds), _seconds(spec.slo.tpot_milliseconds)
    return Slo(*times, None if spec.slo.percentile is None else spec.slo.percentile.percent)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _requested(spec: InferenceDeploymentSpec, name: str, unit: int) -> int | None:
    """Return the user's request for one resource of the engine's pod, in whole units, rounded up as the scheduler does.

    None if the user sets none: then the operator requests the engine's need.
    """
    given = engine_resources(spec.pods.resources).get("requests") or {}
    return None if name not in given else _whole(given[name], unit)


def _limit(spec: InferenceDeploymentSpec, name: str, unit: int) -> int | None:
    return None if name not in spec.limits else _whole(spec.limits[name], unit)


def _other_resources(spec: InferenceDeploymentSpec) -> Amounts:
    """Return the requests of further resources. A limit without a request is requested, as the API server does it."""
    requests = (spec.pods.resources and spec.pods.resources.requests) or {}
    return tuple((name, amount) for name, amount in _others({**spec.limits, **requests}) if amount > 0)


def _others(given: Mapping[str, str | int]) -> Amounts:
    return tuple(sorted((name, _whole(quantity, 1)) for name, quantity in given.items() if is_other(name)))


def _whole(quantity: str | int, unit: int) -> int:
    return int((parse_quantity(str(quantity)) * unit).to_integral_value(ROUND_CEILING))


def check_without_model(spec: InferenceDeploymentSpec) -> None:
    """Check everything that needs no facts of the model. Raises :class:`InvalidInput`.

    If the planner chooses the engine, one engine that takes the spec is enough.
    """
    on_engines(spec.engine, lambda engine: _check_without_model(spec_on(spec, engine)))


def _check_without_model(spec: InferenceDeploymentSpec) -> None:
    engine = spec.engine.program
    for index, argument in enumerate(spec.engine.extra_args or []):
        flag = owned_flag(argument, engine.owned_flags)
        if flag is not None:
            raise InvalidInput(
                f"spec.engine.extraArgs[{index}]", argument, f"The operator owns {flag.name}; use {flag.instead}."
            )
    engine.host_use(spec.engine.extra_args or (), environment_of(spec))
    _check_arguments(spec.engine)
    if spec.kv_cache.allow_fp8 and spec.kv_cache.precision != AUTO:
        raise InvalidInput(
            "spec.kvCache.allowFp8",
            "true",
            "It leaves the choice to auto: set spec.kvCache.precision to auto, or remove it.",
        )
    check_host_cache(spec)
    check_pod_template(spec.pods, engine)
    check_load(spec)
    check_speculation(spec.engine)
    check_times(spec.rebalancing)
    if spec.engine.release < engine.oldest:
        raise InvalidInput(
            "spec.engine.version",
            spec.engine.release_name,
            f"Use {engine.oldest} or newer: older engines are unknown here.",
        )
    _check_engine(spec.engine, engine)
    memory = None if spec.overrides is None else spec.overrides.memory_per_gpu
    if memory is not None and parse_bytes(memory) < 1:
        raise InvalidInput(
            "spec.overrides.memoryPerGpu",
            memory,
            "It must be more than 0: write what one GPU needs, e.g. 70Gi, or remove it.",
        )


def _check_arguments(spec: EngineSpec) -> None:
    """Refuse arguments with which the engine's own image cannot start, if the flags of its release are known."""
    misuse = _misuse(spec)
    if misuse is not None and spec.image is None and misuse.release == spec.release:
        raise InvalidInput(f"spec.engine.extraArgs[{misuse.position}]", misuse.value, misuse.fix)


def _misuse(spec: EngineSpec) -> Misuse | None:
    return spec.program.misused_argument(spec.extra_args or (), spec.release)


def _remarks(resource: InferenceDeployment) -> tuple[str, ...]:
    """Return what the author of an object has to look at, although nothing of it is refused."""
    counted = gpus_remark("spec.podTemplate.resources", resource.spec.pods.resources)
    found, engine = [lost_fields(resource.metadata.annotations or {}), counted], resource.spec.engine
    found += [scheduling_remark(resource.spec.pods)]
    misuse = _misuse(engine)
    if misuse is not None:
        title = engine.program.title
        what = f"{title} {engine.release}" if engine.image is None else "the image in spec.engine.image"
        found.append(
            f"spec.engine.extraArgs[{misuse.position}], {shortened(misuse.value)}, is not as {title} {misuse.release} "
            f"takes it; whether {what} does is not known here. {misuse.fix}"
        )
    return tuple(remark for remark in found if remark is not None)


def _check_engine(spec: EngineSpec, engine: Engine) -> None:
    """Refuse options of the engine that contradict each other or the engine's release."""
    streaming = spec.weight_streaming
    if streaming is not None and spec.cpu_offload is not None:
        raise InvalidInput("spec.engine.cpuOffload", spec.cpu_offload, "Remove it, or weightStreaming.")
    if streaming is not None and streaming.layers > streaming.group:
        raise InvalidInput(
            "spec.engine.weightStreaming.layers", streaming.layers, f"Write at most the group's {streaming.group}."
        )
    if streaming is not None:
        check_feature(spec, Feature.WEIGHT_STREAMING, "spec.engine.weightStreaming", spec.release_name)
    check_media(spec)
    if spec.lora is not None and not engine.lora_ranks:
        raise InvalidInput("spec.engine.lora", spec.lora.max_adapters, f"{engine.title} gets no adapters; remove it.")
    if spec.lora is not None and spec.lora.max_rank not in engine.lora_ranks:
        ranks = ", ".join(str(rank) for rank in engine.lora_ranks)
        raise InvalidInput("spec.engine.lora.maxRank", spec.lora.max_rank, f"Write one of {ranks}.")


def _check_adapters(spec: InferenceDeploymentSpec, model: ModelFacts) -> None:
    refusal = None if spec.engine.lora is None else spec.engine.program.adapters_refusal(model)
    if refusal is not None:
        raise InvalidInput("spec.engine.lora", model.architecture, refusal)


def _check_context(spec: InferenceDeploymentSpec, model: ModelFacts) -> None:
    """Refuse requests that are longer than the engine takes. An image of the user's own may take more."""
    arguments, environment = spec.engine.extra_args or (), environment_of(spec)
    refusal = spec.engine.program.context_refusal(model, spec.context_length, arguments, environment)
    refuse(spec.engine, "spec.contextLength", spec.context_length, refusal)


def _check_draft(spec: InferenceDeploymentSpec, speculation: Speculation | None) -> None:
    """Refuse a release that cannot load the small model that drafts, and requests that are too long for both.

    An EAGLE head is no model of its own.
    """
    if speculation is None or speculation.draft is None or speculation.head is not None:
        return
    check_release(spec.engine, speculation.draft, speculation.draft.checkpoint.precision)
    refusal = spec.engine.program.draft_refusal(speculation, spec.context_length, spec.engine.release)
    refuse(spec.engine, "spec.contextLength", spec.context_length, refusal)


def _shape(spec: InferenceDeploymentSpec) -> ServingShape:
    expected = spec.expected_tokens
    if expected is not None and expected.prompt + expected.output > spec.context_length:
        raise InvalidInput(
            "spec.expectedTokens",
            expected.prompt + expected.output,
            f"Prompt and output together must not exceed contextLength {spec.context_length}.",
        )
    if spec.sizing is Sizing.EXPECTED and expected is None:
        raise InvalidInput("spec.sizing", spec.sizing.value, "Name the mean prompt and output in expectedTokens.")
    prefix = None if spec.workload is None else spec.workload.shared_prefix
    most = spec.context_length if expected is None else expected.prompt
    if prefix is not None and prefix.tokens >= most:
        field = "contextLength" if expected is None else "expectedTokens.prompt"
        fix = f"Write less than the {most} of {field}: a prompt goes on behind what it shares."
        raise InvalidInput("spec.workload.sharedPrefix.tokens", prefix.tokens, fix)
    return ServingShape(
        guaranteed=spec.sizing is Sizing.GUARANTEED,
        context_tokens=spec.context_length,
        concurrency=_concurrency(spec),
        expected_prompt_tokens=expected.prompt if expected else None,
        expected_output_tokens=expected.output if expected else None,
        shared_tokens=prefix.tokens if prefix else 0,
        shared_percent=prefix.requests_percent if prefix else 100,
    )


def _engine(
    spec: InferenceDeploymentSpec,
    start: StartCommand,
    model: ModelFacts,
    media: MediaUse,
    speculation: Speculation | None,
) -> EngineChoice:
    engine, residency, given = spec.engine, _residency(spec.engine), start.options
    runner = engine.program.model_runner(engine.release, environment_of(spec), residency)
    _check_offload(engine, residency, runner)
    blocks = cache_blocks(engine.program, given, model)
    return EngineChoice(
        version=engine.release,
        gpu_memory_utilization_percent=engine.gpu_memory_utilization_percent,
        max_batched_tokens=engine.max_batched_tokens,
        max_sequences=engine.max_sequences,
        enforce_eager=engine.enforce_eager,
        residency=residency,
        lora=None if engine.lora is None else LoraSlots(engine.lora.max_adapters, engine.lora.max_rank),
        speculation=speculation,
        media=media,
        unfollowed=(*given.unfollowed, *blocks.unfollowed),
        image_vendor=_image_vendor(engine),
        name=engine.engine_name,
        host=to_host_use(spec, model, given),
        image=engine.image or "",
        model_runner=runner,
        block_tokens=blocks.block_tokens,
        trusts_code=given.trusts_code,
        prefix_caching=given.prefix_caching,
        plans_ahead=given.plans_ahead,
        unconfirmed=unconfirmed_files(engine.program, start, model),
        unchecked=start.unchecked,
    )


def _check_offload(spec: EngineSpec, residency: Residency | None, runner: int | None) -> None:
    """Refuse weights in host memory if the engine would load them onto the GPU without a word."""
    if residency is None:
        return
    field = "spec.engine.weightStreaming" if spec.weight_streaming is not None else "spec.engine.cpuOffload"
    refuse(spec, field, spec.cpu_offload or "set", spec.program.offload_refusal(spec.release, runner))


def _image_vendor(engine: EngineSpec) -> Vendor | None:
    if engine.image is None:
        return None
    return vendor_of(engine.image) if engine.image_vendor is None else Vendor(engine.image_vendor.value.lower())


def _residency(engine: EngineSpec) -> Residency | None:
    streaming = engine.weight_streaming
    if streaming is not None:
        return WeightStreaming(streaming.group, streaming.layers, streaming.prefetch)
    return None if engine.cpu_offload is None else CpuOffload(parse_bytes(engine.cpu_offload))


def _constraints(spec: InferenceDeploymentSpec, defaults: ClusterDefaults) -> GpuConstraints:
    gpu = spec.gpu
    if gpu is None:
        return GpuConstraints(vendors=defaults.vendors)
    return GpuConstraints(
        allow=tuple(gpu.allow or ()),
        deny=tuple(gpu.deny or ()),
        max_per_replica=gpu.max_per_replica,
        capacities=tuple(_CAPACITY_TYPES[each] for each in gpu.capacity_types or ()),
        vendors=tuple(Vendor(each.value.lower()) for each in gpu.vendors or ()) or defaults.vendors,
        max_hourly_price=None if gpu.max_hourly_price is None else Decimal(gpu.max_hourly_price),
    )


def _overrides(spec: InferenceDeploymentSpec) -> Overrides:
    overrides = spec.overrides
    if overrides is None:
        return Overrides()
    memory = overrides.memory_per_gpu
    return Overrides(
        gpu_type=overrides.gpu_type,
        tensor_parallel=overrides.tensor_parallel,
        memory_per_gpu_bytes=None if memory is None else parse_bytes(memory),
    )


def platforms_of(engine: EngineSpec, images: EngineImages | None = None) -> ImagePlatforms:
    """Return the platforms of the image as far as the spec says, and the image whose index may say more.

    Source: vLLM's CUDA image is an index of amd64 and arm64 since release 0.10.2. Its ROCm image is for amd64 alone, as
    are the hosts of AMD's GPUs. An image of the user's own is taken for amd64 if the user does not say, and an image
    of the admin's for a copy of the release's.
    """
    if engine.platforms is not None:
        return declared(each.value for each in engine.platforms)
    if engine.image is not None:
        return assumed(engine.image)
    usual = engine.program.image(Vendor.NVIDIA, str(engine.release))
    image = "" if images is None else images.of_admin(engine.engine_name, usual)
    return ImagePlatforms((), PlatformSource.ASSUMED, image) if image else OF_RELEASE


def _tolerations(spec: InferenceDeploymentSpec) -> tuple[Toleration, ...]:
    """Return what is tolerated for good. With ``tolerationSeconds`` a pod is evicted after these."""
    return tuple(
        Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
        for each in spec.pods.tolerations or ()
        if each.toleration_seconds is None
    )


def to_workload_options(
    resource: InferenceDeployment,
    images: EngineImages | None = None,
    *,
    scrape_annotations: bool = False,
    platforms: ImagePlatforms | None = None,
) -> WorkloadOptions:
    """Return the options for rendering the pods, apart from the placement.

    ``platforms`` are those of the image, if more is known of them than the spec says.
    """
    spec = resource.spec
    token = spec.model.token_secret_ref
    draft = draft_model(spec)
    weights = weights_of(spec)
    draft_copy = None if weights is None else weights.draft
    return WorkloadOptions(
        key=ObjectKey(resource.metadata.namespace, resource.metadata.name),
        uid=resource.metadata.uid,
        model_source=(spec.model.path or spec.model.name) if weights is None else weights.address,
        revision=None if spec.model.path or weights else spec.model.revision,
        engine_version=str(spec.engine.release),
        engine=spec.engine.engine_name,
        image=spec.engine.image,
        architectures=(platforms_of(spec.engine) if platforms is None else platforms).architectures,
        extra_args=tuple(spec.engine.extra_args or ()),
        token=None if token is None else SecretKey(token.name, token.key),
        pod=_pod_options(spec.pods),
        draft_source=draft_copy.address if draft_copy else None if draft is None else draft.path or draft.name,
        draft_revision=None if draft is None or draft.path or draft_copy else draft.revision,
        images=images or EngineImages(),
        scrape_annotations=scrape_annotations,
        queue=resource.metadata.labels,
        weights=weights,
    )


def routing_of(resource: InferenceDeployment, images: RouterImages) -> Routing | None:
    """Return the router of a deployment; None if its Service leads to the replicas and no Gateway does."""
    given = resource.spec.routing
    if not given.has_router:
        return None
    through, gateway = given.gateway, None
    if through is not None:
        key = ObjectKey(through.namespace or resource.metadata.namespace, through.name)
        gateway = GatewayRef(key, through.section_name or "", tuple(through.hostnames or ()), through.picker_tls)
    return Routing(given.mode, given.replicas, images=images, gateway=gateway)


def weights_of(spec: InferenceDeploymentSpec) -> Weights | None:
    """Return where the weights are; None if they are in the pod already, or the engine downloads them from the Hub."""
    model, draft = spec.model, draft_model(spec)
    if model.source is None and model.cache is None:
        return None
    secret, claim = model.source_secret_ref, None if model.cache is None else model.cache.claim_name
    is_copied = claim is not None and draft is not None and draft.path is None
    return Weights(
        source=f"{Scheme.HUB}://{model.name}" if model.source is None else model.source.rstrip("/"),
        revision=model.revision,
        claim=claim,
        secret=None if secret is None else secret.name,
        draft=Weights(f"{Scheme.HUB}://{draft.name}", draft.revision, claim) if is_copied and draft else None,
    )


def _pod_options(template: PodTemplateSpec) -> PodOptions:
    cache = template.model_cache
    return PodOptions(
        labels=dict(template.labels or {}),
        annotations=dict(template.annotations or {}),
        node_selector=dict(template.node_selector or {}),
        tolerations=_as_written(template.tolerations),
        env=_as_written(template.env),
        env_from=_as_written(template.env_from),
        volumes=_as_written(template.volumes),
        volume_mounts=_as_written(template.volume_mounts),
        image_pull_secrets=_as_written(template.image_pull_secrets),
        service_account_name=template.service_account_name,
        priority_class_name=template.priority_class_name,
        runtime_class_name=template.runtime_class_name,
        resources=engine_resources(template.resources),
        cache_claim=cache.claim_name if cache else None,
        cache_size_limit=cache.size_limit if cache else None,
        affinity={} if template.affinity is None else _plain(template.affinity),
        merged=_merged(template),
    )


_MERGED = {
    *("topology_spread_constraints", "init_containers", "containers", "security_context", "host_aliases"),
    *("termination_grace_period_seconds", "scheduler_name", "dns_policy", "dns_config"),
}
"""Fields that a pod has, too, and that the operator's own yield to or do not have."""

_PROBES = {"startup_probe", "readiness_probe", "liveness_probe"}


def _merged(template: PodTemplateSpec) -> Manifest:
    """Return the part of a pod's spec that is merged into the operator's. The probes are those of the engine."""
    found = _plain(template, _MERGED)
    probes = _plain(template, _PROBES)
    if probes:
        found["containers"] = [{"name": ENGINE_CONTAINER, **probes}, *found.get("containers", ())]
    return found


def _plain(model: ApiModel, fields: set[str] | None = None) -> Manifest:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)


def _as_written(entries: Sequence[ApiModel] | None) -> tuple[Manifest, ...]:
    return tuple(map(_plain, entries or ()))
