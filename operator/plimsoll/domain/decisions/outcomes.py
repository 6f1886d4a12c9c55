"""The outcomes of a placement: placed or not, always with the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.cluster.host import USUAL_HOST, HostEstimate
from plimsoll.domain.decisions.latency import Performance
from plimsoll.domain.decisions.terms import (
    ACTIVATIONS,
    ADAPTERS,
    CUDA_GRAPHS,
    KV_CACHE,
    LEARNED,
    OVERHEAD,
    WEIGHTS,
    Doubt,
    DoubtKind,
    Teacher,
    Term,
    TermName,
)
from plimsoll.domain.engines.engine_choice import (
    ALL_MEDIA,
    Drafting,
    LoraSlots,
    MediaUse,
    Residency,
    StaticShare,
    StepLimits,
)
from plimsoll.domain.public_words import Numbers, Reason, RemedyKind, SuggestionKind
from plimsoll.domain.units import ceil_div

NARROWING = Decimal("0.1")
"""An fp8 KV cache that the user permits must save more than this part of the bill if 16 bits have a place too. Less
than that is less than the difference between the prices of two providers."""


PAID_PART = Decimal("0.5")
"""The part of the price that counts on nodes that are paid for whoever uses them. Nothing is spent there. But who comes
next may need the GPU, and then pays the price of another one: that happens every second time. A choice of this project:
nobody has counted it. Deployments that are there need no such guess, because all are placed together."""


def counted_price(gpu: GpuType, price: Decimal | None) -> Decimal | None:
    """Return the part of a price on nodes with this GPU type that counts when options are compared."""
    return price if price is None or gpu.billing.ends_with_use else price * PAID_PART


class ReplicaShape(NamedTuple):
    """The pods of one replica, alike and each whole on one node, and the GPUs of each."""

    pods: int
    gpus_per_pod: int

    @property
    def gpus(self) -> int:
        """The GPUs of all pods of a replica."""
        return self.pods * self.gpus_per_pod

    def pods_of(self, replicas: int) -> int:
        """Return how many pods so many replicas have."""
        return self.pods * replicas

    def replicas_of(self, pods: int) -> int:
        """Return how many whole replicas so many pods make."""
        return pods // self.pods

    def replicas_with(self, pods: int) -> int:
        """Return how many replicas so many pods belong to, at least."""
        return ceil_div(pods, self.pods)


@lru_cache(maxsize=64)
def _one_pod(gpus: int) -> ReplicaShape:
    """Return the shape of a replica in one pod. A pass asks many thousand times, for a few numbers."""
    return ReplicaShape(1, gpus)


class Split(NamedTuple):
    """How one replica is divided over GPUs.

    ``data_parallel`` engines of ``tensor_parallel`` x ``pipeline_parallel`` GPUs serve as one engine. With
    ``expert_parallel``, whole experts are spread over all of a stage's ranks instead of being divided by width.
    ``context_parallel`` (decode context parallelism) spreads tokens over ranks that would hold the same KV heads. It
    needs no additional GPUs.
    """

    tensor_parallel: int
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    context_parallel: int = 1

    @property
    def gpus(self) -> int:
        """The number of GPUs of one replica."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def shape(self) -> ReplicaShape:
        """The pods that its GPUs are divided among: one pod has all of them."""
        return _one_pod(self.gpus)

    @property
    def expert_ranks(self) -> int:
        """The number of ranks that share a layer's experts, by width or by whole experts."""
        return self.tensor_parallel * self.data_parallel

    def share(self, requests: int) -> int:
        """Return the most requests of one engine if the engines hold an even share of ``requests``: rounded up."""
        return ceil_div(requests, self.data_parallel)

    def seats(self, requests: int) -> int:
        """Return the requests that one engine may run at the same time: its share, and one more if there are others.

        The load balancer counts the requests of each engine a little late, so it may send one more to an engine than to
        the others.
        """
        return self.share(requests) + (self.data_parallel > 1)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a replica runs: one GPU type with one split, and the selector and resource for its pods.

    Attributes:
        gpu_type: the catalogue's name.
        split: how the replica is divided.
        selector: the label of the type's nodes, key and value; the most frequent one if they have several.
        resource: the extended resource that pods ask for, e.g. ``nvidia.com/gpu``.
        capacity: the capacity type of the nodes that the pods are restricted to; None for any.
        other_labels: the further labels of nodes of the same type, sorted. A node with any of all labels is right.
        avoids: names of nodes that the pods stay off, sorted: they could not run there.
    """

    gpu_type: str
    split: Split
    selector: tuple[str, str]
    resource: str
    other_labels: tuple[tuple[str, str], ...] = ()
    capacity: CapacityType | None = None
    avoids: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """All labels of the type's nodes; a pod may run on a node with any of them."""
        return self.selector, *self.other_labels

    @property
    def place(self) -> tuple[str, Split]:
        """The GPU type and the split, without the labels of the nodes."""
        return self.gpu_type, self.split


