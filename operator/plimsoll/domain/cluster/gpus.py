"""GPU types: facts of the hardware, independent of any node.

How fast a GPU type computes, reads and sends: facts of the card, and the shares of them that engines reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from plimsoll.domain.cluster.node_rules import ARCHITECTURE_LABEL
from plimsoll.domain.units import exact_price

Curve = tuple[tuple[int, float], ...]
"""Seconds of a collective by bytes of its buffer, ascending in both."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Dense teraflops of matrix products by the type that is multiplied; None if the card does not have the type."""

    bf16: float
    fp8: float | None = None
    fp4: float | None = None
    int8: float | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """The measured collectives of the GPUs of one node, and the link that they were measured on.

    ``gb_per_second`` is what one GPU of this card sends in one direction, and ``pair_gb_per_second`` the same with only
    two GPUs. ``measured_gb_per_second`` is that of the card behind the curves. ``all_reduce`` and ``all_to_all`` have
    one curve for each number of GPUs.
    """

    gb_per_second: float
    pair_gb_per_second: float
    measured_gb_per_second: float
    all_reduce: tuple[tuple[int, Curve], ...]
    all_to_all: tuple[tuple[int, Curve], ...]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The shares of the peaks that an engine's kernels reach, and the time that it spends on anything else.

    Reads of weights have a share of the memory bandwidth by the bits of a weight; ``read_nvfp4`` is that of 4-bit
    weights that are multiplied as they are, ``read_4bit`` that of all others. Matrix products have a share of the peak
    by the bits of what is multiplied. Routed experts are read at ``expert_read`` in every format, because they have
    kernels of their own; ``expert_product`` multiplies the share of their products, and ``expanded_product`` is their
    share of the peak in 16 bits if the kernels expand the weights first. ``expert_spread`` is the share of
    a step's further tokens that choose experts as if at random; the rest follow others. ``kv_read`` and
    ``kv_read_8bit`` are the shares of reads of caches, ``attention`` that of long prefills. ``communication``
    multiplies the measured times of collectives. ``expanded_weights`` are the weights that kernels expand to 16 bits
    in a second, in formats that the card does not multiply.

    Times are seconds: of the gaps between the kernels of a layer, what experts, activations rounded to eight bits or to
    NVFP4, a choice of the tokens that are attended to, and a step without a CUDA graph (``eager``) add to them, of the
    host's work for a step and for one sequence in it (scheduling, sampling, streaming), and of a request outside its
    steps, to which each token of its prompt adds ``prompt_token_seconds`` (its text is tokenized). The ``early`` ones
    are the host's in engines that plan a step after the one before it.
    """

    read_16bit: float
    read_8bit: float
    read_4bit: float
    read_nvfp4: float
    kv_read: float
    kv_read_8bit: float
    product_16bit: float
    product_8bit: float
    product_4bit: float
    attention: float
    communication: float
    expert_read: float
    expert_product: float
    expanded_product: float
    expert_spread: float
    layer_seconds: float
    expert_layer_seconds: float
    quantized_layer_seconds: float
    nvfp4_layer_seconds: float
    selecting_layer_seconds: float
    eager_layer_seconds: float
    step_seconds: float
    sequence_seconds: float
    early_step_seconds: float
    early_sequence_seconds: float
    request_seconds: float
    prompt_token_seconds: float
    expanded_weights: float


class WeightKind(StrEnum):
    """What most of a model's weights are: their number format, and whether tokens choose among experts."""

    DENSE_16BIT = "dense 16-bit"
    DENSE_8BIT = "dense 8-bit"
    DENSE_4BIT_INTEGER = "dense 4-bit integer"
    DENSE_4BIT_FLOAT = "dense 4-bit float"
    EXPERTS_16BIT = "experts 16-bit"
    EXPERTS_8BIT = "experts 8-bit"
    EXPERTS_4BIT_INTEGER = "experts 4-bit integer"
    EXPERTS_4BIT_FLOAT = "experts 4-bit float"


_PLACES: Final[dict[WeightKind, int]] = {kind: place for place, kind in enumerate(WeightKind)}

MANY_SEQUENCES = 128
"""With more sequences in an engine, errors of the time per token are larger."""


class Band(NamedTuple):
    """The factors from an estimate to the edges of its band, and whether enough rows were compared to say so."""

    tpot: tuple[float, float]
    ttft: tuple[float, float]
    is_validated: bool


