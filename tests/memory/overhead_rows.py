"""What engines said of everything but weights and cache, at starts of many models, releases and GPUs.

A log is held out (``Row.held_out``) where the SHA-256 of its id in the collection begins with a byte that 3 divides: no
constant was fitted on those. The shapes of the laws were chosen with all rows in view, so the held-out rows test
constants, not ideas.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.caches import AttentionCache, CacheSpec, IndexerCache, LatentCache, StateCache, StateKind
from plimsoll.domain.models.model import (
    CheckpointFacts,
    EncoderFacts,
    ExpertFacts,
    FactsSource,
    LayerKind,
    ModelFacts,
    Sharding,
    Weight,
)
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.band import band_width
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.laws.rocm_attention import ROCM_KERNELS, spilled_bytes
from plimsoll.engines.vllm.memory.outside.cuda_graphs import GraphMemory
from plimsoll.memory.calibration import Band
from tests.memory.sums import activations_bytes, cuda_graphs_bytes, non_torch_bytes

_DOCUMENT: dict[str, Any] = json.loads(
    Path(__file__).with_name("data").joinpath("overhead.json").read_text(encoding="utf-8")
)

_QWEN_PATCH = 3 * 2 * 16 * 16
"""Elements of one patch of the Qwen3-VL family's towers: RGB, two frames, 16 x 16."""


@dataclass(frozen=True)
class Row:
    """One start. Sizes in GiB of one GPU; ``assumed`` names the flags that are the release's defaults, by inference."""

    id: str
    source: str
    version: list[int]
    gpu: str
    total_gib: float
    vendor: str
    link: str
    unified: bool
    model: str
    mxfp4: bool
    tp: int
    ep: bool
    sequences: int
    batched_tokens: int
    context: int
    eager: bool
    utilization: float
    assumed: list[str]
    held_out: bool
    weights_gib: float
    kv_gib: float
    pp: int
    last_stage: bool
    dtype_bytes: int
    capability: list[int] | None = None
    gfx: str | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    graphs_gib: float | None = None
    graph_estimate_gib: float | None = None
    facts: ModelFacts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", _facts(self.model, mxfp4=self.mxfp4))

    @property
    def of_planner(self) -> bool:
        """Whether the row is of the 30 measured starts of 0.19.0 on H100, with every flag and term known."""
        return self.id.startswith("planner")

    @property
    def guesses_sequences(self) -> bool:
        """Whether the size of the sampler hangs on a guess."""
        return "sequences" in self.assumed

    @property
    def law(self) -> EngineLaw:
        return law_for(EngineVersion(*self.version))

    @property
    def split(self) -> Split:
        return Split(self.tp, self.pp, expert_parallel=self.ep)

    @property
    def card(self) -> GpuType:
        """The GPU by the engine's own word for its memory."""
        total = int(self.total_gib * GIB)
        capability = (self.capability[0], self.capability[1]) if self.capability else None
        link = Interconnect(self.link)
        vendor = Vendor(self.vendor)
        return GpuType(
            self.gpu, vendor, (), total, total, capability, self.gfx, link, 8, 1000, unified_memory=self.unified
        )

    @property
    def attention(self) -> str | None:
        """The attention back end that the name of the record's folder states."""
        return ROCM_KERNELS if "rocm_atten" in self.id else None

    @property
    def measured_gib(self) -> float:
        """What is neither weights nor cache: the budget's identity, which holds in every log to 0.02 GiB."""
        return self.utilization * self.total_gib - self.weights_gib - self.kv_gib

    @property
    def graphs(self) -> GraphMemory:
        return cuda_graphs_bytes(
            self.facts,
            self.split,
            self.law,
            self.card,
            sequences=self.sequences,
            batched_tokens=self.batched_tokens,
            enforce_eager=self.eager,
        )

    @property
    def activations_gib(self) -> float:
        computed = activations_bytes(
            self.facts,
            self.split,
            self.law,
            self.card,
            batched_tokens=self.batched_tokens,
            sequences=self.sequences,
            context_tokens=self.context,
            last_stage=self.last_stage,
            dtype_bytes=self.dtype_bytes,
        )
        return computed / GIB

    @property
    def computed_gib(self) -> float:
        """Activations, non-torch and charged graphs, by the laws."""
        outside_torch = non_torch_bytes(self.card, self.split, self.law, last_stage=self.last_stage)
        spilled = spilled_bytes(self.card, self.facts, self.law.release, self.attention)
        return self.activations_gib + (outside_torch + spilled + self.graphs.estimated_bytes) / GIB

    @property
    def residual_gib(self) -> float:
        """Measured less computed: positive where the law promised too much cache."""
        return self.measured_gib - self.computed_gib

    @property
    def band(self) -> Band:
        return band_width(self.facts, self.card, self.split, self.law, self.attention).band(self.sequences)

    @property
    def inside(self) -> bool:
        """Whether the measured need lies in the band."""
        band_ = self.band
        return band_.low_bytes <= self.residual_gib * GIB <= band_.high_bytes


@cache
def _facts(name: str, *, mxfp4: bool) -> ModelFacts:
    """The fields of the model that the overhead depends on; no weights."""
    sizes: dict[str, Any] = _DOCUMENT["models"][name]
    encoder = sizes.get("encoder")
    experts = sizes.get("experts")
    return ModelFacts(
        name=name,
        revision=None,
        source=FactsSource.INLINE,
        architecture="GptOssForCausalLM" if mxfp4 else _architecture(name, sizes),
        hidden=sizes["hidden"],
        heads=sizes["heads"],
        vocabulary=sizes["vocabulary"],
        intermediate=sizes["intermediate"],
        kinds=(LayerKind((), _caches(sizes)),),
        order=(0,) * sizes["layers"],
        embedding=(),
        head=(),
        checkpoint=CheckpointFacts(Precision.MXFP4 if mxfp4 else Precision.BF16, Precision.BF16),
        max_context_tokens=8192,
        experts=ExpertFacts(**experts) if experts else None,
        encoder=EncoderFacts(weights=_patches(name, encoder["hidden"]), **encoder) if encoder else None,
    )


def _architecture(name: str, sizes: dict[str, Any]) -> str:
    """Its class, as far as the choice of a runner or of an attention kernel goes by it."""
    if name.startswith("gemma-3"):
        return "Gemma3ForConditionalGeneration"
    if "Qwen3-Next" in name:
        return "Qwen3NextForCausalLM"
    if sizes.get("experts") or sizes.get("encoder") or sizes.get("recurrent"):
        return "AnyForConditionalGeneration"
    return "Qwen3ForCausalLM" if name.startswith("Qwen3") else "LlamaForCausalLM"


def _patches(name: str, hidden: int) -> tuple[Weight, ...]:
    if not name.startswith("Qwen3"):
        return ()
    return (Weight("visual.patch_embed.proj", hidden, _QWEN_PATCH, Sharding.REPLICATED),)


def _caches(sizes: dict[str, Any]) -> tuple[CacheSpec, ...]:
    if sizes.get("latent"):
        sparse = bool(sizes.get("sparse"))
        return (LatentCache(512, 64, sparse=sparse), *((IndexerCache(128),) if sparse else ()))
    attention = AttentionCache(8, 128, 128)
    return (attention, StateCache(StateKind.GATED_DELTA, ())) if sizes.get("recurrent") else (attention,)


ROWS = tuple(Row(**entry) for entry in _DOCUMENT["rows"])
