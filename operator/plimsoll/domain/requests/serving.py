"""The user's resolved request: the input of the placement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from typing import Any

from plimsoll.domain.cluster.containers import MILLI, Companions, Stated, pod_need, together
from plimsoll.domain.cluster.fleet import Toleration
from plimsoll.domain.cluster.gpus import CapacityType, GpuType, Vendor
from plimsoll.domain.cluster.host import Amounts, HostEstimate, HostNeed, amount_words
from plimsoll.domain.cluster.limit_ranges import LimitRange, added_requests, default_limit, filled_in
from plimsoll.domain.cluster.node_rules import NodeRule
from plimsoll.domain.cluster.spot import card_name
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.decisions.observations import Correction, EngineKind, MeasuredSpeed
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    DEFAULT_ENGINE,
    NO_LIMITS,
    EngineChoice,
    EngineRefusal,
    StepLimits,
)
from plimsoll.domain.engines.images import OF_RELEASE, ImagePlatforms
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.units import ceil_div, format_gib


@dataclass(frozen=True, slots=True)
class ServingShape:
    """The load that one replica must carry.

    ``concurrency`` requests run at the same time, each up to ``context_tokens`` long. If both expected lengths are
    given and ``guaranteed`` is not set, the KV cache is sized for the expected lengths instead of for the product.
    The prompts of ``shared_percent`` of the requests begin with the same ``shared_tokens`` tokens; 0: none do.
    """

    context_tokens: int
    concurrency: int
    expected_prompt_tokens: int | None = None
    expected_output_tokens: int | None = None
    guaranteed: bool = False
    shared_tokens: int = 0
    shared_percent: int = 100

    @property
    def cached_tokens(self) -> float:
        """The tokens of a mean prompt that a running replica has in its prefix cache."""
        return self.shared_tokens * self.shared_percent / 100

    @property
    def mean_tokens(self) -> int | None:
        """The mean request length; None if it is not declared."""
        if self.expected_prompt_tokens is None or self.expected_output_tokens is None:
            return None
        return self.expected_prompt_tokens + self.expected_output_tokens

    @property
    def expected_tokens(self) -> int | None:
        """The mean request length for which the KV cache is sized; None if it is sized for the full length."""
        return None if self.guaranteed else self.mean_tokens


@dataclass(frozen=True, slots=True)
class TotalLoad:
    """The load of all replicas together, if the planner chooses their number.

    ``requests`` run at the same time. ``min_replicas``, one at least, are wanted for availability, and
    ``max_replicas`` are allowed.
    """

    requests: int
    min_replicas: int = 1
    max_replicas: int = 1000


@dataclass(frozen=True, slots=True)
class GpuConstraints:
    """Which GPUs the user allows. Empty ``allow``, ``vendors`` or ``capacities`` mean every one."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_per_replica: int | None = None
    max_hourly_price: Decimal | None = None
    capacities: tuple[CapacityType, ...] = ()
    vendors: tuple[Vendor, ...] = ()

    @property
    def restricts_capacity(self) -> bool:
        """Whether nodes of some capacity type are not allowed."""
        return bool(self.capacities) and len(set(self.capacities)) < len(CapacityType)


@dataclass(frozen=True, slots=True)
class ClusterDefaults:
    """The admin's choices for deployments that choose nothing. Empty ``vendors``: every vendor."""

    objective: Objective = Objective.BALANCED
    vendors: tuple[Vendor, ...] = ()


NO_CHOICES = ClusterDefaults()


@dataclass(frozen=True, slots=True)
class Overrides:
    """An admin's decisions that replace the planner's. The outcome's warnings show the consequences."""

    gpu_type: str | None = None
    tensor_parallel: int | None = None
    memory_per_gpu_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedCapacity:
    """The KV tokens that the engine of a running replica reports. ``engine`` is the engine's name."""

    gpu_type: str
    split: Split
    kv_tokens: int
    engine: str = DEFAULT_ENGINE