class Fit(StrEnum):
    """Whether the need is within the engine's budget, according to the estimate."""

    SURE = "Sure"
    """It fits even at the upper edge of the error band, and there is no doubt about the estimate itself."""
    PROBABLE = "Probable"
    """It fits at the lower edge of the band, but not at the upper one, or the estimate itself is in doubt."""
    NO = "No"
    """It does not fit even at the lower edge of the band."""


class GivenCache(NamedTuple):
    """A KV cache of a size that the user gave: its blocks on one GPU, and those that the load needs there.

    Both count the block that the engine keeps unused.
    """

    blocks: int
    needed: int

    @property
    def is_enough(self) -> bool:
        """Whether the load has the blocks that it needs."""
        return self.blocks >= self.needed


_BESIDE_FIGURES = frozenset({DoubtKind.NOT_MEASURED, DoubtKind.FILES_NOT_KNOWN, DoubtKind.OPTIONS_NOT_CHECKED})
"""Doubts that nobody has measured such a start, or whether it begins at all: the figures hold if it does."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The VRAM that one rank needs, term by term, so that a reviewer can check each term.

    All figures are bytes of one GPU, in the pipeline stage that runs out of memory first (``stage``). ``terms`` is the
    only list of the parts of the need, in the engine's order. ``usable_bytes`` is the total that the framework sees.
    ``budget_bytes`` is the part of it that the engine may use (utilization). ``outside_bytes`` is what CUDA and NCCL
    take outside that budget. The error band goes from ``slack_bytes`` less to ``margin_bytes`` more than the sum of the
    terms. ``kv_capacity_tokens`` is the number of tokens that fit into the whole budget (``_low`` and ``_high`` at the
    edges of the band). ``kv_reported_tokens`` is the figure that the engine's release reports for the same cache.
    ``kv_needed_tokens`` is what the load needs. With data parallelism, these tokens are those of all engines of the
    replica together, and the need is that of a share of requests that is rounded up, times the engines.
    ``max_sequences`` limits ``--max-num-seqs`` of models with a recurrent state, on each engine, at the upper edge of
    the band, and ``max_sequences_high`` at its lower edge; ``sequences`` is the number that it is started with.
    ``step_tokens`` is its ``--max-num-batched-tokens``, and ``least_step_tokens`` the least with which it starts.
    ``doubts`` are those
    about the estimate itself. They follow from the model and the engine's release, so all candidates share them.
    ``taught_by`` says whose engines taught the term of that name; None if nothing was learned. ``given_cache`` is
    the cache that has a size of its own; None if it has what the budget leaves.
    """

    terms: tuple[Term, ...]
    margin_bytes: int
    outside_bytes: int
    usable_bytes: int
    budget_bytes: int
    kv_bytes_per_token: int
    kv_needed_tokens: int
    kv_capacity_tokens: int
    slack_bytes: int = 0
    kv_capacity_low_tokens: int = 0
    kv_capacity_high_tokens: int = 0
    kv_reported_tokens: int = 0
    kv_block_tokens: int = 16
    sequences: int = 0
    step_tokens: int = 0
    least_step_tokens: int = 0
    max_sequences: int | None = None
    max_sequences_high: int | None = None
    host_bytes: int = 0
    forced_bytes: int | None = None
    stage: int = 0
    doubts: tuple[Doubt, ...] = ()
    taught_by: Teacher | None = None
    given_cache: GivenCache | None = None
    expected_bytes: int = field(init=False, repr=False, compare=False)
    """The need of one rank inside the engine's budget, according to the memory law: the sum of the terms."""

    def __post_init__(self) -> None:
        """Compute the sum once: a pass reads it several times for each candidate of each deployment."""
        object.__setattr__(self, "expected_bytes", sum([term.size_bytes for term in self.terms]))

    @property
    def summands(self) -> tuple[Term, ...]:
        """The terms that a sum in words names: optional terms last, and only if they are not 0."""
        always = (term for term in self.terms if not term.name.optional)
        return (*always, *(term for term in self.terms if term.name.optional and term.size_bytes))

    def bytes_of(self, name: TermName) -> int:
        """Return the bytes of one term; 0 if the engine has no such term."""
        for term in self.terms:
            if term.name == name:
                return term.size_bytes
        return 0

    @property
    def weights_bytes(self) -> int:
        """The weights of one rank."""
        return self.bytes_of(WEIGHTS)

    @property
    def adapters_bytes(self) -> int:
        """The slots of LoRA adapters."""
        return self.bytes_of(ADAPTERS)

    @property
    def kv_cache_bytes(self) -> int:
        """The KV cache that the declared load *needs*."""
        return self.bytes_of(KV_CACHE)

    @property
    def activations_bytes(self) -> int:
        """The peak of activations and sampler."""
        return self.bytes_of(ACTIVATIONS)

    @property
    def cuda_graphs_bytes(self) -> int:
        """The CUDA graphs, as far as the engine takes them out of its budget."""
        return self.bytes_of(CUDA_GRAPHS)

    @property
    def overhead_bytes(self) -> int:
        """Memory outside PyTorch and inside the engine's budget."""
        return self.bytes_of(OVERHEAD)

    @property
    def learned_bytes(self) -> int:
        """The correction learned from engines of the same kind; negative if they use less than all other terms."""
        return self.bytes_of(LEARNED)

    @property
    def without_cache_bytes(self) -> int:
        """The same without the KV cache: the part of the budget that is taken before the engine creates the cache."""
        return self.expected_bytes - self.kv_cache_bytes

    @property
    def available_kv_bytes(self) -> int:
        """The budget that is left for the KV cache, by the law; negative if the other terms exceed the budget."""
        return self.budget_bytes - self.without_cache_bytes

    @property
    def computed_bytes(self) -> int:
        """The need at the upper edge of the band. The fit is sure if this fits."""
        return self.expected_bytes + self.margin_bytes

    @property
    def least_bytes(self) -> int:
        """The need at the lower edge of the band. The engine refuses to start if this does not fit."""
        return self.expected_bytes - self.slack_bytes

    @property
    def is_expected_to_fit(self) -> bool:
        """Whether the need fits at the estimate itself, or at the admin's figure if there is one."""
        need = self.expected_bytes if self.forced_bytes is None else self.forced_bytes
        return need <= self.budget_bytes

    @property
    def needed_bytes(self) -> int:
        """The need that placement uses: the admin's figure if there is one, else the law's figure with its margin."""
        return self.computed_bytes if self.forced_bytes is None else self.forced_bytes

    @property
    def has_room_outside(self) -> bool:
        """Whether CUDA, NCCL and uncharged graphs have enough memory outside the budget."""
        return self.budget_bytes + self.outside_bytes <= self.usable_bytes

    @property
    def fit(self) -> Fit:
        """Whether the need fits: for sure, probably, or not. With a doubt about the estimate it is never sure."""
        in_doubt = bool(self.doubts) and self.forced_bytes is None
        return Fit.PROBABLE if in_doubt and self.fit_by_figures is Fit.SURE else self.fit_by_figures

    @property
    def is_trusted(self) -> bool:
        """Whether it fits for sure by the figures, with no doubt but those that say nothing against them.

        More requests and other steps are judged by it: they change terms that follow from the engine's sources.
        """
        doubted = any(doubt.kind not in _BESIDE_FIGURES for doubt in self.doubts)
        return self.fit_by_figures is Fit.SURE and not (doubted and self.forced_bytes is None)

    @property
    def fit_by_figures(self) -> Fit:
        """Whether the need fits by the figures alone.

        Candidates are compared by it: their doubts are the same, or say no more than that nobody has measured such a
        start on the card.
        """
        each = (self.fit_of_bytes, self.fit_of_states, self.fit_of_step)
        if Fit.NO in each:
            return Fit.NO
        return Fit.PROBABLE if Fit.PROBABLE in each else Fit.SURE

    @property
    def fit_of_step(self) -> Fit:
        """Whether a step is large enough. The engine refuses to start with a smaller one."""
        return Fit.SURE if self.step_tokens >= self.least_step_tokens else Fit.NO

    @property
    def fit_of_states(self) -> Fit:
        """Whether each sequence gets a block for its recurrent state. The engine refuses to start without."""
        if self.max_sequences is None or self.sequences <= self.max_sequences:
            return Fit.SURE
        most = self.max_sequences if self.max_sequences_high is None else self.max_sequences_high
        return Fit.PROBABLE if self.sequences <= most else Fit.NO

    @property
    def fit_of_bytes(self) -> Fit:
        """Whether the need is within the budget, whatever else the engine asks for."""
        if self.needed_bytes <= self.budget_bytes:
            return Fit.SURE if self.has_room_outside or self.forced_bytes is not None else Fit.PROBABLE
        if self.forced_bytes is None and self.least_bytes <= self.budget_bytes:
            return Fit.PROBABLE
        return Fit.NO