@dataclass(frozen=True, slots=True)
class Trust:
    """How well figures of a class of GPUs are known.

    ``bands`` has two for each kind of weights, in the order of :class:`WeightKind`: of at most :data:`MANY_SEQUENCES`
    sequences in an engine, and of more.
    """

    name: str
    bands: tuple[tuple[Band, Band], ...]

    def band(self, kind: WeightKind, sequences: float) -> Band:
        """Return the band of figures with these weights and so many sequences in an engine."""
        return self.bands[_PLACES[kind]][sequences > MANY_SEQUENCES]

    @property
    def unvalidated(self) -> Trust:
        """The same bands, of which no figure is called validated."""
        bands = tuple((few._replace(is_validated=False), many._replace(is_validated=False)) for few, many in self.bands)
        return replace(self, bands=bands)


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """The constants of a GPU type with another engine than the usual one, and how well they are known."""

    engine: str
    efficiency: Efficiency
    trust: Trust


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """Everything that the time of a step needs of a GPU type other than its bandwidths.

    ``family`` names the generation whose constants hold. ``links`` is None if an engine has one GPU only.
    ``efficiency`` and ``trust`` are those of the usual engine, ``others`` those of engines with rows of their own.
    """

    family: str
    peaks: Peaks
    efficiency: Efficiency
    trust: Trust
    links: Links | None = None
    others: tuple[EngineSpeed, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once, from few fields: GPU types are keys of caches."""
        object.__setattr__(self, "_hash", hash((self.family, self.peaks, self.efficiency)))

    def __hash__(self) -> int:
        """Return the stored hash. Equality still compares all fields."""
        return self._hash


class Vendor(StrEnum):
    """Who makes the GPU; decides the engine image and which dtypes are gated how."""

    NVIDIA = "nvidia"
    AMD = "amd"


class Interconnect(StrEnum):
    """The link between the GPUs of one node. The communication buffers outside PyTorch depend on it."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    PCIE = "pcie"


class CapacityType(StrEnum):
    """How a node is paid for. A spot node is cheaper, and its cloud may take it back at any time."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Billing(StrEnum):
    """Whether a node's dollars end with its use, and how that is known.

    ``ON_DEMAND``: somebody removes the node when nothing runs on it. ``OWNED``: the admin says that it stays, and
    ``ASSUMED_OWNED``: nothing is known that removes it. Either way the hour is paid for whoever uses it.
    """

    ON_DEMAND = "OnDemand"
    OWNED = "Owned"
    ASSUMED_OWNED = "AssumedOwned"

    @property
    def ends_with_use(self) -> bool:
        """Whether an hour costs nothing if nothing runs."""
        return self is Billing.ON_DEMAND


class PriceBasis(StrEnum):
    """How the figure of a market price was found.

    ``LADDER`` is the level of a card over all providers, each provider's own level taken out. ``CLAMPED`` is a ladder
    of one or two voters that contradicted better known cards, moved to the nearest price that does not. ``MEDIAN`` is
    the middle of the votes.
    """

    LADDER = "ladder"
    CLAMPED = "clamped"
    MEDIAN = "median"


FEW_VOTERS = 2
"""A market price with so few voters or fewer is thin: one more offer can halve or double it."""


@dataclass(frozen=True, slots=True)
class MarketOffers:
    """The offers behind a market price; None if a list does not say.

    ``voters`` is the number of providers that counted. Each has one vote, whatever the number of its offers.
    ``first`` and ``last`` are the days of the oldest and the newest offer. ``hyperscaler_usd`` is what the largest
    clouds list, two to three times the price of all others.
    """

    offers: int | None = None
    voters: int | None = None
    first: date | None = None
    last: date | None = None
    basis: PriceBasis | None = None
    hyperscaler_usd: Decimal | None = None
    origin: str = ""

    @property
    def is_thin(self) -> bool:
        """Whether only one or two providers voted. A list that does not say is believed."""
        return self.voters is not None and self.voters <= FEW_VOTERS

    @property
    def is_clamped(self) -> bool:
        """Whether the figure was moved to stay in order with better known cards."""
        return self.basis is PriceBasis.CLAMPED


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for one GPU and hour, and where the figure is from.

    ``usd_per_hour`` is the price on demand. ``spot`` is the price of spot capacity with its own source, or None if it
    is not known: it is never derived from the other one. ``market`` is None for a price that somebody pays and wrote
    down, without offers to count. Equal prices are written alike: 1 for 1 and for 1.0, whichever was read first.
    """

    usd_per_hour: Decimal
    source: str
    spot: Price | None = None
    market: MarketOffers | None = None

    def __post_init__(self) -> None:
        """Write the number the shortest way: what is remembered of equal values stands for all of them."""
        if self.usd_per_hour.is_finite():
            object.__setattr__(self, "usd_per_hour", Decimal(exact_price(self.usd_per_hour)))

    def of(self, capacity: CapacityType) -> Price | None:
        """Return the price of one capacity type; None if spot has no price of its own."""
        return self.spot if capacity is CapacityType.SPOT else self


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A slice of a partitioned GPU.

    ``card`` names the whole GPU's type. ``profile`` is NVIDIA's profile (``3g.40gb``). ``share`` is the part of the
    card that no other pod can use: the larger of its compute slices and its memory slices.
    """

    card: str
    profile: str
    share: Fraction

    def price(self, card: Price) -> Price:
        """Return the slice's share of the card's price, to a hundredth of a cent."""
        usd = (card.usd_per_hour * self.share.numerator / self.share.denominator).quantize(Decimal("0.0001"))
        spot = None if card.spot is None else self.price(card.spot)
        return Price(usd, f"{card.source}, {self.share} of {self.card}", spot, card.market)


_FOR_OTHERS = frozenset({"rtx-pro", "geforce", "radeon", "embedded"})
"""The makers' families for workstations, games and devices."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """One kind of GPU, as the engine sees it.

    ``usable_bytes`` is the total that the framework reports and that ``--gpu-memory-utilization`` multiplies. It is
    less than the figure of the label and the marketing figure. ``compute_capability`` is CUDA's ``(major, minor)``;
    AMD GPUs have their ``gfx`` target instead. ``scale_up_gpus`` is how many GPUs reach each other without the network.
    ``unified_memory`` means that the GPU shares the host's memory (GB10, Jetson). The engine then reads the free memory
    from the operating system, and memory that other processes take during its start counts as its own.
    ``host_bandwidth_gb_per_second`` is the bandwidth of copies from the host in one direction. ``mig`` is None for a
    whole GPU. A slice is a separate type, and two slices cannot serve one engine, because NCCL does not join them.
    ``speed`` is None if nothing is known of it; the bandwidths are always known.
    ``family`` is the maker's line of products: prices of one family can be compared, while a graphics card for games
    costs less than a slower one for servers. ``has_server_edition`` is for a card of another family that its maker also
    sells for servers.
    ``architecture`` is that of the hosts of a card on one board with its CPU (Grace: ``arm64``); empty for other cards.
    ``capacity`` is how its nodes are paid for: a card on spot nodes is a type of its own
    (:mod:`plimsoll.domain.cluster.spot`). ``billing`` is whether an hour of its nodes costs less if nothing runs.
    """

    name: str
    vendor: Vendor
    product_labels: tuple[str, ...]
    usable_bytes: int
    total_bytes: int
    compute_capability: tuple[int, int] | None
    gfx: str | None
    interconnect: Interconnect
    scale_up_gpus: int
    memory_bandwidth_gb_per_second: int
    host_bandwidth_gb_per_second: int = 25
    price: Price | None = None
    unified_memory: bool = False
    mig: MigSlice | None = None
    speed: GpuSpeed | None = None
    family: str = ""
    has_server_edition: bool = False
    architecture: str = ""
    capacity: CapacityType = CapacityType.ON_DEMAND
    billing: Billing = Billing.ON_DEMAND
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once, from few fields: a pass looks up each GPU type in caches about 100,000 times."""
        object.__setattr__(self, "_hash", hash((self.name, self.usable_bytes)))

    def __hash__(self) -> int:
        """Return the stored hash. Equality still compares all fields."""
        return self._hash

    @property
    def own_labels(self) -> tuple[tuple[str, str], ...]:
        """The labels that every node with it has, whether or not somebody has read them from one."""
        return ((ARCHITECTURE_LABEL, self.architecture),) if self.architecture else ()

    @property
    def is_slice(self) -> bool:
        """Whether this is a slice of a GPU and no whole one."""
        return self.mig is not None

    @property
    def is_for_servers(self) -> bool:
        """Whether its maker sells it for servers. Few servers have any other: nobody is advised to buy it for one."""
        return self.has_server_edition or self.family not in _FOR_OTHERS

    @property
    def price_in_force(self) -> Price | None:
        """The price of one GPU on capacity of this type. If spot has no known price, it is that on demand."""
        return self.price_of(self.capacity) or self.price

    @property
    def price_source(self) -> str | None:
        """The source of the price in force, and whether it is the one on demand; None if the type has no price."""
        price = self.price_in_force
        if price is None:
            return None
        guessed = self.capacity is CapacityType.SPOT and self.price_of(CapacityType.SPOT) is None
        return f"{price.source} (on demand: no spot price is known)" if guessed else price.source

    def price_of(self, capacity: CapacityType) -> Price | None:
        """Return what one GPU costs on capacity of that type; None if that is not known."""
        return None if self.price is None else self.price.of(capacity)