NOT_PREFERRED = 1000
"""The rank of an engine that a list of preferred engines does not name: behind all that it can name."""


@dataclass(frozen=True, slots=True)
class Request:
    """One InferenceDeployment, ready to be placed.

    ``created`` is the object's RFC 3339 creation time; competing requests are ordered by it. ``replicas`` is how many
    are wanted now (the user's number, or the rebalancer's within the user's bounds). ``failed_starts`` are GPU types
    and splits on which its own engines ran out of memory and reported no figure. ``cpu_millis`` and ``memory_bytes``
    are the user's own requests of CPU and memory, and the ``limit`` fields the user's limits; None if the user sets
    none. ``other_resources`` are the requests of further resources except GPUs, the user's and those that a LimitRange
    adds; ``other_limits`` are the user's limits of such resources. ``companions`` are the further containers of its
    pods, with what they request and may use. ``slo`` is the latency that the
    user declares; None asks for the usual one of a person who reads along, as far as GPUs allow. ``objective`` says how
    much speed is worth. ``total`` is the load of all replicas together as long as their number is not chosen yet;
    ``replicas`` and the shape are then only a first guess. ``is_sized`` means that the planner has chosen them.
    ``may_narrow_cache`` permits an fp8 KV cache in place of ``kv_precision``. ``has_narrow_cache`` marks a request for
    which that choice was made. ``platforms`` are those of its image: their rule is among ``node_rules``.
    ``mounts_alone`` means that pods of different nodes cannot mount one of its volumes at the same time: there is one
    replica at most, and it ends before its successor starts. ``priority_class`` is the name of its pods' PriorityClass,
    which decides the quotas that count them; empty for none. ``limit_ranges`` are those of its namespace, which the API
    server applies to new pods. ``least_on_demand`` replicas at least stay off spot nodes. ``remarks`` are warnings
    about the object itself: what its author has to look at. ``speeds`` are measured at engines of its kinds.
    ``others`` are the same deployment on other engines, if the planner chooses the engine and has not yet, and
    ``refused_engines`` are the engines that cannot run the spec. ``engine_rank`` is the place of the engine in the
    user's list of preferred ones: 0 without a list, and ``NOT_PREFERRED`` for all engines that it does not name.
    ``alternatives`` are the same deployment on the other engines of an open choice, while one of them runs: the planner
    stays with that one, and the live loop may propose another.
    """

    key: ObjectKey
    model: ModelFacts
    precision: Precision
    kv_precision: KvPrecision
    shape: ServingShape
    engine: EngineChoice
    replicas: int = 1
    constraints: GpuConstraints = field(default_factory=GpuConstraints)
    overrides: Overrides = field(default_factory=Overrides)
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    platforms: ImagePlatforms = OF_RELEASE
    node_rules: tuple[NodeRule, ...] = ()
    mounts_alone: bool = False
    created: str = ""
    observed: tuple[ObservedCapacity, ...] = ()
    corrections: tuple[Correction, ...] = ()
    failed_starts: tuple[tuple[str, Split], ...] = ()
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    slo: Slo | None = None
    objective: Objective = Objective.BALANCED
    total: TotalLoad | None = None
    is_sized: bool = False
    cpu_limit_millis: int | None = None
    memory_limit_bytes: int | None = None
    other_resources: Amounts = ()
    other_limits: Amounts = ()
    may_narrow_cache: bool = False
    has_narrow_cache: bool = False
    priority_class: str = ""
    limit_ranges: tuple[LimitRange, ...] = ()
    least_on_demand: int = 0
    speeds: tuple[MeasuredSpeed, ...] = ()
    remarks: tuple[str, ...] = ()
    companions: Companions = ()
    others: tuple[Request, ...] = ()
    refused_engines: tuple[EngineRefusal, ...] = ()
    engine_rank: int = 0
    alternatives: tuple[Request, ...] = ()

    @property
    def on_each_engine(self) -> tuple[Request, ...]:
        """The request on every engine that may run it; the same object if the engine is decided."""
        if not self.others:
            return (self,)
        return (replace(self, others=()), *(each.with_replicas(self.replicas) for each in self.others))

    def on(self, engine: str) -> Request | None:
        """Return the request on an engine; None if that engine cannot run it, or the spec names another one."""
        return next((each for each in (*self.on_each_engine, *self.alternatives) if each.engine.name == engine), None)

    @property
    def on_alternatives(self) -> tuple[Request, ...]:
        """The request on each alternative engine, of which the present one is then an alternative."""
        here, others = replace(self, alternatives=()), self.alternatives
        return tuple(
            replace(
                each, replicas=self.replicas, alternatives=(here, *(other for other in others if other is not each))
            )
            for each in others
        )

    def everywhere(self, change: Callable[[Request], Request]) -> Request:
        """Return the request with a change that is made for the other engines, too."""
        found = change(self)
        if not self.others and not self.alternatives:
            return found
        return replace(
            found, others=tuple(map(change, self.others)), alternatives=tuple(map(change, self.alternatives))
        )

    def host_need(self, host: HostEstimate) -> HostNeed:
        """Return what the pod of one replica requests, with all of its containers."""
        return pod_need(self.engine_need(host), self.companions)

    def engine_need(self, host: HostEstimate) -> HostNeed:
        """Return what the engine's container requests: the user's figure, or the engine's need of CPU and memory.

        A request may not be higher than its limit, so a lower limit of the user becomes the request.
        """
        return HostNeed(
            _requested(self.cpu_millis, host.cpu_millis, self.cpu_limit_millis),
            _requested(self.memory_bytes, host.memory_bytes, self.memory_limit_bytes),
            self.other_resources,
        )

    @property
    def sites(self) -> tuple[object, ...]:
        """Everything that decides which nodes its pods may run on."""
        return self.node_selector, self.tolerations, self.node_rules

    @property
    def stated_host(self) -> tuple[object, ...]:
        """The user's own figures about resources but GPUs: requests with equal ones need the same on equal nodes."""
        stated = self.cpu_millis, self.memory_bytes, self.cpu_limit_millis, self.memory_limit_bytes
        return (*stated, self.other_resources, self.limit_ranges, self.companions)

    @property
    def admission(self) -> tuple[object, ...]:
        """Everything but the place that decides whether LimitRanges admit its pods; empty if there are none."""
        return (self.stated_host, self.other_limits) if self.limit_ranges else ()

    def pod_resources(self, need: HostNeed, gpus: Amounts) -> dict[str, Stated]:
        """Return what the engine's container states, in thousandths. ``gpus`` are both requested and its limit.

        ``need`` is that of the container.
        """
        limits = dict(self.other_limits)
        found = {name: Stated(amount * MILLI, _thousandths(limits.get(name))) for name, amount in need.others}
        found["cpu"] = Stated(need.cpu_millis, self.cpu_limit_millis)
        found["memory"] = Stated(need.memory_bytes * MILLI, _thousandths(self.memory_limit_bytes))
        return found | {name: Stated(amount * MILLI, amount * MILLI) for name, amount in gpus}

    def counted_limits(self, need: HostNeed) -> tuple[int, int]:
        """Return the limits of CPU and memory that a quota counts: the user's, a LimitRange's, or the requests.

        ``need`` is that of the pod.
        """
        cpu = self._counted("cpu", self.cpu_limit_millis, need.cpu_millis)
        memory = self._counted("memory", _thousandths(self.memory_limit_bytes), need.memory_bytes * MILLI)
        return cpu, ceil_div(memory, MILLI)

    def _counted(self, resource: str, limit: int | None, requested: int) -> int:
        """Return the limit that counts for a pod, in thousandths."""
        own = default_limit(resource, self.limit_ranges) if limit is None else limit
        whole = together(Stated(None, own), self.companions, resource).limit or 0
        return max(whole, requested) if limit is None else whole

    @property
    def stated_memory(self) -> int | None:
        """The memory that the user gives the engine, the smaller one of request and limit; None: neither."""
        given = (self.memory_bytes, self.memory_limit_bytes)
        return min((size for size in given if size is not None), default=None)

    @property
    def host_allowance(self) -> tuple[str, int] | None:
        """The field and the bytes by which the user bounds the pod's memory, the smaller one of request and limit.

        None if the user bounds nothing, or the engine keeps nothing in host memory that the bound could be too small
        for.
        """
        if not self.engine.fills_host_memory and not self.model.host_bytes:
            return None
        stated = (("limits", self.memory_limit_bytes), ("requests", self.memory_bytes))
        given = [(f"spec.podTemplate.resources.{part}.memory", size) for part, size in stated if size is not None]
        return min(given, key=lambda each: each[1], default=None)

    def filled_in(self, default_class: str, ranges: tuple[LimitRange, ...]) -> dict[str, Any]:
        """Return the fields of the request that the API server fills in for its pods.

        They get the cluster's default PriorityClass, if the user names none. The LimitRanges of the namespace add
        requests of resources that the user does not state, e.g. of ``ephemeral-storage``; the scheduler counts these.
        """
        named: dict[str, Any] = {"priority_class": default_class} if default_class and not self.priority_class else {}
        if not ranges:
            return named
        more = added_requests(ranges, ("cpu", "memory", *(name for name, _ in self.other_resources)))
        others = {name: ceil_div(amount, MILLI) for name, amount in more.items() if amount > 0}
        return {
            **named,
            "limit_ranges": ranges,
            "companions": filled_in(self.companions, ranges),
            "other_resources": tuple(sorted((*self.other_resources, *others.items()))),
        }

    @property
    def as_admitted(self) -> Request:
        """The request for pods that exist: LimitRanges apply to new pods alone."""
        return replace(self, limit_ranges=()) if self.limit_ranges else self

    def names(self, gpu: GpuType) -> bool:
        """Whether the user or the admin names the GPU's type or its vendor: they know what it does."""
        card = card_name(gpu.name)
        wishes = self.constraints
        return card in (self.overrides.gpu_type, *wishes.allow) or gpu.vendor in wishes.vendors

    def with_replicas(self, replicas: int) -> Request:
        """Return the request for so many replicas; the same object if it asks for as many."""
        return self if replicas == self.replicas else replace(self, replicas=replicas)

    def knows_better(self, cause: str) -> bool:
        """Whether it is no failure of a place that pods did not come up there for this cause.

        If a volume kept them off it and it is known which nodes can mount its volumes, that alone says which places
        are possible: one that is made again somewhere else must not close a place for hours.
        """
        is_known = any(rule.reason is Reason.VOLUME_ELSEWHERE for rule in self.node_rules)
        return is_known and cause == Reason.VOLUME_ELSEWHERE

    def for_new_nodes(self, *met: Reason) -> Request:
        """Return the request for nodes that do not exist yet: they can be made where its volumes are.

        ``met`` are the reasons of further rules that they can be made to follow.
        """
        kept = tuple(rule for rule in self.node_rules if rule.reason not in (Reason.VOLUME_ELSEWHERE, *met))
        return self if kept == self.node_rules else replace(self, node_rules=kept)

    def new_node_needs(self, pod: HostNeed) -> Numbers:
        """Return the demands on new nodes: the labels that it selects, its affinity, volumes, image and resources.

        The host memory of ``pod`` is among them if the engine keeps something there: how much more than what was asked
        for it takes depends on the GPU. The result is empty if usual nodes do.
        """
        labels = [f"{key}={value}" for key, value in self.node_selector]
        needs = [rule.new_node_needs for rule in self.node_rules if rule.new_node_needs]
        needs += [amount_words(resource, amount) for resource, amount in self.other_resources]
        if self.engine.fills_host_memory or self.model.host_bytes:
            needs.append(f"{format_gib(pod.memory_bytes)} of host memory for a pod")
        return (("needs", " and ".join((*labels, *needs))),) if labels or needs else ()

    def with_narrow_cache(self) -> Request:
        """Return the request with the fp8 KV cache that it permits."""
        return replace(self, kv_precision=KvPrecision.FP8, may_narrow_cache=False, has_narrow_cache=True)

    def with_cache_as(self, *, narrow: bool, host_bytes: int | None) -> Request:
        """Return the request with the KV cache that engines have; the same object if there is no choice.

        ``host_bytes`` is the part in host memory; None leaves its size open.
        """
        if self.engine.host.takes_spare and host_bytes is not None:
            return self.with_host_cache(host_bytes).with_cache_as(narrow=narrow, host_bytes=None)
        if not self.may_narrow_cache:
            return self
        return self.with_narrow_cache() if narrow else replace(self, may_narrow_cache=False)

    def with_host_cache(self, size: int) -> Request:
        """Return the request with so many bytes of KV cache in host memory, by the spec; 0: none."""
        host = replace(self.engine.host, kv_bytes=size, takes_spare=False)
        return replace(self, engine=replace(self.engine, host=host))

    def limited(self, limits: StepLimits) -> Request:
        """Return the request with these limits of a replica fixed; the same object if there are none."""
        return self if limits == NO_LIMITS else replace(self, engine=self.engine.limited(limits))

    def engine_kind(self, gpu_type: str, split: Split) -> EngineKind:
        """Return the kind of this request's engines on ``gpu_type``. Engines of one kind need the same memory.

        The capacity type of the node makes no difference to an engine.
        """
        return EngineKind(
            model=self.model.name,
            precision=self.precision,
            kv_precision=self.kv_precision,
            gpu_type=card_name(gpu_type),
            version=self.engine.version,
            split=split,
            options=fingerprint(self.model, self.engine),
            engine=self.engine.name,
            image=self.engine.image,
        )

    def measured_speed(self, gpu_type: str, split: Split) -> float:
        """Return the measured time of a token over the estimated one, by engines of the same kind; 1: not measured."""
        if not self.speeds:
            return 1.0
        kind = self.engine_kind(gpu_type, split)
        return next((each.factor for each in self.speeds if each.kind == kind), 1.0)

    @property
    def as_estimated(self) -> Request:
        """The same request without measured speeds."""
        return replace(self, speeds=()) if self.speeds else self

    def correction_for(self, gpu_type: str, split: Split) -> Correction | None:
        """Return the correction learned from engines of the same kind; None if there is none."""
        if not self.corrections:
            return None
        kind = self.engine_kind(gpu_type, split)
        return next((each for each in self.corrections if each.kind == kind), None)