@dataclass(frozen=True, slots=True)
class CandidateFigures:
    """The figures that a candidate was judged by.

    Attributes:
        estimate: the memory of one GPU.
        hourly_price: US dollars an hour of one replica; None if the GPU type has no price.
        price_source: the source of the price.
    """

    estimate: MemoryEstimate
    hourly_price: Decimal | None = None
    price_source: str | None = None

    def __hash__(self) -> int:
        """Hash a few figures only: all of an estimate's would take longer than to show them."""
        return hash((self.estimate.expected_bytes, self.estimate.budget_bytes, self.estimate.kv_capacity_tokens))


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine flags that the operator sets, decided with the placement.

    ``dtype``, ``quantization`` and ``kv_cache_dtype`` are the engine's own words. None omits the flag: the checkpoint
    decides. ``max_num_seqs`` and ``max_num_batched_tokens`` are those of one engine, of which a replica with data
    parallelism has several. ``deprecated_quantization`` means that the engine loads the checkpoint only if a flag
    permits its old quantization method. ``model_runner`` is the one of the engine's runners that it is made to use.
    ``gpu_memory_utilization_percent`` is a share of the card. ``static`` is the share of an engine that divides the
    memory that is free before it loads; None if it counts from the card. ``host_cache_bytes`` is the KV cache in host
    memory that the spec asks for, of all ranks together.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization_percent: int
    dtype: str
    quantization: str | None
    kv_cache_dtype: str
    enforce_eager: bool
    residency: Residency | None = None
    lora: LoraSlots | None = None
    media: MediaUse = ALL_MEDIA
    drafting: Drafting | None = None
    runner: str | None = None
    deprecated_quantization: bool = False
    model_runner: int | None = None
    static: StaticShare | None = None
    host_cache_bytes: int = 0

    @property
    def limits(self) -> StepLimits:
        """The limits of a step."""
        return StepLimits(self.max_num_batched_tokens, self.max_num_seqs)

    def limited(self, limits: StepLimits) -> EngineSettings:
        """Return the settings with these limits. Those that are 0 stay as they are."""
        chosen = limits.over(self.limits)
        return replace(self, max_num_seqs=chosen.sequences, max_num_batched_tokens=chosen.step_tokens)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one candidate was not taken: a code and its numbers. One other module makes sentences from them.

    ``figures`` are those of the candidate. None: it was ruled out before its memory was estimated.
    """

    gpu_type: str
    split: Split
    reason: Reason
    numbers: Numbers = ()
    figures: CandidateFigures | None = None

    def number(self, name: str) -> int | str:
        """Return one of the numbers by name. Raises KeyError when the code does not have it."""
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that would make the request placeable, with the figure to change to."""

    kind: RemedyKind
    numbers: Numbers = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that would make a placed deployment cheaper, with the place that it would get.

    Attributes:
        kind: the change.
        numbers: the figures of its sentence.
        hourly_saving: US dollars an hour that all replicas together would cost less; None if a price is missing.
        tpot_seconds: the time per token at the new place; None if it is not known.
    """

    kind: SuggestionKind
    numbers: Numbers
    hourly_saving: Decimal | None = None
    tpot_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A target and the engine settings: everything that defines a replica. ``gpu`` is the target's GPU type.

    ``performance`` is the speed at the declared load; None if it is not known. ``delay_cost`` is what the time that
    users wait is worth, and ``charges`` what several stages or engines and interruptions of spot nodes count, both in
    US dollars an hour of one replica. ``is_slow`` means that the user declares no latency and the option is too slow
    for a person who reads along. ``may_break_promise`` means that the declared latency is kept by the estimate and not
    by the upper quarter of its band. ``is_unmeasured`` means that the speed of GPUs of this vendor is not validated,
    and the user does not ask for it. ``is_unasked_spot`` means that the cloud may take its nodes back at any time, and
    the user does not ask for such nodes. ``host`` is the host memory and CPU of one replica, as the engine needs them.
    ``has_narrow_cache`` means that the KV cache is fp8 because the user permits it, and the planner chose it.
    """

    gpu: GpuType
    target: Target
    settings: EngineSettings
    estimate: MemoryEstimate
    hourly_price: Decimal | None = None
    performance: Performance | None = None
    delay_cost: Decimal = Decimal(0)
    charges: Decimal = Decimal(0)
    is_slow: bool = False
    may_break_promise: bool = False
    is_unmeasured: bool = False
    is_unasked_spot: bool = False
    host: HostEstimate = USUAL_HOST
    has_narrow_cache: bool = False
    cost: Decimal | None = field(init=False, repr=False, compare=False)
    """The sum that options are ranked by: :attr:`weighed_price`, ``delay_cost`` and ``charges``."""
    doubts: int = field(init=False, repr=False, compare=False)
    """0 for an option without a doubt. Options with fewer doubts come first, whatever they cost.

    One that fits at the lower edge of its band alone has one more. A promise that may be missed counts more than a fit
    that is only probable, because an engine that does not start is placed anew.
    """
    figures: CandidateFigures = field(init=False, repr=False, compare=False)
    """The memory and the price once more. All reasons not to take the option share this one value."""

    def __post_init__(self) -> None:
        """Make the values once: a pass compares options often, and gives their figures to many rejections."""
        figures = CandidateFigures(self.estimate, self.hourly_price, self.gpu.price_source)
        object.__setattr__(self, "figures", figures)
        object.__setattr__(self, "doubts", self._count_doubts())
        price = self.weighed_price
        object.__setattr__(self, "cost", None if price is None else price + self.delay_cost + self.charges)

    @property
    def weighed_price(self) -> Decimal | None:
        """The price by which options are compared.

        An fp8 cache must save more than a tenth of it, and a part counts on nodes that are paid for in any case.
        """
        price = counted_price(self.gpu, self.hourly_price)
        return price if price is None or not self.has_narrow_cache else price / (1 - NARROWING)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it fits by the figures, and there is a doubt about these."""
        return self.estimate.fit is not Fit.SURE and self.estimate.fit_by_figures is Fit.SURE

    @property
    def is_paid(self) -> bool:
        """Whether its nodes are paid for whoever uses them."""
        return not self.gpu.billing.ends_with_use

    def _count_doubts(self) -> int:
        is_unsure = self.estimate.fit_by_figures is not Fit.SURE
        unasked = self.is_unmeasured + self.is_unasked_spot
        return 3 * self.may_break_promise + unasked + is_unsure + (not self.estimate.is_expected_to_fit)

    @property
    def split(self) -> Split:
        """How the replica is divided."""
        return self.target.split

    @property
    def replica_limits(self) -> StepLimits:
        """The limits of a replica, with the requests of all its engines."""
        return self.settings.limits.of_replica(self.split.data_parallel)


@dataclass(frozen=True, slots=True)
class Placed:
    """The request fits: one choice for ``replicas`` replicas, and every other candidate with its reason."""

    choice: Option
    replicas: int
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Nothing fits: every candidate with its reason, and what would help, nearest first."""

    rejections: tuple[Rejection, ...]
    remedies: tuple[Remedy, ...] = ()


Outcome = Placed | Unplaceable