def _thousandths(amount: int | None) -> int | None:
    return None if amount is None else amount * MILLI


def _requested(stated: int | None, usual: int, limit: int | None) -> int:
    if stated is not None:
        return stated
    return usual if limit is None else min(usual, limit)


_DIGITS = 12


@lru_cache(maxsize=256)
def fingerprint(model: ModelFacts, engine: EngineChoice) -> str:
    """Return hex digits that differ if the model's facts or an option that changes the memory differ.

    The share of the GPU that the engine may use and the size of a step are left out, because an observation is the
    difference from the law's prediction for the same share and step.
    """
    facts = replace(model, source=FactsSource.INLINE, parameters=None, remarks=())
    options = (engine.enforce_eager, engine.residency, engine.lora, engine.speculation, engine.media, engine.unfollowed)
    runner = () if engine.model_runner is None else (f"model runner {engine.model_runner}",)
    named = (engine.block_tokens, engine.cache_blocks, engine.prefix_caching, engine.plans_ahead)
    cache = () if named == _UNNAMED else (named,)
    # An engine without these options says nothing about whether one with them starts.
    conditions = tuple(each for each in (engine.unconfirmed, engine.unchecked) if each)
    return sha256(repr((facts, (*options, *runner, *cache, *conditions))).encode()).hexdigest()[:_DIGITS]


_UNNAMED = (None, None, None, True)
"""The options of a cache of which nobody names any."""
